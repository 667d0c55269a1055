"""What recorded revisions and live caches have of an environment's packages, and what a revision changes about that.

Each document is read once, and none is kept.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core import names as tag_names
from cachewatch.core.changesets import Blob, Content, Listing
from cachewatch.core.coverage import Coverage, Environment, Holdings, Need, Resolution, better, cover
from cachewatch.core.model import Diagnostic, DiagnosticKind, Document, Signature
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError, UnknownRevision, UsageError, WorkFailed
from cachewatch.git.catalogue import Bases, list_revision, list_tree, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.hooks import extensions, lacking, load
from cachewatch.runtime.worker import INLINE, Isolation, Piece
from cachewatch.sources.contents import about_content, parse_side


class CacheContents(Struct, frozen=True):
    """The specs of some packages, and where they are from."""

    holdings: Holdings
    where: str
    is_pruned: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    revision: str | None = None
    tag: str | None = None


def recorded_in(opened: "Repository", repository: str, revision: str, packages: Collection[str]) -> CacheContents:
    """Return what a revision, or one tag of it, has of `packages` in a repository that is open."""
    found = resolve(opened, revision)
    listing = list_revision(
        opened, found, wanted_tag=lambda _: True, wanted_package=lambda package: package in packages
    )
    return listed(listing, repository)


def published(address: str, packages: Collection[str], **options: Any) -> CacheContents:
    """Return what a live build cache has of `packages` right now; `options` are `tag`, `view`, `token_file` and `login_file`."""
    kind = next((kind for kind in extensions().source_kinds if kind.type == "buildcache"), None)
    if kind is None:
        raise UsageError(lacking(f"{address}: a live build cache", "buildcaches"))
    contents: CacheContents = load(kind.holdings)(address, packages, **options)
    return contents


def listed(listing: Listing, name: str) -> CacheContents:
    """Return what the documents of one tag hold; `name` says in messages where they are."""
    known = Known()
    holdings: dict[str, Mapping[str, Signature]] = {}
    diagnostics = list(listing.diagnostics)
    blobs = {package: blob for package, blob in listing.blobs.items() if blob.size <= MAX_BYTES}
    for (package, blob), content in zip(blobs.items(), listing.reader.read(blobs.values()), strict=True):
        document = _parse(content, blob, known)
        if isinstance(document, Diagnostic):
            diagnostics.append(document)
        else:
            holdings[package] = document.specs
            diagnostics += document.diagnostics
    side = listing.side
    where = " ".join(filter(None, (name, side.tag, side.revision and f"at {side.revision[:10]}")))
    return CacheContents(
        holdings, where, tag_names.is_mutable(side.tag), tuple(diagnostics), revision=side.revision, tag=side.tag
    )


def _parse(content: Content, blob: Blob, known: Known) -> Document | Diagnostic:
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path, known)
    except DocumentError as error:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(error))


class _State(Struct):
    found: dict[Need, Resolution] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # packages with a document that cannot be read


# Where each blob is, by its name and its package: in a state, in a tag from which specs come and go, or not.
_Places = dict[tuple[str, str], tuple[Blob, list[tuple[_State, bool]]]]
# What a document has, by whether specs that no stack builds go away.
_Answer = dict[bool, tuple[Resolution, ...]]


def cover_both(
    repository: Repository,
    environment: Environment,
    before: Iterable[Revision],
    after: Iterable[Revision],
    *,
    bases: Bases = MappingProxyType({}),
    isolation: Isolation = INLINE,
) -> tuple[Coverage, Coverage]:
    """Hold `environment` against the tags that `before` and `after` name; one tag that has a binary is enough.

    Before, packages of `bases` are read in other revisions.

    A document that cannot be read is no loss of binaries: what the other state has of its package stands for both.
    """
    states = (_State(), _State())
    places: _Places = {}
    listing: Listing | None = None
    sides = [(states[0], each) for each in before] + [(states[1], each) for each in after]
    commits = {each.commit for _, each in sides} | {
        base.commit for of_tag in bases.values() for base in of_tag.values()
    }
    # The trees of their tags, by commit.
    tags = {
        commit: tags_of(repository, resolve(repository, commit), sorted(commits - {commit})).ids for commit in commits
    }
    for state, revision in sides:
        others = bases.get(revision.tag or "", {}) if state is states[0] else {}
        packages = environment.packages - others.keys()
        listing = _list(repository, packages, revision, state, tags=tags, places=places) or listing
        for package, base in others.items():
            listing = (
                _list(repository, environment.packages & {package}, base, state, tags=tags, places=places) or listing
            )
    if listing is not None:
        _read(listing, environment, places, isolation)
    old, new = states
    for state, other in ((old, new), (new, old)):
        for need in environment.needs:
            if need.package in state.unread and need in other.found:
                state.found[need] = better(state.found.get(need), other.found[need])
    return _coverage(environment, old), _coverage(environment, new)


def _list(
    repository: Repository,
    packages: Set[str],
    revision: Revision,
    state: _State,
    *,
    tags: Mapping[str, Mapping[str, str]],
    places: _Places,
) -> Listing | None:
    def wanted(package: str) -> bool:
        return package in packages

    if revision.tag:
        if revision.tag not in tags[revision.commit]:
            return None  # this tag was not there yet, or is not any more
        listing = list_tree(repository, revision, revision.tag, tags[revision.commit][revision.tag], wanted)
    else:
        try:
            listing = list_revision(repository, revision, wanted_tag=lambda _: True, wanted_package=wanted)
        except UnknownRevision:
            return None
    for package, blob in listing.blobs.items():
        places.setdefault((blob.name, package), (blob, []))[1].append((state, tag_names.is_mutable(revision.tag)))
    return listing


class _Question(NamedTuple):
    """What one document has of what is needed of its package."""

    needed: Environment
    blob: Blob
    content: Content


def _read(listing: Listing, environment: Environment, places: _Places, isolation: Isolation) -> None:
    """Read each blob once, and note what every state has by it."""
    by_package: dict[str, list[Need]] = {}
    for need in environment.needs:
        by_package.setdefault(need.package, []).append(need)
    blobs = [blob for blob, _ in places.values()]
    questions = (
        _Question(replace(environment, needs=tuple(by_package.get(package, ()))), blob, content)
        for ((_, package), blob), content in zip(
            zip(places, blobs, strict=True), listing.reader.read(blobs), strict=True
        )
    )
    answers = (
        each
        for asked, found in isolation.each(_answers, questions, _about)
        for each in ([None] * len(asked) if isinstance(found, WorkFailed) else found)
    )
    for (_, package), (_, states), covered in zip(places, places.values(), answers, strict=True):
        _note(covered, package, states)


def _about(question: _Question) -> Piece:
    return about_content((question.blob, question.content))


def _answers(questions: Sequence[_Question]) -> list[_Answer | None]:
    return [_answer(*question) for question in questions]


def _answer(needed: Environment, blob: Blob, content: Content) -> _Answer | None:
    """Return what a document has, by whether specs come and go in its tag; None if it cannot be read."""
    document = parse_side(blob, content, Known())
    if not isinstance(document, Document):
        return None
    holdings = {need.package: document.specs for need in needed.needs}
    return {is_pruned: cover(needed, holdings, is_pruned=is_pruned).needs for is_pruned in (False, True)}


def _note(covered: _Answer | None, package: str, states: Iterable[tuple[_State, bool]]) -> None:
    for state, is_pruned in states:
        if covered is None:
            state.unread.add(package)
            continue
        for each in covered[is_pruned]:
            state.found[each.need] = better(state.found.get(each.need), each)


def _coverage(environment: Environment, state: _State) -> Coverage:
    missing = cover(environment, {}).needs
    return Coverage(environment, tuple(state.found.get(covered.need, covered) for covered in missing))
