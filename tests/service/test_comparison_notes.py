"""What is noted of a tag beside what its digest says."""

from collections.abc import Sequence
from unittest.mock import Mock, sentinel

import pytest

from cachewatch.core.changesets import Changeset, Outcome, Tally
from cachewatch.core.model import Event, Kind, PackageCounts, Side
from cachewatch.service.notes import NotesCollector, Packages, TagNotes, noted
from cachewatch.store.cursors import Departure, DepartureKind


def departures(*names: str) -> tuple[Departure, ...]:
    return tuple(Departure(kind=DepartureKind.PACKAGE, name=name, packages=1, specs=3) for name in names)


@pytest.mark.parametrize(
    ("names", "fact"),
    [
        (["zlib"], "1 package gone: zlib"),
        (["hdf5", "zlib"], "2 packages gone: hdf5, zlib"),
        (list("abcdefghijkl"), "12 packages gone: a, b, c, d, e, f, g, h, i, j and 2 more"),
    ],
)
def test_a_loss_is_counted_and_named(names: Sequence[str], fact: str) -> None:
    notes = TagNotes(tag="develop", told=2, suspicion="", gone=departures(*names), joined=())

    assert list(notes.facts) == [fact]


@pytest.mark.parametrize(
    ("kind", "gone", "joined"),
    [
        (Kind.TAG_ADDED, [], []),
        (Kind.TAG_REMOVED, ["develop"], ["zstd"]),
        (Kind.STACK_REMOVED, ["develop", "zlib"], ["zstd"]),
    ],
)
def test_what_goes_with_a_whole_tag_is_not_noted_for_itself(kind: Kind, gone: list[str], joined: list[str]) -> None:
    event = Event(kind, "develop", 1, 3)
    side = Side(name="x", tag="develop")
    counts = PackageCounts(before=1, after=1, added=1, removed=1, changed=0, rebuilt_only=0)
    outcome = Outcome(
        before=side,
        after=side,
        revisions_between=1,
        packages=counts,
        tally=Tally(),
        statements=(),
        events=(event,),
        diagnostics=(),
    )
    changeset = Changeset(side, side, (), lambda *_: outcome)
    packages = Packages(told=2, gone=list(departures("zlib")), joined=list(departures("zstd")))

    found = noted(changeset, packages, [event], is_suspicion_hidden=False)

    assert [one.name for one in found.gone] == gone
    assert [one.name for one in found.joined] == joined


def test_what_nobody_is_told_is_seen_all_the_same() -> None:
    """What a new snapshot lacks is found from all packages, whoever looks on the way."""
    body = Mock()
    NotesCollector(body, lambda _: True).see(sentinel.change)

    body.see.assert_called_once_with(sentinel.change)
    body.add.assert_not_called()
