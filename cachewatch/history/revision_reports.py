"""What each revision did to the whole tag, in the statements of every other report."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from cachewatch.core.changeset_totals import Tally
from cachewatch.core.model import Document, PackageCounts, Side
from cachewatch.core.statements import judge, statements_of
from cachewatch.core.statements.whole_tag_changes import Survey, SurveyResult
from cachewatch.core.tag_pairs import Blob
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known
from cachewatch.errors import DocumentError
from cachewatch.git.document_history import FileHistories, FileVersion
from cachewatch.history.sightings import Revisions
from cachewatch.report.changes import Report

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
