"""Compare two states of a tag once in a pass, by the steps of comparison_flow.py; every stream selects its part.

A worker process writes the results to a file, because it may end at any time. Subscriptions with equal selections also
share the news of a tag (`remembered`).
"""

import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.comparison_flow import ComparedPair, compare_contents, conclude, judge_tag, select_package
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.changesets import Batch, Blob, Changeset, Collector, Comparison, Content, DocumentPair, Tally
from cachewatch.core.comparison.stacks_prunes_suspicion import Judgement, Observation
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, Document, PackageChange, Unreadable
from cachewatch.core.statement_kinds import Items
from cachewatch.documents.records_parsing_diagnostics import (
    KnownRecords,
    Problems,
    Read,
    about_content,
    about_pair,
    parse_side,
    read,
)
from cachewatch.errors import BrokenSource, OutOfTime, WorkerEnded, WorkFailed
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, count_between
from cachewatch.git.tags_and_documents import CompareTrees
from cachewatch.git.trees import TreeDifference
from cachewatch.runtime.worker import Isolation, Piece
from cachewatch.service.missing_and_returned import trees_of_packages

# For as many packages, the results of comparing trees are kept, a hundred bytes each.
_MOST_PACKAGES = 150_000

MakeCollector = Callable[[], Collector]


class KeptPackage(Struct, frozen=True):
    """Where the file of results has the comparison of one package; position and length are in bytes."""

    documents: DocumentPair
    position: int
    length: int


class KeptBatch(Struct, frozen=True):
    """The results of comparing some packages of a tag."""

    packages: tuple[KeptPackage, ...]  # only those that changed
    seen: Observation
    diagnostics: tuple[tuple[str, Diagnostic], ...]  # with the packages that they are about
    unreadable: tuple[Unreadable, ...]


def about_kept(kept: KeptPackage) -> Piece:
    """Return what a worker asks about its work: object ids of the compared documents, and bytes of the kept result."""
    return about_pair((kept.documents, None, None))._replace(size=kept.length)


def compare_and_keep(file: Path, is_pruned: bool, contents: Sequence[Read]) -> KeptBatch:
    """Compare packages, append results to `file`, and return where; `is_pruned`: specs in no stack may be pruned."""
    tally, problems = Tally(), Problems()
    pairs = {pair.package: pair for pair, *_ in contents}
    packages = []
    try:
        with file.open("ab") as end:
            for found in compare_contents(contents, tally, problems, is_pruned=is_pruned):
                content = zlib.compress(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), 1)
                kept = KeptPackage(pairs[found[0].package], end.tell(), len(content))
                end.write(content)
                packages.append(kept)
    except OSError as error:
        raise BrokenSource(
            f"{file}: {error.strerror}; what is compared is written there until the pass ends"
        ) from error
    return KeptBatch(tuple(packages), tally.seen, tuple(problems.by_package), tuple(problems.unreadable))


def select_kept(
    file: Path, selection: Selection, make_collector: MakeCollector, is_part: bool, packages: Sequence[KeptPackage]
) -> Batch:
    """Read the results for `packages` from `file`; return what `selection` selects.

    `is_part` says that `selection` may leave out specs. `make_collector` makes collectors for what is selected.
    """
    collector = make_collector()
    tally = Tally(selected=[] if is_part else None)
    for change, items in _kept(file, packages):
        if not is_part:
            tally.seen.items += items
        select_package(change, items, selection, tally, collector, make_collector)
    return tally, collector.take()


def _kept(file: Path, packages: Sequence[KeptPackage]) -> Iterator[tuple[PackageChange, tuple[Items, ...]]]:
    if not packages:
        return  # perhaps there is no file
    with file.open("rb") as content:
        for kept in packages:
            content.seek(kept.position)
            yield pickle.loads(zlib.decompress(content.read(kept.length)))  # noqa: S301  we wrote it, nobody else can


