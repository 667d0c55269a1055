"""Form 3: what digests are held for, and what streams were told is gone."""

from alembic import op

revision = "3"
down_revision = "2"

_STATEMENTS = (
    """
    CREATE TABLE holds (subscription TEXT NOT NULL, stream TEXT NOT NULL, source TEXT NOT NULL, tag TEXT NOT NULL,
    kind TEXT NOT NULL, said TEXT NOT NULL, content TEXT DEFAULT '' NOT NULL, counted_from TEXT,
    PRIMARY KEY (subscription, stream, source, tag, kind))
    """,
    # The time of what is held already begins with the first pass of this version.
    """
    INSERT OR IGNORE INTO holds (subscription, stream, source, tag, kind, said)
    SELECT digests.subscription, digests.track, held_losses.source, held_losses.tag, 'suspicious', held_losses.said
    FROM digests JOIN held_losses ON held_losses.digest = digests."key" WHERE digests.state = 'held'
    """,
    """
    INSERT OR IGNORE INTO holds (subscription, stream, source, tag, kind, said)
    SELECT subscription, track, '', '', 'large', reason FROM digests
    WHERE state = 'held' AND NOT EXISTS (SELECT 1 FROM held_losses WHERE held_losses.digest = digests."key")
    """,
    "DROP TABLE held_losses",
    """
    CREATE TABLE departures (subscription TEXT NOT NULL, stream TEXT NOT NULL, source TEXT NOT NULL, tag TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, revision TEXT NOT NULL, told_at TEXT NOT NULL, packages INTEGER NOT NULL,
    specs INTEGER NOT NULL, PRIMARY KEY (subscription, stream, source, tag, kind, name))
    """,
    "CREATE INDEX departures_by_time ON departures (told_at)",
)


def upgrade() -> None:
    """Take the step."""
    for statement in _STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
