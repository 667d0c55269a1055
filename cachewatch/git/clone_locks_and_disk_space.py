"""Maintain a clone (see service_clone.py): locks, files that killed git processes left, packing, disk space, damage.

    NAME.git.lock     held by the process that updates the clone; no git and no forked worker inherits it
    NAME.git.running  shared by all processes that write the clone, also pins; their git processes inherit it

Whoever locks the second exclusively knows that no git process, even of a killed cachewatch, uses lock files of git.
"""

import fcntl
import logging
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cachewatch.errors import BrokenSource, SourceError, explained
from cachewatch.git.git_processes import ENDED, Git, GitResult, explain, handing_on
from cachewatch.runtime.files_and_locks import open_lock

logger = logging.getLogger(__name__)

# If an unseen git process may still run, only files of at least this age are taken for left behind.
_STALE_SECONDS = 3600.0
# Locks, which are everywhere but in the hundreds of folders of objects, and parts of objects.
_LEFT = ["*.lock", "refs/**/*.lock", "objects/*.lock", "objects/info/**/*.lock", "objects/pack/*.lock"]
_LEFT += ["objects/pack/tmp_*", "objects/??/tmp_obj_*", "objects/tmp_*"]


def _tidy(folder: Path, *, is_alone: bool) -> None:
    """Remove files of killed git processes in or beside a clone; if others use it (not `is_alone`), hour-old."""
    left = [path for pattern in _LEFT for path in folder.glob(pattern)]
    for path in [*left, *folder.parent.glob(f"{folder.name}.new-*")]:
        with suppress(FileNotFoundError):
            if is_alone or time.time() - path.lstat().st_mtime >= _STALE_SECONDS:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
                logger.warning("%s: removed; the git that made it is gone", path)


RECORDING_LOCK = "cachewatch.lock"  # in the folder of a recorded history, which is no clone
PATIENCE_SECONDS = 15.0  # longer than a git takes to end that ends with us
_PAUSE_SECONDS = 0.05
_NEEDED = "cachewatch needs a folder there that it may write"

_held: set[int] = set()


def _close_locks() -> None:
    """Close inherited locks in a forked process: a lock is held until every copy of its file descriptor is closed."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_close_locks)


@contextmanager
def exclusive(lock: int, seconds: float) -> Iterator[bool]:
    """Wait up to `seconds` to lock the descriptor `lock` exclusively for the `with`; yield whether that succeeded."""
    is_exclusive = try_lock(lock, seconds)
    try:
        yield is_exclusive
    finally:
        fcntl.flock(lock, fcntl.LOCK_SH)  # for a moment at most: others are alone for no longer


@contextmanager
def locked(folder: Path, *, seconds: float = float("inf"), advice: str = _NEEDED) -> Iterator[None]:
    """Hold the clone's lock for updates. Raises SourceError if another process holds it for `seconds`.

    It also raises SourceError if the lock file cannot be used; `advice`, what to do about it, ends that message.
    """
    with _opened(folder, "lock", advice) as lock:
        if not try_lock(lock, seconds):
            raise SourceError(f"{folder}: another cachewatch has been working on this clone for long")
        yield


@contextmanager
def writing(folder: Path, *, seconds: float = 0.0) -> Iterator[int]:
    """Tidy the clone, then yield the lock that its writers share.

    Wait up to `seconds` to be the only writer, because more can be tidied then; tidy less if there are others.
    """
    with _opened(folder, "running", _NEEDED) as lock:
        with exclusive(lock, seconds) as is_alone:
            _tidy(folder, is_alone=is_alone)
        with handing_on(lock):
            yield lock


@contextmanager
def _opened(folder: Path, what: str, advice: str) -> Iterator[int]:
    path = folder.with_name(f"{folder.name}.{what}")
    with explained(BrokenSource, str(path), advice):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = open_lock(path)
    _held.add(lock)
    try:
        yield lock
    finally:
        _held.discard(lock)
        os.close(lock)


def try_lock(lock: int, seconds: float) -> bool:
    """Try for up to `seconds` to lock the file descriptor `lock` exclusively; return whether that succeeded."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_SECONDS)
        else:
            return True


RESERVE = 512 * 2**20  # the bytes of the disk that a fetch leaves free
_CHECKING_SECONDS = 3600.0
# Git is fast with fewer packs than that; and no large pack is rewritten to add a few small ones.
_MANY_PACKS, _TOO_MANY_PACKS = 50, 500
_MANY_LOOSE = 16  # in one of the 256 folders of objects
# Somebody may still read a revision that the branch no longer has; for so long its objects are kept as loose files.
_LEFT_SECONDS = 3600
_PACKED = "cachewatch-packed"


