"""What became of every package, revision by revision: the past that a site tells.

Each document is followed through all revisions by itself: deltas of one path lie together in git, two neighbours at
a time are in memory, and a document that did not change is never read. Of a package only changes are kept, so that
years of it stay small; when versions came to stacks, and sums over all packages, are counted from these.
Statements are about a whole tag, so what each document showed is kept, small (`Sightings`), until all were followed.
"""

import hashlib
import pickle
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names as tag_names
from cachewatch.core.changesets import Blob, Reader, Tally
from cachewatch.core.items import items_of
from cachewatch.core.model import DiagnosticKind, Document, PackageChange, PackageCounts, Side, Signature
from cachewatch.core.package_changes import compare
from cachewatch.core.statements import statements_of
from cachewatch.core.versions import VersionKey, version_identity
from cachewatch.core.whole_tag import Survey, SurveyResult, judge
from cachewatch.documents.frontmatter import MAX_BYTES
from cachewatch.documents.parsing import TOO_LARGE, parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError, NotComparableDocument
from cachewatch.extensions.site.trails import FileHistories, FileHistory, FileVersion
from cachewatch.report.values import Report
from cachewatch.runtime.parallel import in_processes

# The stack of specs that no stack builds any more.
NO_STACK = ""


class Copies(Struct, frozen=True, array_like=True):
    """So many specs of one version in one stack for one target."""

    version: str
    stack: str
    target: str
    count: int


class Build(Struct, frozen=True, array_like=True):
    """Specs that differ in nothing but their hash."""

    version: str
    compiler: str
    os: str
    target: str
    variants: tuple[str, ...]
    stacks: tuple[str, ...]
    hashes: tuple[str, ...]  # sorted


class Present(Struct, frozen=True, array_like=True):
    """What one document says, in numbers."""

    specs: int = 0
    copies: tuple[Copies, ...] = ()
    compilers: tuple[str, ...] = ()
    oses: tuple[str, ...] = ()
    unreferenced: int = 0
    identity: str = ""  # the same for the same hashes
    builds: tuple[Build, ...] = ()  # of the tag whose past is told

    @property
    def versions(self) -> frozenset[str]:
        """All versions that there are."""
        return frozenset(copies.version for copies in self.copies)

    @property
    def stacks(self) -> frozenset[str]:
        """All stacks that build any."""
        return frozenset(copies.stack for copies in self.copies if copies.stack)

    @property
    def targets(self) -> frozenset[str]:
        """All targets that there is any for."""
        return frozenset(copies.target for copies in self.copies)


class Step(Struct, frozen=True, array_like=True):
    """What one revision changed of one package."""

    revision: int
    specs: int  # afterwards
    counts: Mapping[str, int]  # of SpecCounts, but for those that are 0
    stacks: Mapping[str, int]  # how many specs more (or fewer) each stack has
    came: tuple[tuple[str, str], ...] = ()  # (stack, version) that there was none of before
    went: tuple[tuple[str, str], ...] = ()
    is_gone: bool = False  # the document was removed
    # The first version that could be read, of which nobody knows when its contents came.
    is_baseline: bool = False


class PackageHistory(Struct, frozen=True, kw_only=True):
    """One package of one tag: what every revision changed, and what there is now."""

    package: str
    # What was read: the number of each revision that changed the document, and its object id.
    trail: tuple[tuple[int, str], ...]
    steps: tuple[Step, ...]
    present: Present
    diagnostics: tuple[tuple[str, str], ...] = ()  # kind and message

    @property
    def is_there(self) -> bool:
        """Whether the newest revision still has the document."""
        return bool(self.steps) and not self.steps[-1].is_gone


class TagHistory(Struct, frozen=True, kw_only=True):
    """All packages of one tag through a history."""

    tag: str
    revisions: tuple[tuple[str, datetime | None], ...]  # commit and time, the oldest first
    packages: tuple[PackageHistory, ...]


_DAY = 86400.0


class Interval(Struct, frozen=True):
    """One version in one stack, from the revision that brought it to the one that took it."""

    stack: str
    version: str
    first: int
    last: int | None  # None as long as it is there
    is_dated: bool = True  # its arrival was seen, rather than that it was there from the beginning


