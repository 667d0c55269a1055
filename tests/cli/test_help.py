"""The help: commands by purpose, without loading them; defaults, and examples that are true."""

import shlex

import click
import pytest
from conftest import ROOT, Run
from tools import all_commands

from cachewatch.__main__ import cli, commands

# Every command that does something, by its words.
LEAVES = {" ".join(words): command for words, command in all_commands() if not isinstance(command, click.Group)}


def test_commands_stand_by_purpose(run: Run) -> None:
    output = run("--help").output
    titles = [line for line in output.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert titles == ["Options:", "Begin:", "Compare:", "Notify:", "Operate:"]
    assert all(f"  {name} " in output for name in commands() if " " not in name)
    assert "..." not in output.partition("Compare:")[2]
    assert max(map(len, output.splitlines())) <= 80


def test_the_line_is_what_the_command_says() -> None:
    for name, row in commands().items():
        command: click.Command | None = cli
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word)
        assert command is not None
        assert (command.help or "").partition(" ")[0] == row.summary.partition(" ")[0], name


def test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command has two examples or more of itself, and what they say can be parsed."""
    monkeypatch.chdir(ROOT)
    for words, command in LEAVES.items():
        lines = [line.strip().removeprefix("$ ") for line in (command.epilog or "").splitlines()[2:]]
        assert len(lines) >= 2, words
        for line in lines:
            assert f"cachewatch {words}" in line
            parse(line.removeprefix('eval "$(').removesuffix(')"'))


def parse(line: str) -> None:
    """Read a command line up to a pipe or redirection; raises click.UsageError."""
    arguments = shlex.split(line, comments=True)[1:]
    ends = [n for n, word in enumerate(arguments) if word in (">", ">>", "|", "2>>")]
    arguments = arguments[: min(ends, default=None)]
    command: click.Command = cli
    context = click.Context(command, info_name="cachewatch")
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        context = click.Context(found, parent=context, info_name=name)
        command = found
    command.parse_args(context, arguments)


def test_every_option_has_a_sentence() -> None:
    for words, command in LEAVES.items():
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, (words, option.name)


def test_every_report_takes_color(run: Run) -> None:
    """A command that prints text or data has --color, as cachewatch itself has for all."""
    for words, command in LEAVES.items():
        options = {option.name for option in command.params}
        assert "color" in options or "format_" not in options, words
    assert run("--color", "always", "help", "kinds", "--color", "never").exit_code == 0
    assert "--color" in run("--color", "red", "help", "kinds").error


def test_the_options_of_diff_stand_by_purpose(run: Run) -> None:
    output = run("diff", "--help").output
    titles = [line for line in output.splitlines() if line.endswith(":") and not line.startswith(" ")]

    assert titles == ["Filters (each may be repeated; ! before a value excludes):", "Output:", "Gates:", "Options:"]
    assert not any(line.startswith("  [BEFORE]") for line in output.splitlines())
    for option in LEAVES["diff"].params:
        assert not isinstance(option, click.Option) or f"  {option.opts[0]}" in output


@pytest.mark.parametrize("words", [[], ["diff"], ["deliveries"], ["deliveries", "list"]])
def test_help_is_a_word_too(run: Run, words: list[str]) -> None:
    """Who knows git, gh or uv asks for help in that way."""
    assert run("help", *words) == run(*words, "--help")
    assert run("help", "dif").error.startswith("cachewatch: there is no command dif; did you mean diff?")
