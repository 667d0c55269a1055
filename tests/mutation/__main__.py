"""Run the tests on a sample of changes, and say which of them no test noticed."""

import json
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue

import click

from mutation.changes import Mutant, changes, sample
from mutation.reach import Reach, reach
from mutation.trees import End, Tree

MODULES = ("cachewatch/store/", "cachewatch/service/", "cachewatch/operators/", "cachewatch/core/")
# Most changes are noticed by the first few tests, and not many files have to be loaded for those.
_FIRST = 10
Row = dict[str, object]


class Results:
    """The outcome of each change, a line of JSON in a file: a run that was stopped goes on where it was."""

    def __init__(self, path: Path, code: str) -> None:
        """Read what is there for the very same `code`, a fingerprint; a test that took too long is tried again."""
        self._path, self._code = path, code
        lines = path.read_text("utf-8").splitlines(True) if path.exists() else []
        rows: list[Row] = [json.loads(line) for line in lines if line.endswith("\n")]
        rows = [row for row in rows if row["code"] == code and row["outcome"] != "timeout"]
        self._rows = {str(row["diff"]): row for row in rows}
        self._path.write_text("".join(map(self._line, self._rows.values())), "utf-8")

    def get(self, mutant: Mutant) -> Row | None:
        """Return the outcome of a change that was tried before."""
        return self._rows.get(mutant.diff)

    def _line(self, row: Row) -> str:
        return json.dumps({"code": self._code} | row) + "\n"

    def add(self, row: Row) -> None:
        """Write an outcome, once."""
        if str(row["diff"]) not in self._rows:
            self._rows[str(row["diff"])] = row
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._line(row))


@click.command()
@click.option("--sample", "size", default=400, help="How many changes.")
@click.option("--seed", default=1, help="Another seed chooses other changes.")
@click.option("--only", default="", help="Only changes of modules whose path begins so, or of one line: PATH:LINE.")
@click.option("--workers", default=2, help="How many run at once.")
@click.option("--seconds", default=120.0, help="How much time of tests one change is worth, the fastest first.")
@click.option(
    "--result", type=Path, default=Path("mutants.jsonl"), help="Where the outcomes are written, and read from to go on."
)
def main(*, size: int, seed: int, only: str, workers: int, seconds: float, result: Path) -> None:
    """Change the code a little, again and again, and see whether a test notices."""
    work = Path(tempfile.gettempdir()) / "cachewatch-mutants"
    work.mkdir(exist_ok=True)
    trees = [Tree(Path.cwd(), work / str(number)) for number in range(workers)]
    reached = reach(trees, work)
    modules = [Path(path) for path in trees[0].files if path.startswith(MODULES) and path.endswith(".py")]
    found = {path: changes(path, path.read_text("utf-8")) for path in modules}
    found = {path: [m for m in mutants if f"{path}:{m.first}".startswith(only)] for path, mutants in found.items()}
    chosen = sample(found, size, seed)
    click.echo(f"{len(chosen)} of {sum(map(len, found.values())):,} changes; {len(reached.seconds)} tests")
    results = Results(result, trees[0].fingerprint)
    _summarize(_try_all(chosen, reached, seconds, trees, results), seed)


def _try_all(chosen: list[Mutant], reached: Reach, seconds: float, trees: list[Tree], results: Results) -> list[Row]:
    rows = []
    free: SimpleQueue[Tree] = SimpleQueue()
    for tree in trees:
        free.put(tree)
    with ThreadPoolExecutor(len(trees)) as pool:
        for row in pool.map(lambda mutant: results.get(mutant) or _try(mutant, reached, seconds, free), chosen):
            rows.append(row)
            results.add(row)
            click.echo("{0:4} {outcome:9} {seconds:6}s  {path}:{line}  {operator}".format(len(rows), **row))
    return rows


def _try(mutant: Mutant, reached: Reach, most: float, free: "SimpleQueue[Tree]") -> Row:
    """Run the tests that a change may concern until one fails."""
    tests = reached.concerning(mutant)
    sums = accumulate(reached.seconds[test] for test in tests)
    tests = [test for test, seconds in zip(tests, sums, strict=True) if seconds <= most] or tests[:1]
    tree, begun = free.get(), time.monotonic()
    with tree.changed(mutant.path, mutant.code):
        end = tree.run(tests[:_FIRST], reached.seconds, "-x")
        if end.code == 0:
            end = tree.run(tests[_FIRST:], reached.seconds, "-x")
    free.put(tree)
    test, _ = end.failed[-1] if end.failed else ("", "")
    change = {"path": str(mutant.path), "line": mutant.first, "operator": mutant.operator, "diff": mutant.diff}
    seconds = round(time.monotonic() - begun, 1)
    return {**change, "outcome": _outcome(end), "test": test, "tests": len(tests), "seconds": seconds}


def _outcome(end: End) -> str:
    if end.code == 0:
        return "survived"
    if end.failed:
        _, how = end.failed[-1]
        return "killed" if how == "failed" else how
    return "timeout" if end.code is None else "no start"


def _summarize(rows: list[Row], seed: int) -> None:
    survivors = [row for row in rows if row["outcome"] == "survived"]
    for row in survivors:
        click.echo("\n{path}:{line}  {operator}\n{diff}".format(**row), nl=False)
    counts = Counter(str(row["outcome"]) for row in rows).most_common()
    outcomes = ", ".join(f"{count} {name}" for name, count in counts)
    click.echo(f"\nseed {seed}: {outcomes}; {1 - len(survivors) / (len(rows) or 1):.1%} noticed")


if __name__ == "__main__":
    main()
