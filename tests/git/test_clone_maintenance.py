"""What months do to a clone of our own: leftovers, small packs, full disks, owners, kills."""

import contextlib
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gitservers import Faults, smart_http
from station import wait_for
from upstream import Upstream, flip, git, only, processes, specs

from cachewatch.errors import BrokenSource, SourceError, UnknownRevision
from cachewatch.git import clone_locks_and_disk_space as clone_maintenance
from cachewatch.git.git_processes import interrupt
from cachewatch.git.service_clone import ServiceClone


def resources() -> tuple[int, int, int]:
    """Return how many descriptors, children and kilobytes this process has."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    status = Path("/proc/self/status").read_text()
    return len(os.listdir("/proc/self/fd")), len(children), int(status.split("VmRSS:")[1].split()[0])  # noqa: PTH208


LOCKS = [
    *("HEAD.lock", "config.lock", "index.lock", "packed-refs.lock", "shallow.lock", "refs/heads/main.lock"),
    *(f"refs/cachewatch/keep/{'a' * 40}.lock", "objects/info/commit-graph.lock", "gc.pid.lock"),
    *("objects/info/commit-graphs/commit-graph-chain.lock", "objects/pack/multi-pack-index.lock"),
]


def test_locks_of_a_killed_git_are_removed(upstream: Upstream, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However young they are, and however far in the future: no git of ours runs, so nobody holds them. It is logged."""
    clone = ServiceClone(folder, upstream.url)
    clone.pin(clone.update().after)
    locks = [folder / name for name in LOCKS]
    for lock in locks:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        os.utime(lock, (time.time() + 86400,) * 2)
    newest = upstream.commit(specs(12))

    update = clone.update()
    assert (update.after, update.set_aside) == (newest, None)
    assert not [lock for lock in locks if lock.exists() or f"{lock}: removed" not in caplog.text]
    for lock in locks:
        lock.touch()
    clone.pin(newest)
    assert not [lock for lock in locks if lock.exists()]


ORPHANS = """
import sys
from pathlib import Path
from cachewatch.git import git_processes as gitpython
from cachewatch.git.service_clone import ServiceClone
which = gitpython.which
gitpython.which = lambda name, **how: None if name == "setpriv" else which(name, **how)
ServiceClone(Path(sys.argv[1]), sys.argv[2], timeout=60).update()
"""


def test_locks_of_a_git_that_still_runs_stay(upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing ends git with us, its locks may be its own until they are old, or until it has ended."""
    monkeypatch.setattr(clone_maintenance, "PATIENCE_SECONDS", 0.5)
    diagnostics = Faults()
    with smart_http(upstream.path.parent, diagnostics) as address:
        url = f"{address}/upstream.git"
        ServiceClone(folder, url, timeout=60).update()
        newest = upstream.commit(specs(11))
        diagnostics.stall = True
        with subprocess.Popen([sys.executable, "-c", ORPHANS, str(folder), url]) as service:
            wait_for(lambda: diagnostics.stalled > 0)
            service.send_signal(signal.SIGKILL)
        diagnostics.stall = False
        left = fetches(folder)
        lock = folder / "refs/heads/main.lock"
        lock.touch()
        with pytest.raises(SourceError, match=r"main\.lock"):
            ServiceClone(folder, url, timeout=60).update()
        assert lock.exists()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not fetches(folder))
        assert ServiceClone(folder, url, timeout=60).update().after == newest
        assert not lock.exists()


def fetches(folder: Path) -> list[int]:
    """Return the processes that fetch into `folder`, git's own helpers among them."""
    groups = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_bytes().split(b"\0")
            if f"--git-dir={folder}".encode() in command and b"fetch" in command:
                groups.add(os.getpgid(int(path.name)))
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(path.name)) in groups and "State:\tZ" not in (path / "status").read_text():
                found.append(int(path.name))
    return found


