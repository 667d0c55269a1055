"""Wrong ways of doing it are found by the model: it has teeth."""

from collections.abc import Iterator

import pytest

from model.catalogue import Step
from model.mail import Mood
from model.mutants import MUTANTS
from model.stage import Move, Stage
from model.test_found import FOUND, UPGRADE, change, run

# One after the other, each kills the pass a little later.
_KILLS = [move for call in range(1000, 6400, 150) for move in (change(Step("wave")), run(kill=call))]
# What a pass calls depends on how long others take, so a kill may miss the moment; then others are tried in between.
_MORE = [move for call in range(1000, 6400, 35) for move in (change(Step("wave")), run(kill=call))]
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
    assert mutated.play(moves) or (moves is _KILLS and mutated.play(_MORE))


def test_every_mutant_is_shown() -> None:
    assert SHOWN_BY.keys() == MUTANTS.keys()
