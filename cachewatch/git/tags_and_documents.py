"""Read a catalogue from git: compare revisions tag by tag, read documents of a tag, find the last readable version."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import Blob, Comparison, Content, Difference, DocumentPair, Listing, Readers, TagPair
from cachewatch.core.filters_and_spec_patterns import no_tag_matches
from cachewatch.core.kinds_and_specs import Diagnostic, Document, Side, Unreadable, grouped
from cachewatch.core.names_and_layouts import DEFAULT_TAG, DOCUMENT, TAGS_FILE, Wanted, did_you_mean, is_name
from cachewatch.documents.recognition_and_front_matter import ignored_entries_note, read_tags_file
from cachewatch.documents.records_parsing_diagnostics import TOO_LARGE, KnownRecords, parse_side
from cachewatch.errors import SourceError, UnknownRevision, UnreadableDocument, UsageError
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, count_between, resolve
from cachewatch.git.trees import (
    Folders,
    MadeTree,
    TreeDifference,
    blobs_of,
    catalogue_of,
    document_of,
    folder_of,
    folders,
    ignored_documents_note,
    locate,
    nothing_found,
)
from cachewatch.runtime.worker import INLINE, Isolation, Piece

# By tag and package: an earlier revision, and its tag, from which the document to compare is taken instead.
Bases = Mapping[str, Mapping[str, Revision]]


class RestoredDocument(Struct, frozen=True):
    """The earlier document of a package, with places added, as last reported, that were lost and are back."""

    blob: Blob  # names no object in git
    content: bytes


Restored = Mapping[str, Mapping[str, RestoredDocument]]  # by tag and package, like `Bases`

CompareTrees = Callable[[Repository, tuple[str, str], str | None, str | None], TreeDifference]

_LARGEST_TAGS_FILE = 2**20  # real ones have 50 kB
_FEW_DOCUMENTS = 5_000  # are read in some ten seconds


class TagState(Struct, frozen=True):
    """One tag in one revision; `tree` is the id of the git tree with its packages, None if it has no documents."""

    revision: Revision
    tag: str
    tree: str | None


class GitReader(Struct, frozen=True):
    """Reads documents from a repository."""

    _repository: Repository
    _restored: Restored = MappingProxyType({})

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield the content of each blob; if it is too large, a text with the reason."""
        names = [blob.name for blob in blobs]
        known = {one.blob.name: one.content for found in self._restored.values() for one in found.values()}
        contents = self._repository.objects().documents(name for name in names if name not in known)
        for name in names:
            content = known[name] if name in known else next(contents)
            yield TOO_LARGE if content is None else content

    def reopened(self) -> "GitReader":
        """Return a copy that starts its own git process."""
        return GitReader(self._repository.reopened(), self._restored)


def compare_revisions(
    repository: Repository,
    before: Revision,
    after: Revision,
    *,
    wanted_tag: Wanted,  # which tags to compare if neither revision names one
    wanted_package: Wanted,  # which packages to compare
    bases: Bases = MappingProxyType({}),  # by tag and package, revisions whose documents replace those of `before`
    restored: Restored = MappingProxyType({}),  # by tag and package, documents that replace those of `before`
    trees: CompareTrees = TreeDifference,  # finds how two trees differ; this and `count` may cache results
    count: Callable[[Repository, Revision, Revision], int | None] = count_between,
) -> Comparison:
    """Find what differs in the tag that a revision names, else in wanted tags. Raises UsageError if there is no tag."""
    wanted_package = cache(wanted_package)
    commits = {before.commit, after.commit, *(base.commit for packages in bases.values() for base in packages.values())}
    had, has = (tags_of(repository, side, sorted(commits - {side.commit})) for side in (before, after))
    pairs: list[TagPair] = []
    quiet: TagPair | None = None
    states = list(_states(repository, before, after, had=had, has=has, wanted=wanted_tag))
    for earlier, later in states:
        is_based = bool(bases.get(later.tag) or restored.get(later.tag))
        is_new, is_lost = (not (before.tag or after.tag) and later.tag not in side.ids for side in (had, has))
        is_made = isinstance(later.tree, MadeTree)  # it may have documents that several files claim to be
        if (pairs or quiet) and earlier.tree == later.tree and not (is_based or is_new or is_made):
            continue
        difference = trees(repository, (earlier.tag, later.tag), earlier.tree, later.tree).chosen(wanted_package)
        if earlier.tag != later.tag:
            difference = _with_equal(difference)
        if is_based:
            difference = _rebased(repository, difference, bases, restored, later)
        old, new = earlier.revision.side(earlier.tag), later.revision.side(later.tag)
        pair = TagPair(before=old, after=new, difference=difference, is_new_tag=is_new, is_lost_tag=is_lost)
        if difference.documents or difference.diagnostics or is_new:
            pairs.append(pair)
        elif quiet is None:
            quiet = pair
    if not pairs and quiet is not None:  # nothing differs anywhere: the first tag shows that
        pairs.append(quiet)
    if not pairs:
        there = tag_names.in_order(had.ids.keys() | has.ids.keys())
        if there:
            raise UsageError(f"{repository.prefix}{no_tag_matches(wanted_tag, there)}")
        nothing = nothing_found(repository, after.commit, after.name)
        raise UsageError(f"{repository.prefix}neither revision has documents; {nothing}")
    reader, compared = GitReader(repository, restored), {pair.after.tag for pair in pairs}
    return Comparison(
        pairs=tuple(pairs),
        readers=Readers(reader, reader),
        revisions_between=count(repository, before, after),
        stacks=(lambda: stacks_of(repository, before), lambda: stacks_of(repository, after)),
        other_documents=lambda: _few_documents(repository, [one for _, one in states if one.tag not in compared]),
        packages=lambda: {
            package for tree in {*had.ids.values(), *has.ids.values()} for package in folders(repository, tree).ids
        },
        diagnostics=(
            *ignored_entries_note(repository.layout.catalogue, dict(had.odd.items() ^ has.odd.items())),
            *dict.fromkeys(each for side in (before, after) for each in locate(repository, side.commit).diagnostics),
            *ignored_documents_note(repository, before.commit, after.commit),
        ),
    )


