"""Form 2: streams that have begun, documents that could not be read, alerts with keys, leases, and checksums."""

from alembic import op

revision = "2"
down_revision = "1"

_OUTBOX = (
    # What 0.1 was sending when it ended has a lease of nobody, which is over.
    "ALTER TABLE deliveries ADD COLUMN lease_owner TEXT",
    "ALTER TABLE deliveries ADD COLUMN lease_until TEXT",
    # What 0.1 stored has no checksum.
    "ALTER TABLE deliveries ADD COLUMN checksum BLOB",
    "ALTER TABLE digests ADD COLUMN checksum BLOB",
    "ALTER TABLE digests ADD COLUMN form INTEGER DEFAULT '1' NOT NULL",
    "CREATE TABLE service (name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name))",
    # What is at work must not depend on what was: partial indexes of what is open, held or pending.
    "DROP INDEX deliveries_by_state",
    "DROP INDEX deliveries_by_target",
    "CREATE INDEX deliveries_by_state ON deliveries (channel, state, due)",
    "CREATE INDEX deliveries_by_target ON deliveries (channel, target, state, id)",
    """
    CREATE INDEX deliveries_open ON deliveries (channel, id, state, due, target)
    WHERE state IN ('queued', 'sending', 'deferred')
    """,
    "CREATE INDEX digests_by_track ON digests (subscription, track, created)",
    "CREATE INDEX digests_by_creation ON digests (created)",
    "CREATE INDEX digests_held ON digests (subscription, track) WHERE state = 'held'",
    "CREATE INDEX slots_pending ON slots (subscription, track, due) WHERE done_at IS NULL",
)

_STATEMENTS = (
    # Which streams have begun, and the revision of each source that they were compared with last.
    """
    CREATE TABLE streams (subscription TEXT NOT NULL, stream TEXT NOT NULL, source TEXT NOT NULL,
    revision TEXT NOT NULL, begun_at TEXT NOT NULL, PRIMARY KEY (subscription, stream, source))
    """,
    """
    INSERT INTO streams SELECT subscription, track, source, revision, max(moved_at)
    FROM cursors GROUP BY subscription, track, source
    """,
    # A stream whose patterns matched no tag yet has no cursor, but slots show that it has begun.
    """
    INSERT INTO streams SELECT slots.subscription, slots.track, sources.name, sources.revision, min(slots.due)
    FROM slots JOIN sources ON sources.revision IS NOT NULL
    WHERE NOT EXISTS (SELECT 1 FROM cursors WHERE cursors.subscription = slots.subscription
    AND cursors.track = slots.track)
    GROUP BY slots.subscription, slots.track, sources.name
    """,
    "ALTER TABLE cursors ADD COLUMN vanished_at TEXT",
    """
    CREATE TABLE unread (subscription TEXT NOT NULL, stream TEXT NOT NULL, source TEXT NOT NULL, tag TEXT NOT NULL,
    package TEXT NOT NULL, base TEXT NOT NULL, base_tag TEXT NOT NULL, since TEXT NOT NULL, noted_at TEXT NOT NULL,
    reason TEXT NOT NULL, readable_at TEXT, PRIMARY KEY (subscription, stream, source, tag, package))
    """,
    # Alerts are found by what they are about. 0.1 had sentences for keys: "dead mail ann@example.org", "held ml/regular".
    """
    CREATE TABLE alerts (kind TEXT NOT NULL, name TEXT NOT NULL, part TEXT NOT NULL, opened_at TEXT NOT NULL,
    notified_at TEXT, resolved_at TEXT, title TEXT NOT NULL, detail TEXT DEFAULT '' NOT NULL,
    PRIMARY KEY (kind, name, part))
    """,
    *(
        f"""
        INSERT INTO alerts (kind, name, part, opened_at, notified_at, title)
        SELECT '{kind}', substr(rest, 1, instr(rest || '{separator}', '{separator}') - 1),
        substr(rest, instr(rest || '{separator}', '{separator}') + 1), since, since, said
        FROM (SELECT substr(topic, length('{word}') + 2) AS rest, since, said FROM troubles WHERE topic LIKE '{word} %')
        """  # noqa: S608  made of the words below alone
        for word, kind, separator in (
            ("source", "source-failed", " "),
            ("part of", "source-incomplete", " "),
            ("stale", "source-stale", " "),
            ("channel", "channel-down", " "),
            ("template", "template-failed", " "),
            ("digest", "digest-failed", "/"),
            ("held", "digest-held", "/"),
            ("dead", "delivery-failed", " "),
        )
    ),
    "DROP TABLE troubles",
    # Whether an address is left out has an alert of its own, of which 0.1 knew nothing.
    """
    DELETE FROM alerts WHERE kind = 'delivery-failed' AND EXISTS
    (SELECT 1 FROM suppressed WHERE suppressed.channel = alerts.name AND suppressed.target = alerts.part)
    """,
    """
    CREATE TABLE held_losses (digest TEXT NOT NULL, source TEXT NOT NULL, tag TEXT NOT NULL, said TEXT NOT NULL,
    PRIMARY KEY (digest, source, tag), FOREIGN KEY(digest) REFERENCES digests ("key") ON DELETE CASCADE)
    """,
    *_OUTBOX,
)


def upgrade() -> None:
    """Take the step."""
    for statement in _STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
