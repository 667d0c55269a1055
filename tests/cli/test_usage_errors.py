"""What a mistyped command line is answered with: what is wrong, and what was probably meant."""

from pathlib import Path

import pytest
from conftest import Run, unprivileged
from helpers import document, record


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dif"], "cachewatch: there is no command dif; did you mean diff?\nSee `cachewatch --help`.\n"),
        (["deliveries", "lst"], "there is no command lst; did you mean list?\nSee `cachewatch deliveries --help`.\n"),
        (["diff", "--json"], "diff has no option --json; did you mean --format json?\nSee `cachewatch diff --help`.\n"),
        (["diff", "--formt", "json"], "diff has no option --formt; did you mean --format?\n"),
        (["diff", "--xyzzy"], "diff has no option --xyzzy\n"),
        (["diff", "--repoo", "x"], "diff has no option --repoo; did you mean --repo?\n"),
        (
            ["config", "explain", "zlib", "--repo", "x"],
            "config explain has no option --repo; it reads the sources of a configuration, which --config names\n",
        ),
        (["show", "zlib", "--stack", "e4s"], "show has no option --stack; write stack=VALUE behind the package\n"),
        (["show", "zlib", "--os=debian12"], "show has no option --os; write os=VALUE behind the package\n"),
        (["show", "zlib", "--compiler", "gcc"], "show has no option --compiler; write %NAME behind the package\n"),
        (["show", "zlib", "--versions", "1"], "show has no option --versions; write @RANGE behind the package\n"),
        (
            ["diff", "--format", "jsn"],
            ": 'jsn' is not one of text, json, jsonl, csv, markdown, html; did you mean json",
        ),
        (["preview", "--format", "md"], ": 'md' is not one of text, html, markdown, json, eml; did you mean markdown?"),
        (["diff", "--fail-on", "removd"], "--fail-on 'removd' is not a kind of change; did you mean removed"),
        (["diff", "--fail-on", "x*"], "--fail-on 'x*' is not a kind of change; groups of kinds are default, all, add"),
        (["diff", "--kind", "rebilt"], "--kind 'rebilt' is not a kind of change; did you mean rebuilt"),
        (["diff", "--repo"], "cachewatch: option '--repo' requires an argument\n"),
        (["diff", "--jobs", "0"], "--jobs: 0 is not in the range 1<=x<=64\n"),
        (["show"], "show needs PACKAGE...\nUsage: cachewatch show [OPTIONS] PACKAGE...\n"),
        (["deliveries", "drop", "x"], "deliveries drop needs --reason\n"),
        (["diff", "a", "b", "c"], "diff: got unexpected extra argument (c)\nUsage: cachewatch diff [OPTIONS] [BEFORE]"),
        *((words.split(), "no") for words in ("diff no.md no.md", "show no.md", "tags --repo no", "coverage no.lock")),
    ],
)
def test_mistakes(run: Run, arguments: list[str], said: str) -> None:
    error = run(*arguments).error_of(2)
    assert said in error
    assert error.startswith("cachewatch: ")


def test_names_control_no_terminal(run: Run) -> None:
    """What was typed, or pasted, is repeated without its escapes."""
    assert "\x1b" not in run("dif\x1b[31m").error
    assert "\x1b" not in run("diff", "--\x1b[31m").error


@pytest.mark.parametrize(("pattern", "code"), [("place", 1), ("version-*", 1), ("removed", 0)])
def test_gates_take_groups_and_globs(run: Run, demo_repository: object, pattern: str, code: int) -> None:
    assert run("diff", "--repo", demo_repository, "--tag", "develop", "--fail-on", pattern).exit_code == code


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "diff ok.md no.md",
        "show no.md",
        "diff no ok.md",
        "tags --repo no",
        "coverage no.lock --repo demo.git",
        "why --lock no.lock no.lock",
        "once --config no.yaml",
        "diff ok.md ok.md -o shut/x",
        "site shut/x --repo demo.git",
        "history build --repo demo.git --db shut/x.db",
        "demo shut/x",
        "init shut/x.yaml --to a@example.org",
    ],
)
def test_what_may_not_be_read_or_written_is_one_mistake(words: str, tmp_path: Path, demo_repository: Path) -> None:
    """Whatever the command line names it for."""
    (tmp_path / "demo.git").symlink_to(demo_repository)
    for name in ("ok.md", "no.md", "no.lock", "no.yaml"):
        (tmp_path / name).write_bytes(document([record(1)]))
    (tmp_path / "no").mkdir()
    (tmp_path / "shut").mkdir(mode=0o555)
    for name in ("no.md", "no.lock", "no.yaml", "no"):
        (tmp_path / name).chmod(0)
    assert unprivileged(*words.split(), cwd=tmp_path).exit_code == 2
    (tmp_path / "no").chmod(0o700)


def test_each_file_that_is_no_document_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.md"):
        Path(name).write_text("hello\n")

    error = run("diff", "a.txt", "b.md").error_of(4)
    assert "warning: a.txt: unreadable: does not begin with the line --- that opens a document (BEFORE)" in error
    assert "warning: b.md: unreadable: does not begin with the line --- that opens a document (AFTER)" in error