def list_revision(repository: Repository, revision: Revision, wanted_package: Wanted) -> Listing:
    """Return the wanted documents of one tag of `revision`: the tag that it names, else its only tag, else develop."""
    trees = tags_of(repository, revision).ids
    tag = revision.tag or (next(iter(trees)) if len(trees) == 1 else DEFAULT_TAG)
    return list_tree(repository, revision, tag, tree_of(repository, revision, tag, trees), wanted_package)


def list_tree(repository: Repository, revision: Revision, tag: str, tree: str, wanted_package: Wanted) -> Listing:
    """Return the wanted documents of `tag` in `revision`; `tree` is the id of the git tree with the tag's packages."""
    found = TreeDifference(repository, (tag, tag), None, tree).chosen(wanted_package)
    blobs = {pair.package: pair.after for pair in found.documents if pair.after is not None}
    of_tree = (replace(each, side="") for each in found.diagnostics)  # it is only one side
    diagnostics = (*of_tree, *locate(repository, revision.commit).diagnostics)
    return Listing(revision.side(tag), blobs, GitReader(repository), diagnostics)


class PackageDocument(Struct, frozen=True):
    """The document of one package in one revision."""

    path: str
    content: bytes
    side: Side
    unchanged_since: Side | None  # the revision that wrote this content; None if unknown


def read_package(repository: Repository, revision: Revision, package: str) -> PackageDocument:
    """Read the document of `package` in `revision`. Raises UnreadableDocument, or UnknownRevision if there is none."""
    tag = revision.tag or DEFAULT_TAG
    tree = tree_of(repository, revision, tag)
    document = document_in(repository, revision.commit, tag, package)
    if isinstance(document, str):
        raise UnreadableDocument(f"{package}: {document}")
    if document is None:
        hint = did_you_mean(package, folders(repository, tree).ids)
        raise UnknownRevision(f"{revision.name!r} has no package {package!r} in {tag}{hint}")
    repository.obtain([document.name])
    (content,) = repository.objects().stream([document.name], kind="blob")
    writer = "" if repository.is_folder else _writer(repository, revision.commit, tag, package)
    written = resolve(repository, writer).side(tag) if writer else None
    return PackageDocument(document.path, content, revision.side(tag), written)


def document_in(
    repository: Repository, commit: str, tag: str, package: str, others: Collection[str] = ()
) -> Blob | str | None:
    """Return the document of `package`, None if missing, or why it is unreadable. `others`: see `catalogue_of`."""
    tree = _tree_in(repository, commit, tag, others)
    return document_of(repository, folder_of(repository, tag), tree, package)


def packages_in(repository: Repository, commit: str, tag: str) -> Mapping[str, str]:
    """Return the id of each package's git tree, by package, in a tag of a commit; {} if it has no such tag."""
    return folders(repository, _tree_in(repository, commit, tag)).ids


