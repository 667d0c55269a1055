"""What the commands of the service share: the configuration, the state, and the log."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cachewatch.config.model import Config
from cachewatch.notify.pass_context import Context
from cachewatch.runtime.log import open_log
from cachewatch.store.database import Database
from cachewatch.store.opening import open_database, open_to_read

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
