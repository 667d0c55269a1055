"""Compare two states of a tag once in a pass; every stream then selects its part of the result.

Functions in a worker process write the results to a file. The worker may end at any time: the file has everything, and
the worker's memory only the results that were used last. Subscriptions also share selected parts, since most that
select different packages select the same of the few that changed.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any, BinaryIO, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.comparison_flow import (
    ComparedPair,
    changesets,
    choose_specs,
    compare_contents,
    conclude,
    count_chosen,
    judge_tag,
    refused,
)
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import Batch, Changeset, Collector, Comparison, DocumentPair, TagPair, Tally
from cachewatch.core.comparison.stacks_prunes_suspicion import Judgement, Observation
from cachewatch.core.filters_and_default_kinds import Selection
from cachewatch.core.model import Diagnostic, DiagnosticKind, PackageChange, Side, Unreadable
from cachewatch.core.statement_kinds import Items
from cachewatch.documents.parsing_and_diagnostics import Problems, Read, about_pair, read
from cachewatch.errors import WorkerEnded, WorkFailed
from cachewatch.git.local_repository import Repository
from cachewatch.git.tags_and_documents import CompareTrees
from cachewatch.git.trees import compare_trees
from cachewatch.runtime.worker import INLINE, Isolation, Piece

# In bytes; a tag that does not fit into the file is compared again for each stream.
MOST_ON_DISK = 512 * 2**20
# Bytes of the file that are also kept decoded in memory, where they take about four times as much.
_MOST_IN_MEMORY = 8 * 2**20
# For as many packages, the results of comparing trees are kept, a hundred bytes each.
_MOST_PACKAGES = 150_000

Found = tuple[PackageChange, tuple[Items, ...]]


class KeptPackage(Struct, frozen=True):
    """The position in the file of one package's comparison."""

    documents: DocumentPair
    position: int
    length: int


class KeptBatch(Struct, frozen=True):
    """The results of comparing some packages of a tag."""

    packages: tuple[KeptPackage, ...]  # only those that changed
    seen: Observation
    diagnostics: tuple[tuple[str, Diagnostic], ...]  # with the packages that they are about
    unreadable: tuple[Unreadable, ...]
    is_complete: bool = True  # whether there was room in the file for all packages


def about_kept(kept: KeptPackage) -> Piece:
    """Describe a compared pair of documents for messages about the worker."""
    pair = kept.documents
    names = tuple(blob.name if blob else "" for blob in (pair.before, pair.after))
    return Piece(pair.package, names, kept.length)


def compare_and_keep(file: Path, is_pruned: bool, contents: Sequence[Read]) -> KeptBatch:
    """Compare the documents of some packages, and append each result to `file`.

    `is_pruned` means that specs which no stack builds are pruned from the tag.
    """
    tally, problems = Tally(), Problems(frozenset())
    pairs = {pair.package: pair for pair, *_ in contents}
    changes = list(compare_contents(contents, tally, problems, is_pruned=is_pruned))
    try:
        with file.open("ab") as end:
            packages = tuple(_keep(end, file, pairs[change.package], (change, items)) for change, items in changes)
            is_complete = end.tell() <= MOST_ON_DISK
    except OSError:
        packages, is_complete = (), False  # a full disk: slower, and nothing is lost
    return KeptBatch(packages, tally.seen, tuple(problems.by_package), tuple(problems.unreadable), is_complete)


def select_kept(
    file: Path,
    selection: Selection,
    make_collector: Callable[[], Collector],
    is_part: bool,
    packages: Sequence[KeptPackage],
) -> Batch:
    """Read the results of `packages` from `file`, and return the part that `selection` selects.

    `is_part` means that this may not be everything, so that the selected items are counted separately.
    """
    collector = make_collector()
    tally = Tally(selected=[] if is_part else None)
    for change, items in _chosen(file, packages, selection):
        if not is_part:
            tally.seen.items += items
        count_chosen(change, items, selection, tally, collector)
    return Batch(tally, (), collector.take())


def _keep(end: BinaryIO, file: Path, documents: DocumentPair, change: Found) -> KeptPackage:
    content = pickle.dumps(change, pickle.HIGHEST_PROTOCOL)
    kept = KeptPackage(documents, end.tell(), len(content))
    end.write(content)
    _MEMORY.keep((file, kept.position), kept.length, change)
    return kept


def _chosen(file: Path, packages: Sequence[KeptPackage], selection: Selection) -> Iterator[Found]:
    """Yield the selected part of each package; it is cached for subscriptions that select the same specs."""
    if not packages:
        return  # perhaps there is no file
    with file.open("rb") as content:
        for kept in packages:
            recall = partial(_MEMORY.recall, (file, kept.position), partial(_read, content, kept), kept.length)
            if selection.takes_all_specs:
                yield recall()
                continue
            name = file, kept.position, selection.of_specs
            chosen = _MEMORY.recall(name, partial(_choose, recall, selection), kept.length)
            if chosen is not None:
                yield chosen