def _tree_in(repository: Repository, commit: str, tag: str, others: Collection[str] = ()) -> str | None:
    """Return the id of the git tree of `tag` in `commit`; None if it has no such tag. `others`: see `catalogue_of`."""
    tree = catalogue_of(repository, commit, others)
    is_stored = tree is not None and not isinstance(tree, MadeTree) and is_name(tag.encode())
    found = repository.objects().get(f"{tree}:{tag}") if is_stored else None  # without reading thousands of other tags
    if found is not None:
        return found.id
    return folders(repository, tree).ids.get(tag)  # a missing tree is an error where it is read


def _writer(repository: Repository, commit: str, tag: str, package: str) -> str:
    """Return the id of the commit that wrote the document of `package` as it is in `commit`; "" if unknown."""
    document = document_in(repository, commit, tag, package)
    while isinstance(document, Blob):
        writer = repository.run(["rev-list", "-1", commit, "--", f":(literal){document.path}"]).decode().strip()
        parent = repository.objects().get(f"{writer}^") if writer else None
        # The document may have been at another path before.
        was = document_in(repository, parent.id, tag, package) if parent else None
        if parent is None or not isinstance(was, Blob) or was.name != document.name:
            return writer
        commit, document = parent.id, was
    return ""


def tags_of(repository: Repository, revision: Revision, others: Collection[str] = ()) -> Folders:
    """Return the tags of `revision`, with the ids of their git trees; `others` as in `catalogue_of`."""
    return folders(repository, catalogue_of(repository, revision.commit, others))


def _states(
    repository: Repository, before: Revision, after: Revision, *, had: Folders, has: Folders, wanted: Wanted
) -> Iterator[tuple[TagState, TagState]]:
    """Yield pairs of states to compare, of the tag that one revision names, or else of each tag that `wanted` accepts.

    `had` and `has` are the tags of `before` and `after`. A new snapshot is paired with the one before.
    """
    old, new = had.ids, has.ids
    if before.tag or after.tag:
        tag_before, tag_after = before.tag or after.tag or "", after.tag or before.tag or ""
        earlier = TagState(before, tag_before, tree_of(repository, before, tag_before, old))
        yield earlier, TagState(after, tag_after, tree_of(repository, after, tag_after, new))
        return
    predecessors, odd = tag_names.predecessors({**old, **new}), had.odd.keys() | has.odd.keys()
    for tag in filter(wanted, tag_names.in_order(old.keys() | new.keys())):
        if tag.encode() in odd:
            continue  # replaced by a link or the like: neither removed nor added
        later = TagState(after, tag, new.get(tag))
        if tag not in old and (predecessor := predecessors.get(tag)):
            # A new snapshot is news against the one before it, which may be removed in `after`, not against nothing.
            at, trees = (after, new) if predecessor in new else (before, old)
            yield TagState(at, predecessor, trees[predecessor]), later
        else:
            yield TagState(before, tag, old.get(tag)), later


def tree_of(repository: Repository, revision: Revision, tag: str, trees: Mapping[str, str] | None = None) -> str:
    """Return the id of the git tree of `tag`, looked up in `trees` if given. Raises UnknownRevision if not found."""
    trees = tags_of(repository, revision).ids if trees is None else trees
    if not trees:
        raise UnknownRevision(f"{repository.prefix}{nothing_found(repository, revision.commit, revision.name)}")
    if tag not in trees:
        named = tag_names.in_order(trees)
        there = f"; it has {', '.join(named[:5])}{', ...' if len(named) > 5 else ''}"
        raise UnknownRevision(f"{revision.name!r} has no tag {tag!r}{did_you_mean(tag, trees) or there}")
    return trees[tag]


def _rebased(
    repository: Repository, difference: Difference, bases: Bases, restored: Restored, after: TagState
) -> Difference:
    """Return `difference`, whose later state is `after`, with documents of `bases` and `restored` as earlier ones."""
    replaced: dict[str, Revision | RestoredDocument] = {**bases.get(after.tag, {}), **restored.get(after.tag, {})}
    unreadable = [each for each in difference.unreadable if each.package not in replaced]
    documents = {pair.package: pair for pair in difference.all_documents if pair.package not in replaced}
    for package, base in sorted(replaced.items()):
        had: Blob | str | None
        if isinstance(base, RestoredDocument):
            had = base.blob
        else:
            had = document_in(repository, base.commit, base.tag or "", package, [after.revision.commit])
        has = document_of(repository, folder_of(repository, after.tag), after.tree, package)
        if isinstance(has, str) or isinstance(had, str):
            problem = Unreadable(package=package, reason=has if isinstance(has, str) else str(had))
            unreadable.append(replace(problem, before=isinstance(had, str), after=isinstance(has, str)))
        elif had is not None or has is not None:  # equal ones, too, which may be unreadable on both sides
            documents[package] = DocumentPair(package, had, has)
    return replace(
        difference,
        all_documents=tuple(documents[package] for package in sorted(documents)),
        takes=lambda package: package in replaced or difference.takes(package),
        unchanged_packages=lambda: [name for name in difference.unchanged_packages() if name not in documents],
        unreadable=tuple(unreadable),
    )


