"""Read one document version by version: when each spec was added and removed, and what each version changed.

Specs are counted by the laws of the comparison (docs/laws.md). Tasks and results pass between processes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from cachewatch.core.comparison.kept_and_reused_hashes import not_written, reused_hashes
from cachewatch.core.comparison.matching_and_verdicts import BySignature
from cachewatch.core.comparison.package_changes import compare
from cachewatch.core.kinds_and_specs import NO_HASH, CompilerForm, Document, MatchKind, Signature, Specs, facts_of
from cachewatch.core.versions_spellings_targets import version_identity
from cachewatch.documents.front_matter_and_limits import brief
from cachewatch.documents.parsing_and_diagnostics import TOO_LARGE, parse
from cachewatch.documents.records import KnownRecords
from cachewatch.errors import DocumentError
from cachewatch.extensions.history.document_versions import Version
from cachewatch.extensions.history.schema_and_location import pack, unpack

BySpec = Mapping[str, Signature]
Side = tuple[BySpec, CompilerForm]  # the specs of a document, and its spelling of compilers
# How many specs of each set of stacks one revision added, removed and rebuilt; () is no stack.
Tallies = Mapping[tuple[str, ...], Sequence[int]]
VersionContents = Iterator[bytes | None]  # of each version; None if it is too large to be a document


class Interval(Struct, frozen=True):
    """Specs that differ only in their hashes, and the revisions that added and removed them."""

    signature: Signature
    first: int
    last: int | None  # None while they are there
    hashes: bytes | str
    id: int | None = None  # of its row, if it has one


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
    is_unread: bool = False  # no version of it was readable so far: the first that is will be a baseline
    intervals: tuple[Interval, ...] = ()  # whose specs are still there

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
    is_compiler_unknown: bool  # see law 1 in docs/laws.md
    is_there: bool  # whether there is a document afterwards


class IndexedDocument(Struct):
    """Everything that the new versions of a document add to the index."""

    document: KnownDocument | None  # None if no version was ever readable
    intervals: list[Interval] = []  # those of `task.intervals` in their new state, and all new ones
    steps: list[StepCounts] = []
    tallies: list[tuple[int, Tallies]] = []  # by revision
    diagnostics: list[tuple[int, str]] = []


class VersionDifference(Struct, frozen=True):
    """Specs that a version removed, added, or kept with another signature; a reused hash is removed and added."""

    removed: BySpec
    added: BySpec
    changed: Mapping[str, tuple[Signature, Signature]]  # in other stacks, or written differently

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.changed)


def difference(before: BySpec, after: BySpec, *, is_compiler_unknown: bool) -> VersionDifference:
    """Return the difference between the specs of two versions of a document."""
    kept = before.keys() & after.keys()
    # Documents that are read together share their signatures, so most are one object.
    differing = [one for one in kept if before[one] is not after[one] and before[one] != after[one]]
    if differing:
        values = set(before.values()), set(after.values())
        unwritten = not_written(*values, is_compiler_unknown=is_compiler_unknown)
        kept -= reused_hashes(before, after, differing, unwritten)
    return VersionDifference(
        {one: signature for one, signature in before.items() if one not in kept},
        {one: signature for one, signature in after.items() if one not in kept},
        {one: (before[one], after[one]) for one in differing if one in kept},
    )


def count_step(
    package: str, version: Version, differing: VersionDifference, sides: tuple[Side, Side], is_compiler_unknown: bool
) -> tuple[StepCounts, Tallies]:
    """Return how many specs a version added, removed and rebuilt, in all and by set of stacks."""
    gone, new = Counter(differing.removed.values()), Counter(differing.added.values())
    versions = {version for signature in (*gone, *new) for version in signature.versions}
    # Some may be equal for Spack but spelled differently (1.2 and 1-2).
    if is_compiler_unknown or len({version_identity(version) for version in versions}) < len(versions):
        change = compare(package, *(document_of(package, *side) for side in sides))
        rebuilt = Counter[Signature]()
        for match in change.matches if change else ():
            if match.kind is MatchKind.REBUILT:
                rebuilt[match.before] += match.count
    else:
        rebuilt = gone & new
    counts = len(differing.added), len(differing.removed), sum(rebuilt.values())
    step = StepCounts(version.revision, *counts, is_compiler_unknown, is_there=version.blob is not None)
    return step, _tallies(differing, gone, new, rebuilt)


def document_of(package: str, specs: BySpec, form: CompilerForm = CompilerForm.NEW) -> Document:
    """Return a document with these specs, whose compilers are in the spelling `form`."""
    held = Specs.of(specs)
    return Document(
        package=package,
        tag="",
        specs=held,
        facts=facts_of(held.counts),
        compiler_form=form,
        has_hashes=not any(one.startswith(NO_HASH) for one in specs),
    )


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
    """The state of one document, of `task`, while its versions are read."""

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
            problem = version.problem or self._take(version, contents)
            if problem:
                self._found.diagnostics.append((version.revision, brief(problem)))
                self._is_unread = self._is_unread or self._found.document is None
        for one, signature in self._specs.items():
            self._ended[signature, self._first[one], None].append(one)
        self._found.intervals = [Interval(*place, pack(hashes)) for place, hashes in self._ended.items()]
        return self._found

    def _take(self, version: Version, contents: VersionContents) -> str:
        """Read one version; if it is unreadable, return the reason and change nothing."""
        specs, form = {}, CompilerForm.NEW
        if version.blob is not None:
            content = next(contents)
            if content is None:
                return TOO_LARGE
            try:
                document = parse(content, self._task.package, self._known)
            except DocumentError as error:
                return str(error)
            specs, form = dict(document.specs.items()), document.compiler_form
        self._note(version, specs, form)
        return ""

    def _note(self, version: Version, specs: dict[str, Signature], form: CompilerForm) -> None:
        """Record the changes by a readable version, or by the removal of the document."""
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
        for spec_hash, signature in differing.removed.items():
            self._ended[signature, self._first.pop(spec_hash), version.revision].append(spec_hash)
        for spec_hash, (signature, _) in differing.changed.items():
            self._ended[signature, self._first[spec_hash], version.revision].append(spec_hash)
            self._first[spec_hash] = version.revision
        self._first.update(dict.fromkeys(differing.added, version.revision))
        self._specs, self._form = specs, form
        baseline = known.baseline if known else version.revision if is_baseline else None
        self._found.document = KnownDocument(version.blob, version.revision, baseline, form)
        self._is_unread = False
