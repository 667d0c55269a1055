"""What a mistyped command line is answered with: what is wrong, and what was probably meant."""

import pytest
from conftest import Run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dif"], "cachewatch: there is no command dif; did you mean diff?\nSee `cachewatch --help`.\n"),
        (["deliveries", "lst"], "there is no command lst; did you mean list?\nSee `cachewatch deliveries --help`.\n"),
        (["diff", "--json"], "diff has no option --json; did you mean --format json?\nSee `cachewatch diff --help`.\n"),
        (["preview", "--as", "eml"], "preview has no option --as; did you mean --format?\n"),
        (["diff", "--formt", "json"], "diff has no option --formt; did you mean --format?\n"),
        (["diff", "--xyzzy"], "diff has no option --xyzzy\n"),
        (["diff", "--repoo", "x"], "diff has no option --repoo; did you mean --repo?\n"),
        (
            ["config", "explain", "zlib", "--repo", "x"],
            "config explain has no option --repo; it reads the sources of a configuration, which --config names\n",
        ),
        (
            ["diff", "--format", "jsn"],
            "--format: 'jsn' is not one of text, json, jsonl, csv, markdown, html; did you mean json",
        ),
        (["diff", "--fail-on", "removd"], "--fail-on removd: unknown kind of change; did you mean removed"),
        (["diff", "--kind", "rebilt"], "--kind rebilt: unknown kind of change; did you mean rebuilt"),
        (["diff", "--repo"], "cachewatch: option '--repo' requires an argument\n"),
        (["diff", "--jobs", "0"], "--jobs: 0 is not in the range 1<=x<=64\n"),
        (["show"], "show needs PACKAGE...\nUsage: cachewatch show [OPTIONS] PACKAGE...\n"),
        (["deliveries", "drop", "x"], "deliveries drop needs --reason\n"),
        (
            ["diff", "a", "b", "c"],
            "diff: got unexpected extra argument (c)\nUsage: cachewatch diff [OPTIONS] [BEFORE] [AFTER]",
        ),
    ],
)
def test_mistakes(run: Run, arguments: list[str], said: str) -> None:
    """One sentence, and where to read on."""
    result = run(*arguments)

    assert result.exit_code == 2
    assert said in result.error
    assert result.error.startswith("cachewatch: ")


def test_names_control_no_terminal(run: Run) -> None:
    """What was typed, or pasted, is repeated without its escapes."""
    assert "\x1b" not in run("dif\x1b[31m").error
    assert "\x1b" not in run("diff", "--\x1b[31m").error


@pytest.mark.parametrize(("pattern", "code"), [("place", 1), ("version-*", 1), ("removed", 0)])
def test_gates_take_groups_and_globs(run: Run, demo_repository: object, pattern: str, code: int) -> None:
    """`--fail-on` takes what `--kind` takes."""
    assert run("diff", "--repo", demo_repository, "--tag", "develop", "--fail-on", pattern).exit_code == code
