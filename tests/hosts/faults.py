"""Play faults of two hosts and their database at random, and exit with 1 unless readers got everything once.

`make hosts HOSTS="--faults 50 --seed 1"`, as root, for networks of its own.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model.catalogue import BREAKS, Document, Editor, Step, Tags, files_of, last_readable
from model.checks import by_message_id
from model.sums import Line
from model.world import Stream
from upstream import Upstream

from hosts.mails import newest, problems
from hosts.networks import network
from hosts.plan import Fault, Kind, plan
from hosts.scene import Scene, open_scene

READERS: Mapping[str, Stream] = {
    "ann@example.org": Stream("all", "regular", ()),
    "bob@example.org": Stream("all", "regular", ()),
    "cat@example.org": Stream("some", "regular", (), packages=("p[ab]",)),
    "dan@example.org": Stream("minutes", "regular", ()),
}
OPERATOR = "ops@example.org"
# Of a fault of a host that another one replaces, operators need not hear.
_NO_ALERT = "Subject: [cachewatch] digests cannot be created"
_PACKAGES = tuple(f"p{letter}" for letter in "abcdefgh")
_STEPS = ("upgrade", "upgrade", "extend", "shrink", "remove", "break", "repair")
# Seconds between two commits.
_PAUSE = (0.5, 2.5)
# Seconds in which everything must be well again: far more than what a killed host was sending waits, which is 35.
_HEALING = 300.0


@dataclass
class Published:
    """What upstream publishes, at random."""

    path: Path
    dice: random.Random
    commits: list[str] = field(default_factory=list)
    published: dict[str, Tags] = field(default_factory=dict)
    last_read: dict[str, Tags] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._upstream = Upstream(self.path)
        builds: dict[str, Document] = {name: frozenset({10 * n, 10 * n + 1}) for n, name in enumerate(_PACKAGES, 1)}
        self._editor = Editor({"develop": builds, "v1.0": builds})

    def change(self) -> None:
        """Commit a step or two; what was removed is mostly added again, since few packages look suspicious."""
        for tag in range(len(self._editor.tags)):
            if self.dice.random() < 0.7:
                name, how = self.dice.choice(_STEPS), self.dice.choice(sorted(BREAKS))
                self._editor.apply(Step(name, tag, self.dice.choice(_PACKAGES), how, self.dice.random() < 0.5))
            if self.dice.random() < 0.4:
                for package in _PACKAGES:
                    self._editor.apply(Step("add", tag, package, is_new=self.dice.random() < 0.5))
        self.commit()

    def finish(self) -> None:
        """Let every document be readable, and change every package."""
        self._editor.repair()
        for tag in range(len(self._editor.tags)):
            self._editor.apply(Step("wave", tag))
        self.commit()

    def commit(self) -> None:
        """Publish the catalogue as it is."""
        tags = self._editor.tags
        before = self.last_read[self.commits[-1]] if self.commits else {}
        commit = self._upstream.commit(files_of(tags), *self.commits[-1:], date=f"{int(time.time())} +0000")
        self.published[commit] = {tag: dict(packages) for tag, packages in tags.items()}
        self.last_read[commit] = last_readable(before, tags)
        self.commits.append(commit)

    @property
    def line(self) -> Line:
        """What was published so far."""
        return Line(self.commits[0], self.commits[-1], self.published, self.last_read)


@dataclass
class Figures:
    """What came of it."""

    faults: Counter[Kind] = field(default_factory=Counter)
    commits: int = 0
    digests: int = 0
    copies: int = 0
    takeovers: int = 0
    restarts: int = 0  # of daemons that found no database
    seconds: float = 0.0

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        rest = ", ".join(f"{round(count)} {name}" for name, count in vars(self).items() if name != "faults")
        return f"{sum(self.faults.values())} faults ({faults}): {rest}"


def play(folder: Path, count: int, seed: int, *, is_told: bool = False) -> tuple[list[str], Figures]:
    """Let so many faults happen; return what is wrong in the end, and figures."""
    upstream = Published(folder / "upstream.git", random.Random(f"upstream {seed}"))
    upstream.commit()
    faults, began = plan(count, seed), time.monotonic()
    with network() as cables, open_scene(folder, cables) as scene, scene.daemons():
        _play(scene, upstream, faults, is_told=is_told)
        upstream.finish()
        _heal(scene, upstream)
        figures = _figures(scene, upstream, faults)
        figures.seconds = time.monotonic() - began
        found = []
        for reader, stream in READERS.items():
            found += [f"{reader}: {problem}" for problem in problems(scene.taken(reader), stream, upstream.line)]
        alerts = sum(_NO_ALERT.encode() in mail for mail in scene.taken(OPERATOR))
        found += [f"{OPERATOR} was told that digests cannot be created, {alerts} times"] if alerts else []
        return [*found, *scene.wrong_ends()], figures


def _play(scene: Scene, upstream: Published, faults: list[Fault], *, is_told: bool) -> None:
    """Let faults begin and end when they are due, and upstream change all the time."""
    ends = [(fault.begins + fault.lasts, False, fault) for fault in faults]
    events = sorted([(fault.begins, True, fault) for fault in faults] + ends)
    first = time.monotonic()
    next_change = 0.0
    while events:
        now = time.monotonic() - first
        if now >= next_change:
            upstream.change()
            next_change = now + upstream.dice.uniform(*_PAUSE)
        scene.look_after()
        if now < events[0][0]:
            time.sleep(0.05)
            continue
        _, is_begin, fault = events.pop(0)
        if is_told and is_begin:
            print(fault, flush=True)
        scene.change(fault, is_begin=is_begin)


def _heal(scene: Scene, upstream: Published) -> None:
    """Wait until everybody was told of the last revision: mails to one reader come in order."""
    end, last = time.monotonic() + _HEALING, upstream.commits[-1]
    while time.monotonic() < end and not all(newest(scene.taken(reader)) == last for reader in READERS):
        scene.look_after()
        time.sleep(0.5)


def _figures(scene: Scene, upstream: Published, faults: list[Fault]) -> Figures:
    taken = [scene.taken(reader) for reader in READERS]
    digests = sum(len(by_message_id(mails)) for mails in taken)
    return Figures(
        faults=Counter(fault.kind for fault in faults),
        commits=len(upstream.commits),
        digests=digests,
        copies=sum(map(len, taken)) - digests,
        takeovers=scene.count("leader.began"),
        restarts=sum(sum(host.ended.values()) for host in scene.hosts),
    )


def main() -> int:
    """Play, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=50, help="of hosts; the database has some more")
    parser.add_argument("--seed", type=int, default=1, help="others give other faults at other times")
    parser.add_argument("--keep", type=Path, help="an empty folder for the mails and the logs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachewatch-hosts-") as name:
        found, figures = play(options.keep or Path(name), options.faults, options.seed, is_told=True)
    for problem in found:
        print(f"-> {problem}")
    print(f"seed {options.seed}: {figures}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