class Lag(Struct, frozen=True):
    """How many days a version reached a stack after the first stack that had it."""

    package: str
    version: str
    stack: str
    revision: int
    days: float


def intervals_of(history: PackageHistory) -> list[Interval]:
    """Return every stay of every version, as it came."""
    ended: list[Interval] = []
    # By Spack's order of versions: the document may write 1-2 now and 1.2 later.
    begun: dict[tuple[str, VersionKey], Interval] = {}
    for step in history.steps:
        for stack, version in step.came:
            arrived = Interval(stack, version, step.revision, None, is_dated=not step.is_baseline)
            begun[stack, version_identity(version)] = arrived
        for stack, version in step.went:
            ended.append(replace(begun.pop((stack, version_identity(version))), last=step.revision))
    return sorted([*ended, *begun.values()], key=_in_time)


def lags_of(past: TagHistory) -> Iterator[Lag]:
    """Yield the lag of each arrival in a stack that had the package when the version first came anywhere.

    Versions that were there from the beginning say nothing, and a stack that takes up a package
    late is not late with its versions.
    """
    times = [time for _, time in past.revisions]
    for history in past.packages:
        yield from _lags(history, times)


def _lags(history: PackageHistory, times: Sequence[datetime | None]) -> Iterator[Lag]:
    stays = intervals_of(history)
    first: dict[VersionKey, Interval] = {}
    for stay in stays:
        first.setdefault(version_identity(stay.version), stay)
    seen = set()
    for stay in stays:
        version = version_identity(stay.version)
        start = first[version].first
        began, came = times[start], times[stay.first]
        is_known = first[version].is_dated and (stay.stack, version) not in seen
        if not is_known or began is None or came is None:
            continue
        seen.add((stay.stack, version))
        if any(other.stack == stay.stack and _had(other, start) for other in stays):
            days = max(0.0, (came - began).total_seconds() / _DAY)
            yield Lag(history.package, stay.version, stay.stack, stay.first, days)


def _had(stay: Interval, start: int) -> bool:
    """Tell whether this was there when something came in revision `start`, or was replaced by it."""
    return stay.first < start and (stay.last is None or stay.last >= start)


def _in_time(stay: Interval) -> tuple[int, str, str]:
    return (stay.first, stay.stack, stay.version)


def lost_by(history: PackageHistory) -> Mapping[str, int]:
    """Return the stacks that had the package and have it no more, with the revision that took it."""
    found = {stack: step.revision for step in history.steps for stack, _ in step.went if stack}
    return {stack: revision for stack, revision in found.items() if stack not in history.present.stacks}


class Totals(Struct, frozen=True, kw_only=True):
    """What a tag held after each revision, and what each changed; lists are by revision."""

    specs: list[int]
    packages: list[int]  # that have a document
    changed: list[int]  # packages that something happened to
    stacks: Mapping[str, list[int]]  # specs of each stack
    unreferenced: list[int]
    churn: Mapping[str, list[int]]  # specs by what became of them; nothing in the first revision


def totals_of(past: TagHistory) -> Totals:
    """Count what `past` tells."""
    count = len(past.revisions)
    specs, packages, changed = ([0] * count for _ in range(3))
    stacks: dict[str, list[int]] = {NO_STACK: [0] * count}
    churn: dict[str, list[int]] = {}
    for history in past.packages:
        before, was_there = 0, False
        for step in history.steps:
            specs[step.revision] += step.specs - before
            packages[step.revision] += (not step.is_gone) - was_there
            before, was_there = step.specs, not step.is_gone
            for stack, gained in step.stacks.items():
                stacks.setdefault(stack, [0] * count)[step.revision] += gained
            if not step.is_baseline:
                changed[step.revision] += 1
                for kind, number in step.counts.items():
                    churn.setdefault(kind, [0] * count)[step.revision] += number
    return Totals(
        specs=_summed(specs),
        packages=_summed(packages),
        changed=changed,
        stacks={stack: _summed(gains) for stack, gains in stacks.items() if stack != NO_STACK},
        unreferenced=_summed(stacks[NO_STACK]),
        churn=churn,
    )