def _choose(recall: Callable[[], Found], selection: Selection) -> Found | None:
    return choose_specs(*recall(), selection)


def _read(content: BinaryIO, kept: KeptPackage) -> Found:
    content.seek(kept.position)
    found: Found = pickle.loads(content.read(kept.length))  # noqa: S301  we wrote it, and nobody else can
    return found


class Memory:
    """A cache that drops the least recently used values."""

    def __init__(self, most: int, largest: int) -> None:
        """Limit the sizes of all values together to `most`, and of one value to `largest`; larger ones are not kept."""
        self._most = most
        self._largest = largest
        self._size = 0
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def keep(self, name: Hashable, size: int, value: object) -> None:
        """Keep `value` under `name`, unless it is too large; the least recently used values are dropped if needed."""
        if size <= self._largest:
            self._found[name] = value, size
            self._size += size
            while self._size > self._most:
                _, (_, dropped) = self._found.popitem(last=False)
                self._size -= dropped

    def recall(self, name: Hashable, find: Callable[[], Any], size: int | None = None) -> Any:
        """Return the value kept under `name`, or that of `find`, which is then kept; its own `size` is the default."""
        if name in self._found:
            self._found.move_to_end(name)
            return self._found[name][0]
        found = find()
        self.keep(name, found.size if size is None else size, found)
        return found


_MEMORY = Memory(_MOST_IN_MEMORY, _MOST_IN_MEMORY)


GoOn = Callable[[], None]


class ComparedTags:
    """The tags of one source that this pass has compared."""

    def __init__(self, file: Path, isolation: Isolation) -> None:
        """Write results to `file`; `isolation` reads and compares the documents."""
        self._file = file
        self._isolation = isolation
        self._compared: dict[tuple[Side, Side], tuple[Judgement, list[KeptBatch]] | None] = {}

    def changeset(
        self, comparison: Comparison, selection: Selection, make_collector: Callable[[], Collector], go_on: GoOn
    ) -> Changeset | None:
        """Return the selected part of the only pair of `comparison`; None if the results are too large to keep."""
        (pair,) = comparison.pairs
        name = pair.before, pair.after
        if name not in self._compared:
            self._compared[name] = self._compare(comparison, pair, go_on)
        compared = self._compared[name]
        if compared is None:
            return None
        judgement, batches = compared
        of_pair = ComparedPair(comparison, pair, self._isolation, selection, judgement)
        selected = self._selected(batches, pair, selection, make_collector)
        return Changeset(pair.before, pair.after, selected, partial(conclude, of_pair))

    def _compare(self, comparison: Comparison, pair: TagPair, go_on: GoOn) -> tuple[Judgement, list[KeptBatch]] | None:
        """Compare all packages of a tag; return None if there is no room for the results."""
        work = partial(compare_and_keep, self._file, tag_names.is_mutable(pair.after.tag))
        batches: list[KeptBatch] = []
        contents = read(pair.difference.all_documents, comparison.readers)
        for pairs, kept in self._isolation.each(work, contents, about_pair):
            go_on()
            if isinstance(kept, WorkFailed):
                batches.append(self._refused(pairs[0], kept))
            elif kept.is_complete:
                batches.append(kept)
            else:
                return None
        tally = Tally()
        for batch in batches:
            tally.seen.join(batch.seen)
        of_pair = ComparedPair(comparison, pair, self._isolation, Selection())
        return judge_tag(of_pair, tally, is_counted=True), batches

    def _refused(self, contents: Read, failure: WorkFailed) -> KeptBatch:
        """Return the result for a package whose comparison failed; its documents are marked as unreadable."""
        batch = refused(lambda: Batch(Tally(), (), None), frozenset(), self._isolation, contents, failure)
        package = contents[0].package
        return KeptBatch((), batch.tally.seen, tuple((package, each) for each in batch.diagnostics), batch.unreadable)

    def _selected(
        self, batches: list[KeptBatch], pair: TagPair, selection: Selection, make_collector: Callable[[], Collector]
    ) -> Iterator[Batch]:
        """Yield the selected batches; the first one has the diagnostics of documents."""
        others = frozenset(other.package for other in pair.difference.others)
        is_part = bool(others) or not selection.takes_all_specs
        work = partial(select_kept, self._file, selection, make_collector, is_part)
        yield replace(
            work(()),
            diagnostics=tuple(d for batch in batches for package, d in batch.diagnostics if package not in others),
            unreadable=tuple(u for batch in batches for u in batch.unreadable if u.package not in others),
        )
        packages = (p for batch in batches for p in batch.packages if p.documents.package not in others)
        for kept, found in self._isolation.each(work, packages, about_kept):
            yield _with_fault(work(()), kept[0].documents, found) if isinstance(found, WorkFailed) else found


