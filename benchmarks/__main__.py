"""`python -m benchmarks`: measure everything, and write benchmarks/RESULTS.md."""

import argparse
import subprocess
import tempfile
from pathlib import Path

from benchmarks import bars, history_index, suites
from benchmarks.generate import Catalogue, Shape, generate
from benchmarks.history import history
from benchmarks.machine import Bystanders, describe, import_times
from benchmarks.measuring import tell
from benchmarks.passes import Cost, Load, cost_of
from benchmarks.results import Results, write
from benchmarks.subject import CHECKOUT, Peers, Subject
from benchmarks.year import simulate

_RESULTS = CHECKOUT / "benchmarks" / "RESULTS.md"


def main() -> None:
    """Measure cachewatch against git's own floor and against its peers."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="cachewatch-bench-") as folder:
        bystanders = Bystanders()
        results = _measure(Path(folder), options.packages, options.specs, options.rounds, is_quick=options.quick)
    results.facts.append(bystanders.describe())
    page = write(results)
    options.output.write_text(page)
    for bar in () if options.quick else results.bars:
        tell(f"{'reached' if bar.is_reached else 'NOT    '} {bar.promise}: {bar.form.format(bar.measured.middle)}")
    tell(f"written: {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="only see that everything runs, on next to nothing")
    parser.add_argument("--packages", type=int, help="packages in develop (1500)")
    parser.add_argument("--specs", type=int, help="specs in develop (100000)")
    parser.add_argument("--rounds", type=int, help="rounds of each measurement (5)")
    parser.add_argument("--output", type=Path, help="where to write (benchmarks/RESULTS.md; when quick, a new file)")
    options = parser.parse_args()
    packages, specs, rounds = (60, 1500, 1) if options.quick else (1500, 100_000, 5)
    options.packages = options.packages or packages
    options.specs = options.specs or specs
    options.rounds = options.rounds or rounds
    if options.output is None:
        # A quick run says nothing about speed, so it never replaces real results.
        quick = Path(tempfile.gettempdir(), "cachewatch-bench-quick.md")
        options.output = quick if options.quick else _RESULTS
    return options


def _measure(work: Path, packages: int, specs: int, rounds: int, *, is_quick: bool) -> Results:
    cachewatch = Subject(work)
    notes = [] if not is_quick else ["This was a quick run on next to nothing: its figures mean nothing."]
    peers = _peers(work / "peers", notes)
    results = Results(list(describe(peers)), notes=notes)
    shape = Shape(packages=packages, specs=specs, tags=4 if is_quick else 40)
    tell(f"generating {packages:,} packages")
    catalogue = generate(work / "catalogue.git", shape)
    results.facts.append(("repository", _describe(catalogue)))

    tell("far")
    far, results.answers = suites.far(cachewatch, catalogue, rounds, work)
    tell("far, varied")
    varied = generate(work / "varied.git", Shape(packages=packages, specs=specs, commits=5, tags=0, is_varied=True))
    far_varied, answers = suites.far(cachewatch, varied, rounds, work, title="Far, varied")
    results.answers += answers
    start_up = suites.start_up(cachewatch, catalogue, rounds)
    tell("small")
    small, answers = suites.small(cachewatch, catalogue, peers, rounds, work)
    results.answers += answers
    tell("tags")
    tags, results.reads = suites.tags(cachewatch, catalogue, rounds, work)
    results.suites = [far, small, tags, far_varied]
    results.bars = [
        *bars.bars_of_far(far, bars.ALIKE),
        *bars.bars_of_far(far_varied, bars.VARIED),
        *bars.bars_of_start_up(start_up),
        *bars.bars_of_small(small),
        *bars.bars_of_tags(results.reads),
    ]
    if peers:
        tell("history")
        results.history = history(cachewatch, catalogue, peers, rounds, work)
        results.answers += results.history.answers
        results.bars += bars.bars_of_history(results.history)
    results.bars += bars.bars_of_answers(results.answers)
    results.growth = suites.growth(cachewatch, _sizes(work, shape), rounds)
    results.bars += bars.bars_of_growth(results.growth)
    tell("deliveries")
    results.deliveries = suites.deliveries(cachewatch, (0, 10) if is_quick else (0, 1000, 4000), rounds, work)
    results.bars += bars.bars_of_deliveries(results.deliveries)
    tell("passes")
    results.passes = _passes(work, is_quick=is_quick)
    results.bars += bars.bars_of_passes(results.passes)
    tell("a year")
    results.year = simulate(work / "year", *((4, 5, 60, 600) if is_quick else (365, 100, 300, 15_000)))
    results.bars += bars.bars_of_year(results.year)
    results.index = history_index.measure(work, peers, rounds, is_quick=is_quick)
    results.bars += history_index.bars(results.index)
    tell("phases")
    results.phases = {
        suite.title: suites.phases(cachewatch, catalogue, span, rounds, work)
        for suite, span in ((far, catalogue.far), (small, catalogue.small))
    }
    results.imports = import_times(cachewatch.import_times(catalogue, catalogue.small))
    return results


def _passes(work: Path, *, is_quick: bool) -> dict[str, Cost]:
    loads = (Load(4, 4, False), Load(1, 8, False)) if is_quick else (Load(40, 200, False), Load(1, 5000, False))
    found = {}
    for load in loads:
        folder = work / f"passes-{load.tags}"
        folder.mkdir()
        name = f"pass, {load.tags} tags, {load.subscriptions:,} subscriptions"
        found[name] = cost_of(folder, load, packages=60 if is_quick else 300, specs=600 if is_quick else 15_000)
    return found


def _peers(folder: Path, notes: list[str]) -> Peers | None:
    tell("installing the peers")
    try:
        return Peers.install(folder)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        notes.append(f"The peers could not be installed, so nothing is compared with them: {(reason or ['?'])[-1]}")
        return None


def _describe(catalogue: Catalogue) -> str:
    shape = catalogue.shape
    pack = sum(file.stat().st_size for file in catalogue.folder.glob("objects/pack/*.pack")) / 1e6
    return (
        f"generated: {shape.packages:,} packages and about {shape.specs:,} specs in develop, {shape.tags} dated tags, "
        f"{len(catalogue.commits)} commits, seed {shape.seed}; one pack of {pack:.0f} MB, as `git repack -adf` makes it"
    )


def _sizes(work: Path, shape: Shape) -> list[Catalogue]:
    """Make a tenth of the catalogue, the same, and ten times as much, each with few revisions."""
    made = []
    for number, factor in enumerate((0.1, 1.0, 10.0)):
        scaled = Shape(packages=round(shape.packages * factor), specs=round(shape.specs * factor), commits=3, tags=0)
        tell(f"generating {scaled.packages:,} packages")
        made.append(generate(work / f"size-{number}.git", scaled))
    return made


if __name__ == "__main__":
    main()
