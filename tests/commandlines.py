"""Writes docs/commands.md from the commands themselves: `python tests/commandlines.py > docs/commands.md`."""

from collections.abc import Iterator

import click

from cachewatch.cli import cli

_HEAD = """\
# Commands

`cachewatch COMMAND --help` and `man cachewatch-COMMAND` explain a command and its options (`man -M .venv/share/man cachewatch` where that is not on the search path). Data goes to standard output, all else to standard error; `NO_COLOR` is honoured.

What people read goes through a pager if standard input and output are a terminal: `$PAGER`, else `less`; `cat` or nothing at all means none, and so
does `cachewatch --no-pager COMMAND`. `LESS=FRX` is set unless you set `LESS` yourself, so short output stays as it is.

Commands that read a catalogue take `--repo`. Without it they read `$CACHEWATCH_REPO`, else the repository that you stand in if its newest revision has
documents, else the first source of the configuration, else the only bare repository in this folder that has a catalogue (`catalogue.git` of `record`). Standard
error names it unless you chose it. A source that is a build cache or a folder is read where the service records it. A folder of documents has no history, and its tags are
read as they are. A URL is cloned once, and the clone refreshed each time; `--repo public`
means that of Spack's public cache. Nothing is fetched from a network unless an option, the environment or the configuration names an address there.

`eval "$(cachewatch help completion bash)"` in `~/.bashrc` (`zsh` in `~/.zshrc`) lets Tab complete commands, options, tags, packages, versions (`hdf5@`), stacks,
revisions (`HEAD:develop`), kinds, subscriptions and channels. For fish: `cachewatch help completion fish > ~/.config/fish/completions/cachewatch.fish`. Names are
those of the catalogue as it was last fetched; pressing Tab fetches nothing. Bash divides words at `:`, `@` and `=`, and completes nothing behind them.
"""


def written() -> str:
    """Return the page."""
    context = click.Context(cli)
    rows = ["| command | |\n|---|---|"]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        rows += [_row(words, each) for words, each in _leaves(f"cachewatch {name}", command)]
    return "\n".join([_HEAD, *rows, ""])


def _leaves(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for word in command.list_commands(context):
        if (each := command.get_command(context, word)) is not None:
            yield from _leaves(f"{name} {word}", each)


def _row(name: str, command: click.Command) -> str:
    context = click.Context(command)
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    said = " ".join((command.help or "").split("\n\n")[0].split())
    words = " ".join([name, *arguments]).replace("|", "\\|")
    return f"| `{words}` | {said} |"


if __name__ == "__main__":
    print(written(), end="")