class SizedCache:
    """A cache that drops the least recently used values when their sizes together exceed `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._found: OrderedDict[Hashable, Any] = OrderedDict()

    def recall(self, name: Hashable, find: Callable[[], Any]) -> Any:
        """Return the value kept under `name`, else that of `find()`; keep the latter unless its `size` is too large."""
        if name in self._found:
            self._found.move_to_end(name)
            return self._found[name]
        found = find()
        if found.size <= self._most:
            self._found[name] = found
            self._size += found.size
            while self._size > self._most:
                self._size -= self._found.popitem(last=False)[1].size
        return found


def _refused(isolation: Isolation, contents: Read, failure: WorkFailed) -> KeptBatch:
    """Return the result for a package that the worker failed to compare; read each document alone to find the fault."""
    pair, *sides = contents
    before = after = None
    if not isinstance(failure, OutOfTime):
        before, after = map(partial(_read_alone, isolation), (pair.before, pair.after), sides)
    is_by_later = isinstance(failure, WorkerEnded) and not isinstance(before, Diagnostic)
    if not isinstance(before, Diagnostic) and not isinstance(after, Diagnostic):
        # Each can be read, but they cannot be compared, or not now.
        later = pair.after or pair.before
        assert later is not None
        diagnostic = Diagnostic(later.path, DiagnosticKind.UNREADABLE, str(failure))
        before, after = (before, diagnostic) if pair.after else (diagnostic, None)
    problems = Problems()
    problems.note(pair.package, before, after)
    blob = pair.after.name if pair.after and (is_by_later or pair.after.name in isolation.refused) else None
    unreadable = tuple(replace(each, blob=blob) for each in problems.unreadable)
    return KeptBatch((), Observation(half_read=problems.half_read), tuple(problems.by_package), unreadable)


def _read_alone(isolation: Isolation, blob: Blob | None, content: Content | None) -> Document | Diagnostic | None:
    if blob is None:
        return None
    ((_, found),) = isolation.each(_parse_alone, [(blob, content)], about_content)
    return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(found)) if isinstance(found, WorkFailed) else found


def _parse_alone(sides: Sequence[tuple[Blob, Content | None]]) -> Document | Diagnostic | None:
    ((blob, content),) = sides
    return parse_side(blob, content, KnownRecords())


def _selected(file: Path, batches: list[KeptBatch], of: ComparedPair, make_collector: MakeCollector) -> Iterator[Batch]:
    """Yield what `of.selection` selects from `batches`; the first item has only the problems of documents."""
    others = of.pair.difference.others
    is_part = bool(others) or not of.selection.takes_all_specs
    work = partial(select_kept, file, of.selection, make_collector, is_part)
    tally, nothing = work(())
    tally.diagnostics = [d for batch in batches for package, d in batch.diagnostics if package not in others]
    tally.unreadable = [u for batch in batches for u in batch.unreadable if u.package not in others]
    yield tally, nothing
    packages = (p for batch in batches for p in batch.packages if p.documents.package not in others)
    for kept, found in of.isolation.each(work, packages, about_kept):
        yield (_failed(kept[0].documents, found), nothing) if isinstance(found, WorkFailed) else found


def _failed(pair: DocumentPair, failure: WorkFailed) -> Tally:
    """Return totals that report the package of `pair` as unreadable, because of `failure` of the selecting worker."""
    later, reason, is_there = pair.after or pair.before, str(failure), pair.after is not None
    assert later is not None
    blob = later.name if isinstance(failure, WorkerEnded) else None
    fault = Unreadable(package=pair.package, reason=reason, before=not is_there, after=is_there, blob=blob)
    return Tally(diagnostics=[Diagnostic(later.path, DiagnosticKind.UNREADABLE, reason)], unreadable=[fault])


_PREFIX = "compared-"
# The most lines, versions and names of packages in remembered news.
_MOST = 50_000
Found = TypeVar("Found")


class Comparisons:
    """The comparisons of one pass, and the open repositories that they read."""

    def __init__(self, isolate: Callable[[str], Isolation], folder: Path | None, go_on: Callable[[], None]) -> None:
        """Keep results below `folder`, or below the system's temporary folder if None, until `close`.

        `isolate(name)` returns the Isolation of a source; `go_on` is called after each batch of documents.
        """
        for left_over in folder.glob(f"{_PREFIX}*") if folder else ():
            rmtree(left_over, ignore_errors=True)
        self.isolation = isolate
        self._place, self._go_on = folder, go_on
        self._folder: TemporaryDirectory[str] | None = None
        self._compared: dict[Hashable, tuple[Judgement, list[KeptBatch]]] = {}
        self._repositories: dict[str, Repository] = {}
        self._trees: dict[str, SizedCache] = {}
        self._facts: dict[Hashable, Any] = {}
        self.remembered = SizedCache(_MOST)  # the news of tags
        # The content of the urgent digests of this pass, and their channels and targets, by subscription.
        self.urgent: dict[str, tuple[frozenset[Hashable], frozenset[tuple[str, str]]]] = {}

    def changeset(
        self, source: str, comparison: Comparison, selection: Selection, make: MakeCollector, bases: Hashable = None
    ) -> Changeset:
        """Return selected changes of a tag, taken by collectors from `make`; calls with equal `bases` share results."""
        (pair,), isolation = comparison.pairs, self.isolation(source)
        # Another folder each time: a process may remember what it read under the last name.
        self._folder = self._folder or TemporaryDirectory(prefix=_PREFIX, dir=self._place)
        file = Path(self._folder.name, "kept")
        # Beside its documents, a tag as a whole is judged by whether it is new and whether several revisions changed it.
        name = source, pair.before, pair.after, bases, pair.is_new_tag, comparison.revisions_between in (None, 1)
        if name not in self._compared:
            self._compared[name] = self._compare(file, comparison, isolation)
        judgement, batches = self._compared[name]
        of_pair = ComparedPair(comparison, pair, isolation, selection, judgement)
        return Changeset(pair.before, pair.after, _selected(file, batches, of_pair, make), partial(conclude, of_pair))

    def _compare(self, file: Path, comparison: Comparison, isolation: Isolation) -> tuple[Judgement, list[KeptBatch]]:
        (pair,), batches, tally = comparison.pairs, list[KeptBatch](), Tally()
        work = partial(compare_and_keep, file, tag_names.is_mutable(pair.after.tag))
        for pairs, kept in isolation.each(work, read(pair.difference.all_documents, comparison.readers), about_pair):
            self._go_on()
            batches.append(_refused(isolation, pairs[0], kept) if isinstance(kept, WorkFailed) else kept)
            tally.seen.join(batches[-1].seen)
        return judge_tag(ComparedPair(comparison, pair, isolation, Selection()), tally, is_counted=True), batches

    def trees(self, source: str) -> CompareTrees:
        """Return a function that compares git trees of a source, and caches the results."""
        cached = self._trees.setdefault(source, SizedCache(_MOST_PACKAGES))
        return lambda repository, *trees: cached.recall(
            trees, partial(TreeDifference, repository, *trees, is_of_changes=True)
        )

    def count(self, repository: Repository, before: Revision, after: Revision) -> int | None:
        """Return the number of revisions from `before` to `after`, counted once in a pass; None if it is unknown."""
        key = count_between, repository.git_dir, before.commit, after.commit
        return self.recall(key, lambda: count_between(repository, before, after))

    @contextmanager
    def opened(self, source: str, open_repository: Callable[[], Repository]) -> Iterator[Repository]:
        """Yield the repository of a source, which all streams share; after an error, close it, to be reopened later."""
        if source not in self._repositories:
            self._repositories[source] = open_repository()
        try:
            yield self._repositories[source]
        except BaseException:
            self._trees.pop(source, None)  # they read from it
            self._repositories.pop(source).close()
            raise

    def close(self) -> None:
        """Close all repositories, and delete the results."""
        if self._folder is not None:
            self._folder.cleanup()
        self._trees.clear()
        trees_of_packages.cache_clear()  # of the repositories that are closed now
        while self._repositories:
            self._repositories.popitem()[1].close()

    def recall(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """Return the result of `find`, which is called once in a pass for each `key`."""
        if key not in self._facts:
            self._facts[key] = find()
        found: Found = self._facts[key]
        return found
