"""Find the versions of each document of a branch, and when its specs were added and removed.

Only trees of first parents are read, level by level. An entry that cannot be a document (a link, a submodule, a name
that occurs twice) is reported, and the next document is compared with the last one before it. Specs are counted by the
rules of the comparison (docs/laws.md). Tasks and results pass between processes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from cachewatch.core.comparison.kept_and_reused_hashes import not_written, reused_hashes
from cachewatch.core.comparison.matching_and_verdicts import BySignature
from cachewatch.core.comparison.package_changes import compare
from cachewatch.core.kinds_and_specs import NO_HASH, CompilerForm, Document, MatchKind, Signature, Specs, facts_of
from cachewatch.core.names_and_layouts import DOCUMENT, is_name
from cachewatch.core.versions_spellings_targets import version_identity
from cachewatch.documents.recognition_and_front_matter import brief
from cachewatch.documents.records_parsing_diagnostics import TOO_LARGE, KnownRecords, parse
from cachewatch.errors import DocumentError
from cachewatch.extensions.history.schema_and_location import pack, unpack
from cachewatch.git.local_repository import Repository
from cachewatch.git.trees import (
    REPLACED,
    TreeEntry,
    catalogue_of,
    catalogues_of,
    is_odd,
    listing,
    problem_of,
    stored_catalogue,
    tree_of_entry,
)

_LOOKED_BACK = 50  # number of revisions before the first one that are searched for documents that were overwritten

BySpec = Mapping[str, Signature]
Side = tuple[BySpec, CompilerForm]  # the specs of a document, and its spelling of compilers
# By set of stacks, where () is no stack: the numbers of specs that one revision added, removed and rebuilt.
Tallies = Mapping[tuple[str, ...], Sequence[int]]
VersionContents = Iterator[bytes | None]  # the content of each version; None if it is too large to be a document


class ChainRevision(NamedTuple):
    """One revision of the first-parent chain."""

    commit: str
    time: int | None  # of the committer, in seconds since 1970


class Version(NamedTuple):
    """One version of a document."""

    revision: int  # the number of the revision in the chain, from 0
    blob: str | None  # object id; None if the revision removed the document, or if there is a problem
    problem: str = ""  # why the entry is not a document; "" if it is one


class _Uncertain(Exception):
    """Earlier revisions are needed: the first that is read has a link instead of a folder, so the folder is unknown."""


def first_parents(repository: Repository, end: str = "HEAD") -> list[ChainRevision]:
    """Return the first-parent chain that ends with the revision `end`, oldest first."""
    printed = repository.run(["rev-list", "--first-parent", "--reverse", "--timestamp", end, "--"]).decode()
    pairs = (line.split(" ", 1) for line in printed.splitlines())
    # SQLite has 64 bits, and a forged commit may have more.
    times = ((commit, int(seconds) if seconds.isdigit() else 2**63) for seconds, commit in pairs)
    return [ChainRevision(commit, time if time < 2**63 else None) for commit, time in times]


def find_versions(
    repository: Repository, commits: Sequence[str], start: int = 0
) -> Mapping[tuple[str, str], tuple[Version, ...]]:
    """Return, by tag and package, the versions of documents that `commits` made, from index `start` on."""
    try:
        versions_of = _find(repository, commits, start)
    except _Uncertain:
        found = _find(repository, commits, 0).items()
        versions_of = {key: [one for one in versions if one.revision >= start] for key, versions in found}
    return {key: tuple(versions) for key, versions in sorted(versions_of.items()) if versions}


def _find(repository: Repository, commits: Sequence[str], start: int) -> Mapping[tuple[str, str], list[Version]]:
    by_document: defaultdict[tuple[str, str], list[Version]] = defaultdict(list)
    names = _FolderNames(start)
    for number, *catalogues in _trees(repository, commits, start):
        for tag, had_tag, has_tag in _changes(repository, *catalogues):
            trees = names.pair((tag,), had_tag, has_tag)
            for package, had, has in _changes(repository, *trees) if trees else ():
                folders = names.pair((tag, package), had, has)
                if folders is None:
                    by_document[tag, package].append(Version(number, None, REPLACED))
                    continue
                for name, _, entry in _changes(repository, *folders):
                    if name == DOCUMENT:
                        problem = problem_of(entry)
                        blob = None if problem or entry is None else entry[1]
                        by_document[tag, package].append(Version(number, blob, problem))
    return by_document


def _trees(repository: Repository, commits: Sequence[str], start: int) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield, for each revision from `start` on that changed the tree of all tags, its number and the old and new tree.

    If a file that is not a document takes the place of a document, that document counts as unreadable. It does so until
    a document is there again, or until the file is removed.
    """
    first = max(start - 1, 0)
    if commits[first:] and not stored_catalogue(repository, commits[first]):
        first = max(first - _LOOKED_BACK, 0)
    witnesses: list[str] = []  # revisions that had the last readable document where a file is none now
    previous: str | None = None
    for number, catalogue in enumerate(catalogues_of(repository, commits[first:]), first):
        others = dict.fromkeys((*witnesses, commits[max(number - 1, first)]))
        witnesses = [other for other in others if catalogue_of(repository, commits[number], [other]) != catalogue]
        tree = catalogue_of(repository, commits[number], witnesses)
        if number >= start and tree != previous:
            yield number, previous, tree
        previous = tree


