"""`why` and `impact` as Markdown."""

import re
from pathlib import Path

import pytest
from conftest import Run
from msgspec.structs import replace
from truths import V3, History

from cachewatch.core.graphs_and_attribution import Cause, Explanation, GraphNode, What
from cachewatch.core.kinds_and_specs import Side
from cachewatch.extensions.causes.commands import (
    impact_tables,
    package_report,
    report_lines,
    report_markdown,
    revisions_report,
)
from cachewatch.extensions.causes.predecessors_and_causes import Impact
from cachewatch.report.diff_blocks_and_colours import Palette
from cachewatch.report.tables_and_listings import write_table

HOSTILE = "a|b<i>`x`\n# c"
SIDE = Side(revision="c" * 40, tag="develop", time=None, name="c")


def markdown(run: Run, history: History, *arguments: str) -> str:
    """Return what a command prints as Markdown."""
    asked = [history.revisions.get(word, word) for word in arguments]
    result = run(*asked, "--repo", history.folder, "--format", "markdown")
    assert (result.exit_code, result.error) == (0, "")
    return result.output


def test_all_between_two_revisions(run: Run, histories: dict[str, History]) -> None:
    """Each cause with the specs counted under it, as an item of a list."""
    output = markdown(run, histories["v3"], "why", "--between", V3[5], V3[6])

    assert output.startswith("## Why specs were rebuilt\n\ndevelop ")
    said = "5 specs rebuilt, in place of an older build or beside it"
    assert f"\n\n{said}:\n\n- 5 specs: zlib 1.3 → 1.3.1 (cw-solver" in output
    assert "\n\n1 new spec, with version 1.3 -> 1.3.1: zlib\n" in output
    assert "\n\n\n" not in output


def test_specs_of_a_package(run: Run, histories: dict[str, History]) -> None:
    """Each with its nearest predecessor, the causes and the path to each."""
    output = markdown(run, histories["v3"], "why", "cw-stack", "--rev", V3[6])

    assert (
        "\n\n### `cw-stack@2026.05/eegwaws`\n\nnearest predecessor cw-stack@2026.05/rvmga2n (the older spec that shares most dependencies)\n\n- zlib 1.3 → 1.3.1 (cw-stack ← cw-torch ← zlib)\n"
        in output
    )
    assert "was there in the first recorded revision" in markdown(run, histories["v3"], "why", "zlib", "--rev", V3[0])


def test_lock_files(run: Run, buildcaches: Path) -> None:
    """Causes first, then each root."""
    locks = [buildcaches / "v3" / "env" / str(number) for number in (4, 7)]
    output = run("why", "--lock", *locks, "--format", "markdown").output

    assert "6 of 9 specs with another hash\n\n6 specs with another hash:\n\n- 6 specs: zlib 1.3 → 1.3.1 " in output
    assert "\n### `cw-stack@2026.05/eegwaws`\n" in output


def test_impact(run: Run, histories: dict[str, History]) -> None:
    """A table of stacks and one of packages; none where nothing depends on it."""
    output = markdown(run, histories["v3"], "impact", "zlib", "--rev", V3[5])

    assert "\n| stack | specs | packages |\n" in output
    assert "\n| cw-torch | 2 | yes |\n" in output
    assert "|" not in markdown(run, histories["v3"], "impact", "cw-stack@2026.05", "--rev", V3[5])


def test_many_causes() -> None:
    """The rest is counted, so that the specs of all lines add up."""
    found = []
    for number in range(25):
        cause = Cause(package=f"p{number}", what=What.RECIPE, before="a", after="b")
        spec, older = (GraphNode(hash=f"{letter}{number}", name="hdf5", version="1") for letter in "ab")
        found.append(Explanation(spec=spec, predecessor=older, causes=(cause,)))
    output = report_markdown(revisions_report(SIDE, SIDE, found)).decode()

    assert output.count("\n- 1 spec: the recipe of p") == 20
    assert "\n- 5 specs: for 5 other reasons (`--format json` has all)\n" in output
    first, second = (one.causes[0] for one in found[:2])
    both = [replace(found[0], causes=(first,)), replace(found[1], causes=(first, second))]
    report = revisions_report(SIDE, SIDE, both)
    lines = "\n- 2 specs: the recipe of p0 changed (hdf5)\n- also: the recipe of p1 changed (hdf5)\n"
    assert lines in report_markdown(report).decode()
    assert {"       2  the recipe of p0 changed", "    also  the recipe of p1 changed"} < {*report_lines(report)}


@pytest.mark.parametrize("part", ["package", "version", "path", "stack"])
def test_names_are_no_markup(part: str) -> None:
    """Whatever a cache calls its packages, a line stays a line and a cell a cell."""
    name = HOSTILE if part == "package" else "zlib"
    spec, older = (GraphNode(hash=letter * 32, name=name, version="1") for letter in "ab")
    cause = Cause(package=name, what=What.VERSION, before=HOSTILE if part == "version" else "1", after="2")
    paths = {cause: ("a", HOSTILE if part == "path" else "b")}
    one = Explanation(spec=spec, predecessor=older, causes=(cause,), paths=paths)
    report = package_report(name, SIDE, SIDE, [one])
    stacks = {HOSTILE if part == "stack" else "e4s": (1, 1)}
    found = Impact(asked=(), specs=1, of_specs=1, packages={name: 1}, stacks=stacks, direct=frozenset({name}))
    tables = impact_tables(name, "develop", found)
    written = b"".join(part for one in tables for part in write_table(one, "markdown", Palette(is_on=False)))
    outputs = [report_markdown(report).decode(), written.decode()]

    assert not any(line.startswith("# c") for output in outputs for line in output.splitlines())
    prose = [line for line in outputs[0].splitlines() if not line.startswith("### `")]
    assert not any(re.search(r"(?<!\\)[<`]", line) for line in prose)
    assert all("\n# c" not in line for line in report_lines(report))
    assert {line.replace("\\|", "").count("|") for line in outputs[1].splitlines() if line.startswith("|")} == {4}
