"""The history index, built and asked: `python -m benchmarks.history_index` writes its part of RESULTS.md anew.

`make bench` measures the same with everything else.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import history_questions as questions
from benchmarks import nights
from benchmarks.bars import Bar, bars_of_index
from benchmarks.history_build import Building, Peer, measure_building, measure_peer
from benchmarks.machine import Bystanders
from benchmarks.measuring import Figures, tell
from benchmarks.subject import CHECKOUT, Peers
from benchmarks.tables import spread, table

HEADING = "## History index"
# Upstream as it was measured: all versions of all documents, and what came and went in them.
_UPSTREAM_RECORDS, _UPSTREAM_EVENTS = 1_000_000_000, 8_900_000
_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryIndex:
    """All that was measured of it."""

    building: Building
    peer: Peer | None
    events: int  # of the synthetic index
    bytes: int
    seconds: dict[str, Figures]  # of each question, whole processes


def measure(
    work: Path,
    peers: Peers | None,
    rounds: int,
    *,
    repository: Path | None = None,
    index: Path | None = None,
    is_quick: bool = False,
) -> HistoryIndex:
    """Measure everything; a `repository` and an `index` are made unless they are given."""
    if repository is None:
        repository = work / "nights.git"
        tell("generating nights")
        shape = (30, 60, 1500) if is_quick else (400, 1500, 100_000)
        nights.generate(repository, nights=shape[0], packages=shape[1], specs=shape[2], seed=1)
    tell("history index: building")
    building = measure_building(repository, work, min(rounds, 3))
    peer = measure_peer(repository, peers, work, min(rounds, 3)) if peers else None
    tell("history index: questions")
    if index is None:
        index = work / "synthetic.db"
        questions.Synthetic(index, 20 if is_quick else questions.REVISIONS).make()
    events, size = questions.size_of(index)
    return HistoryIndex(
        building=building, peer=peer, events=events, bytes=size, seconds=questions.measure(index, rounds)
    )


def bars(found: HistoryIndex) -> list[Bar]:
    """Return what was promised of it."""
    version = found.seconds[questions.VERSION]
    return list(
        bars_of_index(
            peer=found.peer.seconds.over(_each(found.building)) if found.peer else None,
            two=found.building.elapsed.over(found.building.elapsed_of_two),
            size=Figures((found.building.bytes / found.building.events,)),
            questions={
                name: _least(taken)
                for name, taken in found.seconds.items()
                if name not in (questions.PASS, questions.VERSION)
            },
            version=_least(version),
        )
    )


def _least(taken: Figures) -> Figures:
    # Other work makes processor time longer, and never shorter.
    return Figures((min(taken.values),))


def _each(building: Building) -> Figures:
    return Figures(tuple(seconds / building.versions for seconds in building.processor.values))


def section(found: HistoryIndex) -> Iterator[str]:
    """Yield its part of the page."""
    b = found.building
    yield HEADING
    yield ""
    yield f"Built from {b.revisions:,} nights: {b.documents:,} documents, {b.versions:,} versions of them with {b.records:,} records; {b.events:,} specs came or went."
    yield "Seconds are of the processor, git included, unless they are called elapsed; those, and so what a second process gains,"
    yield "say something only where no processor is busy with something else."
    yield ""
    rows = [
        ("a build in one process, s", spread(b.processor, "{:.1f}")),
        ("a version of a document in it, ms", spread(_milliseconds(_each(b)), "{:.2f}")),
        ("a build in one process, s elapsed", spread(b.elapsed, "{:.1f}")),
        ("a build in two processes, s elapsed", spread(b.elapsed_of_two, "{:.1f}")),
        ("the index, bytes for each spec that came or went", f"{b.bytes / b.events:.1f}"),
    ]
    if found.peer:
        row = f"git-history, one document of average size ({found.peer.versions} versions), ms a version"
        rows.append((row, spread(_milliseconds(found.peer.seconds), "{:.1f}")))
    yield from table(("what", "measured"), rows)
    yield ""
    yield from _projection(found)
    yield ""
    yield f"Questions to a synthetic index of {found.events:,} specs that came or went ({found.bytes / found.events:.1f} bytes each), whole processes in turns. The least"
    yield "of all rounds counts, because other work on the machine makes processor time longer, and never shorter."
    yield ""
    version = min(found.seconds[questions.VERSION].values)
    yield from table(
        ("process", "least, s", "median, s", f"least beyond `{questions.VERSION}`, s"),
        [
            (f"`{name}`", f"{min(taken.values):.3f}", f"{taken.middle:.3f}", f"{min(taken.values) - version:.3f}")
            for name, taken in found.seconds.items()
        ],
    )


def _projection(found: HistoryIndex) -> Iterator[str]:
    """Say what upstream would take at the cost of a record here, which is more than a record of long documents costs."""
    b = found.building
    hours = b.processor.middle / b.records * _UPSTREAM_RECORDS / _HOUR
    megabytes = b.bytes / b.events * _UPSTREAM_EVENTS / 1e6
    yield f"**Projection for upstream**, whose history has about {_UPSTREAM_RECORDS / 1e9:.0f} billion records and {_UPSTREAM_EVENTS / 1e6:.1f} million specs that came or went, at the"
    yield f"cost of a record and the size of a spec in this build: {hours:.2f} hours of one processor, and an index of {megabytes:.0f} MB."


def _milliseconds(seconds: Figures) -> Figures:
    return Figures(tuple(value * 1000 for value in seconds.values))


def main() -> None:
    """Measure, and put the section in the place of the one in RESULTS.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history_index", description=main.__doc__)
    parser.add_argument("--repository", type=Path, help="a repository as nights.py makes it (a new one of 400 nights)")
    parser.add_argument("--index", type=Path, help="a synthetic index (a new one)")
    parser.add_argument("--peers", type=Path, help="where the peers are installed; without, they are left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=CHECKOUT / "benchmarks/RESULTS.md")
    options = parser.parse_args()
    peers = Peers(options.peers) if options.peers else None
    bystanders = Bystanders()
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as folder:
        found = measure(Path(folder), peers, options.rounds, repository=options.repository, index=options.index)
    lines = [*section(found), "", *_alone(bars(found), bystanders)]
    page = options.output.read_text() if options.output.exists() else ""
    options.output.write_text(replaced(page, "\n".join(lines) + "\n"))
    for line in lines:
        tell(line)


def _alone(found: list[Bar], bystanders: Bystanders) -> Iterator[str]:
    """Say when this part was measured, and what is promised: the rest of the page is of another run."""
    yield f"This part is of a run of its own, on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC; {bystanders.describe()[1]}."
    yield ""
    rows = [
        (bar.promise, bar.limit_text, spread(bar.measured, bar.form), "yes" if bar.is_reached else "**no**")
        for bar in found
    ]
    yield from table(("bar 8", "limit", "measured", "reached"), rows)


def replaced(page: str, part: str) -> str:
    """Return `page` with `part` instead of what stands under its heading; at the end if nothing does."""
    pattern = re.compile(rf"^{re.escape(HEADING)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: part + "\n", page).rstrip("\n") + "\n"
    return f"{page.rstrip(chr(10))}\n\n{part}".lstrip("\n")


if __name__ == "__main__":
    main()