def _with_fault(nothing: Batch, documents: DocumentPair, failure: WorkFailed) -> Batch:
    """Return `nothing` with a fault for a package whose result no worker could read and select."""
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


# Limits of remembered news, counted in lines, versions and names of packages.
_MOST = 50_000
_LARGEST = _MOST // 10


def what_is_asked(comparison: Comparison, selection: Selection) -> Hashable:
    """Return a key that is equal for equal news of the only tag of `comparison`.

    It has the packages that patterns chose, not the patterns, so that subscriptions can share the news.
    """
    (pair,) = comparison.pairs
    chosen = pair.difference
    return (
        pair.before,
        pair.after,
        comparison.revisions_between,
        comparison.diagnostics,
        tuple([document.package for document in chosen.documents]),
        len(chosen.others),
        chosen.count_unchanged(),
        chosen.diagnostics,
        chosen.unreadable,
        selection.of_specs,
        selection.kinds.patterns,
    )


Fact = TypeVar("Fact")
_NAME_BYTES = 8


class Comparisons:
    """The comparisons of one pass, and the open repositories that they read."""

    def __init__(self, isolate: Callable[[str], Isolation] = lambda _: INLINE, kept: Path | None = None) -> None:
        """Prepare the comparisons; `isolate` returns the isolation in which a source's documents are read.

        Streams share results through files in the folder `kept`; None if there is only one stream.
        """
        self.isolation = isolate
        self._kept = kept
        self._compared: dict[str, ComparedTags] = {}
        self._repositories: dict[str, Repository] = {}
        self._trees: dict[str, Memory] = {}
        self._facts: dict[Hashable, Any] = {}
        self.remembered = Memory(_MOST, _LARGEST)  # the news of tags, by `what_is_asked`
        # The content of the urgent digests of this pass, and their channels and targets, by subscription.
        self.urgent: dict[str, tuple[frozenset[Hashable], frozenset[tuple[str, str]]]] = {}

    def changeset(
        self,
        source: str,
        comparison: Comparison,
        selection: Selection,
        make_collector: Callable[[], Collector],
        go_on: Callable[[], None],
    ) -> Changeset:
        """Return the selected part of the only pair of `comparison`, which is about a tag of `source`."""
        if self._kept is not None:
            if source not in self._compared:
                file = self._kept / f"{len(self._compared)}"
                self._compared[source] = ComparedTags(file, self.isolation(source))
            found = self._compared[source].changeset(comparison, selection, make_collector, go_on)
            if found is not None:
                return found
        return self.compared_alone(source, comparison, selection, make_collector, go_on)

    def compared_alone(
        self,
        source: str,
        comparison: Comparison,
        selection: Selection,
        make_collector: Callable[[], Collector],
        go_on: Callable[[], None],
    ) -> Changeset:
        """Compare like `changeset`, but only for this selection and without sharing the result."""
        (changeset,) = changesets(
            comparison,
            selection,
            make_collector,
            progress=lambda _: go_on(),
            isolation=self.isolation(source),
        )
        return changeset

    def trees(self, source: str) -> CompareTrees:
        """Return a function that compares trees in the repository of a source, and caches the results."""
        memory = self._trees.setdefault(source, Memory(_MOST_PACKAGES, _MOST_PACKAGES))
        return lambda repository, *trees: memory.recall(trees, partial(compare_trees, repository, *trees))

    @contextmanager
    def opened(self, source: str, open_repository: Callable[[], Repository]) -> Iterator[Repository]:
        """Yield the repository of a source, which all streams share; after an error it is closed and later reopened."""
        if source not in self._repositories:
            self._repositories[source] = open_repository()
        try:
            yield self._repositories[source]
        except BaseException:
            self._trees.pop(source, None)  # they read from it
            self._repositories.pop(source).close()
            raise

    def close(self) -> None:
        """Close all repositories."""
        self._trees.clear()
        while self._repositories:
            self._repositories.popitem()[1].close()

    def recall(self, key: Hashable, find: Callable[[], Fact]) -> Fact:
        """Return the result of `find`, which is called once in a pass for each `key`."""
        if key not in self._facts:
            self._facts[key] = find()
        found: Fact = self._facts[key]
        return found


@contextmanager
def kept_comparisons(state: Path, streams: Sequence[object]) -> Iterator[Path | None]:
    """Yield a folder for the comparisons of a pass; None if there is one stream, or if the disk is full.

    The folders of earlier passes, and in the end also this one, are deleted.
    """
    folder = state / "compared"
    rmtree(folder, ignore_errors=True)
    # Another name each time: a process may remember what it read under the last one.
    kept: Path | None = folder / token_hex(_NAME_BYTES) if len(streams) > 1 else None
    try:
        if kept:
            folder.mkdir(mode=0o700)
            kept.mkdir(mode=0o700)
    except OSError:
        kept = None
    try:
        yield kept
    finally:
        rmtree(folder, ignore_errors=True)
