"""The steps that lead from one form of the database to the next, each in plain SQL.

A released step never changes: databases have it behind them. The form that all of them lead to is in schema.py.
"""

from collections.abc import Callable

from sqlalchemy import Connection

Step = Callable[[Connection], None]

_FORM_1 = (
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

_OUTBOX_2 = (
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

_FORM_2 = (
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
    *_OUTBOX_2,
)

_FORM_3 = (
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

_FORM_4 = (
    *(f"ALTER TABLE {table} RENAME COLUMN track TO stream" for table in ("cursors", "slots", "digests")),
    "ALTER TABLE digests RENAME COLUMN letter TO rendered",
    "DROP INDEX digests_by_track",
    "CREATE INDEX digests_by_stream ON digests (subscription, stream, created)",
    # Of indices that serve alike, SQLite takes the newest.
    "DROP INDEX digests_held",
    "CREATE INDEX digests_held ON digests (subscription, stream) WHERE state = 'held'",
)


def _step(statements: tuple[str, ...]) -> Step:
    def take(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)

    return take


# The step at index n leads from form n to n + 1.
STEPS: tuple[Step, ...] = (_step(_FORM_1), _step(_FORM_2), _step(_FORM_3), _step(_FORM_4))