def read(folder: Path, arguments: Iterable[str], lines: Iterable[str] = ()) -> GitResult:
    """Return the result of a git command in the clone `folder` with the input `lines`. Raises SourceError if killed."""
    answer = Git(git_dir=folder, seconds=_CHECKING_SECONDS, guarded=True).ask(arguments, lines)
    if answer.code < 0 or answer.code in ENDED:  # for want of memory, say; that is no answer
        raise SourceError(f"{folder}: git was ended ({answer.code}); tried again later")
    return answer


def usable_bytes(folder: Path) -> int:
    """Return how many bytes a fetch into `folder` may write. Raises BrokenSource if 512 MiB or less are free."""
    free = shutil.disk_usage(folder.parent).free
    if free <= RESERVE:
        raise BrokenSource(
            f"{folder.parent}: a fetch takes {RESERVE / 2**20:,.0f} MiB of free space, which it leaves to others, "
            f"and only {free / 2**20:,.0f} MiB are free; make room, or move the state with `state:`"
        )
    return free - RESERVE


def damage(folder: Path, *, thoroughly: bool) -> str:
    """Return how the clone is damaged, in git's words, or "". If `thoroughly`, check the contents of all objects."""
    if not folder.is_dir() or "bare = true" not in _config(folder):
        return "its configuration is gone"
    refs = read(folder, ["for-each-ref", "--format=%(objecttype)"])
    if refs.code or refs.error.strip():
        return explain(refs.error)
    try:
        absent = missing(folder, ["HEAD"])
    except DamagedClone as error:
        return str(error)
    if absent and not is_partial(folder):
        return f"{len(absent)} objects are missing"
    checked = read(folder, ["fsck", "--no-dangling", "--no-progress"]) if thoroughly else refs
    return explain(checked.error) if checked.code else ""


def missing(folder: Path, commits: Iterable[str], paths: Iterable[str] = ()) -> list[str]:
    """Return ids of objects of `commits` (only below `paths`, if given) that the clone lacks. Raises DamagedClone."""
    options = ["--objects", "--no-object-names", "--missing=print", "--no-walk", "--stdin"]
    result = read(folder, ["rev-list", *options], [*commits, *(["--", *paths] if paths else [])])
    if result.code or "error:" in result.error:
        raise DamagedClone(explain(result.error))
    return re.findall(r"^\?([0-9a-f]+)$", result.output.decode(), re.MULTILINE)


class DamagedClone(SourceError):
    """A clone that cachewatch made is damaged; the message says how."""


def is_partial(folder: Path) -> bool:
    """Tell whether the clone at `folder` was made without the contents of documents."""
    return "promisor = true" in _config(folder)


def _config(folder: Path) -> str:
    try:
        return (folder / "config").read_text("utf-8", "replace")
    except OSError:
        return ""


def set_aside(folder: Path) -> Path:
    """Rename the damaged clone `folder`, and return its new path; delete damaged clones that were kept before."""
    for older in damaged_ones(folder):
        shutil.rmtree(older, ignore_errors=True)
    return folder.rename(f"{folder}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")


def damaged_ones(folder: Path) -> list[Path]:
    """Return the paths of the damaged clones that were kept beside the clone `folder`, oldest first."""
    date = re.compile(rf"{re.escape(folder.name)}\.damaged-\d{{8}}T\d{{6}}Z")
    return sorted(path for path in folder.parent.glob(f"{folder.name}.damaged-*") if date.fullmatch(path.name))


def pack(folder: Path) -> None:
    """Join packs and loose objects of the clone `folder` if it has many; delete old objects that nothing refers to."""
    sizes = sorted(path.stat().st_size for path in folder.glob("objects/pack/*.pack"))
    loose = sum(1 for _ in folder.glob("objects/17/*"))
    is_worth_it = len(sizes) > _MANY_PACKS and (sum(sizes[:-1]) * 4 > sizes[-1] or len(sizes) > _TOO_MANY_PACKS)
    packed = folder / _PACKED
    is_recent = packed.exists() and time.time() - packed.stat().st_mtime <= _LEFT_SECONDS
    if not (is_worth_it or (loose > _MANY_LOOSE and not is_recent)):
        return
    packed.touch()
    logger.info("%s: putting %d packs together", folder, len(sizes))
    repack = ["repack", "-A", "-d", "-q", f"--unpack-unreachable={_LEFT_SECONDS}.seconds.ago"]
    for step in (["pack-refs", "--all", "--prune"], repack, ["prune", f"--expire={_LEFT_SECONDS}.seconds.ago"]):
        done = read(folder, step)
        if done.code:
            raise SourceError(f"{folder}: {step[0]}: {explain(done.error)}")
