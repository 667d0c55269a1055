"""What breaks on the way to a source, in a clone and under it; and that nothing is lost by it."""

import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tools
from gitservers import Faults, git_daemon, plain_http, smart_http
from station import wait_for
from upstream import Upstream, flip, git, only, processes

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.remote_urls_and_fetch_errors import Access, redact
from cachewatch.git.service_clone import ServiceClone


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """A repository of one revision, with contents that do not compress."""
    made = Upstream(tmp_path / "served" / "upstream.git")
    made.commit(bulky(1))
    return made


def bulky(seed: int) -> dict[str, bytes]:
    """Return documents of 200 kB that do not compress."""
    chance = random.Random(seed)
    return {f"_cache/develop/p{number}/specs.md": chance.randbytes(20_000) for number in range(10)}


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def url(upstream: Upstream, faults: Faults) -> Iterator[str]:
    """The address of the repository on a web server with faults."""
    with smart_http(upstream.path.parent, faults) as address:
        yield f"{address}/upstream.git"


def is_whole(folder: Path) -> bool:
    """Tell whether git finds nothing wrong with the clone, and it has all newest documents."""
    git(folder, "fsck")
    return "?" not in git(folder, "rev-list", "--objects", "--missing=print", "--no-walk", "HEAD")


# The way


def test_every_protocol(upstream: Upstream, tmp_path: Path) -> None:
    root = upstream.path.parent
    with git_daemon(root) as daemon, smart_http(root) as smart, plain_http(root) as plain:
        for number, base in enumerate((daemon, smart, plain)):
            git(upstream.path, "update-server-info")
            clone = ServiceClone(tmp_path / "state" / str(number), f"{base}/upstream.git", "main", timeout=120)
            before = clone.update().after
            after = upstream.commit(bulky(number + 2))
            git(upstream.path, "update-server-info")
            update = clone.update()

            assert (update.before, update.after) == (before, after), base
            assert is_whole(clone.folder), base


@pytest.mark.slow_cases
@pytest.mark.parametrize("cut", [(n, reset) for n in (20, 0, 1000, 150_000) for reset in (False, True)])
def test_a_cut_connection(upstream: Upstream, folder: Path, url: str, faults: Faults, cut: tuple[int, bool]) -> None:
    """Wherever: nothing moves, nothing is damaged or cloned anew, and the next poll gets it all."""
    clone = ServiceClone(folder, url, timeout=120)
    first = clone.update().after
    second = upstream.commit(bulky(2))
    faults.cut_after, faults.reset = cut

    with pytest.raises(SourceError) as caught:
        clone.update()
    assert caught.value.is_transient
    faults.cut_after = None
    update = clone.update()
    assert update.after == second
    assert update.set_aside is None
    assert is_whole(folder)
    assert first != second


def test_a_first_clone_that_is_cut(folder: Path, url: str, faults: Faults) -> None:
    faults.cut_after = 60
    clone = ServiceClone(folder, url, timeout=120)

    with pytest.raises(SourceError):
        clone.update()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["source.git.lock", "source.git.running"]
    faults.cut_after = None
    clone.update()
    assert is_whole(folder)


@pytest.mark.slow
def test_a_connection_that_stalls(upstream: Upstream, folder: Path, url: str, faults: Faults) -> None:
    """The time of a poll is for all that it asks: also of three questions each alone has time enough."""
    clone = ServiceClone(folder, url, timeout=120)
    clone.update()
    upstream.commit(bulky(2))
    faults.stall = True
    begin = time.monotonic()
    with pytest.raises(SourceError, match="no answer within 2 s") as caught:
        ServiceClone(folder, url, timeout=2).update()
    assert caught.value.is_transient
    assert time.monotonic() - begin < 100
    assert not processes(str(folder))
    faults.stall, faults.delay = False, 0.5
    with pytest.raises(SourceError, match="no answer within 2 s"):
        ServiceClone(folder, url, timeout=2).update()
    faults.delay = 0
    update = clone.update()
    assert (update.before != update.after, is_whole(folder)) == (True, True)


def test_a_killed_service_leaves_no_git_behind(upstream: Upstream, folder: Path, url: str, faults: Faults) -> None:
    """Not even in the middle of a fetch; and the next one works at once."""
    tools.program("setpriv")  # of util-linux: it ends git with its parent
    ServiceClone(folder, url, timeout=60).update()
    upstream.commit(bulky(2))
    faults.stall = True
    program = f"from pathlib import Path; from cachewatch.git.service_clone import ServiceClone; ServiceClone(Path({str(folder)!r}), {url!r}).update()"
    with subprocess.Popen([sys.executable, "-c", program]) as service:
        wait_for(lambda: any(" fetch " in command for command in processes(str(folder))))
        time.sleep(0.3)
        service.send_signal(signal.SIGKILL)
    wait_for(lambda: not any("git" in command for command in processes(str(folder))))
    faults.stall = False
    ServiceClone(folder, url, timeout=120).update()
    assert is_whole(folder)


