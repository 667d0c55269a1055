"""Tags that are compared once say to every selection what comparing them for it alone says."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers import catalogue, history, record
from selected import alone, collector, compared, digest_of, states

from cachewatch.core.changesets import Changeset
from cachewatch.core.filters_and_default_kinds import Selection, select
from cachewatch.errors import WorkFailed
from cachewatch.runtime.worker import INLINE, Isolated, Isolation, Worker
from cachewatch.service.comparison_cache import ComparedTags, KeptPackage

SELECTIONS = (
    select(),
    select(packages=["z*"]),
    select(packages=["!zlib"], stacks=["ml"]),
    select(targets=["y"], versions=["@1.10:"]),
    select(compilers=["gcc@13*"]),
    select(packages=["nothing-has-this-name"]),
)


def shared(folder: Path, tags: ComparedTags, selection: Selection) -> Changeset | None:
    return tags.changeset(compared(folder, selection), selection, collector, lambda: None)


@pytest.mark.parametrize("seed", range(4))
def test_every_selection_is_told_the_same(tmp_path: Path, seed: int) -> None:
    folder = history(tmp_path / "r.git", *states(seed))
    tags = ComparedTags(tmp_path / "kept", INLINE)
    order = random.Random(seed).sample(SELECTIONS, len(SELECTIONS))

    for selection in order:
        assert digest_of(shared(folder, tags, selection)) == alone(folder, selection)


def test_a_process_of_its_own_selects_the_same(tmp_path: Path) -> None:
    folder = history(tmp_path / "r.git", *states(3))
    with Worker() as worker:
        tags = ComparedTags(tmp_path / "kept", Isolated(worker))
        found = [digest_of(shared(folder, tags, selection)) for selection in SELECTIONS]
        worker.close()  # and one that has read nothing yet
        again = [digest_of(shared(folder, tags, selection)) for selection in SELECTIONS]

    assert found == again == [alone(folder, selection) for selection in SELECTIONS]


class Failing(Isolation):
    """Cannot select from one package."""

    def each(self, work: Any, items: Iterable[Any], about: Callable[[Any], Any]) -> Iterator[tuple[Sequence[Any], Any]]:
        """Do the work on one item after the other, but for what fails."""
        for item in items:
            fails = isinstance(item, KeptPackage) and item.documents.package == "zlib"
            yield [item], WorkFailed("it took too long") if fails else work([item])


def test_a_package_that_nobody_can_select_from_is_named(tmp_path: Path) -> None:
    folder = history(
        tmp_path / "r.git",
        *(catalogue({name: [record(step, versions=[f"{step}"])] for name in ("hdf5", "zlib")}) for step in (1, 2)),
    )
    isolation: Isolation = Failing()
    tags = ComparedTags(tmp_path / "kept", isolation)
    find = partial(shared, folder, tags)

    everybody, others = (digest_of(find(selection)) for selection in (select(), select(packages=["hdf5"])))

    (lost,) = everybody.unreadable
    assert (lost.package, lost.reason, lost.before, lost.after) == ("zlib", "it took too long", False, True)
    (diagnostic,) = everybody.report.diagnostics
    assert diagnostic.path == "_cache/develop/zlib/specs.md"
    assert [change.package for change in everybody.versions] == ["hdf5"]
    assert not others.unreadable
