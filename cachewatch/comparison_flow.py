"""The flow of a comparison, from documents to results.

`diff` (cli/diff_and_fail_on.py) gets a Comparison, which names the documents that differ, from sources/before_and_after.py, calls
`changesets`, and hands the reports to report/. A pass (service/passes_and_leadership.run_pass) takes the same steps by
service/comparison_cache.py, to compare once for all streams. Nothing here prints.

Documents are read, parsed (documents) and compared (core/comparison/package_changes) package by package, and dropped.
What is kept: a tally, from which the whole tag is judged (core/comparison/stacks_prunes_suspicion) and its statements
are made (core/statements), and the parts of each package that the collector of the output format needs (report).
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import (
    UNKNOWN_KINDS,
    Batch,
    Blob,
    Changeset,
    Collector,
    Comparison,
    Content,
    Readers,
    Report,
    TagPair,
    Tally,
    events_of,
)
from cachewatch.core.comparison.compiler_and_target_migrations import values_of
from cachewatch.core.comparison.kept_and_reused_hashes import describe_not_written, describe_reused
from cachewatch.core.comparison.package_changes import compare_all, part_of
from cachewatch.core.comparison.package_items import items_of
from cachewatch.core.comparison.renamed_stacks import NewNames, Renamed, compare_renamed
from cachewatch.core.comparison.stacks_prunes_suspicion import Judgement, judge, with_turnover
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import (
    DiagnosticKind,
    Document,
    Event,
    Kind,
    PackageChange,
    PackageCounts,
    Signature,
)
from cachewatch.core.statement_kinds import Items, Statement, StatementKind
from cachewatch.core.statements import counted, statements_of
from cachewatch.documents.records_parsing_diagnostics import (
    Documents,
    KnownRecords,
    Problems,
    Read,
    about_content,
    about_pair,
    parse_pair,
    parse_side,
    read,
)
from cachewatch.errors import WorkFailed
from cachewatch.runtime.worker import INLINE, Isolation, in_processes

# Below this many bytes a second process costs more than it gains.
_WORTH_TWO_PROCESSES = 4 * 2**20
# Each batch is one call of DeepDiff, which has a fixed cost.
_BATCH_BYTES = 4 * 2**20

Progress = Callable[[int], None]


def changesets(
    comparison: Comparison,
    selection: Selection,
    make_collector: Callable[[], Collector],
    *,
    jobs: int = 1,
    progress: Progress = lambda _: None,
) -> Iterator[Changeset]:
    """Yield a changeset for each pair of tags in `comparison`; the tags are compared when the changeset is consumed.

    `make_collector` makes a collector for the output format; `jobs` is the number of processes; `progress` is called
    with the number of bytes that were compared since its last call.
    """
    for pair in comparison.pairs:
        is_pruned = tag_names.is_mutable(pair.after.tag)
        work = partial(_compare_batch, selection, make_collector, is_pruned, pair.difference.others)
        enough = jobs if pair.difference.size >= _WORTH_TWO_PROCESSES else 1
        batches = _batches(pair.difference.all_documents, comparison.readers, work, enough, progress)
        finish = partial(conclude, ComparedPair(comparison, pair, INLINE, selection))
        yield Changeset(pair.before, pair.after, batches, finish)


def _batches(
    documents: Documents, readers: Readers, work: Callable[[Iterable[Read]], Batch], jobs: int, progress: Progress
) -> Iterator[Batch]:
    """Yield the result of `work` on each batch (4 MiB or more) of `documents`; `jobs` processes work if `jobs` > 1."""

    def make_work() -> Callable[[Documents], Batch]:
        own = readers.reopened() if jobs > 1 else readers
        return lambda some: work(read(some, own))

    runs: list[Documents] = []  # of roughly the same number of bytes
    start, size = 0, 0
    for end, pair in enumerate(documents, 1):
        size += pair.size
        if size >= _BATCH_BYTES or end == len(documents):
            runs.append(documents[start:end])
            start, size = end, 0
    for run, batch in zip(runs, in_processes(make_work, runs, jobs), strict=True):
        progress(sum(document.size for document in run))
        yield batch


def _compare_batch(
    selection: Selection,
    make_collector: Callable[[], Collector],  # for the output format
    is_pruned: bool,
    others: frozenset[str],
    contents: Iterable[Read],  # pairs of documents with their contents
) -> Batch:
    """Compare documents; return the tally, and what the collector kept. `others` are packages that are not selected.

    `is_pruned` says whether the tag is one from which specs that no stack builds are pruned.
    """
    collector = make_collector()
    # If everything is selected, the selected items are not kept twice.
    tally = Tally(selected=[] if others or not selection.takes_all_specs else None)
    problems = Problems()
    for change, items in compare_contents(contents, tally, problems, is_pruned=is_pruned):
        if change.package not in others:
            select_package(change, items, selection, tally, collector, make_collector)
    tally.diagnostics = [each for package, each in problems.by_package if package not in others]
    tally.unreadable = [each for each in problems.unreadable if each.package not in others]
    return tally, collector.take()


def compare_contents(
    contents: Iterable[Read], tally: Tally, problems: Problems, *, is_pruned: bool
) -> Iterator[tuple[PackageChange, tuple[Items, ...]]]:
    """Compare the documents of some packages; yield the change of each package that changed, with its items.

    Adds facts about the tag to `tally`, and faults of documents to `problems`. For `is_pruned`, see `compare_all`.
    """
    was_on = gc.isenabled()
    gc.disable()  # a comparison makes many values without reference cycles
    try:
        pairs = [(content[0], parse_pair(*content, problems)) for content in contents]
        tally.seen.half_read |= problems.half_read
        readable = [(documents, pair) for documents, pair in pairs if pair is not None]
        changes = compare_all([pair for _, pair in readable], is_pruned=is_pruned)
        for (documents, pair), change in zip(readable, changes, strict=True):
            problems.remark(documents, DiagnosticKind.INCONSISTENT, describe_not_written(pair.before, pair.after))
            if change is not None:
                reused = describe_reused(change.removed_hashes, change.added_hashes)
                problems.remark(documents, DiagnosticKind.REUSED_HASH, reused)
                values = values_of(change)
                items = items_of(change, values=values)
                tally.seen.add(change, items, values)
                yield change, items
            elif pair.after is not None:
                tally.seen.witness(pair.after)
    finally:
        if was_on:
            gc.enable()


def select_package(  # noqa: PLR0917
    change: PackageChange,
    items: tuple[Items, ...],
    selection: Selection,
    tally: Tally,
    collector: Collector,
    make_collector: Callable[[], Collector],  # makes one for a single package that is held
) -> None:
    """Count the selected part of a package's change in `tally`; add it to `collector` if one of its kinds is selected.

    If renamed stacks may change its kinds, `tally.held` keeps it, in a collector of its own, until all are compared.
    """
    is_held = not selection.kinds.is_open and change.kinds >= {Kind.STACK_ADDED, Kind.STACK_REMOVED}
    if not selection.takes_all_specs:
        part = part_of(change, selection)
        if part is None:
            return
        change, items = part, items_of(part, selection)
    tally.note(change, items)
    if is_held:
        own, alone = Tally(), make_collector()
        own.add(change)
        alone.add(replace(change, kinds=UNKNOWN_KINDS))
        tally.held.append((change.package, change.kinds, (own, alone.take())))
    elif selection.wants(change.kinds):
        tally.add(change)
        collector.add(change)


class ComparedPair(NamedTuple):
    """A compared pair of tags; `judgement` is that of the whole tag, None if the tag was not judged yet."""

    comparison: Comparison
    pair: TagPair
    isolation: Isolation
    selection: Selection
    judgement: Judgement | None = None


def conclude(compared: ComparedPair, tally: Tally) -> Report:
    """Return the report on a pair of tags whose packages were all compared; judge the tag unless `compared` has that."""
    comparison, pair, _, selection, judgement = compared
    packages, takes = pair.difference.packages, pair.difference.takes
    tag = pair.after.tag or pair.before.tag or ""
    if judgement is None:
        judgement = judge_tag(compared, tally, is_counted=tally.selected is not None)
    # This also completes the tally: its kinds, and the counts of packages that were held.
    statements, late, kinds_of = statements_on(tally, packages, judgement, tag, selection=selection, takes=takes)
    event = None
    if pair.is_new_tag:
        event = Event(Kind.TAG_ADDED, pair.after.tag or "", packages.after, tally.specs.after)
    elif pair.is_lost_tag:
        event = Event(Kind.TAG_REMOVED, pair.before.tag or "", packages.before, tally.specs.before)
    return Report(
        before=pair.before,
        after=pair.after,
        revisions_between=comparison.revisions_between,
        packages=replace(packages, changed=tally.changed, rebuilt_only=tally.rebuilt_only),
        specs=tally.specs,
        late=late,
        own_kinds=frozenset(tally.kinds),
        kinds_of=kinds_of,
        is_part=tally.selected is not None,
        is_same=pair.after.revision is not None and not pair.difference.all_documents,
        pruned=sum(count for package, count in judgement.pruned.items() if takes(package)),
        statements=statements,
        events=events_of(statements, event),
        diagnostics=(
            *(comparison.diagnostics if pair is comparison.pairs[0] else ()),
            *pair.difference.diagnostics,
            *tally.diagnostics,
        ),
        unreadable=(*pair.difference.unreadable, *tally.unreadable),
        uncounted=len({each.package for each in pair.difference.unreadable}),
    )


def statements_on(
    tally: Tally,
    packages: PackageCounts,
    judgement: Judgement,
    tag: str,
    *,
    selection: Selection,
    takes: Callable[[str], bool],
) -> tuple[tuple[Statement, ...], tuple[Any, ...], Mapping[str, frozenset[Kind]]]:
    """Return statements on the selected part of a tag, what was collected of held packages, and kinds by package.

    The second has packages of `tally.held` with a selected kind; they are also counted in `tally`. The third has kinds
    of all held packages and, by the new names, of those in renamed stacks. `takes` tells whether a package is selected.
    """
    selected: Sequence[Items] = tally.seen.items if tally.selected is None else tally.selected
    part = None
    if tally.selected is not None:
        part = packages.before or packages.after, lambda package, stack: takes(package) and selection.stacks(stack)
    if judgement.renamed:
        selected = judgement.under_new_names(selected, selection)
        # Before this, the tally has the kinds of the comparison by the old names: places lost and gained.
        tally.kinds = set[Kind]().union(*(one.kinds for one in selected))
    statements = statements_of(selected, judgement, tag, part)
    kinds_of: defaultdict[str, frozenset[Kind]] = defaultdict(frozenset)
    for statement in statements:
        if statement.kind is StatementKind.STACK_MERGED:
            kinds_of.update(dict.fromkeys(statement.packages, frozenset({Kind.STACK_MERGED})))
    for one in selected if judgement.merges else ():
        if one.package in judgement.renamed or one.package in kinds_of:
            kinds_of[one.package] |= one.kinds
    late = [batch for package, kinds, batch in tally.held if selection.wants(kinds_of.get(package, kinds))]
    kinds_of = {package: kinds for package, kinds, _ in tally.held} | kinds_of
    for own, _ in late:
        tally.join(own)
    is_part = tally.selected is not None
    statements = with_turnover(statements, selected, tally.before, packages, judgement, selection, is_part=is_part)
    return statements, tuple(collected for _, collected in late), kinds_of


def judge_tag(compared: ComparedPair, tally: Tally, *, is_counted: bool) -> Judgement:
    """Judge the whole tag, whatever is selected; if `is_counted`, also count the specs of statements on the tag."""
    comparison, pair, *_ = compared
    lost, gained = tally.seen.moved_stacks()
    before, after = (ask() for ask in comparison.stacks) if lost or gained else ({}, {})
    judgement = judge(
        tally.seen,
        pair.difference.all_packages,
        whole=StatementKind.TAG_REMOVED if pair.is_lost_tag else StatementKind.TAG_ADDED if pair.is_new_tag else None,
        declared=(before.get(pair.before.tag or ""), after.get(pair.after.tag or "")),
        survey=partial(_survey, compared),
        is_neighbour=comparison.revisions_between in (None, 1),
        is_pruned=tag_names.is_mutable(pair.after.tag),
        compare_renamed=partial(_compare_renamed, compared),
    )
    return counted(tally.seen.items, judgement, pair.after.tag or pair.before.tag or "") if is_counted else judgement


def _compare_renamed(
    compared: ComparedPair, names: NewNames, packages: Set[str], selection: Selection
) -> Iterator[Renamed]:
    """Read `packages` again; yield their comparison for `selection` with new `names` of stacks (by their old names)."""
    comparison, pair, isolation, *_ = compared
    documents = [one for one in pair.difference.all_documents if one.package in packages]
    work = partial(_renamed, names, selection, tag_names.is_mutable(pair.after.tag))
    for _, part in isolation.each(work, read(documents, comparison.readers), about_pair):
        if not isinstance(part, WorkFailed):
            yield from part


def _renamed(names: NewNames, selection: Selection, is_pruned: bool, contents: Sequence[Read]) -> list[Renamed]:
    pairs = [pair for each in contents if (pair := parse_pair(*each, Problems()))]
    return compare_renamed(pairs, names, selection, is_pruned=is_pruned)


def _survey(compared: ComparedPair) -> Mapping[str, Mapping[Signature, int]]:
    """Count the specs of each signature in the documents that did not change; return the counts by package."""
    blobs = list(compared.pair.difference.unchanged())
    contents = zip(blobs, compared.comparison.readers.after.read(blobs), strict=True)
    counts: dict[str, Mapping[Signature, int]] = {}
    for _, part in compared.isolation.each(_surveyed, contents, about_content):
        if not isinstance(part, WorkFailed):
            counts |= part
    return counts


def _surveyed(contents: Sequence[tuple[Blob, Content]]) -> Mapping[str, Mapping[Signature, int]]:
    documents = (parse_side(blob, content, KnownRecords()) for blob, content in contents)
    return {one.package: dict(one.specs.counts) for one in documents if isinstance(one, Document)}
