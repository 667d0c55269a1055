"""The environment that a subscription watches, and the snapshot that it is pinned to."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from cachewatch.core import tag_names
from cachewatch.core.environment_coverage import Coverage, CoverageChange, Environment, best, compare_coverage
from cachewatch.core.versions import version_key
from cachewatch.environments.lockfiles import file_of, open_environment
from cachewatch.errors import UsageError, WorkFailed
from cachewatch.git.catalogue import tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision
from cachewatch.report.digest import Pinned
from cachewatch.runtime.isolation import Isolation, Piece


def read_environment(path: Path, folders: Sequence[Path], isolation: Isolation) -> Environment:
    """Read an environment where that can end nothing but itself; raise UsageError where it cannot be used."""
    ((_, found),) = isolation.each(partial(_open, folders), [path], _about)
    if isinstance(found, WorkFailed):
        raise UsageError(f"{path}: {found}")
    return found


def _open(folders: Sequence[Path], paths: Sequence[Path]) -> Environment:
    (path,) = paths
    return open_environment(path, folders)


def _about(path: Path) -> Piece:
    """Tell the content of the file from an earlier one."""
    with suppress(OSError):
        found = file_of(path).stat()
        return Piece(str(path), (f"{found.st_ino} {found.st_size} {found.st_mtime_ns}",), 0)
    return Piece(str(path), (), 0)


def joined(parts: Iterable[tuple[Coverage, Coverage]]) -> CoverageChange | None:
    """Say what became of an environment in all sources together: one that has a binary is enough."""
    before: Coverage | None = None
    after: Coverage | None = None
    for had, has in parts:
        before = had if before is None else best(before, had)
        after = has if after is None else best(after, has)
    return None if before is None or after is None else compare_coverage(before, after)


def find_pin(
    repository: Repository, source: str, tag: str, newest: Revision, bases: Iterable[Revision]
) -> Pinned | None:
    """Find the place of `tag` among the snapshots of its series; None where the source knows nothing of either.

    `bases` are the revisions that were told last.
    """
    now = _series(repository, newest, tag)
    told = [_series(repository, base, tag) for base in bases]
    if tag not in now:
        was_there = any(tag in names for names in told)
        return Pinned(tag=tag, source=source, is_gone=True, is_news=was_there) if now or was_there else None
    place = now.index(tag)
    last = now[-1]
    return Pinned(
        tag=tag,
        source=source,
        newest=last if last != tag else "",
        newer=len(now) - place - 1,
        older=place,
        is_news=last != tag and any(last not in names for names in told),
    )


def found_pins(tag: str | None, found: list[Pinned]) -> tuple[Pinned, ...]:
    """Return what the sources know of the pinned tag; where none of them has it, that is to be said too."""
    if tag is None:
        return ()
    return tuple(pin for pin in found if not pin.is_gone) or tuple(found) or (Pinned(tag=tag, is_gone=True),)


def _series(repository: Repository, revision: Revision, tag: str) -> list[str]:
    """Return the snapshots of the series of `tag`, oldest first; a tag of no series stands alone."""
    own = tag_names.series(tag)
    names = tags_of(repository, revision).ids
    return sorted((n for n in names if n == tag or (own is not None and tag_names.series(n) == own)), key=version_key)
