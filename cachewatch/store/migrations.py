"""Bring a database to the form of this version: by Alembic's revisions, each in a transaction of its own.

Alembic is slow to load, and few starts need it: whoever calls this knows that a step is missing.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

REVISIONS = Path(__file__).with_name("revisions")


def take_steps(
    engine: Engine,
    version_of: Callable[[Connection], int],
    note: Callable[[Connection, int], None],
    *,
    form: int,
    folders: Sequence[Path] = (REVISIONS,),
) -> None:
    """Take the steps to `form` that are missing by `version_of` when their turn comes, and `note` each with its number."""
    for number, upgrade in _steps(form, folders):
        with engine.execution_options(writes=True).begin() as connection:
            if version_of(connection) < number:
                _take(connection, upgrade)
                note(connection, number)


def _steps(form: int, folders: Sequence[Path]) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield the number of each form with the function that leads to it, in their order."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    scripts = ScriptDirectory(str(REVISIONS), version_locations=[str(folder) for folder in folders])
    for script in reversed(list(scripts.iterate_revisions(str(form), "base"))):
        module: Any = script.module
        yield int(script.revision), module.upgrade


def _take(connection: Connection, upgrade: Callable[[], None]) -> None:
    from alembic.operations import Operations  # noqa: PLC0415
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415

    with Operations.context(MigrationContext.configure(connection)):
        upgrade()