def _summed(gains: list[int]) -> list[int]:
    total = 0
    return [total := total + gain for gain in gains]


Parts = Mapping[int, bytes]


class Sightings:
    """What some documents showed, by revision; only of revisions from `first` on."""

    def __init__(self, first: int = 1) -> None:
        """Begin with nothing."""
        self._first = first
        self._tallies: defaultdict[int, Tally] = defaultdict(Tally)

    def note(self, revision: int, change: PackageChange | None, after: Document | None) -> None:
        """Note what `revision` changed of one document; of some, nothing but the form changed."""
        if revision < self._first:
            return
        tally = self._tallies[revision]
        if change is not None:
            tally.observe(change, items_of(change))
            tally.note(change)
            tally.add(change)
        elif after is not None:
            tally.witness(after)

    def packed(self) -> Parts:
        """Return all that was noted, in few bytes."""
        return {revision: zlib.compress(pickle.dumps(tally, 5), 1) for revision, tally in self._tallies.items()}


class Revisions:
    """What all documents showed, by revision."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: defaultdict[int, list[bytes]] = defaultdict(list)

    def add(self, parts: Parts) -> None:
        """Take what some documents showed."""
        for revision, part in parts.items():
            self._parts[revision].append(part)

    def tally(self, revision: int) -> Tally:
        """Return what `revision` changed of all documents, and forget it."""
        found = Tally()
        for part in self._parts.pop(revision, ()):
            found.join(pickle.loads(zlib.decompress(part)))  # noqa: S301  this program made it
        return found


_RUN_BYTES = 2**20
_WORTH_TWO_PROCESSES = 4 * 2**20

Progress = Callable[[int], None]
Item = TypeVar("Item")


class _Task(Struct, frozen=True):
    """One trail, and as much of its history as is known from before."""

    trail: FileHistory
    known: PackageHistory | None

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.blobs)

    @property
    def blobs(self) -> list[Blob]:
        """What has to be read, in order: where it was left, and everything after."""
        done = len(self.known.trail) if self.known else 0
        if done == len(self.trail.steps):
            return []
        last = [blob for _, blob in self.trail.steps[:done] if blob][-1:]
        later = [blob for _, blob in self.trail.steps[done:] if blob]
        # What comes back as it was is read once.
        once = {blob.name: blob for blob in last + later if blob.size <= MAX_BYTES}
        return list(once.values())


def walk(
    trails: FileHistories,
    known: TagHistory | None = None,
    *,
    jobs: int = 1,
    progress: Progress = lambda _: None,
    seen: Revisions | None = None,
) -> TagHistory:
    """Tell the history of every document of `trails`; what `known` tells of it is not read again.

    `seen` is told what each revision showed that `known` does not have.
    """
    revisions = _revisions(trails)
    tasks = _tasks(trails, known)
    is_pruned = tag_names.is_mutable(trails.tag)

    first = len(known.revisions) if known and _is_beginning(known, trails.tag, revisions) else 1

    def make_work() -> Callable[[Sequence[_Task]], tuple[list[PackageHistory], Parts]]:
        reader = trails.reader.again() if enough > 1 else trails.reader

        def work(run: Sequence[_Task]) -> tuple[list[PackageHistory], Parts]:
            own = None if seen is None else Sightings(first)
            found = [_tell(task, contents, own, is_pruned=is_pruned) for task, contents in _read(run, reader)]
            return found, own.packed() if own else {}

        return work

    enough = jobs if sum(task.size for task in tasks) >= _WORTH_TWO_PROCESSES else 1
    runs = list(_runs(tasks, lambda task: task.size))
    packages: list[PackageHistory] = []
    for run, (found, parts) in zip(runs, in_processes(make_work, runs, enough), strict=True):
        progress(sum(task.size for task in run))
        packages += found
        if seen is not None:
            seen.add(parts)
    return TagHistory(tag=trails.tag, revisions=revisions, packages=tuple(packages))


def size_to_read(trails: FileHistories, known: TagHistory | None) -> int:
    """Return how many bytes `walk` will read."""
    return sum(task.size for task in _tasks(trails, known))


def read_tag(
    blobs: Mapping[str, Blob],
    reader: Reader,
    known: Mapping[str, Present],
    *,
    jobs: int = 1,
    progress: Progress = lambda _: None,
) -> Iterator[tuple[str, Present | str]]:
    """Yield what the document of each package says, or why it says nothing; `known` is by object id."""

    def make_work() -> Callable[[Sequence[tuple[str, Blob]]], list[tuple[str, Present | str]]]:
        own = reader.again() if enough > 1 else reader
        return lambda run: [
            (package, _present_or_diagnostic(content, blob))
            for (package, blob), content in zip(run, own.read(blob for _, blob in run), strict=True)
        ]

    wanted = [(p, b) for p, b in blobs.items() if b.name not in known and b.size <= MAX_BYTES]
    enough = jobs if sum(blob.size for _, blob in wanted) >= _WORTH_TWO_PROCESSES else 1
    runs = list(_runs(wanted, lambda item: item[1].size))
    for run, found in zip(runs, in_processes(make_work, runs, enough), strict=True):
        progress(sum(blob.size for _, blob in run))
        yield from found
    for package, blob in blobs.items():
        if blob.name in known:
            yield package, known[blob.name]
        elif blob.size > MAX_BYTES:
            yield package, TOO_LARGE


def _revisions(trails: FileHistories) -> tuple[tuple[str, datetime | None], ...]:
    return tuple((moment.commit, moment.time) for moment in trails.revisions)


def _tasks(trails: FileHistories, known: TagHistory | None) -> list[_Task]:
    by_package = _usable(known, trails.tag, _revisions(trails))
    return [_Task(trail, _prefix(by_package.get(trail.package), trail)) for trail in trails.trails]


def _usable(known: TagHistory | None, tag: str, revisions: Sequence[object]) -> Mapping[str, PackageHistory]:
    """Return what `known` tells by package, unless it is of another history."""
    if known is None or not _is_beginning(known, tag, revisions):
        return {}
    return {history.package: history for history in known.packages}


def _is_beginning(known: TagHistory, tag: str, revisions: Sequence[object]) -> bool:
    return known.tag == tag and known.revisions == tuple(revisions[: len(known.revisions)])


def _prefix(known: PackageHistory | None, trail: FileHistory) -> PackageHistory | None:
    steps = tuple((number, blob.name if blob else "") for number, blob in trail.steps)
    # After a version that could not be read, it takes the one before to go on.
    is_usable = known is not None and not known.diagnostics and known.trail == steps[: len(known.trail)]
    return known if is_usable else None


def _read(run: Sequence[_Task], reader: Reader) -> Iterator[tuple[_Task, Iterator[bytes | str]]]:
    contents = iter(reader.read([blob for task in run for blob in task.blobs]))
    for task in run:
        yield task, contents


def _tell(
    task: _Task, contents: Iterator[bytes | str], seen: Sightings | None = None, *, is_pruned: bool
) -> PackageHistory:
    """Compare each version of a document with the one before."""
    done = len(task.known.trail) if task.known else 0
    steps = list(task.known.steps) if task.known else []
    diagnostics = list(task.known.diagnostics) if task.known else []
    if task.known and done == len(task.trail.steps):
        return task.known
    documents = _Documents(task.trail, contents)
    before = _resume(task, done, documents)
    is_baseline = not steps and task.trail.steps[0][0] == 0
    for number, blob in task.trail.steps[done:]:
        after = documents.get(blob) if blob else None
        if isinstance(after, tuple):
            diagnostics.append(after)
            is_baseline = is_baseline or not steps
            continue
        change = compare(task.trail.package, before, after, is_pruned=is_pruned)
        if change is not None:
            steps.append(_step(number, change, is_gone=after is None, is_baseline=is_baseline))
        if seen is not None and not is_baseline:
            seen.note(number, change, after)
        before, is_baseline = after, False
    return PackageHistory(
        package=task.trail.package,
        trail=tuple((number, blob.name if blob else "") for number, blob in task.trail.steps),
        steps=tuple(steps),
        present=present_of(before, has_builds=True),
        diagnostics=tuple(diagnostics),
    )


class _Documents:
    """The documents of one trail, in order; only those that come back are kept."""

    def __init__(self, trail: FileHistory, contents: Iterator[bytes | str]) -> None:
        often = Counter(blob.name for _, blob in trail.steps if blob)
        self._kept: dict[str, Document | tuple[str, str] | None] = {n: None for n, count in often.items() if count > 1}
        self._contents = contents
        self._texts = Known()

    def get(self, blob: Blob) -> Document | tuple[str, str]:
        """Return what `blob` holds, or what is wrong with it."""
        kept = self._kept.get(blob.name)
        if kept is not None:
            return kept
        found = _parse(blob, next(self._contents) if blob.size <= MAX_BYTES else TOO_LARGE, self._texts)
        if blob.name in self._kept:
            self._kept[blob.name] = found
        return found


def _resume(task: _Task, done: int, documents: _Documents) -> Document | None:
    """Return the last document that is known to have been read."""
    last = [blob for _, blob in task.trail.steps[:done] if blob][-1:]
    found = documents.get(last[0]) if last else None
    is_removed = done > 0 and task.trail.steps[done - 1][1] is None
    return None if is_removed or isinstance(found, tuple) else found


def _parse(blob: Blob, content: bytes | str, texts: Known) -> Document | tuple[str, str]:
    if isinstance(content, str):
        return DiagnosticKind.UNREADABLE.value, content
    try:
        return parse(content, blob.path, texts)
    except NotComparableDocument as error:
        return DiagnosticKind.NOT_COMPARABLE.value, str(error)
    except DocumentError as error:
        return DiagnosticKind.UNREADABLE.value, str(error)


def _step(number: int, change: PackageChange, *, is_gone: bool, is_baseline: bool) -> Step:
    old, new = (
        {(stack, version) for s in side.counts for stack in s.stacks for version in s.versions}
        for side in (change.specs_before, change.specs_after)
    )
    return Step(
        revision=number,
        specs=change.counts.after,
        counts={} if is_baseline else {name: n for name in _COUNTED if (n := getattr(change.counts, name))},
        stacks=_differences(change),
        came=tuple(sorted(new - old)),
        went=tuple(sorted(old - new)),
        is_gone=is_gone,
        is_baseline=is_baseline,
    )


_COUNTED = ("rebuilt", "moved", "upgraded", "downgraded", "recompiled", "reconfigured", "new", "gone")


def _differences(change: PackageChange) -> Mapping[str, int]:
    """Count how many specs each stack gained; NO_STACK has those that no stack builds."""
    gained: Counter[str] = Counter()
    for side, sign in ((change.came, 1), (change.went, -1)):
        for signature, count in side.counts.items():
            for stack in signature.stacks or (NO_STACK,):
                gained[stack] += sign * count
    for kept in change.restacked:
        gained.update(kept.after.stacks or (NO_STACK,))
        gained.subtract(kept.before.stacks or (NO_STACK,))
    return {stack: count for stack, count in gained.items() if count}


def _present_or_diagnostic(content: bytes | str, blob: Blob) -> Present | str:
    found = _parse(blob, content, Known())
    return found[1] if isinstance(found, tuple) else present_of(found)


def present_of(document: Document | None, *, has_builds: bool = False) -> Present:
    """Return what a document says, in numbers; `has_builds` also lists every spec."""
    if document is None:
        return Present()
    copies: Counter[tuple[str, str, str]] = Counter()
    unreferenced = 0
    for signature, count in Counter(document.specs.values()).items():
        unreferenced += count if signature.is_unreferenced else 0
        for version in signature.versions:
            for stack in signature.stacks or (NO_STACK,):
                copies[version, stack, signature.target] += count
    return Present(
        specs=len(document.specs),
        copies=tuple(Copies(*place, count) for place, count in sorted(copies.items())),
        compilers=tuple(sorted(document.facts["compilers"])),
        oses=tuple(sorted(document.facts["oses"])),
        unreferenced=unreferenced,
        identity=hashlib.sha256("\0".join(sorted(document.specs.hashes)).encode()).hexdigest()[:16],
        builds=tuple(_builds(document)) if has_builds else (),
    )


def _builds(document: Document) -> Iterator[Build]:
    """Yield the specs that are alike together, with their hashes."""
    hashes: defaultdict[Signature, list[str]] = defaultdict(list)
    for spec_hash, signature in document.specs.items():
        hashes[signature].append(spec_hash)
    for signature in sorted(hashes):
        yield Build(
            version=", ".join(signature.versions),
            compiler=signature.compiler,
            os=signature.os,
            target=signature.target,
            variants=signature.variants,
            stacks=signature.stacks,
            hashes=tuple(sorted(hashes[signature])),
        )


def _runs(items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[Sequence[Item]]:
    """Cut `items` into runs of about as many bytes."""
    start, total = 0, 0
    for number, item in enumerate(items):
        total += size(item)
        if total >= _RUN_BYTES:
            yield items[start : number + 1]
            start, total = number + 1, 0
    if start < len(items):
        yield items[start:]


# What stacks a revision says that its tags have, by tag.
Declared = Callable[[FileVersion], Mapping[str, frozenset[str]]]


def reports_of(trails: FileHistories, seen: Revisions, declared: Declared, *, first: int = 1) -> Iterator[Report]:
    """Yield a report on each revision from number `first` on; the oldest has nothing before it."""
    counts = _package_counts(trails)
    for number in range(max(1, first), len(trails.revisions)):
        yield _report(trails, number, seen.tally(number), counts[number], declared)


def _report(trails: FileHistories, number: int, tally: Tally, packages: PackageCounts, declared: Declared) -> Report:
    before, after = trails.revisions[number - 1], trails.revisions[number]
    lost, gained = tally.seen.moved_stacks()
    had, has = (declared(before), declared(after)) if lost or gained else ({}, {})
    judgement = judge(
        tally.seen,
        packages,
        whole=None,
        declared=(had.get(trails.tag), has.get(trails.tag)),
        survey=lambda: _survey(trails, number),
    )
    return Report(
        before=_side(before, trails.tag),
        after=_side(after, trails.tag),
        revisions_between=1,
        packages=packages,
        specs=tally.specs,
        events=(),
        diagnostics=(),
        statements=statements_of(tally.seen.items, judgement, trails.tag),
    )


def _side(revision: FileVersion, tag: str) -> Side:
    time = revision.time.isoformat().replace("+00:00", "Z") if revision.time else None
    return Side(name=revision.commit, revision=revision.commit, tag=tag, time=time)


def _package_counts(trails: FileHistories) -> list[PackageCounts]:
    added: Counter[int] = Counter()
    removed: Counter[int] = Counter()
    changed: Counter[int] = Counter()
    for trail in trails.trails:
        is_there = False
        for number, blob in trail.steps:
            side = changed if is_there and blob else added if blob else removed
            side[number] += 1
            is_there = blob is not None
    found, there = [], 0
    for number in range(len(trails.revisions)):
        before, there = there, there + added[number] - removed[number]
        found.append(
            PackageCounts(
                before=before, after=there, added=added[number], removed=removed[number], changed=changed[number]
            )
        )
    return found


def _survey(trails: FileHistories, number: int) -> SurveyResult:
    """Read the documents that revision `number` did not change."""
    blobs = [blob for blob in _unchanged(trails, number) if blob.size <= MAX_BYTES]
    found = Survey()
    for blob, content in zip(blobs, trails.reader.read(blobs), strict=True):
        if (document := _parsed(blob, content)) is not None:
            found.add(document)
    return found.found()


def _unchanged(trails: FileHistories, number: int) -> Iterable[Blob]:
    for trail in trails.trails:
        steps = [step for step in trail.steps if step[0] <= number]
        if steps and steps[-1][0] != number and steps[-1][1] is not None:
            yield steps[-1][1]


def _parsed(blob: Blob, content: bytes | str) -> Document | None:
    if isinstance(content, str):
        return None
    try:
        return parse(content, blob.path, Known())
    except DocumentError:
        return None


__all__ = [
    "NO_STACK",
    "Build",
    "Copies",
    "Interval",
    "Lag",
    "PackageHistory",
    "Present",
    "Revisions",
    "Step",
    "TagHistory",
    "Totals",
    "intervals_of",
    "lags_of",
    "lost_by",
    "read_tag",
    "reports_of",
    "totals_of",
    "walk",
]
