"""Random pairs of states of a package."""

import random
from typing import Any

from helpers import Record, record

VALUES: dict[str, list[Any]] = {
    "versions": [
        ["1.9"],
        ["1.10"],
        ["1-10"],
        ["2.0rc1"],
        ["develop"],
        ["1.9", "1.10"],
        [],
        ["git.a=1.9"],
        ["git.b=1.9"],
    ],
    "compiler": ["gcc@11.4.0", "gcc@=11.4.0", "gcc@13.2.0", "none", "gcc"],
    "os": ["a", "a", "b", ""],
    "platform": ["linux", "linux", "windows", ""],
    "target": ["x", "x", "y"],
    "variants": [["+a"], ["~a"], ["+a", "v:=1,2"], ["v=2,1", "+a"], []],
    "stacks": [["root"], ["e4s"], ["e4s", "ml", "root"], ["ml"], []],
}


def some_pair(chance: random.Random) -> tuple[list[Record], list[Record]]:
    """Return a few records on either side, of few values each, that share some hashes."""
    choices = {name: chance.sample(values, chance.choice((1, 1, 2, 3))) for name, values in VALUES.items()}

    def some(start: int) -> list[Record]:
        drawn = range(chance.randrange(8))
        return [record(start + n, **{name: chance.choice(values) for name, values in choices.items()}) for n in drawn]

    before = some(0)
    return before, some(max(0, len(before) - chance.randrange(4)))
