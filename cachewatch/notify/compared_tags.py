"""Two states of a tag are read, parsed and compared once a pass; every subscription selects from what was found."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import tag_names
from cachewatch.core.changeset_totals import Tally
from cachewatch.core.changesets import Batch, Changeset, Collector
from cachewatch.core.model import Diagnostic, DiagnosticKind, Side, Unreadable
from cachewatch.core.selection import Selection
from cachewatch.core.statements import Judgement
from cachewatch.core.tag_pairs import Comparison, DocumentPair, TagPair
from cachewatch.diff import ComparedPair, conclude, judge_tag, refused
from cachewatch.errors import WorkerEnded, WorkFailed
from cachewatch.notify.kept_packages import KeptBatch, KeptPackage, about_kept, compare_and_keep, select_kept
from cachewatch.runtime.isolation import Isolation
from cachewatch.sources.document_contents import Read, about_pair, read

GoOn = Callable[[], None]


class _ComparedTag(Struct, frozen=True):
    """What comparing all packages of a tag found."""

    judgement: Judgement
    packages: tuple[KeptPackage, ...]  # that changed
    diagnostics: tuple[tuple[str, Diagnostic], ...]  # with the packages that they are about
    unreadable: tuple[Unreadable, ...]


class ComparedTags:
    """The tags of one source that were compared in this pass."""

    def __init__(self, file: Path, isolation: Isolation) -> None:
        """What is found goes to `file`; documents are read and compared where `isolation` says."""
        self._file = file
        self._isolation = isolation
        self._compared: dict[tuple[Side, Side], _ComparedTag | None] = {}

    def changeset(
        self, comparison: Comparison, selection: Selection, make_collector: Callable[[], Collector], go_on: GoOn
    ) -> Changeset | None:
        """Return what `selection` asks for of the only pair of `comparison`; None where too much changed to keep it."""
        (pair,) = comparison.pairs
        name = pair.before, pair.after
        if name not in self._compared:
            self._compared[name] = self._compare(comparison, pair, go_on)
        compared = self._compared[name]
        if compared is None:
            return None
        return Changeset(
            pair.before,
            pair.after,
            self._selected(compared, pair, selection, make_collector),
            partial(conclude, ComparedPair(comparison, pair, self._isolation, compared.judgement)),
        )

    def _compare(self, comparison: Comparison, pair: TagPair, go_on: GoOn) -> _ComparedTag | None:
        work = partial(compare_and_keep, self._file, tag_names.is_mutable(pair.after.tag))
        batches: list[KeptBatch] = []
        contents = read(pair.difference.all_documents, comparison.readers)
        for pairs, found in self._isolation.each(work, contents, about_pair):
            go_on()
            if isinstance(found, WorkFailed):
                batches.append(self._refused(pairs[0], found))
            elif found.is_complete:
                batches.append(found)
            else:
                return None
        tally = Tally()
        for batch in batches:
            tally.seen.join(batch.seen)
        return _ComparedTag(
            judgement=judge_tag(ComparedPair(comparison, pair, self._isolation), tally, is_counted=True),
            packages=tuple(kept for batch in batches for kept in batch.packages),
            diagnostics=tuple(each for batch in batches for each in batch.diagnostics),
            unreadable=tuple(each for batch in batches for each in batch.unreadable),
        )

    def _refused(self, contents: Read, failure: WorkFailed) -> KeptBatch:
        """Say of a package that no process could compare which of its documents cannot be read."""
        batch = refused(lambda: Batch(Tally(), (), None), frozenset(), self._isolation, contents, failure)
        package = contents[0].package
        return KeptBatch((), batch.tally.seen, tuple((package, each) for each in batch.diagnostics), batch.unreadable)

    def _selected(
        self, compared: _ComparedTag, pair: TagPair, selection: Selection, make_collector: Callable[[], Collector]
    ) -> Iterator[Batch]:
        """Yield what was asked for; first what is wrong with documents."""
        others = frozenset(other.package for other in pair.difference.others)
        is_part = bool(others) or not selection.takes_all_specs
        work = partial(select_kept, self._file, selection, make_collector, is_part)
        yield replace(
            work(()),
            diagnostics=tuple(diagnostic for package, diagnostic in compared.diagnostics if package not in others),
            unreadable=tuple(each for each in compared.unreadable if each.package not in others),
        )
        packages = (kept for kept in compared.packages if kept.documents.package not in others)
        for kept, found in self._isolation.each(work, packages, about_kept):
            yield _lost(work(()), kept[0].documents, found) if isinstance(found, WorkFailed) else found


def _lost(nothing: Batch, documents: DocumentPair, failure: WorkFailed) -> Batch:
    """Say that a package was compared, and that no process could select from it."""
    later = documents.after or documents.before
    assert later is not None
    is_there = documents.after is not None
    unreadable = Unreadable(
        package=documents.package,
        reason=str(failure),
        before=not is_there,
        after=is_there,
        blob=later.name if isinstance(failure, WorkerEnded) else None,
    )
    diagnostic = Diagnostic(later.path, DiagnosticKind.UNREADABLE, str(failure))
    return replace(nothing, diagnostics=(diagnostic,), unreadable=(unreadable,))
