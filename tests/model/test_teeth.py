"""Wrong ways of doing it are found by the model: it has teeth."""

from collections.abc import Iterator

import pytest

from model.catalogue import Step
from model.mail import Mood
from model.mutants import MUTANTS
from model.stage import Move, Stage
from model.test_found import FOUND, UPGRADE, change, run

# Each pass is killed where the digest that it made is about to be stored.
_KILLS = [move for _ in range(3) for move in (change(Step("wave")), run(kill="store/digests_and_holds.py:add"))]
SHOWN_BY = {
    "cursor first": _KILLS,
    "send first": _KILLS,
    "random id": [Move("set_mood", {"mood": Mood.SWALLOWS}), UPGRADE, run()],
    "unread forgotten": [UPGRADE, change(Step("break")), run(), change(Step("repair", is_new=True)), run()],
    "cursor deleted": FOUND["the whole catalogue is gone, which operators release, and is back with upgrades"],
    "begun anew": FOUND["the first tag that a stream asked for appears"],
}


@pytest.fixture
def mutated(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The stage, with a service that does something wrong."""
    stage.mutant = request.param
    yield stage
    stage.mutant = ""


@pytest.mark.parametrize(("mutated", "moves"), SHOWN_BY.items(), indirect=["mutated"], ids=SHOWN_BY)
def test_what_is_done_wrong_is_found(mutated: Stage, moves: list[Move]) -> None:
    assert mutated.play(moves)


def test_every_mutant_is_shown() -> None:
    assert SHOWN_BY.keys() == MUTANTS.keys()
