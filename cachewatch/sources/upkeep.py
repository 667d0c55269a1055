"""What keeps a clone of ours small, whole and unlocked for months; see mirror.py."""

import fcntl
import logging
import os
import pwd
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cachewatch.errors import BrokenSource, SourceError
from cachewatch.sources.git import Answer, ask, explain
from cachewatch.sources.hardening import ENDED, GRACE_SECONDS, git_command, guarded

logger = logging.getLogger(__name__)

_CHECKING_SECONDS = 3600.0
# Nobody but us writes here, and we are the one with the lock: a lock of git's this old has lost its owner.
_STALE_SECONDS = 15 * 60.0
_STALE_REF_SECONDS = 3600.0
_SCRAP_SECONDS = 3600.0
# Before that many packs git does not get slow; and no large pack is written again for a few small ones.
_MANY_PACKS, _TOO_MANY_PACKS = 50, 500
_MANY_LOOSE = 16  # in one of the 256 folders of objects
# Readers may still be at a revision that the branch has left; those objects lie loose until then.
_LEFT_SECONDS = 3600
_PACKED = "cachewatch-packed"
_PATIENCE = 0.05
_NOT_FOUND = 127

_held: set[int] = set()


@contextmanager
def locked(folder: Path, *, seconds: float) -> Iterator[None]:
    """Be the only one, of all processes and threads, who writes the clone at `folder`."""
    path = folder.with_name(f"{folder.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BrokenSource(f"{path}: {error.strerror}; cachewatch needs a folder there that it may write") from error
    _held.add(lock)
    try:
        _acquire(lock, folder, seconds)
        yield
    finally:
        _held.discard(lock)
        os.close(lock)


def _acquire(lock: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SourceError(f"{folder}: another cachewatch has been working on this clone for long") from None
            time.sleep(_PATIENCE)
        else:
            return


def _let_go() -> None:
    """Leave the locks to the process that we were forked from: they last until every copy is closed."""
    for lock in _held:
        os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def read(folder: Path, arguments: Iterable[str], lines: Iterable[str] = ()) -> Answer:
    """Ask git about the clone at `folder` or let it work there; nothing is fetched."""
    command = guarded(git_command(), seconds=_CHECKING_SECONDS)
    answer = ask([*command, f"--git-dir={folder}", *arguments], lines, seconds=_CHECKING_SECONDS + GRACE_SECONDS)
    if answer.code < 0 or answer.code in ENDED:  # for want of memory, say; that is no answer
        raise SourceError(f"{folder}: git was ended ({answer.code}); tried again later")
    if answer.code == _NOT_FOUND:
        raise BrokenSource(f"{folder}: git must be installed, and on the PATH of the service ({explain(answer.error)})")
    return answer


def check_owner(folder: Path) -> None:
    """Raise BrokenSource unless the clone at `folder` is ours: git works in no other."""
    owner, we = folder.stat().st_uid, os.geteuid()
    if owner != we:
        raise BrokenSource(
            f"{folder}: belongs to user {_user(owner)}, but cachewatch runs as {_user(we)}; "
            f"run it as the owner, or hand the folder over: chown -R {_user(we)} {folder}"
        )


def room(folder: Path, *, reserve: int) -> int:
    """Return how many bytes may be written beside `folder`; the last `reserve` bytes are not ours to take."""
    free = shutil.disk_usage(folder.parent).free
    if free <= reserve:
        raise BrokenSource(
            f"{folder.parent}: only {free / 2**20:,.0f} MiB are free, and cachewatch leaves {reserve / 2**20:,.0f} MiB "
            f"to others; make room"
        )
    return free - reserve


def tidy(folder: Path) -> None:
    """Remove what processes that were killed have left behind, in and beside the clone."""
    now = time.time()
    scraps = [*folder.glob("objects/pack/tmp_*"), *folder.glob("objects/??/tmp_obj_*"), *folder.glob("objects/tmp_*")]
    for path in [*scraps, *folder.parent.glob(f"{folder.name}.new-*")]:
        _remove(path, now, _SCRAP_SECONDS, "an interrupted fetch left it")
    for path in folder.rglob("*.lock"):
        of_a_ref = path.is_relative_to(folder / "refs") or path.name in ("HEAD.lock", "packed-refs.lock")
        _remove(path, now, _STALE_REF_SECONDS if of_a_ref else _STALE_SECONDS, "the git that locked it is gone")


def _remove(path: Path, now: float, seconds: float, why: str) -> None:
    with suppress(FileNotFoundError):
        changed = path.lstat().st_mtime
        if now - changed < seconds and changed > boot_time():
            return
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
        logger.warning("%s: removed; %s", path, why)


def boot_time() -> float:
    """Return when this machine was started: what was locked before that has lost its owner, however young it is."""
    return time.time() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def damage(folder: Path, *, thoroughly: bool) -> str:
    """Return what is wrong with the clone at `folder`, in git's words; "" if nothing is."""
    if not folder.is_dir() or "bare = true" not in _config(folder):
        return "its configuration is gone"
    refs = read(folder, ["for-each-ref", "--format=%(objecttype)"])
    if refs.code or refs.error.strip():
        return _first(refs)
    head = read(folder, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
    if head.code:
        return _first(head) or "its branch is empty"
    if thoroughly:
        checked = read(folder, ["fsck", "--no-dangling", "--no-progress"])
        return (_first(checked) or "git finds faults in it") if checked.code else ""
    try:
        absent = missing(folder, ["HEAD"])
    except DamagedClone as error:
        return str(error)
    return f"{len(absent)} objects are missing" if absent and not is_partial(folder) else ""


def missing(folder: Path, commits: Iterable[str], paths: Iterable[str] = ()) -> list[str]:
    """List the objects in the trees of `commits` that are not here. Raises DamagedClone if it cannot be told."""
    options = ["--objects", "--no-object-names", "--missing=print", "--no-walk", "--stdin"]
    found = read(folder, ["rev-list", *options], [*commits, *(["--", *paths] if paths else [])])
    if found.code or "error:" in found.error:
        raise DamagedClone(_first(found) or "git cannot walk it")
    return re.findall(r"^\?([0-9a-f]+)$", found.output.decode(), re.MULTILINE)


class DamagedClone(SourceError):
    """A clone of ours is damaged, as the message says."""


def _first(answer: Answer) -> str:
    lines = [line.strip() for line in answer.error.splitlines() if line.strip()]
    return lines[0] if lines else ""


def is_partial(folder: Path) -> bool:
    """Tell whether the clone at `folder` was made without the contents of documents."""
    return "promisor = true" in _config(folder)


def _config(folder: Path) -> str:
    try:
        return (folder / "config").read_text("utf-8", "replace")
    except OSError:
        return ""


def set_aside(folder: Path) -> Path:
    """Move a damaged clone out of the way; of several, only the newest is kept."""
    kept = folder.with_name(f"{folder.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    for older in damaged_ones(folder):
        shutil.rmtree(older, ignore_errors=True)
    folder.rename(kept)
    return kept


def damaged_ones(folder: Path) -> list[Path]:
    """Return the damaged clones that were set aside, oldest first."""
    return sorted(folder.parent.glob(f"{folder.name}.damaged-*"))


def pack(folder: Path) -> None:
    """Put together what many fetches brought, where there is enough; what nothing refers to goes after an hour."""
    sizes = sorted(path.stat().st_size for path in folder.glob("objects/pack/*.pack"))
    loose = sum(1 for _ in folder.glob("objects/17/*"))
    is_worth_it = len(sizes) > _MANY_PACKS and (sum(sizes[:-1]) * 4 > sizes[-1] or len(sizes) > _TOO_MANY_PACKS)
    if not (is_worth_it or (loose > _MANY_LOOSE and _age(folder / _PACKED) > _LEFT_SECONDS)):
        return
    (folder / _PACKED).touch()
    logger.info("%s: putting %d packs together", folder, len(sizes))
    for step in (
        ["pack-refs", "--all", "--prune"],
        ["repack", "-A", "-d", "-q", f"--unpack-unreachable={_LEFT_SECONDS}.seconds.ago"],
        ["prune", f"--expire={_LEFT_SECONDS}.seconds.ago"],
    ):
        done = read(folder, step)
        if done.code:
            raise SourceError(f"{folder}: {step[0]}: {_first(done) or f'git ended with code {done.code}'}")


def _age(path: Path) -> float:
    """Return how many seconds ago a file was changed; one that is not there, never."""
    return time.time() - path.stat().st_mtime if path.exists() else float("inf")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
