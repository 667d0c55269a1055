"""What lies between the cursors of a track and the newest revision of a source."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from msgspec import Struct

from cachewatch.errors import UnknownRevision
from cachewatch.sources.catalogue import tags_of
from cachewatch.sources.git import Repository
from cachewatch.sources.revisions import Revision, resolve


class Gap(Struct, frozen=True, kw_only=True):
    """Tags that were last told of at one revision."""

    base: Revision
    tags: frozenset[str]


class Gaps(Struct, frozen=True, kw_only=True):
    """Everything to compare with the newest revision, and where the cursors go."""

    gaps: tuple[Gap, ...]
    places: Mapping[str, str | None]  # the new revision of each tag's cursor; None where the tag is gone
    lost: tuple[str, ...] = ()  # revisions that are nowhere any more: what changed since cannot be known


def find_gaps(
    repository: Repository,
    cursors: Mapping[str, str],
    newest: Revision,
    *,
    first: Revision | None,
    wanted: Callable[[str], bool],
) -> Gaps:
    """Find what a track was not told yet of the tags that it wants.

    Without any cursor it begins at `first`, or at the newest revision if that is None. A tag
    without a cursor is a new tag if the others' revision did not have it; if it did, somebody
    wants more than before, and it begins at the newest revision too.
    """
    tags = frozenset(filter(wanted, tags_of(repository, newest).ids))
    places: dict[str, str | None] = dict.fromkeys(tags, newest.commit)
    known = {tag: revision for tag, revision in cursors.items() if wanted(tag)}
    if not known:
        gap = () if first is None or first.commit == newest.commit else (Gap(base=first, tags=tags),)
        return Gaps(gaps=gap, places=places)
    behind, lost = _behind(repository, known, newest)
    appeared = _appeared(repository, known, tags)
    if appeared:
        behind[_most_common(known)] |= appeared
    places |= {tag: None for tag in known if tag not in tags}
    gaps = [Gap(base=resolve(repository, revision), tags=frozenset(those)) for revision, those in behind.items()]
    return Gaps(gaps=tuple(sorted(gaps, key=lambda gap: sorted(gap.tags))), places=places, lost=tuple(sorted(lost)))


def _behind(
    repository: Repository, known: Mapping[str, str], newest: Revision
) -> tuple[defaultdict[str, set[str]], set[str]]:
    """Group the tags whose cursor is not at the newest revision by the revision it is at."""
    behind: defaultdict[str, set[str]] = defaultdict(set)
    lost: set[str] = set()
    for tag, revision in known.items():
        if revision == newest.commit or revision in lost:
            continue
        if revision in behind or _exists(repository, revision):
            behind[revision].add(tag)
        else:
            lost.add(revision)
    return behind, lost


def _appeared(repository: Repository, known: Mapping[str, str], tags: frozenset[str]) -> frozenset[str]:
    fresh = tags - known.keys()
    base = _most_common(known)
    if not fresh or not _exists(repository, base):
        return frozenset()
    return fresh - tags_of(repository, resolve(repository, base)).ids.keys()


def _most_common(known: Mapping[str, str]) -> str:
    ((revision, _),) = Counter(known.values()).most_common(1)
    return revision


def _exists(repository: Repository, revision: str) -> bool:
    try:
        resolve(repository, revision)
    except UnknownRevision:
        return False
    return True
