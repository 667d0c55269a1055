"""What tag names mean: which tags change, and which one precedes another.

`develop` is rebuilt every day, `develop-2025-06-01` is one day of it, `v0.23.1` a release.
"""

import re
from collections.abc import Iterable

from cachewatch.core.versions import version_key

_SNAPSHOT = re.compile(r"(?P<series>.+)-\d{4}-\d{2}-\d{2}")
_RELEASE = re.compile(r"v\d+(\.\d+)*")


def series(tag: str) -> str | None:
    """Return the series that `tag` is one of: the branch of a snapshot, `v` for a release, or None."""
    if match := _SNAPSHOT.fullmatch(tag):
        return match["series"]
    return "v" if _RELEASE.fullmatch(tag) else None


def is_snapshot(tag: str) -> bool:
    """Tell whether `tag` is one day of a branch; old ones are retired in time."""
    return _SNAPSHOT.fullmatch(tag) is not None


def is_mutable(tag: str | None) -> bool:
    """Tell whether specs still come to and go from `tag`; a prune never touches the others."""
    return tag is None or series(tag) is None


def predecessors(tags: Iterable[str]) -> dict[str, str]:
    """Return, for each of `tags` that has one, the newest of them that is older in the same series."""
    found: dict[str, str] = {}
    newest: dict[str, str] = {}  # by series
    for tag in sorted(tags, key=version_key):
        if own := series(tag):
            if own in newest:
                found[tag] = newest[own]
            newest[own] = tag
    return found


def in_order(tags: Iterable[str]) -> list[str]:
    """Sort tags as the catalogue lists them: branches, releases from the newest, snapshots from the newest."""
    newest_first = sorted(tags, key=version_key, reverse=True)
    return sorted(newest_first, key=_rank)


def _rank(tag: str) -> tuple[int, str]:
    own = series(tag)
    if own is None:
        return (0, tag)
    return (1, "") if own == "v" else (2, own)
