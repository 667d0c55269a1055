"""The first form: that of 0.1."""

from alembic import op

revision = "1"
down_revision = None

_STATEMENTS = (
    """
    CREATE TABLE cursors (subscription TEXT NOT NULL, track TEXT NOT NULL, source TEXT NOT NULL, tag TEXT NOT
    NULL, revision TEXT NOT NULL, moved_at TEXT NOT NULL, PRIMARY KEY (subscription, track, source, tag))
    """,
    """
    CREATE TABLE slots (id INTEGER NOT NULL, subscription TEXT NOT NULL, track TEXT NOT NULL, schedule TEXT NOT
    NULL, due TEXT NOT NULL, done_at TEXT, digest TEXT, PRIMARY KEY (id), UNIQUE (subscription, track, due))
    """,
    """
    CREATE TABLE digests ("key" TEXT NOT NULL, subscription TEXT NOT NULL, track TEXT NOT NULL, state TEXT NOT
    NULL, title TEXT NOT NULL, period TEXT NOT NULL, created TEXT NOT NULL, reason TEXT DEFAULT '' NOT NULL,
    moves BLOB NOT NULL, letter BLOB NOT NULL, short BLOB NOT NULL, PRIMARY KEY ("key"))
    """,
    """
    CREATE TABLE suppressed (channel TEXT NOT NULL, target TEXT NOT NULL, since TEXT NOT NULL, said TEXT NOT
    NULL, PRIMARY KEY (channel, target))
    """,
    """
    CREATE TABLE sources (name TEXT NOT NULL, polled_at TEXT, succeeded_at TEXT, revision TEXT, revision_time
    TEXT, changed_at TEXT, failures INTEGER DEFAULT '0' NOT NULL, error TEXT DEFAULT '' NOT NULL, PRIMARY KEY
    (name))
    """,
    """
    CREATE TABLE channels (name TEXT NOT NULL, blocked_until TEXT, failures INTEGER DEFAULT '0' NOT NULL, error
    TEXT DEFAULT '' NOT NULL, error_at TEXT, sent_at TEXT, PRIMARY KEY (name))
    """,
    "CREATE TABLE troubles (topic TEXT NOT NULL, since TEXT NOT NULL, said TEXT NOT NULL, PRIMARY KEY (topic))",
    "CREATE TABLE counters (name TEXT NOT NULL, value FLOAT NOT NULL, PRIMARY KEY (name))",
    """
    CREATE TABLE deliveries (id INTEGER NOT NULL, digest TEXT NOT NULL, channel TEXT NOT NULL, target TEXT NOT
    NULL, copy INTEGER DEFAULT '0' NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL, due TEXT NOT NULL,
    give_up TEXT NOT NULL, attempts INTEGER DEFAULT '0' NOT NULL, may_have_arrived BOOLEAN DEFAULT '0' NOT NULL,
    settled_at TEXT, said TEXT DEFAULT '' NOT NULL, message_id TEXT, content_type TEXT NOT NULL, payload BLOB
    NOT NULL, PRIMARY KEY (id), UNIQUE (digest, channel, target, copy), FOREIGN KEY(digest) REFERENCES digests
    ("key"))
    """,
    """
    CREATE TABLE attempts (id INTEGER NOT NULL, delivery INTEGER NOT NULL, at TEXT NOT NULL, event TEXT NOT
    NULL, said TEXT DEFAULT '' NOT NULL, PRIMARY KEY (id), FOREIGN KEY(delivery) REFERENCES deliveries (id) ON
    DELETE CASCADE)
    """,
    "CREATE INDEX deliveries_by_state ON deliveries (state, channel, due)",
    "CREATE INDEX deliveries_by_target ON deliveries (channel, target, id)",
    "CREATE INDEX ix_attempts_delivery ON attempts (delivery)",
)


def upgrade() -> None:
    """Take the step."""
    for statement in _STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
