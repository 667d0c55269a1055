"""Follow documents through their revisions, one document at a time."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from cachewatch.core import tag_names
from cachewatch.core.compare import compare
from cachewatch.core.model import DiagnosticKind, Document, PackageChange, Signature
from cachewatch.core.tag_pairs import Blob, Reader
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import TOO_LARGE, parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError, NotComparableDocument
from cachewatch.git.document_history import FileHistories, FileHistory
from cachewatch.history.sightings import Parts, Revisions, Sightings
from cachewatch.history.values import NO_STACK, Build, Copies, PackageHistory, Present, Step, TagHistory
from cachewatch.runtime.parallel import in_processes

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
