"""What others put into folders that cachewatch reads: no content leaks, nothing hangs, and a sentence says what is wrong.

Each command has a deadline, because what is tested here used to hang.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import helpers
import pytest
from conftest import Run

from cachewatch.runtime.files_and_locks import RefusedFile, read_inside

SECRET = "geheim-4711: a line that nobody may see\n"
CONFIG = """\
version: 1
state: state
sources: {public: {git: catalogue.git}}
channels: {archive: {type: file, path: "{subscription}/{key}"}}
subscriptions: {all: {channels: [archive]}}
"""

Put = Callable[[Path], object]
IN_THE_WAY: tuple[Put, ...] = (os.mkfifo, lambda path: path.symlink_to("/dev/zero"))


@pytest.fixture
def run(run: Run) -> Iterator[Run]:
    """Run commands that have to end, and soon."""

    def late(*_: object) -> None:
        raise TimeoutError("the command waits")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield run
    signal.alarm(0)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that the service may read and its users may not."""
    file = tmp_path / "secret" / "password"
    file.parent.mkdir()
    file.write_text(SECRET)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that strangers may write in."""
    path = tmp_path / "theirs"
    path.mkdir()
    return path


def test_links_stay_inside(folder: Path, secret: Path) -> None:
    """As the files of a mounted ConfigMap are links; what leads out is refused, over a folder too."""
    (folder / "..data").mkdir()
    (folder / "..data" / "a").write_text("mine")
    (folder / "a").symlink_to("..data/a")
    (folder / "b").symlink_to(secret)
    (folder / "c").symlink_to(secret.parent)
    (folder / "d").symlink_to("d")

    assert read_inside(folder, "a", most=4) == b"mine"
    for name in ("b", "c/password", "../secret/password"):
        with pytest.raises(RefusedFile, match="link out of its folder"):
            read_inside(folder, name, most=100)
    with pytest.raises(OSError, match=r"leads nowhere|a link and no file|Too many levels"):
        read_inside(folder, "d", most=100)


def test_only_files_of_a_size(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "large").write_bytes(bytes(5))
    (folder / "folder").mkdir()

    with pytest.raises(RefusedFile, match="is a pipe and no file"):
        read_inside(folder, "pipe", most=100)
    with pytest.raises(RefusedFile, match="is a device and no file"):
        read_inside(Path("/dev"), "zero", most=100)
    with pytest.raises(RefusedFile, match="more than 4 bytes"):
        read_inside(folder, "large", most=4)
    with pytest.raises(IsADirectoryError):
        read_inside(folder, "folder", most=4)
    with pytest.raises(FileNotFoundError):
        read_inside(folder, "none", most=4)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with a folder for the subscriptions of others."""
    (tmp_path / "subscriptions.d").mkdir()
    return helpers.secret(tmp_path / "cachewatch.yaml", CONFIG)


def test_a_subscription_is_no_link_to_a_secret(run: Run, config: Path, secret: Path) -> None:
    """Nor is anything of that file said; a pipe, which would keep every command waiting for ever, is none either."""
    (config.parent / "subscriptions.d" / "theirs.yaml").symlink_to(secret)
    os.mkfifo(config.parent / "subscriptions.d" / "waits.yaml")
    result = run("config", "check", "--config", config)

    assert result.exit_code == 2
    assert "theirs.yaml: cannot be read: it is a link out of its folder" in result.error
    assert "waits.yaml: cannot be read: it is a pipe and no file" in result.error
    assert "geheim" not in result.output + result.error


@pytest.mark.slow_cases
@pytest.mark.parametrize("put", IN_THE_WAY, ids=["pipe", "device"])
def test_an_environment_is_a_file(run: Run, put: Put, folder: Path, demo_repository: Path) -> None:
    """Neither a pipe nor a device, nor a link to one."""
    put(folder / "spack.lock")
    for name in (folder, folder / "spack.lock"):
        error = run("coverage", name, "--repo", demo_repository).error_of(2)
        assert "and no file" in error or "out of its folder" in error
    error = run("coverage", "/dev/zero", "--repo", demo_repository).error_of(2)
    assert "/dev/zero: it is a device and no file; name a spack.lock" in error


