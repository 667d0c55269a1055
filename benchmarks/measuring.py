"""Run whole processes, one after the other in rounds, and take their times."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

_LONGEST_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to be measured; its output goes to `output`, or nowhere."""

    name: str
    arguments: Sequence[str | Path]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None

    def start(self, *, stderr: int | None = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """Start it."""
        target = self.output.open("wb") if self.output else None
        try:
            return subprocess.Popen(
                self.arguments,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=target or subprocess.DEVNULL,
                stderr=stderr,
            )
        finally:
            if target:
                target.close()

    def run(self) -> bytes:
        """Run it to its end and return what it says on standard error."""
        with self.start() as process:
            _, stderr = process.communicate(timeout=_LONGEST_SECONDS)
        if process.returncode:
            raise RuntimeError(f"{self.name} ended with {process.returncode}: {stderr.decode('utf-8', 'replace')}")
        return stderr


@dataclass(frozen=True, slots=True)
class Figures:
    """The same figure from several rounds."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    def over(self, other: "Figures") -> "Figures":
        """Return the ratios to another figure, each within its round as far as both have it."""
        return Figures(tuple(a / b for a, b in zip(self.values, other.values, strict=False)))

    def minus(self, other: "Figures") -> "Figures":
        """Return the differences to another figure, each within its round as far as both have it."""
        return Figures(tuple(a - b for a, b in zip(self.values, other.values, strict=False)))


def race(commands: Sequence[Command], rounds: int, *, budget: float = 60.0) -> dict[str, Figures]:
    """Return the seconds that each command takes, from rounds in which each runs once.

    What has used up its `budget` of seconds sits out the rounds that are left. One run of
    each comes before all rounds, unless there is only one, so that none pays for cold files.
    """
    seconds: dict[str, list[float]] = {command.name: [] for command in commands}
    spent = dict.fromkeys(seconds, 0.0)
    for number in range(rounds if rounds == 1 else rounds + 1):
        for command in commands:
            if number and spent[command.name] >= budget:
                continue
            start = time.perf_counter()
            command.run()
            used = time.perf_counter() - start
            spent[command.name] += used
            # What is too slow for a second run is not asked to warm up.
            if number or rounds == 1 or used >= budget:
                seconds[command.name].append(used)
    return {name: Figures(tuple(values)) for name, values in seconds.items()}


def tell(text: str) -> None:
    """Say on standard error what is being done."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
