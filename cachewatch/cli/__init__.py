"""The command line: arguments in, one call, an exit code out.

Each command is a module that is loaded when it is called, so that `diff` pays for nothing
that it does not use.
"""

import importlib
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

import click

from cachewatch import __version__
from cachewatch.cli import garbage_collection
from cachewatch.core.untrusted_text import safe_lines
from cachewatch.errors import CachewatchError

_COMMANDS = {
    "backup": "cachewatch.cli.backup",
    "config": "cachewatch.cli.config",
    "coverage": "cachewatch.cli.coverage",
    "daemon": "cachewatch.cli.once_and_daemon",
    "deliveries": "cachewatch.cli.deliveries",
    "demo": "cachewatch.cli.demo",
    "diff": "cachewatch.cli.diff",
    "explain": "cachewatch.cli.explain",
    "impact": "cachewatch.cli.impact",
    "init": "cachewatch.cli.init",
    "kinds": "cachewatch.cli.kinds_and_schema",
    "once": "cachewatch.cli.once_and_daemon",
    "packages": "cachewatch.cli.listings",
    "preview": "cachewatch.cli.preview",
    "record": "cachewatch.cli.record",
    "schema": "cachewatch.cli.kinds_and_schema",
    "show": "cachewatch.cli.show",
    "site": "cachewatch.cli.site",
    "stacks": "cachewatch.cli.listings",
    "status": "cachewatch.cli.status",
    "tags": "cachewatch.cli.listings",
    "template": "cachewatch.cli.template",
    "test": "cachewatch.cli.try_channel",
    "why": "cachewatch.cli.why",
}


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class LazyCommands(click.Group):
    """A group that loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        if name not in _COMMANDS:
            return None
        with garbage_collection.loading():
            command = getattr(importlib.import_module(_COMMANDS[name]), name)
        return command if isinstance(command, click.Command) else None


@click.group(cls=LazyCommands, context_settings=_SETTINGS)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--no-pager", is_flag=True, help="Show long output without a pager.")
def cli(*, no_pager: bool) -> None:  # output.py asks the context for it
    """Report what changed in a Spack build cache.

    On a terminal, text is shown in a pager: $CACHEWATCH_PAGER, else $GIT_PAGER, else $PAGER, else less.
    """


def _fail(code: int, say: Callable[[], object]) -> NoReturn:
    """End with `code`, also where there is no room for the sentence."""
    with suppress(OSError):
        say()
    sys.exit(code)


def main() -> NoReturn:
    """Run the command line; every expected failure is one sentence and an exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # So that whatever was begun cleans up behind itself.
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        status = cli.main(prog_name="cachewatch", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        _fail(error.exit_code, error.show)
    except CachewatchError as error:
        _fail(error.exit_code, partial(click.echo, f"cachewatch: {safe_lines(str(error))}", err=True))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        _fail(3, partial(click.echo, f"cachewatch: {error.strerror}", err=True))
    finally:
        garbage_collection.keep()
    sys.exit(status if isinstance(status, int) else 0)
