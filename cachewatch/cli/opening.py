"""Load the configuration and open the state, for the commands that need them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from cachewatch.config.model import Config
from cachewatch.config.reading import find_config, read_config
from cachewatch.runtime.log import open_log
from cachewatch.service.context import Context
from cachewatch.store.database import Database
from cachewatch.store.opening import open_database, open_to_read

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


log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Format of log events on standard error."
)


def working_on(config: Config) -> AbstractContextManager[Context]:
    """Open the state of `config` for one command that changes it; it need not be ours alone."""
    return _with(config, open_database(config.database, must_exist=True))


def reading(config: Config) -> AbstractContextManager[Context]:
    """Open the state of `config` for one command that changes nothing, and need not be allowed to."""
    return _with(config, open_to_read(config.database))


@contextmanager
def elsewhere(config: Config) -> Iterator[Context]:
    """Open an empty state elsewhere: who only reads what was fetched must not come to own the service's folder."""
    with TemporaryDirectory(prefix="cachewatch-") as folder, _with(config, open_database(Path(folder))) as context:
        yield context


@contextmanager
def _with(config: Config, database: Database) -> Iterator[Context]:
    try:
        yield Context(config=config, database=database, log=open_log())
    finally:
        database.close()
