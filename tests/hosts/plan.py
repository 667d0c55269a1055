"""Which faults happen when: the same for the same seed, and each kind for each host equally often."""

import random
from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from typing import NamedTuple

from hosts.service import LASTING

HOSTS = 2
# Of so many faults of hosts, one is followed by one of the database.
_HOST_FAULTS = 5


class Kind(StrEnum):
    """What happens."""

    KILLED = "killed"  # and started again
    CUT_FROM_DATABASE = "cut off from the database"
    CUT_FROM_MAIL = "cut off from the mail server"
    PAUSED = "paused until its session ends"
    DATABASE_RESTARTED = "database restarted"
    DATABASE_KILLED = "database killed"


OF_HOSTS = (Kind.KILLED, Kind.CUT_FROM_DATABASE, Kind.CUT_FROM_MAIL, Kind.PAUSED)
OF_DATABASE = (Kind.DATABASE_KILLED, Kind.DATABASE_RESTARTED)

_SESSION = LASTING.total_seconds()
# How many seconds each lasts, at least and at most.
_LASTING = {
    Kind.KILLED: (0.5, 8.0),
    Kind.CUT_FROM_DATABASE: (2.0, 14.0),
    Kind.CUT_FROM_MAIL: (2.0, 12.0),
    Kind.PAUSED: (_SESSION + 1.5, _SESSION + 8.0),
    Kind.DATABASE_RESTARTED: (0.0, 3.0),
    Kind.DATABASE_KILLED: (0.0, 3.0),
}
# Between the beginnings of two faults, so that some happen together.
_GAP = (3.0, 10.0)


class Fault(NamedTuple):
    """One fault."""

    begins: float  # in seconds, since the first moment
    lasts: float
    kind: Kind
    host: int  # or -1

    def __str__(self) -> str:
        whom = f"host {self.host} " if self.host >= 0 else ""
        return f"{self.begins:6.1f} s: {whom}{self.kind}, {self.lasts:.1f} s"


def plan(count: int, seed: int) -> list[Fault]:
    """Return so many faults of hosts, and some of the database between them."""
    dice = random.Random(seed)
    faults, begins = [], 0.0
    for kind, host in _kinds(count, dice):
        begins += dice.uniform(*_GAP)
        faults.append(Fault(begins, dice.uniform(*_LASTING[kind]), kind, host))
    return faults


def _kinds(count: int, dice: random.Random) -> Iterator[tuple[Kind, int]]:
    every = list(product(OF_HOSTS, range(HOSTS)))
    for number in range(count):
        if number % len(every) == 0:
            dice.shuffle(every)
        yield every[number % len(every)]
        if number % _HOST_FAULTS == _HOST_FAULTS - 1:
            yield OF_DATABASE[number // _HOST_FAULTS % len(OF_DATABASE)], -1