class _FolderNames:
    """Remembers folders while links or the like replace them, to compare them with the folders that come back."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._before: dict[tuple[str, ...], str | None] = {}

    def pair(
        self, name: tuple[str, ...], before: TreeEntry | None, after: TreeEntry | None
    ) -> tuple[str | None, str | None] | None:
        """Return the trees in the entries `before` and `after` of the folder `name`; None if a link replaces it now."""
        if is_odd(before) and name not in self._before and self._start:
            raise _Uncertain
        tree = self._before.pop(name) if name in self._before else tree_of_entry(before)
        if is_odd(after):
            self._before[name] = tree
            return None
        return tree, tree_of_entry(after)


def _changes(
    repository: Repository, before: str | None, after: str | None
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    """Yield each name whose entry differs between the trees `before` and `after`, with both entries (None: missing)."""
    old, new = (listing(repository, tree) if tree else {} for tree in (before, after))
    for name in sorted(old.keys() | new.keys()):
        had, has = old.get(name), new.get(name)
        if (had or ())[:2] != (has or ())[:2] and is_name(name):
            yield name.decode(), had, has


class Interval(Struct, frozen=True):
    """Specs of a document that differ only in their hashes, and the revisions that added and removed them."""

    signature: Signature
    first: int  # number of the revision that added them
    last: int | None  # number of the revision that removed them; None while they are there
    hashes: bytes | str  # packed by `pack`
    id: int | None = None  # of its row in the table `interval`; None if it has none yet


class KnownDocument(Struct, frozen=True):
    """A row of the table `document`: the last readable version of a document."""

    blob: str | None
    revision: int
    baseline: int | None
    compiler_form: CompilerForm


class Task(Struct, frozen=True):
    """A document with new versions to read, and its state in the index."""

    tag: str
    package: str
    versions: tuple[Version, ...]
    known: KnownDocument | None = None
    is_unread: bool = False  # no version of it was readable so far, so the first readable one will be its baseline
    intervals: tuple[Interval, ...] = ()  # those whose specs are still there

    @property
    def name(self) -> str:
        """The name of the document in the table `unit`: TAG/PACKAGE."""
        return f"{self.tag}/{self.package}"


class StepCounts(Struct, frozen=True):
    """How many specs of a document one revision added, removed and rebuilt."""

    revision: int
    added: int
    removed: int
    rebuilt: int
    is_compiler_unknown: bool  # the documents before and after write compilers differently (rule 1 in docs/laws.md)
    is_there: bool  # whether there is a document afterwards


class IndexedDocument(Struct):
    """Everything that the new versions of a document add to the index."""

    document: KnownDocument | None  # None if no version was ever readable
    intervals: list[Interval] = []  # those of `task.intervals` in their new state, and all new ones
    steps: list[StepCounts] = []
    tallies: list[tuple[int, Tallies]] = []  # each with the number of its revision
    diagnostics: list[tuple[int, str]] = []  # numbers of revisions, and why their versions are unreadable


class VersionDifference(Struct, frozen=True):
    """Specs that a version removed, added (both if a hash names another spec now), or kept with another signature."""

    removed: BySpec
    added: BySpec
    changed: Mapping[str, tuple[Signature, Signature]]  # before and after: other stacks, or written differently

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.changed)


def difference(before: BySpec, after: BySpec, *, is_compiler_unknown: bool) -> VersionDifference:
    """Return how the specs of two versions differ. `is_compiler_unknown`: they write compilers in different forms."""
    kept = before.keys() & after.keys()
    # Documents that are read together share their signatures, so most are one object.
    differing = [one for one in kept if before[one] is not after[one] and before[one] != after[one]]
    if differing:
        sides = set(before.values()), set(after.values())
        kept -= reused_hashes(before, after, differing, not_written(*sides, is_compiler_unknown=is_compiler_unknown))
    removed, added = ({h: s for h, s in side.items() if h not in kept} for side in (before, after))
    return VersionDifference(removed, added, {h: (before[h], after[h]) for h in differing if h in kept})


def count_step(
    package: str, version: Version, differing: VersionDifference, sides: tuple[Side, Side], is_compiler_unknown: bool
) -> tuple[StepCounts, Tallies]:
    """Return how many specs `version` added, removed and rebuilt, and the same numbers by set of stacks.

    `differing` is what this version changed; `sides` are the documents before and after it. `is_compiler_unknown` tells
    whether these two write compilers in different forms.
    """
    gone, new = Counter(differing.removed.values()), Counter(differing.added.values())
    rebuilt = gone & new
    versions = {version for signature in (*gone, *new) for version in signature.versions}
    # Some may be equal for Spack but spelled differently (1.2 and 1-2).
    if is_compiler_unknown or len(set(map(version_identity, versions))) < len(versions):
        change = compare(package, *(document_of(package, *side) for side in sides))
        rebuilt = Counter()
        for match in change.matches if change else ():
            if match.kind is MatchKind.REBUILT:
                rebuilt[match.before] += match.count
    counts = len(differing.added), len(differing.removed), sum(rebuilt.values())
    step = StepCounts(version.revision, *counts, is_compiler_unknown, is_there=version.blob is not None)
    return step, _tallies(differing, gone, new, rebuilt)


def document_of(package: str, specs: BySpec, form: CompilerForm = CompilerForm.NEW) -> Document:
    """Return a document of `package` with `specs` (signatures by hash) that writes compilers in the form `form`."""
    held, has_hashes = Specs.of(specs), not any(one.startswith(NO_HASH) for one in specs)
    facts = facts_of(held.counts)
    return Document(package=package, tag="", specs=held, facts=facts, compiler_form=form, has_hashes=has_hashes)


def _tallies(differing: VersionDifference, gone: BySignature, new: BySignature, rebuilt: BySignature) -> Tallies:
    by_stacks: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for place, counts in enumerate((new, gone, rebuilt)):
        for signature, count in counts.items():
            by_stacks[signature.stacks][place] += count
    for before, after in differing.changed.values():
        for place, (some, others) in enumerate(((after.stacks, before.stacks), (before.stacks, after.stacks))):
            joined = tuple(stack for stack in some if stack not in others)
            if joined or (not some and others):
                by_stacks[joined][place] += 1
    return dict(sorted(by_stacks.items()))


class Follower:
    """Reads the versions of one document, and collects what they add to the index."""

    def __init__(self, task: Task, known: KnownRecords) -> None:
        self._task = task
        self._known = known
        self._specs = {one: row.signature for row in task.intervals for one in unpack(row.hashes)}
        self._form = task.known.compiler_form if task.known else CompilerForm.NEW
        self._first = {one: row.first for row in task.intervals for one in unpack(row.hashes)}
        self._ended: defaultdict[tuple[Signature, int, int | None], list[str]] = defaultdict(list)
        self._is_unread = task.is_unread
        self._found = IndexedDocument(task.known)

    def run(self, contents: VersionContents) -> IndexedDocument:
        """Read all versions of the document from `contents`, in order, and return what they add to the index."""
        for version in self._task.versions:
            if problem := version.problem or self._take(version, contents):
                self._found.diagnostics.append((version.revision, brief(problem)))
                self._is_unread = self._is_unread or self._found.document is None
        for one, signature in self._specs.items():
            self._ended[signature, self._first[one], None].append(one)
        self._found.intervals = [Interval(*place, pack(hashes)) for place, hashes in self._ended.items()]
        return self._found

    def _take(self, version: Version, contents: VersionContents) -> str:
        """Read `version` from `contents`; return "", or the reason if it is unreadable, and then change nothing."""
        specs, form = {}, CompilerForm.NEW
        if version.blob is not None:
            if (content := next(contents)) is None:
                return TOO_LARGE
            try:
                document = parse(content, self._task.package, self._known)
            except DocumentError as error:
                return str(error)
            specs, form = dict(document.specs.items()), document.compiler_form
        self._note(version, specs, form)
        return ""

    def _note(self, version: Version, specs: dict[str, Signature], form: CompilerForm) -> None:
        """Record what `version` (readable, or a removal) changed; `specs` and `form` are those of the document now."""
        known = self._found.document
        is_there, was_there = version.blob is not None, known is not None and known.blob is not None
        is_baseline = is_there and (self._is_unread or version.revision == 0)
        is_compiler_unknown = was_there and is_there and self._form is not form
        differing = difference(self._specs, specs, is_compiler_unknown=is_compiler_unknown)
        if (differing or is_there != was_there) and not is_baseline:
            sides = (self._specs, self._form), (specs, form)
            step, tallies = count_step(self._task.package, version, differing, sides, is_compiler_unknown)
            if step.added or step.removed or is_compiler_unknown or is_there != was_there:
                self._found.steps.append(step)
            self._found.tallies.append((version.revision, tallies))
        for spec_hash in (*differing.removed, *differing.changed):
            self._ended[self._specs[spec_hash], self._first.pop(spec_hash), version.revision].append(spec_hash)
        self._first |= dict.fromkeys((*differing.added, *differing.changed), version.revision)
        self._specs, self._form = specs, form
        baseline = known.baseline if known else version.revision if is_baseline else None
        self._found.document = KnownDocument(version.blob, version.revision, baseline, form)
        self._is_unread = False
