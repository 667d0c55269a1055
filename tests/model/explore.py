"""Play the model and print each counterexample, shortened; exits with 1 if there was one: `make model MODEL="--minutes 60 --seed 1"`."""

import argparse
import time
from collections.abc import Callable, Iterator

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from model.machine import Model
from model.mutants import MUTANTS
from model.stage import Move, Stage, open_stage

# Of one seed; the first ones are always small.
_EXAMPLES = 40
LIMITS = settings(
    stateful_step_count=20,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def main() -> int:
    """Play, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first examples; others give others")
    parser.add_argument("--moves", type=int, default=20, help="at most, in each example")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), default="", help="a wrong way of doing it")
    parser.add_argument("--first", action="store_true", help="end at the first counterexample")
    options = parser.parse_args()
    with open_stage() as stage:
        stage.mutant = options.mutant
        Model.stage = stage
        count = 0
        for moves in _counterexamples(stage, options.seed, options.minutes * 60, options.moves):
            count += 1
            _report(stage, moves)
            if options.first:
                break
    return int(count > 0)


def _counterexamples(stage: Stage, first: int, seconds: float, moves: int) -> Iterator[list[Move]]:
    begin = said = time.monotonic()
    number = first
    while time.monotonic() - begin < seconds:
        limits = settings(LIMITS, max_examples=_EXAMPLES, stateful_step_count=moves)
        if (found := _play(number, limits)) is not None:
            yield found
        number += 1
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{(said - begin) / 60:.0f} min, seed {number}: {stage.figures}", flush=True)
    print(f"{(time.monotonic() - begin) / 60:.1f} min, seeds {first} to {number - 1}: {stage.figures}", flush=True)


def _play(number: int, limits: settings) -> list[Move] | None:
    """Play some examples, and return the one that broke a promise."""
    Model.failed = None
    try:
        run_state_machine_as_test(seed(number)(Model), settings=limits)
    except (AssertionError, Flaky):
        if Model.failed is None:
            raise
    return Model.failed


def _report(stage: Stage, moves: list[Move]) -> None:
    print(f"a counterexample of {len(moves)} moves; {stage.figures}", flush=True)
    for line in (*map(str, moves), *(f"-> {problem}" for problem in Model.problems)):
        print(f"    {line}", flush=True)
    print("in as few moves as break a promise:", flush=True)
    fewer = shrink(moves, lambda some: bool(stage.play(some)))
    for line in (*map(str, fewer), *(f"-> {problem}" for problem in stage.play(fewer))):
        print(f"    {line}", flush=True)


def shrink(moves: list[Move], is_wrong: Callable[[list[Move]], bool]) -> list[Move]:
    """Return as few of these moves as are wrong still: leave out runs of them, shorter and shorter ones."""
    size = max(1, len(moves) // 2)
    while size:
        start = 0
        while start < len(moves):
            fewer = moves[:start] + moves[start + size :]
            if is_wrong(fewer):
                moves = fewer
            else:
                start += size
        size //= 2
    for number, move in enumerate(moves):
        for simpler in _simpler(move):
            fewer = [*moves[:number], simpler, *moves[number + 1 :]]
            if is_wrong(fewer):
                moves = fewer
    return moves


def _simpler(move: Move) -> Iterator[Move]:
    """Yield the move with one of its steps alone."""
    steps = move.options.get("steps", [])
    if len(steps) > 1:
        yield from (Move(move.name, {**move.options, "steps": [step]}) for step in steps)


if __name__ == "__main__":
    raise SystemExit(main())
