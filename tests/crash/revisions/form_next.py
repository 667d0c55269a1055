"""A form of the database that is yet to come: it changes, fills and replaces what is there."""

from alembic import op

from cachewatch.store.schema import FORM

revision = str(FORM + 1)
down_revision = str(FORM)


def upgrade() -> None:
    """Do what SQLite's manual advises where a table has to change: make another, fill it, put it in its place."""
    for statement in (
        "ALTER TABLE cursors ADD COLUMN note TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE next_counters (name TEXT PRIMARY KEY, value REAL NOT NULL, since TEXT)",
        "INSERT INTO next_counters SELECT name, value, 'form 1' FROM counters",
        "DROP TABLE counters",
        "ALTER TABLE next_counters RENAME TO counters",
        "UPDATE digests SET title = title || ''",
        "CREATE INDEX by_said ON deliveries (said)",
    ):
        op.execute(statement)
