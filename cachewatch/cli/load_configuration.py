"""The option of every command that needs the configuration file, and the reading of it."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cachewatch.config.finding import find_config
from cachewatch.config.reading import read_config

if TYPE_CHECKING:
    from cachewatch.config.model import Config

CONFIG_OPTION = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=(
        "Configuration file. If omitted: $CACHEWATCH_CONFIG, ./cachewatch.yaml, the user's file, "
        "or the system's file, whichever is found first."
    ),
)


def configured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--config`, and call it with `config`, the checked configuration.

    A file with mistakes ends the command with exit code 2 and a list of all of them.
    """
    return _configured(command, with_secrets=True)


def configured_without_secrets(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for commands that neither send nor fetch: whoever may read the file may use them."""
    return _configured(command, with_secrets=False)


def _configured(command: Callable[..., Any], *, with_secrets: bool) -> Callable[..., Any]:
    @CONFIG_OPTION
    @wraps(command)
    def with_config(*arguments: Any, config_file: Path | None, **options: Any) -> Any:
        return command(*arguments, config=load(config_file, with_secrets=with_secrets), **options)

    return with_config


def load(file: Path | None, *, with_secrets: bool = True) -> "Config":
    """Find, read and check the configuration file; raises ConfigError."""
    return read_config(find_config(file), with_secrets=with_secrets)
