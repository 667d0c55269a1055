"""Form 4: the names of columns are those of the code."""

from alembic import op

revision = "4"
down_revision = "3"

_STATEMENTS = (
    *(f"ALTER TABLE {table} RENAME COLUMN track TO stream" for table in ("cursors", "slots", "digests")),
    "ALTER TABLE digests RENAME COLUMN letter TO rendered",
    "DROP INDEX digests_by_track",
    "CREATE INDEX digests_by_stream ON digests (subscription, stream, created)",
    # Of indices that serve alike, SQLite takes the newest.
    "DROP INDEX digests_held",
    "CREATE INDEX digests_held ON digests (subscription, stream) WHERE state = 'held'",
)


def upgrade() -> None:
    """Take the step."""
    for statement in _STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