def test_an_environment_comes_out_of_no_folder_of_others(run: Run, config: Path, secret: Path, tmp_path: Path) -> None:
    """Who may write in a folder that the operator offers has no other environment read, by no link on the way."""
    (tmp_path / "envs").mkdir()
    secret.with_name("spack.lock").write_text("geheim")
    (tmp_path / "envs" / "ml").symlink_to(secret.parent)
    config.write_text(f"{CONFIG}environment_folders: [envs]\n")
    team = "subscriptions: {ml: {channels: [archive], match: {environment: envs/ml}}}\n"
    (tmp_path / "subscriptions.d/team.yaml").write_text(team)
    error = run("config", "check", "--config", config).error_of(2)
    assert "envs/ml/spack.lock: it is a link out of its folder" in error


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["index.json", "index.json.hash"])
@pytest.mark.parametrize("put", IN_THE_WAY, ids=["pipe", "device"])
def test_a_cache_in_a_folder_holds_files(run: Run, put: Put, name: str, folder: Path, tmp_path: Path) -> None:
    """Who keeps a cache cannot make its readers wait, or read without an end."""
    (folder / "build_cache").mkdir()
    put(folder / "build_cache" / name)
    error = run("record", folder, "--into", tmp_path / "site.git").error_of(3)
    assert "and no file" in error or "out of its folder" in error


@pytest.mark.slow
@pytest.mark.nightly
def test_a_template_comes_out_of_its_folder(run: Run, folder: Path, secret: Path) -> None:
    """Else a link to a file would have it rendered, and sent."""
    (folder / "notice.txt.j2").symlink_to(secret)
    (folder / "ours.txt.j2").write_text("{% include '_part.j2' %}")
    (folder / "_part.j2").symlink_to(secret)

    for arguments in (("render", "notice.txt.j2"), ("show", "notice.txt.j2"), ("render", "ours.txt.j2"), ("check",)):
        result = run("config", "template", *arguments, "--templates-dir", folder)
        assert result.exit_code == 6
        assert "it is a link out of its folder" in result.error
        assert "geheim" not in result.output + result.error
    os.mkfifo(folder / "mine.txt.j2")
    error = run("config", "template", "render", "mine.txt.j2", "--templates-dir", folder).error_of(6)
    assert "it is a pipe and no file" in error


REPOSITORY = ("git", "-c", "user.name=a", "-c", "user.email=b", "-C")


@pytest.fixture
def repository(folder: Path) -> Path:
    """A clone with one revision, that a stranger keeps."""
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run([*REPOSITORY, folder, "commit", "--quiet", "--allow-empty", "-m", "x"], check=True)
    return folder


@pytest.mark.parametrize("name", ["HEAD", "packed-refs", "objects/info/alternates"])
def test_a_repository_has_no_pipes(run: Run, name: str, repository: Path) -> None:
    """Whatever file of git's it is that git would wait for."""
    (repository / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repository / ".git" / name)
    assert f".git/{name}: it is a pipe and no file" in run("diff", "HEAD", "--repo", repository).error_of(3)


@pytest.mark.parametrize(
    "line",
    [
        '[include]\n\tPATH = "../pi\\\npe" ; so it is',
        '[includeIf "gitdir:**"]\n  path = more\n',
        "[include]\r\n\tpath = ../pi\\\r\npe\r\n",
    ],
)
def test_a_repository_includes_no_pipe(run: Run, line: str, repository: Path) -> None:
    """However the line is written, and from file to file."""
    os.mkfifo(repository / "pipe")
    with (repository / ".git" / "config").open("a", newline="") as config:
        config.write(line)
    (repository / ".git" / "more").write_text("[include]\n\tpath = ../pipe\n")
    assert "pipe: it is a pipe and no file" in run("diff", "HEAD", "--repo", repository).error_of(3)


def test_a_repository_may_include_a_file(run: Run, repository: Path) -> None:
    (repository / "more").write_text("[core]\n\tx = y\n")
    with (repository / ".git" / "config").open("a") as config:
        config.write("[include]\n\tpath = ../more\n")
    subprocess.run(["git", "-C", repository, "worktree", "add", "--quiet", "../tree"], check=True)

    for place in (repository, repository.parent / "tree"):
        assert "pipe" not in run("diff", "HEAD", "--repo", place).error
