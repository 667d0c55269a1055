"""What the tags of a source have of an environment, before and after: each document is read once, and none is kept."""

from collections.abc import Iterable, Set
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch import tags
from cachewatch.coverage import Coverage, Covered, Environment, Need, better, cover
from cachewatch.documents import Known, parse
from cachewatch.errors import DocumentError, UnknownRevision
from cachewatch.sources import Blob, Content, Listing
from cachewatch.sources.catalogue import Bases, list_revision
from cachewatch.sources.git import Repository
from cachewatch.sources.revisions import Revision


class _State(Struct):
    found: dict[Need, Covered] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # packages with a document that cannot be read


# Where each blob is, by its name and its package: in a state, in a tag from which specs come and go, or not.
_Places = dict[tuple[str, str], tuple[Blob, list[tuple[_State, bool]]]]


def cover_both(
    repository: Repository,
    environment: Environment,
    before: Iterable[Revision],
    after: Iterable[Revision],
    bases: Bases = MappingProxyType({}),
) -> tuple[Coverage, Coverage]:
    """Hold `environment` against the tags that `before` and `after` name; one tag that has a binary is enough.

    Before, packages of `bases` are read in other revisions.

    A document that cannot be read is no loss of binaries: what the other state has of its package stands for both.
    """
    states = (_State(), _State())
    places: _Places = {}
    listing: Listing | None = None
    for state, revision in [(states[0], each) for each in before] + [(states[1], each) for each in after]:
        others = bases.get(revision.tag or "", {}) if state is states[0] else {}
        packages = environment.packages - others.keys()
        listing = _list(repository, packages, revision, state, places) or listing
        for package, base in others.items():
            listing = _list(repository, environment.packages & {package}, base, state, places) or listing
    if listing is not None:
        _read(listing, environment, places)
    old, new = states
    for state, other in ((old, new), (new, old)):
        for need in environment.needs:
            if need.package in state.unread and need in other.found:
                state.found[need] = better(state.found.get(need), other.found[need])
    return _coverage(environment, old), _coverage(environment, new)


def _list(
    repository: Repository, packages: Set[str], revision: Revision, state: _State, places: _Places
) -> Listing | None:
    try:
        listing = list_revision(
            repository, revision, wanted_tag=lambda _: True, wanted_package=lambda package: package in packages
        )
    except UnknownRevision:
        return None  # this tag was not there yet, or is not any more
    for package, blob in listing.blobs.items():
        places.setdefault((blob.name, package), (blob, []))[1].append((state, tags.is_mutable(revision.tag)))
    return listing


def _read(listing: Listing, environment: Environment, places: _Places) -> None:
    """Read each blob once, and note what every state has by it."""
    by_package: dict[str, list[Need]] = {}
    for need in environment.needs:
        by_package.setdefault(need.package, []).append(need)
    blobs = [blob for blob, _ in places.values()]
    for ((_, package), (blob, found)), content in zip(places.items(), listing.reader.read(blobs), strict=True):
        _note(content, blob, replace(environment, needs=tuple(by_package.get(package, ()))), package, found)


def _note(
    content: Content, blob: Blob, needed: Environment, package: str, found: Iterable[tuple[_State, bool]]
) -> None:
    try:
        specs = None if isinstance(content, str) else parse(content, blob.path, Known()).specs
    except DocumentError:
        specs = None
    for state, is_pruned in found:
        if specs is None:
            state.unread.add(package)
            continue
        for covered in cover(needed, {package: specs}, is_pruned=is_pruned).needs:
            state.found[covered.need] = better(state.found.get(covered.need), covered)


def _coverage(environment: Environment, state: _State) -> Coverage:
    missing = cover(environment, {}).needs
    return Coverage(environment, tuple(state.found.get(covered.need, covered) for covered in missing))
