"""`cachewatch backup`: a copy of what must not be lost."""

import os
from pathlib import Path

import click

from cachewatch.cli.configured import configured_without_secrets
from cachewatch.cli.serving import reading
from cachewatch.config.model import Config
from cachewatch.errors import UsageError


@click.command()
@configured_without_secrets
@click.argument("file", type=click.Path(path_type=Path))
def backup(*, config: Config, file: Path) -> None:
    """Copy the database of the state to FILE, which must be new, while the service goes on.

    To restore it, stop the service, move `cachewatch.db` and what begins with that name away, and copy FILE there.
    """
    if file.exists():
        raise UsageError(f"{file}: is there already; name a new file")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: there is no such folder")
    os.umask(0o077)
    with reading(config, may_be_older=True) as context:
        context.database.back_up(file)
