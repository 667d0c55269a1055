"""What the commands of the service share: the configuration, the state, and the log."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cachewatch.config.model import Config
from cachewatch.service.context import Context
from cachewatch.service.log import open_log
from cachewatch.store.database import Database

log_format = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="How events are written to stderr."
)


@contextmanager
def working_on(config: Config, *, form: str = "text") -> Iterator[Context]:
    """Open the state of `config` for one command; it need not be ours alone."""
    database = Database(config.state, must_exist=True)
    try:
        yield Context(config=config, database=database, log=open_log(form))
    finally:
        database.close()