def _with_equal(difference: Difference) -> Difference:
    """Return the `difference` of two tags, with a pair added for each document that is equal in both."""
    equal = [DocumentPair(blob.package, blob, blob) for blob in difference.unchanged()]
    pairs = sorted((*difference.all_documents, *equal), key=lambda pair: pair.package)
    return replace(difference, all_documents=tuple(pairs), unchanged_packages=tuple, unchanged=tuple)


def _few_documents(repository: Repository, states: Iterable[TagState]) -> list[Blob] | None:
    """Return the documents of `states`, equal ones once; None if they are more than 5,000, too many to read."""
    listed = ((state.tag, folders(repository, state.tree).ids) for state in states)
    trees = {tree: (tag, package) for tag, ids in listed for package, tree in ids.items()}
    if len(trees) > _FEW_DOCUMENTS:
        return None
    by_tag = grouped((tag, (package.encode(), tree)) for tree, (tag, package) in trees.items())
    return [blob for tag, found in by_tag.items() for blob in blobs_of(repository, folder_of(repository, tag), found)]


def stacks_of(repository: Repository, revision: Revision) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag, as the tags file of `revision` lists them; {} if there is no readable one."""
    try:
        file = repository.objects().get(f"{revision.commit}:{TAGS_FILE}", most=_LARGEST_TAGS_FILE)
    except SourceError:
        return {}  # whatever that is, it is no list of tags
    return read_tags_file(file.content) if file else {}


def read_documents(
    listing: Listing,
    *,
    progress: Callable[[int], None] = lambda _: None,  # gets the size of each document in bytes
    may_have: Callable[[bytes], bool] = lambda _: True,  # gets the bytes of each document
) -> Iterator[Document | Diagnostic]:
    """Yield diagnostics of `listing`, then each document whose bytes `may_have` accepts, or why it is unreadable."""
    yield from listing.diagnostics
    known, blobs = KnownRecords(), listing.blobs.values()
    for (package, blob), content in zip(listing.blobs.items(), listing.reader.read(blobs), strict=True):
        progress(blob.size)
        known.forget_many()
        wanted = isinstance(content, str) or may_have(content)
        if wanted and (document := parse_side(blob, content, known, package)):
            yield document


_MOST_VERSIONS = 50  # upstream repairs a document after a few revisions, or never


def last_readable(
    repository: Repository, revision: Revision, package: str, later: str, isolation: Isolation = INLINE
) -> Revision | None:
    """Return the last revision up to `revision` where the document of `package` is readable or absent; None if none is.

    `later` is the id of the commit to compare the document with; `isolation` is where documents are read.
    """
    tag = revision.tag or DEFAULT_TAG
    document = document_in(repository, revision.commit, tag, package, [later])
    path = document.path if isinstance(document, Blob) else f"{folder_of(repository, tag)}/{package}/{DOCUMENT}"
    # Of several files that are one document, either may have become it.
    paths = repository.layout.pathspecs if isinstance(document, str) else [f":(literal){path}"]
    asked = ["rev-list", "--first-parent", f"--max-count={_MOST_VERSIONS}", revision.commit, "--", *paths]
    commits = repository.run(asked).decode().split()
    # Before the oldest of them it was not there.
    before = [f"{commits[-1]}~1"] if commits and len(commits) < _MOST_VERSIONS else []
    for name in [*commits, *before]:
        with suppress(UnknownRevision):  # the first revision of all has none before it
            earlier = replace(resolve(repository, name), tag=revision.tag)
            if _is_usable(repository, earlier, package, later, isolation):
                return earlier
    return None


def _is_usable(repository: Repository, revision: Revision, package: str, later: str, isolation: Isolation) -> bool:
    try:
        document = document_in(repository, revision.commit, revision.tag or DEFAULT_TAG, package, [later])
        found = repository.objects().get(document.name) if isinstance(document, Blob) else None
    except SourceError:
        return False  # not in this clone
    if not isinstance(document, Blob) or found is None:
        return document is None
    about = Piece((document.name,), len(found.content))
    ((_, is_readable),) = isolation.each(_is_readable, [(document, found.content)], lambda _: about)
    return is_readable is True


def _is_readable(documents: Sequence[tuple[Blob, bytes]]) -> bool:
    ((blob, content),) = documents
    return isinstance(parse_side(blob, content, KnownRecords()), Document)
