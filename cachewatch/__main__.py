"""The command line: the list of all commands, and `main`, which runs one and exits.

A command is loaded when it is called, and none for the help, so that `diff` loads nothing that it does not use.
"""

import gc
import os
import platform
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from cachewatch import __version__
from cachewatch.cli.help_and_exit_codes import AS_IT_IS, COMPLETING, SuggestingGroup, examples, run_and_exit
from cachewatch.cli.terminal import COLOR_OPTION, warn, width
from cachewatch.errors import CachewatchError
from cachewatch.hooks import Command, extensions
from cachewatch.report.diff_blocks_and_colours import fitted, wrapped

# The section of the help, the name, the line of the help, and the object.
_OWN = (
    ("Begin", "demo", "Compare two revisions of a bundled sample catalogue.", "init_and_demo:demo"),
    ("Begin", "init", "Write a short, commented configuration file.", "init_and_demo:init"),
    ("Begin", "help", "Show help on a command, or `help kinds`, `schema`, `completion`.", "help_and_exit_codes:help_"),
    ("Compare", "diff", "Show what changed between two revisions, dates or documents.", "diff_and_fail_on:diff"),
    ("Compare", "show", "Show the builds of packages by version, stack and target.", "show_tags_packages:show"),
    ("Compare", "packages", "List the packages of a tag.", "show_tags_packages:packages"),
    ("Compare", "stacks", "List the stacks of a tag.", "show_tags_packages:stacks"),
    ("Compare", "tags", "List the tags of a catalogue.", "show_tags_packages:tags"),
    ("Compare", "coverage", "Show which specs of an environment have binaries.", "show_tags_packages:coverage"),
    ("Notify", "config", "Check, show or try the configuration and templates.", "config_commands:config"),
    ("Notify", "preview", "Print the digest that a subscription would receive now.", "once_daemon_preview:preview"),
    ("Notify", "once", "Fetch, compare and deliver what is due, then exit.", "once_daemon_preview:once"),
    ("Notify", "daemon", "Fetch, compare and deliver whenever something is due.", "once_daemon_preview:daemon"),
    ("Operate", "status", "Show the health of sources and channels, and what is due.", "status_and_deliveries:status"),
    ("Operate", "deliveries", "List, retry, release or drop deliveries.", "status_and_deliveries:deliveries"),
    ("Operate", "state", "Check, back up or move the state.", "status_and_deliveries:state"),
    ("", "config explain", "Show which subscriptions report a package, and why.", "config_commands:explain"),
    ("", "config test", "Send a test message through a channel.", "config_commands:test"),
    ("", "config template", "List, print, render and check message templates.", "config_commands:template"),
    ("", "state backup", "Back up the state database.", "status_and_deliveries:backup"),
    ("", "help kinds", "List the kinds of change, worst first.", "help_and_exit_codes:kinds"),
    ("", "help schema", "Print the JSON Schema of differences, digests or causes.", "help_and_exit_codes:schema"),
    ("", "help completion", "Print the completion of commands for your shell.", "help_and_exit_codes:completion"),
)


def commands() -> Mapping[str, Command]:
    """Return all commands by name: those of the core, then those of extensions."""
    own = {name: Command(section, name, about, f"cachewatch.cli.{place}") for section, name, about, place in _OWN}
    return own | {each.name: each for each in extensions().commands if each.name not in own}


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class _HelpFormatter(click.HelpFormatter):
    """Writes the help. Lines of examples are kept; those that are too wide are broken with a backslash."""

    def write_text(self, text: str) -> None:
        r"""Write a text as a paragraph; examples, which begin with \b, keep their lines."""
        if not text.startswith(AS_IT_IS):
            super().write_text(text)
            return
        for line in text.splitlines()[1:]:
            pieces = wrapped(line, self.width - self.current_indent - 2, " " * 6)
            self.write("".join(f"{'':{self.current_indent}}{piece}\n" for piece in " \\\n".join(pieces).splitlines()))


click.Context.formatter_class = _HelpFormatter


def _show_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """If `is_wanted`, print the version and end; with --verbose, also print what a bug report needs."""
    if not is_wanted or context.resilient_parsing:
        return
    lines = [f"cachewatch {__version__}"]
    if context.params.get("verbose"):
        from cachewatch.git.git_processes import check_version  # noqa: PLC0415 -- no other command needs it here

        try:
            git = ".".join(map(str, check_version())) or "of unknown version"
        except CachewatchError as error:
            git = str(error)
        lines += [f"Python {platform.python_version()}, git {git}", platform.platform()]
        lines += [f"  {name} ({package})" for name, package in extensions().loaded.items()]
    click.echo("\n".join(fitted(lines, width())))
    context.exit()


@examples("cachewatch demo", "cachewatch diff --help", title="Begin with:")
@click.group(cls=SuggestingGroup, context_settings=_SETTINGS)
@click.option("--verbose", is_flag=True, is_eager=True, help="With --version: also Python, git, system, extensions.")
@click.option("--version", is_flag=True, expose_value=False, callback=_show_version, help="Show the version and exit.")
@click.option(
    "-C",
    "folder",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Run as if started in this folder.",
)
@click.option("--no-pager", is_flag=True, help="Start no pager ($PAGER, else less) on a terminal.")
@COLOR_OPTION
def cli(*, folder: str | None, **_: bool) -> None:  # terminal.py asks the context for `no_pager`
    """Report what changed in a Spack build cache."""
    if folder is not None:
        os.chdir(folder)


cli.rows = commands()


def main() -> NoReturn:
    """Run the command line and exit."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # By an exception, so that temporary files are removed.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    gc.set_threshold(100_000, 20, 50)  # documents and comparisons make many values and few cycles
    if COMPLETING not in os.environ:
        for name, why in extensions().failed.items():
            warn(f"the extension {name} cannot be loaded: {why}")
    run_and_exit(cli)


if __name__ == "__main__":
    main()
