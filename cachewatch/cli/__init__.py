"""The command line: the list of all commands, and `main`, which runs one and returns its exit code.

The list has the module of each command and its line in the help. The help loads no command, and a command is
loaded when it is called, so that `diff` pays for nothing that it does not use.
"""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, NoReturn

import click

from cachewatch import __version__
from cachewatch.cli.mistakes import SuggestingGroup, examples, explained
from cachewatch.core.names import safe, safe_lines
from cachewatch.errors import CachewatchError

# In the environment of a shell that asks for completions; click derives the name from the program's.
COMPLETING = "_CACHEWATCH_COMPLETE"


class Entry(NamedTuple):
    """A command: its module below `cachewatch`, and what it does in one line."""

    module: str
    summary: str


SECTIONS: Mapping[str, Mapping[str, Entry]] = {
    "Compare": {
        "diff": Entry("cli.diff", "Show what changed between two revisions, dates or documents."),
        "show": Entry("cli.show", "Show the builds of packages by version, stack and target."),
        "packages": Entry("cli.show", "List the packages of a tag."),
        "stacks": Entry("cli.show", "List the stacks of a tag."),
        "tags": Entry("cli.show", "List the tags of a catalogue."),
        "coverage": Entry("cli.coverage", "Show which specs of an environment have binaries."),
        "why": Entry("extensions.causes.commands", "Explain why the specs of a package were rebuilt."),
        "impact": Entry("extensions.causes.commands", "Show what would be rebuilt if a package changed."),
        "log": Entry("extensions.history.commands", "Show what each revision did to a package."),
        "when": Entry("extensions.history.commands", "Show since when a version is in each stack."),
        "blame": Entry("extensions.history.commands", "Show when a spec was born and died."),
        "churn": Entry("extensions.history.commands", "Show how many specs come and go."),
        "kinds": Entry("cli.show", "List the kinds of change, worst first."),
    },
    "Notify": {
        "init": Entry("cli.init", "Write a short, commented configuration file."),
        "config": Entry("cli.config", "Check or show the configuration."),
        "preview": Entry("cli.service", "Print the digest that a subscription would receive now."),
        "explain": Entry("cli.service", "Show which subscriptions report a package, and why."),
        "test": Entry("cli.service", "Send a test message through a channel."),
        "once": Entry("cli.service", "Fetch, compare and deliver what is due, then exit."),
        "daemon": Entry("cli.service", "Fetch, compare and deliver whenever something is due."),
        "template": Entry("cli.template", "List, print, render and check message templates."),
    },
    "Operate": {
        "status": Entry("cli.operate", "Show the health of sources and channels, and what is due."),
        "deliveries": Entry("cli.operate", "List, retry, release or drop deliveries."),
        "backup": Entry("cli.operate", "Back up the state database."),
        "state": Entry("cli.operate", "Check the state, or move it to another database."),
        "record": Entry("extensions.buildcaches.commands", "Record the current contents of a build cache."),
        "history": Entry("extensions.history.commands", "Build the history index, or keep it up to date."),
        "site": Entry("extensions.site.commands", "Generate a static site about a catalogue."),
    },
    "Begin": {
        "demo": Entry("cli.demo", "Compare two revisions of a bundled sample catalogue."),
        "completion": Entry("cli.completion", "Print the completion of commands for your shell."),
        "schema": Entry("cli.show", "Print the JSON Schema of differences, digests or causes."),
    },
}
COMMANDS: Mapping[str, Entry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class LazyCommands(SuggestingGroup):
    """A group that loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"cachewatch.{COMMANDS[name].module}")
        command = getattr(module, name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands by purpose, without loading them."""
        width = max(map(len, COMMANDS))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in entries.items()])


@click.group(
    cls=LazyCommands,
    context_settings=_SETTINGS,
    epilog=examples("cachewatch demo", "cachewatch diff", "cachewatch diff --help", title="Begin with:"),
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--no-pager", is_flag=True, help="Show long output without a pager.")
def cli(*, no_pager: bool) -> None:  # terminal.py asks the context for it
    """Report what changed in a Spack build cache.

    On a terminal, text is shown in a pager: $PAGER, else less.
    """


def _fail(code: int, say: Callable[[], object]) -> NoReturn:
    """End with `code`, also where there is no room for the sentence."""
    try:
        say()
    except OSError:
        # Some versions of Python would try to write it again when they end, and exit with 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(code)


def main() -> NoReturn:
    """Run the command line; every expected failure is one sentence and an exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # So that whatever was begun cleans up behind itself.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    gc.set_threshold(100_000, 20, 50)  # documents and comparisons make many values and few cycles
    try:
        status = cli.main(prog_name="cachewatch", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        _fail(error.exit_code, error.show)
    except click.ClickException as error:
        _fail(error.exit_code, partial(click.echo, safe_lines(explained(error)), err=True))
    except CachewatchError as error:
        _fail(error.exit_code, partial(click.echo, f"cachewatch: {safe_lines(str(error))}", err=True))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        named = f"{safe(str(error.filename))}: " if error.filename else ""
        _fail(3, partial(click.echo, f"cachewatch: {named}{error.strerror}", err=True))
    sys.exit(status if isinstance(status, int) else 0)