def test_a_stalled_fetch_holds_up_neither_a_pin_nor_the_end_of_the_service(upstream: Upstream, folder: Path) -> None:
    """Digests are made meanwhile; a fetch that is interrupted ends at once, and is an error like any other."""
    diagnostics = Faults()
    with smart_http(upstream.path.parent, diagnostics) as address, ThreadPoolExecutor() as pool:
        clone = ServiceClone(folder, f"{address}/upstream.git", timeout=60)
        first = clone.update().after
        upstream.commit(specs(11))
        diagnostics.stall = True
        updating = pool.submit(clone.update)
        wait_for(lambda: diagnostics.stalled > 0)
        other = ServiceClone(folder, f"{address}/upstream.git", timeout=60)
        other.pin(first)
        assert other.pins() == {first}
        other.unpin(first)
        assert not updating.done()
        interrupt()
        with pytest.raises(SourceError) as raised:
            updating.result(120)
    assert raised.value.is_transient


def test_pins_made_during_a_clone_are_kept(upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though that clone had all its pins already."""
    clone = ServiceClone(folder, upstream.url)
    first = clone.update().after
    carried = ServiceClone._carry_over

    def meanwhile(self: ServiceClone, *arguments: Any, **options: Any) -> tuple[str, ...]:
        lost = carried(self, *arguments, **options)
        if not self.pins():
            ServiceClone(folder, upstream.url).pin(first)
        return lost

    monkeypatch.setattr(ServiceClone, "_carry_over", meanwhile)
    (folder / "refs/heads/main").write_bytes(b"")
    assert clone.update().set_aside is not None
    assert clone.pins() == {first}


@pytest.mark.slow
@pytest.mark.nightly
def test_hundreds_of_polls(upstream: Upstream, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor, no child, no memory, no temporary file, and few packs; pins stay where they were put."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    clone = ServiceClone(folder, upstream.url)
    first = clone.update().after
    clone.pin(first)
    pinned = {first}
    before = after = (0, 0, 0)
    for number in range(200):
        if number % 2:
            newest = upstream.commit(specs(number * 10, 2, 3))
            update = clone.update()
            assert (update.after, update.rewritten, update.set_aside) == (newest, False, None)
            clone.pin(newest)
            pinned.add(newest)
        else:
            update = clone.update()
            assert update.before == update.after
        if number == 60:
            before = resources()
        after = resources()

    assert after[:2] == before[:2]
    assert after[2] - before[2] < 5_000
    assert len(list(folder.glob("objects/pack/*.pack"))) < 110
    assert not list((tmp_path / "scratch").iterdir())
    assert clone.pins() == pinned
    assert not clone_maintenance.damage(folder, thoroughly=True)


def test_packs_are_put_together(upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is pinned stays, whole, though the branch was rewritten; what nothing refers to may go."""
    monkeypatch.setattr(clone_maintenance, "_MANY_PACKS", 3)
    monkeypatch.setattr(clone_maintenance, "_MANY_LOOSE", 0)
    clone = ServiceClone(folder, upstream.url)
    root = clone.update().after
    pinned = set()
    for number in range(8):
        commit = upstream.commit(specs(number * 10 + 4, number * 10 + 5), root)
        assert clone.update().after == commit
        if number % 3 == 0:
            clone.pin(commit)
            pinned.add(commit)
    upstream.forget()

    assert len(list(folder.glob("objects/pack/*.pack"))) <= 7
    assert clone.pins() == pinned
    assert not clone_maintenance.damage(folder, thoroughly=True)
    for commit in pinned:
        assert "?" not in git(folder, "rev-list", "--objects", "--missing=print", "--no-walk", commit)


def test_damage_that_only_packing_sees(
    upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clone = ServiceClone(folder, upstream.url)
    upstream.commit({"_cache/develop/old/specs.md": random.Random(1).randbytes(50_000)})
    before = clone.update().after
    upstream.commit(specs(5))
    before = clone.update().after
    clone.pin(before)
    git(folder, "repack", "-a", "-d", "-q")
    flip(only(folder, "objects/pack/*.pack"))
    monkeypatch.setattr(clone_maintenance, "_MANY_PACKS", 0)
    monkeypatch.setattr(clone_maintenance, "_TOO_MANY_PACKS", 0)
    newest = upstream.commit(specs(6))
    update = clone.update()

    assert (update.before, update.after) == (before, newest)
    assert update.set_aside is not None
    assert "cloned anew" in caplog.text
    assert clone.pins() == {before}
    assert not clone_maintenance.damage(folder, thoroughly=True)


def test_more_than_there_is_room_for(upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch that would fill the disk is stopped by the kernel before it does; nothing is damaged."""
    clone = ServiceClone(folder, str(upstream.path))
    first = clone.update().after
    newest = upstream.commit({"_cache/develop/a/specs.md": random.Random(1).randbytes(400_000)})
    with monkeypatch.context() as context:
        context.setattr(clone_maintenance, "usable_bytes", lambda *_, **__: 50_000)
        with pytest.raises(BrokenSource, match="no room"):
            clone.update()
    assert git(folder, "rev-parse", "HEAD") == first
    assert clone.update().after == newest
    assert not clone_maintenance.damage(folder, thoroughly=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_full(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one: the sentence names the remedy, and when there is room again, all goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "x", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk")
    try:
        monkeypatch.setattr(clone_maintenance, "RESERVE", 0)
        clone = ServiceClone(disk / "source.git", str(upstream.path))
        clone.update()
        (disk / "filler").write_bytes(b"x" * (shutil.disk_usage(disk).free - 200_000))
        newest = upstream.commit({"_cache/develop/a/specs.md": random.Random(1).randbytes(400_000)})
        with pytest.raises(BrokenSource, match="room"):
            clone.update()
        (disk / "filler").unlink()
        assert clone.update().after == newest
        assert not clone_maintenance.damage(disk / "source.git", thoroughly=True)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_clone_that_is_somebody_elses(upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = ServiceClone(folder, upstream.url)
    clone.update()
    monkeypatch.setattr(os, "geteuid", lambda: 4321)

    with pytest.raises(BrokenSource, match=r"belongs to user \w+, but cachewatch runs as 4321.*chown -R 4321"):
        clone.update()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository away")
def test_a_path_that_is_somebody_elses(upstream: Upstream, folder: Path) -> None:
    for path in [upstream.path, *upstream.path.rglob("*")]:
        os.chown(path, 65534, 65534)

    with pytest.raises(BrokenSource, match="belongs to another user"):
        ServiceClone(folder, str(upstream.path)).update()


@pytest.mark.slow_cases
@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("is_forgotten", [True, False])
def test_pins_survive_a_new_clone(upstream: Upstream, folder: Path, partial: bool, is_forgotten: bool) -> None:
    root = git(upstream.path, "rev-parse", "main")
    clone = ServiceClone(folder, upstream.url if partial else str(upstream.path))
    clone.pin(clone.update().after)
    rewritten = upstream.commit(specs(14), root)
    clone.update()
    clone.pin(rewritten)
    newest = upstream.commit(specs(15), root)
    assert clone.update().rewritten
    if is_forgotten:
        upstream.forget()
    (folder / "refs/heads/main").write_bytes(b"")
    update = ServiceClone(folder, upstream.url if partial else str(upstream.path)).update()

    assert update.after == newest
    assert update.set_aside is not None
    assert update.set_aside.is_dir()
    assert update.lost_pins == ()
    assert clone.pins() == {root, rewritten}
    assert not clone_maintenance.damage(folder, thoroughly=True)
    assert "?" not in git(folder, "rev-list", "--objects", "--missing=print", "--no-walk", rewritten)


def test_a_pin_that_is_nowhere_any_more(upstream: Upstream, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever compares from there must know; the others are kept."""
    clone = ServiceClone(folder, upstream.url)
    root = clone.update().after
    rewritten = upstream.commit(specs(14), root)
    clone.update()
    clone.pin(root)
    clone.pin(rewritten)
    newest = upstream.commit(specs(15), root)
    upstream.forget()
    shutil.rmtree(folder / "objects")
    update = clone.update()

    assert (update.after, update.lost_pins) == (newest, (rewritten,))
    assert clone.pins() == {root}
    assert f"revision {rewritten} exists nowhere any more" in caplog.text
    with pytest.raises(UnknownRevision):
        clone.pin(rewritten)


def test_only_the_newest_damaged_clone_is_kept(upstream: Upstream, folder: Path) -> None:
    other = folder.with_name(f"{folder.name}.damaged-notes")
    other.mkdir(parents=True)
    for number in range(3):
        ServiceClone(folder, upstream.url).update()
        (folder / "HEAD").write_text(str(number))
        kept = ServiceClone(folder, upstream.url).update().set_aside
        assert kept is not None
        assert (kept / "HEAD").read_text() == str(number)
    assert other.is_dir()
    assert len(list(folder.parent.glob("*.damaged-*"))) == 2


PROGRAM = """
import sys
from pathlib import Path
from cachewatch.git.service_clone import ServiceClone
clone = ServiceClone(Path(sys.argv[1]), sys.argv[2])
while True:
    clone.pin(clone.update().after)
"""


@pytest.mark.slow
def test_a_service_that_is_killed_at_any_time(upstream: Upstream, folder: Path) -> None:
    """Four times, at random, while upstream moves: the next one goes on, nothing is lost, nothing is cloned anew."""
    chance = random.Random(4)
    for number in range(4):
        command = [sys.executable, "-c", PROGRAM, str(folder), upstream.url]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as service:
            time.sleep(0.3)
            for step in range(3):
                upstream.commit(specs(number * 100 + step * 10, 2))
                time.sleep(chance.random() * 0.1)
            service.send_signal(signal.SIGKILL)
            assert service.stderr is not None
            # A service that is killed in its first clone leaves what the next one removes, and says so.
            assert all(b"the git that made it is gone" in line for line in service.stderr.read().splitlines())
    newest = upstream.commit(specs(7))
    clone = ServiceClone(folder, upstream.url)
    update = clone.update()
    clone.pin(newest)

    assert (update.after, update.set_aside, update.rewritten) == (newest, None, False)
    assert not clone_maintenance.damage(folder, thoroughly=True)
    assert not [path for path in folder.parent.iterdir() if "damaged" in path.name]


def test_hostile_objects_are_refused(upstream: Upstream, folder: Path) -> None:
    """Names that could leave a folder never reach our clone, and nobody has to wait for them to pass."""
    clone = ServiceClone(folder, upstream.url)
    first = clone.update().after
    raw = b"100644 .git\0" + bytes.fromhex(git(upstream.path, "hash-object", "-w", "--stdin", stdin=b"x"))
    tree = git(upstream.path, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    commit = git(upstream.path, "commit-tree", tree, "-p", first, "-m", "x")
    git(upstream.path, "update-ref", "refs/heads/main", commit)

    with pytest.raises(BrokenSource, match="malformed or malicious"):
        clone.update()
    assert git(folder, "rev-parse", "HEAD") == first


@pytest.mark.slow
def test_what_a_user_of_the_machine_can_see(
    upstream: Upstream, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the clone, and nothing of our environment among the arguments of what runs."""
    monkeypatch.setenv("https_proxy", "http://user:canary@127.0.0.1:1")
    caplog.set_level(logging.DEBUG)
    diagnostics = Faults()
    with smart_http(upstream.path.parent, diagnostics) as address, ThreadPoolExecutor() as pool:
        ServiceClone(folder, f"{address}/upstream.git", timeout=120).update()
        clone = ServiceClone(folder, f"{address}/upstream.git", timeout=120)
        upstream.commit(specs(11))
        diagnostics.stall = True
        watching = pool.submit(_watch, diagnostics)
        with pytest.raises(SourceError):
            clone.update()
        seen = watching.result()
    assert folder.stat().st_mode & 0o077 == 0
    assert seen
    assert not any("canary" in command for command in seen)
    assert "canary" not in caplog.text


def _watch(diagnostics: Faults) -> list[str]:
    wait_for(lambda: diagnostics.stalled > 0)
    seen = [command for command in processes("source.git") if "fetch" in command]
    interrupt()
    return seen