# The server's answers


def test_what_only_a_person_can_mend(folder: Path, url: str, faults: Faults) -> None:
    for change, words in (
        (Faults(status=404), "no such repository"),
        (Faults(status=403), "requires authentication"),
        (Faults(user="a:b"), "requires authentication"),
        (Faults(location="http://127.0.0.1:1"), "has moved"),
    ):
        vars(faults).update(vars(change))
        with pytest.raises(BrokenSource, match=words) as caught:
            ServiceClone(folder, url, timeout=10).update()
        assert not caught.value.is_transient


def test_what_may_pass(folder: Path, url: str, faults: Faults) -> None:
    away = ("git://127.0.0.1:1/x.git", "http://127.0.0.1:1/x.git", "https://nowhere.invalid/x.git")
    for address, status in (*((address, 200) for address in away), (url, 500), (url, 429)):
        faults.status = status
        with pytest.raises(SourceError) as caught:
            ServiceClone(folder, address, timeout=10).update()
        assert caught.value.is_transient, address


def test_a_path_that_is_no_repository(folder: Path, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(BrokenSource, match="no such repository"):
            ServiceClone(folder, str(path)).update()


def test_terminal_codes_from_a_server_are_shown_as_text(folder: Path, tmp_path: Path) -> None:
    """What a server says cannot colour a log or write a line of its own into it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        pid = os.fork()
        if pid == 0:
            connection, _ = listening.accept()
            connection.recv(1000)
            said = b"ERR \x1b[31mforged\x1b[0m"
            connection.sendall(b"%04x" % (len(said) + 4) + said)
            connection.close()
            os._exit(0)
        with pytest.raises(SourceError) as caught:
            ServiceClone(folder, f"git://127.0.0.1:{listening.getsockname()[1]}/x.git", timeout=5).update()
        os.waitpid(pid, 0)
    assert "\x1b" not in str(caught.value)
    assert "forged" in str(caught.value)


# Credentials


@pytest.mark.parametrize("means", ["store", "helper"])
def test_git_credentials(folder: Path, url: str, faults: Faults, means: str, caplog: pytest.LogCaptureFixture) -> None:
    """The file that the administrator names opens the door; the password is in no message, file or argument."""
    secret = "canary-7a9"
    faults.user = f"reader:{secret}"
    host = url.split("/")[2]
    contents = {
        "store": f"http://reader:{secret}@{host}\n",
        "helper": f"#!/bin/sh\ntest $1 = get && printf 'username=reader\\npassword={secret}\\n'\n",
    }
    path = folder.parent.parent / "it's a file"
    path.write_text(contents[means])
    path.chmod(0o700)
    value = f"!'{str(path).replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'" if means == "helper" else str(path)
    clone = ServiceClone(folder, url, access=Access(**{means: value}), timeout=20)
    caplog.set_level(logging.DEBUG)

    clone.update()
    faults.user = "reader:another"  # refused from now on
    with pytest.raises(BrokenSource, match="requires authentication") as caught:
        clone.update()
    assert path.read_text() == contents[means]  # git would have erased it
    assert secret not in str(caught.value) + caplog.text
    assert not any(secret.encode() in file.read_bytes() for file in folder.parent.rglob("*") if file.is_file())


def test_a_key_for_ssh(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, hosts, tools = tmp_path / "a key", tmp_path / "hosts", tmp_path / "tools"
    for path in (key, hosts):
        path.touch(0o600)
    tools.mkdir()
    refuse = 'echo "Permission denied (publickey)." >&2\nexit 255\n'
    (tools / "ssh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/said\n{refuse}')
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    access = Access(ssh_key=str(key), known_hosts=str(hosts))

    with pytest.raises(BrokenSource, match="rejects our ssh key"):
        ServiceClone(folder, "git@example.org:a/b.git", access=access).update()
    said = (tmp_path / "said").read_text().splitlines()
    options = {f"-oIdentityFile={key}", "-oIdentitiesOnly=yes", f"-oUserKnownHostsFile={hosts}", "-oBatchMode=yes"}
    assert options <= set(said)


def test_credentials_that_are_not_there(folder: Path, url: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenSource, match="named in the credentials of a source"):
        ServiceClone(folder, url, access=Access(store=str(tmp_path / "nothing"))).update()


@pytest.mark.parametrize(
    "text",
    [
        "https://user:canary@h/x.git",
        "https://canary@h/x.git",
        "https://h/x.git?private_token=canary",
        "https://h/x.git?a=b&access_token=canary#x",
        "git://user:canary@h/x",
        "ssh://user:canary@h/x",
        "fatal: unable to access 'HTTPS://canary:x@h/x.git?token=canary' fails",
    ],
)
def test_what_is_redacted(text: str) -> None:
    assert "canary" not in redact(text)
    assert "h/x" in redact(text)


def test_a_secret_of_the_address_is_redacted_anywhere() -> None:
    """Git takes addresses apart and shows the pieces."""
    address = "https://me:can%20ary@h/x.git?private_token=s3cr3t"
    assert redact("for 'can ary', can%20ary and s3cr3t", address) == "for '...', ... and ..."


# The clone


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


CORRUPTIONS: dict[str, Callable[[Path], Any]] = {
    "pack truncated": lambda f: truncate(only(f, "objects/pack/*.pack")),
    "pack empty": lambda f: only(f, "objects/pack/*.pack").write_bytes(b""),
    "pack missing": lambda f: only(f, "objects/pack/*.pack").unlink(),
    "index missing": lambda f: only(f, "objects/pack/*.idx").unlink(),
    "index truncated": lambda f: truncate(only(f, "objects/pack/*.idx")),
    "all packs missing": lambda f: shutil.rmtree(f / "objects" / "pack"),
    "objects missing": lambda f: shutil.rmtree(f / "objects"),
    "ref empty": lambda f: (f / "refs/heads/main").write_bytes(b""),
    "ref of zero bytes": lambda f: (f / "refs/heads/main").write_bytes(b"\0" * 41),
    "ref of nothing": lambda f: (f / "refs/heads/main").write_text("0" * 39 + "1\n"),
    "HEAD empty": lambda f: (f / "HEAD").write_bytes(b""),
    "config truncated": lambda f: (f / "config").write_text("[core]\n\tbare = tr[ue"),
    "config empty": lambda f: (f / "config").write_bytes(b""),
    "refs missing": lambda f: shutil.rmtree(f / "refs"),
    "packed-refs of rubbish": lambda f: (f / "packed-refs").write_bytes(b"\0" * 100),
    "a file in its place": lambda f: f.rename(f.with_name("away")).with_name(f.name).write_text("x"),
    "an empty folder": lambda f: f.rename(f.with_name("away")).with_name(f.name).mkdir(),
    "bit flipped": lambda f: flip(only(f, "objects/pack/*.pack")),
}


# Where only documents of the past are damaged, a poll does not look, unless it fails again and again.
UNSEEN = ("bit flipped", "pack truncated", "pack empty")


def test_a_clone_that_fails_thrice_is_read_in_full(upstream: Upstream, folder: Path, url: str, faults: Faults) -> None:
    """A line that is cut says nothing of the clone, unless it is for the third time: then each object is read."""
    clone = ServiceClone(folder, url, timeout=120)
    clone.pin(clone.update().after)
    CORRUPTIONS["bit flipped"](folder)
    newest = upstream.commit(bulky(2))
    faults.cut_after, faults.cuts = 60, 3

    for _ in range(2):
        with pytest.raises(SourceError):
            clone.update()
    update = clone.update()
    assert update.after == newest
    assert update.set_aside is not None
    assert is_whole(folder)


def test_a_clone_damaged_while_nothing_runs_is_replaced_though_nothing_is_new(upstream: Upstream, folder: Path) -> None:
    """The first poll after a start looks for damage: nothing else would before the next news."""
    newest = ServiceClone(folder, str(upstream.path)).update().after
    pack = only(folder, "objects/pack/*.pack").rename(folder / "pack")
    git(folder, "unpack-objects", "-q", stdin=pack.read_bytes())
    document = git(folder, "rev-parse", "HEAD:_cache/develop/p0/specs.md")
    (folder / "objects" / document[:2] / document[2:]).unlink()

    update = ServiceClone(folder, str(upstream.path)).update()
    assert (update.before, update.after) == (newest, newest)
    assert update.set_aside is not None
    assert is_whole(folder)


@pytest.mark.slow_cases
@pytest.mark.parametrize("is_restarted", [True, False])
@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name not in UNSEEN])
def test_damage_is_made_good(upstream: Upstream, folder: Path, name: str, partial: bool, is_restarted: bool) -> None:
    """Whatever was damaged: after two polls the clone is whole and new, pins and all, and no revision was missed."""
    clone = ServiceClone(folder, upstream.url if partial else str(upstream.path), "main")
    first = clone.update().after
    clone.pin(first)
    CORRUPTIONS[name](folder)
    if is_restarted:
        clone = ServiceClone(folder, upstream.url if partial else str(upstream.path), "main")
    upstream.commit(bulky(2))

    try:
        clone.update()
    except SourceError:
        clone.update()
    newest = upstream.commit(bulky(3))
    assert clone.update().after == newest
    assert is_whole(folder)
    clone.pin(first)
    assert clone.pins() == {first}
