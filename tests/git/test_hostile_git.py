"""Clones that make git run something, with the git of this machine and with an older one."""

import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from upstream import processes

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.git_processes import Git as GitCommand
from cachewatch.git.git_processes import git_version
from cachewatch.git.local_repository import Repository
from cachewatch.git.remote_urls_and_fetch_errors import Remote
from cachewatch.git.service_clone import ServiceClone

Git = Callable[[str], None]
AUTHOR = ("-c", "user.name=a", "-c", "user.email=b")


@pytest.fixture(autouse=True)
def _forget_versions() -> None:
    git_version.cache_clear()


@pytest.fixture
def git_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Make git say that it is of another version, and know nothing of GIT_NO_LAZY_FETCH, as old ones do."""
    folder = tmp_path / "bin"
    folder.mkdir()
    real = shutil.which("git")

    def make(version: str) -> None:
        answer = f'[ "$*" != version ] || exec echo git version {version}'
        (folder / "git").write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\n{answer}\nexec {real} "$@"\n')
        (folder / "git").chmod(0o755)

    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return make


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file that is there once a command of the hostile clone ran."""
    return tmp_path / "ran"


@pytest.fixture
def clone(tmp_path: Path, ran: Path) -> Path:
    """A clone that lacks a document, and says to fetch it with a command."""
    folder = tmp_path / "clone"
    document = folder / "_cache/develop/zlib/specs.md"
    document.parent.mkdir(parents=True)
    _git(folder, "init", "--quiet")
    for text in ("a", "b"):
        document.write_text(text)
        _git(folder, "add", ".")
        _git(folder, *AUTHOR, "commit", "--quiet", "-m", text)
    lost = _git(folder, "rev-parse", "HEAD~1:_cache/develop/zlib/specs.md")
    (folder / ".git/objects" / lost[:2] / lost[2:]).unlink()
    for key, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("protocol.ext.allow", "always"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::sh -c touch% {ran}"),
    ):
        _git(folder, "config", key, value)
    return folder


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_the_clone_is_hostile(clone: Path, ran: Path, git_of: Git) -> None:
    """A git that is given no environment of ours does run the command."""
    git_of("2.39.2")
    subprocess.run(["git", "-C", clone, "cat-file", "-p", "HEAD~1:_cache/develop/zlib/specs.md"], check=False)
    assert ran.exists()


@pytest.mark.parametrize("version", ["2.34.1", "2.39.2", "2.39.5", "2.45.0"])
def test_reading_runs_nothing_whatever_git_says(version: str, clone: Path, ran: Path, git_of: Git) -> None:
    """The protocols of the environment hold even where git says that it is new and knows nothing of laziness."""
    git_of(version)
    with pytest.raises(SourceError) as caught, closing(Repository(clone)) as repository:
        repository.run(["cat-file", "-p", "HEAD~1:_cache/develop/zlib/specs.md"])
    assert not ran.exists()
    is_old = version in ("2.34.1", "2.39.2")
    assert ("is a partial clone, and this git would run" in str(caught.value)) == is_old


def test_fetching_from_it_runs_nothing(clone: Path, ran: Path, git_of: Git, tmp_path: Path) -> None:
    """The git of the other side, which is ours where it is on this machine, speaks no `ext` either."""
    git_of("2.39.2")
    with pytest.raises(SourceError):
        ServiceClone(tmp_path / "mirror.git", str(clone), timeout=60).update()
    assert not ran.exists()


def test_a_git_that_is_too_old_is_named(demo_repository: Path, git_of: Git) -> None:
    """It would not read the configuration that it is given."""
    git_of("2.30.2")
    said = r"git 2\.30\.2 is older than 2\.34, which cachewatch requires.*install a newer"
    with pytest.raises(BrokenSource, match=said):
        Repository(demo_repository)


def test_a_setpriv_that_a_sandbox_forbids_is_left_out(demo_repository: Path, git_of: Git, tmp_path: Path) -> None:
    """As the system call filter of a unit may; git is fetched with all the same."""
    git_of("2.39.5")
    script = "#!/bin/sh\necho setpriv: activate capabilities: Operation not permitted >&2\nexit 127\n"
    (tmp_path / "bin/setpriv").write_text(script)
    (tmp_path / "bin/setpriv").chmod(0o755)
    assert ServiceClone(tmp_path / "mirror.git", str(demo_repository), timeout=60).update().before is None


def test_what_git_may_speak(git_of: Git, tmp_path: Path) -> None:
    """Nothing while it reads; when it fetches, what is in a list, whatever a configuration says."""
    git_of("2.39.5")
    (tmp_path / "bin/git").write_text('#!/bin/sh\necho "$GIT_ALLOW_PROTOCOL"\n')
    assert GitCommand().run(["cat-file"]) == b"\n"
    assert GitCommand().run(["fetch"]) == b"https:http:ssh:git:file\n"


def test_no_argument_has_the_password_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even those of the program that starts git: every user of the machine can read them."""
    seen: list[str] = []
    start = subprocess.Popen

    def noted(arguments: Sequence[str], **options: Any) -> Any:
        seen.append(" ".join(arguments))
        return start(arguments, **options)

    monkeypatch.setattr("git.cmd.safer_popen", noted)
    with socket.create_server(("127.0.0.1", 0)) as proxy, ThreadPoolExecutor() as pool:
        monkeypatch.setenv("https_proxy", f"http://user:canary@127.0.0.1:{proxy.getsockname()[1]}")
        proxy.settimeout(60)
        asking = pool.submit(Remote("https://example.org/a.git", seconds=60).tip, "main")
        with proxy.accept()[0] as connection:
            assert connection.recv(7) == b"CONNECT"
            seen += [*processes("ls-remote"), *processes("remote-https")]  # git waits for the answer of the proxy
        with pytest.raises(SourceError):
            asking.result()
    assert "ls-remote" in "".join(seen)
    assert not [line for line in seen if "canary" in line]
