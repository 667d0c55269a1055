"""`cachewatch state`: check the state for damage, and move it from one database to another."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured_without_secrets
from cachewatch.cli.open_state import reading
from cachewatch.cli.output import write_lines
from cachewatch.cli.usage_errors import SuggestingGroup
from cachewatch.config.model import Config
from cachewatch.config.secrets import Secret, read_secret_file
from cachewatch.config.state_address import PostgresAddress, State, state_named
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import AnotherInstance, StateError, UsageError
from cachewatch.render.statement_phrases import number
from cachewatch.store import checking, copying
from cachewatch.store.database import Database
from cachewatch.store.lock import only_one
from cachewatch.store.opening import has_state, open_database, open_to_read
from cachewatch.store.sqlite import NAME


@click.group(cls=SuggestingGroup)
def state() -> None:
    """Check or move the state: cursors, digests and deliveries."""


@state.command(
    epilog=examples("cachewatch state check", "cachewatch state check --config /etc/cachewatch/cachewatch.yaml")
)
@configured_without_secrets
def check(*, config: Config) -> None:
    """Look through the whole state for damage.

    The service may keep running. Exits with 5 if anything is damaged. The service itself sets damaged rows aside
    and reports them; a backup has what was stored.
    """
    with reading(config) as context:
        context.database.check()
        with context.database.read() as connection:
            found = list(checking.problems(connection))
            digests, deliveries = checking.counts(connection)
    if found:
        raise StateError("\n".join(map(safe, found)))
    found_whole = f"{number(digests, 'digest')} and {number(deliveries, 'delivery', 'deliveries')}, no damage"
    write_lines([f"{safe(str(config.database))}: {found_whole}"])


@state.command(
    epilog=examples(
        "cachewatch state move /var/lib/cachewatch postgresql://cachewatch@db.example.org/cachewatch",
        "cachewatch state move backup.db postgresql://cachewatch@db.example.org/cachewatch",
        "cachewatch state move postgresql://cachewatch@db.example.org/cachewatch ./state",
    )
)
@click.argument("source")
@click.argument("target")
@click.option("--password-file", metavar="FILE", help="File that contains the password for the database.")
def move(*, source: str, target: str, password_file: str | None) -> None:
    """Copy the state SOURCE into TARGET, which must be empty.

    Each is the folder of a state, or the address of a PostgreSQL database; SOURCE can also be a backup. Stop the
    service first. SOURCE stays as it is. All rows are compared at the end: TARGET has all of them, or none. Clones
    are not copied; they are made again where they are missing.
    """
    os.umask(0o077)
    password = Secret(read_secret_file(password_file, Path.cwd())) if password_file else None
    with ExitStack() as stack:
        here, there = _place(source, password), _place(target, password)
        _check_places(here, there)
        old = stack.enter_context(_source(here))
        new = stack.enter_context(_target(there))
        with old.read() as reader, new.write() as writer:
            if copying.has_rows(writer):
                raise UsageError(f"{new.place}: is not empty; choose another database, or delete its tables")
            count = copying.copy_rows(reader, writer)
            copying.check_same(reader, writer, new.place)
    click.echo(f"{safe(new.place)}: {count:,} rows copied and compared; name it in `state:`", err=True)


def _place(text: str, password: Secret | None) -> State:
    found = state_named(text, Path.cwd())
    return PostgresAddress(found.url, password) if isinstance(found, PostgresAddress) else found


def _check_places(source: State, target: State) -> None:
    """Raise UsageError where the first is no place of a state, or where both are one."""
    if isinstance(source, Path) and not source.is_file() and not has_state(source):
        raise UsageError(f"{source}: there is no such state")
    folder = source.parent if isinstance(source, Path) and source.name == NAME else source
    if target in (source, folder) or (
        isinstance(folder, Path) and isinstance(target, Path) and folder.resolve() == target.resolve()
    ):
        raise UsageError(f"{target}: source and target are the same; choose another target")


@contextmanager
def _source(place: State) -> Iterator[Database]:
    """Open a state that nobody works on; of a backup, a copy, which is upgraded if it is older."""
    with ExitStack() as stack:
        if isinstance(place, Path) and place.is_file():
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="cachewatch-")))
            shutil.copyfile(place, folder / NAME)
            _bring_up(folder, place)
            place = folder
        elif isinstance(place, Path) and has_state(place):
            stack.enter_context(only_one(place))
        yield _unused(stack.enter_context(closing(open_to_read(place))))


def _bring_up(folder: Path, backup: Path) -> None:
    """Upgrade the copy of a backup in `folder`; raise StateError, which names the backup, where that cannot be."""
    try:
        with closing(open_database(folder, is_checked=True)) as database:
            if database.is_new:
                raise StateError(f"{backup}: is empty; name a state, or a backup of one")
    except StateError as error:
        raise StateError(str(error).replace(str(folder / NAME), str(backup))) from error


@contextmanager
def _target(place: State) -> Iterator[Database]:
    with ExitStack() as stack:
        if isinstance(place, Path):
            stack.enter_context(only_one(place))
        yield _unused(stack.enter_context(closing(open_database(place))))


def _unused(database: Database) -> Database:
    if (leader := database.leader()) is not None:
        raise AnotherInstance(f"{database.place}: {leader} works on this state; stop it first")
    return database
