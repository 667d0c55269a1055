"""Two revisions in, pairs of tags with the documents that differ out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from cachewatch import tags
from cachewatch.errors import UnknownRevision
from cachewatch.model import Side
from cachewatch.sources import Blob, Comparison, Listing, Readers, TagPair
from cachewatch.sources.git import Repository
from cachewatch.sources.revisions import Revision, count_between, resolve
from cachewatch.sources.tagsfile import TAGS_FILE, read_tags_file
from cachewatch.sources.trees import DOCUMENT, Wanted, differing_documents, folders, is_name

CATALOGUE = "_cache"


@dataclass(frozen=True, slots=True)
class State:
    """One tag of one revision; a tree of None is a tag without any documents."""

    revision: Revision
    tag: str
    tree: str | None

    @property
    def side(self) -> Side:
        """This state as one of two sides to compare."""
        return self.revision.side(self.tag)


class GitReader:
    """Reads documents out of a repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    def read(self, blobs: Sequence[Blob]) -> Iterator[bytes]:
        """Yield the content of each blob, through one pipe."""
        return self._repository.objects().stream(blob.name for blob in blobs)

    def again(self) -> "GitReader":
        """Return a reader with a git process of its own."""
        return GitReader(self._repository.again())


def compare_revisions(
    repository: Repository,
    before: Revision,
    after: Revision,
    *,
    wanted_tag: Callable[[str], bool],
    wanted_package: Wanted,
) -> Comparison:
    """Find what differs between two revisions: in one tag if either names one, else in every tag."""
    had, has = _tags_of(repository, before), _tags_of(repository, after)
    pairs: list[TagPair] = []
    quiet: TagPair | None = None
    for old, new in _states(before, after, had, has, wanted_tag):
        if quiet is not None and old.tree == new.tree:
            continue
        pair = _compare_states(repository, old, new, had, has, wanted_package)
        if pair.documents or pair.faults:
            pairs.append(pair)
        elif quiet is None:
            quiet = pair
    if not pairs and quiet is not None:
        # Nothing differs anywhere: the first tag says so.
        pairs.append(quiet)
    reader = GitReader(repository)
    return Comparison(
        pairs=tuple(pairs),
        readers=Readers(reader, reader),
        revisions_between=count_between(repository, before, after),
        stacks=(lambda: _stacks_of(repository, before), lambda: _stacks_of(repository, after)),
    )


def list_revision(repository: Repository, revision: Revision, *, wanted_package: Wanted) -> Listing:
    """List every document of one tag of a revision: the one it names, or develop."""
    tag = revision.tag or "develop"
    tree = _tags_of(repository, revision).get(tag)
    if tree is None:
        raise UnknownRevision(f"{repository.path}: {revision.name!r} has no tag {tag!r}; write REVISION:TAG")
    found = differing_documents(repository, f"{CATALOGUE}/{tag}", None, tree, wanted=wanted_package)
    blobs = {pair.package: pair.after for pair in found.documents if pair.after is not None}
    return Listing(revision.side(tag), blobs, GitReader(repository), found.faults)


@dataclass(frozen=True, slots=True)
class PackageDocument:
    """One package's document in one revision, and the revision that wrote it."""

    path: str
    content: bytes
    side: Side
    unchanged_since: Side | None


def read_package(repository: Repository, revision: Revision, package: str) -> PackageDocument:
    """Read one document of the tag that `revision` names, or of develop."""
    tag = revision.tag or "develop"
    trees = _tags_of(repository, revision)
    state = _named(revision, tag, trees)
    path = f"{CATALOGUE}/{tag}/{package}/{DOCUMENT}"
    found = repository.objects().get(f"{revision.commit}:{path}") if is_name(package.encode()) else None
    if found is None or found.type != "blob":
        near = get_close_matches(package, folders(repository, str(state.tree)), 3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise UnknownRevision(f"{revision.name!r} has no package {package!r} in {tag}{hint}")
    writer = repository.run(["rev-list", "-1", revision.commit, "--", path]).decode().strip()
    since = resolve(repository, writer).side(tag) if writer else None
    return PackageDocument(path, found.content, state.side, since)


def _tags_of(repository: Repository, revision: Revision) -> Mapping[str, str]:
    """Return the trees of the tags of `revision`; the folders of 2022, packages without a tag, are none."""
    return folders(repository, f"{revision.commit}:{CATALOGUE}")


def _states(
    before: Revision,
    after: Revision,
    had: Mapping[str, str],
    has: Mapping[str, str],
    wanted: Callable[[str], bool],
) -> Iterator[tuple[State, State]]:
    if before.tag or after.tag:
        tag_before, tag_after = before.tag or after.tag or "", after.tag or before.tag or ""
        yield _named(before, tag_before, had), _named(after, tag_after, has)
        return
    for tag in filter(wanted, tags.in_order(had.keys() | has.keys())):
        if tag in has and tag not in had and (earlier := tags.predecessor(tag, has)):
            # A new snapshot is news against the one before it, not against nothing.
            yield State(after, earlier, has[earlier]), State(after, tag, has[tag])
        else:
            yield State(before, tag, had.get(tag)), State(after, tag, has.get(tag))


def _named(revision: Revision, tag: str, trees: Mapping[str, str]) -> State:
    if tag not in trees:
        near = ", ".join(tags.in_order(trees)[:5]) or "none at all"
        raise UnknownRevision(f"{revision.name!r} has no tag {tag!r}; it has {near}, ...")
    return State(revision, tag, trees[tag])


def _compare_states(
    repository: Repository,
    old: State,
    new: State,
    had: Mapping[str, str],
    has: Mapping[str, str],
    wanted: Wanted,
) -> TagPair:
    found = differing_documents(repository, f"{CATALOGUE}/{new.tag}", old.tree, new.tree, wanted=wanted)
    return TagPair(
        before=old.side,
        after=new.side,
        documents=found.documents,
        packages_before=found.packages_before,
        packages_after=found.packages_after,
        packages_added=found.packages_added,
        packages_removed=found.packages_removed,
        faults=found.faults,
        is_new_tag=new.tag not in had and new.tree is not None,
        is_lost_tag=old.tag not in has and old.tree is not None,
    )


def _stacks_of(repository: Repository, revision: Revision) -> Mapping[str, frozenset[str]]:
    found = repository.objects().get(f"{revision.commit}:{TAGS_FILE}")
    return read_tags_file(found.content) if found else {}
