"""What comparing packages found, kept in a file so that many subscriptions select from it.

The functions here run in a worker process. It keeps what was used last in its memory, and may end at any time:
all that is kept is in the file.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from cachewatch.core.changeset_totals import Tally
from cachewatch.core.changesets import Batch, Collector
from cachewatch.core.model import Diagnostic, PackageChange, Unreadable
from cachewatch.core.selection import Selection
from cachewatch.core.statements import Items
from cachewatch.core.statements.whole_tag_changes import Observation
from cachewatch.core.tag_pairs import DocumentPair
from cachewatch.diff import choose_specs, compare_contents, count_chosen
from cachewatch.runtime.isolation import Piece
from cachewatch.sources.document_contents import Problems, Read

# Bytes: a larger file is not written, and what did not fit is compared anew for whoever asks.
MOST_ON_DISK = 512 * 2**20
# Bytes of the file whose content stays in memory, where it takes about four times as much.
_MOST_IN_MEMORY = 8 * 2**20

Found = tuple[PackageChange, tuple[Items, ...]]


class KeptPackage(Struct, frozen=True):
    """Where in the file it stands what happened to one package."""

    documents: DocumentPair
    position: int
    length: int


class KeptBatch(Struct, frozen=True):
    """Some packages of a tag that were compared."""

    packages: tuple[KeptPackage, ...]  # that changed
    seen: Observation
    diagnostics: tuple[tuple[str, Diagnostic], ...]  # with the packages that they are about
    unreadable: tuple[Unreadable, ...]
    is_complete: bool = True  # whether there was room in the file for all packages


def about_kept(kept: KeptPackage) -> Piece:
    """Say which documents were compared."""
    pair = kept.documents
    names = tuple(blob.name if blob else "" for blob in (pair.before, pair.after))
    return Piece(pair.package, names, kept.length)


def compare_and_keep(file: Path, is_pruned: bool, contents: Sequence[Read]) -> KeptBatch:
    """Compare the documents of some packages, and append what happened to each to `file`."""
    tally, problems = Tally(), Problems(frozenset())
    pairs = {pair.package: pair for pair, *_ in contents}
    found = list(compare_contents(contents, tally, problems, is_pruned=is_pruned))
    try:
        with file.open("ab") as end:
            packages = tuple(_keep(end, file, pairs[change.package], (change, items)) for change, items in found)
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
    """Select what was asked for from what happened to `packages`; `is_part` tells whether that may be less than all."""
    collector = make_collector()
    tally = Tally(selected=[] if is_part else None)
    for change, items in _chosen(file, packages, selection):
        if not is_part:
            tally.seen.items += items
        count_chosen(change, items, selection, tally, collector)
    return Batch(tally, (), collector.take())


def _keep(end: BinaryIO, file: Path, documents: DocumentPair, found: Found) -> KeptPackage:
    content = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    kept = KeptPackage(documents, end.tell(), len(content))
    end.write(content)
    _MEMORY.keep((file, kept.position), kept.length, found)
    return kept


def _chosen(file: Path, packages: Sequence[KeptPackage], selection: Selection) -> Iterator[Found]:
    """Yield what was asked for; subscriptions that differ in packages often ask for the same specs of them."""
    if not packages:
        return  # perhaps there is no file
    with file.open("rb") as content:
        for kept in packages:
            recall = partial(_MEMORY.recall, (file, kept.position), kept.length, partial(_read, content, kept))
            if selection.takes_all_specs:
                yield recall()
                continue
            name = file, kept.position, selection.of_specs
            chosen = _MEMORY.recall(name, kept.length, partial(_choose, recall, selection))
            if chosen is not None:
                yield chosen


def _choose(recall: Callable[[], Found], selection: Selection) -> Found | None:
    return choose_specs(*recall(), selection)


def _read(content: BinaryIO, kept: KeptPackage) -> Found:
    content.seek(kept.position)
    found: Found = pickle.loads(content.read(kept.length))  # noqa: S301  we wrote it, and nobody else can
    return found


class _Memory:
    """What was used last."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size = 0

    def keep(self, name: Hashable, length: int, found: object) -> None:
        """Keep what takes `length` bytes in a file, and forget what was not used for longest."""
        self._found[name] = found, length
        self._size += length
        while self._size > _MOST_IN_MEMORY:
            _, (_, length) = self._found.popitem(last=False)
            self._size -= length

    def recall(self, name: Hashable, length: int, find: Callable[[], Any]) -> Any:
        """Return what is kept under `name`, or what `find` finds."""
        if name not in self._found:
            found = find()
            self.keep(name, length, found)
            return found
        self._found.move_to_end(name)
        return self._found[name][0]


_MEMORY = _Memory()
