"""Which tests run which lines: each is run once under coverage, also in the processes that it starts."""

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from coverage import CoverageData
from coverage.exceptions import DataError

from mutation.changes import Mutant
from mutation.trees import Tree

# They try a whole pass hundreds of times over, or take a browser.
_LEFT_OUT = ("tests/crash/", "tests/model/", "tests/browser/")
_SETTINGS = """\
[run]
source_pkgs = cachewatch
concurrency = multiprocessing, thread
parallel = true
patch = subprocess
context = ${MUTATION_TEST-}
data_file = %s
"""


@dataclass(frozen=True)
class Reach:
    """What tests take, and the lines that they run."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]  # module -> line -> tests

    def concerning(self, mutant: Mutant) -> list[str]:
        """Return the tests that a change may concern: first those that are fast and have much to do with its module."""
        lines = self.lines.get(str(mutant.path), {})
        depth = Counter(test for tests in lines.values() for test in tests)
        found = {test for number in range(mutant.first, mutant.last + 1) for test in lines.get(str(number), ())}
        # Where no test runs it, those of the module or of its neighbours.
        near = (lines for name, lines in self.lines.items() if Path(name).parent == mutant.path.parent)
        found = found or set(depth) or {test for lines in near for tests in lines.values() for test in tests}
        return sorted(found, key=lambda test: (self.seconds[test] / (depth[test] or 1), test))


def reach(trees: Sequence[Tree], work: Path) -> Reach:
    """Measure it, or read what was measured for the very same code."""
    kept = work / f"reach-{trees[0].fingerprint}.json"
    if not kept.exists():
        kept.write_text(json.dumps(asdict(_measure(trees, work))), "utf-8")
    return Reach(**json.loads(kept.read_text("utf-8")))


def _measure(trees: Sequence[Tree], work: Path) -> Reach:
    data, settings = work / "coverage", work / "coverage.cfg"
    data.mkdir(exist_ok=True)
    for old in data.iterdir():
        old.unlink()
    settings.write_text(_SETTINGS % (data / "of"), "utf-8")
    files = [path for path in trees[0].files if path.startswith("tests/") and Path(path).match("test_*.py")]
    files = [path for path in files if not path.startswith(_LEFT_OUT)]
    with ThreadPoolExecutor(len(trees)) as pool:
        shares = [files[number :: len(trees)] for number in range(len(trees))]
        ends = list(pool.map(lambda tree, share: tree.measure(share, settings), trees, shares))
    for end in ends:
        for test, _ in end.failed:
            click.echo(f"left out: {test} fails without any change")
    seconds = {test: took for end in ends for test, (how, took) in end.tests.items() if how == "passed"}
    return Reach(seconds, _lines(data, {tree.folder for tree in trees}, set(seconds)))


def _lines(data: Path, folders: set[Path], tests: set[str]) -> dict[str, dict[str, list[str]]]:
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in data.iterdir():
        part = CoverageData(str(path))
        try:
            part.read()
        except DataError:
            continue  # of a process that was killed while it wrote
        for file in part.measured_files():
            # A test's own copy of the package is in none of them.
            modules = [str(Path(file).relative_to(folder)) for folder in folders if file.startswith(f"{folder}/")]
            module = modules[0] if modules else ""
            for line, contexts in part.contexts_by_lineno(file).items():
                found[module][str(line)].update(tests.intersection(contexts))
    for module, lines in found.items():
        # What an import runs concerns every test of the module, though only the first of them imports it.
        everyone = set[str]().union(*lines.values())
        for number in _run_by_import(Path(module)) if module else ():
            lines[str(number)] = everyone
    return {module: {line: sorted(by) for line, by in lines.items() if by} for module, lines in found.items() if module}


def _run_by_import(module: Path) -> set[int]:
    """Return the numbers of the lines that are in no function."""
    text = module.read_text("utf-8")
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {number for one in functions for number in range(one.body[0].lineno, (one.end_lineno or 0) + 1)}
    return set(range(1, text.count("\n") + 2)) - inside
