"""`cachewatch backup`: a copy of what must not be lost."""

import os
from pathlib import Path

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured_without_secrets
from cachewatch.cli.open_state import reading
from cachewatch.cli.waiting import waiting
from cachewatch.config.model import Config
from cachewatch.errors import UsageError
from cachewatch.store.sqlite_backup import draft_of


@click.command(
    epilog=examples(
        "cachewatch backup /srv/backup/cachewatch.db",
        "cachewatch backup today.db --config /etc/cachewatch/cachewatch.yaml",
    )
)
@configured_without_secrets
@click.argument("file", type=click.Path(path_type=Path))
def backup(*, config: Config, file: Path) -> None:
    """Back up the state database to FILE, which must not exist.

    The service may keep running. FILE is an SQLite database, also if the state is in PostgreSQL. To restore a backup,
    stop the service, move `cachewatch.db` and all files whose names begin with `cachewatch.db` out of the state
    folder, and copy FILE there as `cachewatch.db`. Into an empty PostgreSQL database, `cachewatch state move FILE
    ADDRESS` restores it.
    """
    if os.path.lexists(file):
        raise UsageError(f"{file}: already exists; choose another file name")
    if not file.parent.is_dir():
        raise UsageError(f"{file.parent}: no such folder")
    os.umask(0o077)
    with reading(config) as context:
        database, whole = context.database, context.database.size
        with waiting(lambda: f"copying {database.place}: {_copied(file):,} of {whole:,} bytes"):
            database.back_up(file)


def _copied(file: Path) -> int:
    try:
        return draft_of(file).stat().st_size
    except OSError:
        return 0
