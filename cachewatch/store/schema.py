"""The tables of the state in this version, and how each database stores times and text.

The functions of other modules here take an open transaction, so that their caller decides what is written together. Who
adds form 2 must write the tables of form 1 into its migration, which creates those of this module.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct
from sqlalchemy import Column, Connection, Dialect, ForeignKey, Index, MetaData, Table, UniqueConstraint, text, types
from sqlalchemy.schema import CreateIndex, CreateTable, SchemaItem

Value = TypeVar("Value", bound=Struct)
Clock = Callable[[], datetime]

# The form of stored times, UTC text that sorts like the time; `fromisoformat` accepts other forms as well.
_IS_OF_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Return a time as it is stored in SQLite."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


class _TextMoment(types.TypeDecorator[datetime]):
    impl = types.Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the contract
        """Return a time as the database stores it."""
        return None if value is None else to_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002  the contract
        """Return a stored time; the first moment of 1970 if it is damaged."""
        with suppress(TypeError, ValueError):  # a bit that flipped may make another type of it
            if value is None or _IS_OF_FORM(value):
                return None if value is None else datetime.fromisoformat(value)
        return datetime.fromtimestamp(0, UTC)


class _PostgresText(types.TypeDecorator[str]):
    impl = types.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the contract
        """Return a text with NUL replaced, since PostgreSQL cannot store it."""
        return None if value is None else str(value).replace("\0", "\ufffd")


# A column type for times: in SQLite text, in PostgreSQL `timestamptz`.
Moment = _TextMoment().with_variant(types.TIMESTAMP(timezone=True), "postgresql")
# A column type for text that sorts by its bytes in every database, whatever the locale of the server.
Text = types.Text().with_variant(_PostgresText(collation="C"), "postgresql")


# The version of the tables; every migration step increases it.
FORM = 1
metadata = MetaData()


def _table(name: str, *columns: SchemaItem) -> Table:
    return Table(name, metadata, *columns)


def _key(*names: str) -> list[Column[str]]:
    return [Column(name, Text, primary_key=True) for name in names]


def _required(kind: Any, *names: str, **options: Any) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False, **options) for name in names]


_texts, _moments, _bytes = (partial(_required, kind) for kind in (Text, Moment, types.LargeBinary))


# The revision up to which a stream of a subscription has reported changes of a tag.
cursors = _table(
    "cursors",
    *_key("subscription", "stream", "source", "tag"),
    *_texts("revision"),
    *_moments("moved_at"),
    Column("vanished_at", Moment),  # when the stream reported the removal of the tag, last seen in `revision`
)

# The streams that have started, and the revision of each source that they were compared with last.
streams = _table("streams", *_key("subscription", "stream", "source"), *_texts("revision"), *_moments("begun_at"))

unread = _table(
    "unread",
    *_key("subscription", "stream", "source", "tag", "package"),
    *_texts("base", "base_tag", "since"),
    *_moments("noted_at"),
    *_texts("reason"),
    Column("blob", Text),  # the object id of the document, if it ended the process that read it
    Column("readable_at", Moment),  # when another stream found it readable again
)

# When the streams are due: one pending row for each stream, and rows that are done.
slots = _table(
    "slots",
    Column("id", types.Integer, primary_key=True),
    *_texts("subscription", "stream", "schedule"),  # as configured; if the schedule changes, another slot is made
    *_moments("due"),
    Column("done_at", Moment),
    Column("digest", Text),
    UniqueConstraint("subscription", "stream", "due"),
    Index("slots_pending", "subscription", "stream", "due", sqlite_where=text("done_at IS NULL")),
)

digests = _table(
    "digests",
    *_key("key"),
    *_texts("subscription", "stream", "state", "title", "period"),
    *_moments("created"),
    *_texts("reason", server_default=""),  # why it is held, or was dropped
    # The encoded advances of cursors that belong to it, its content, and the checksums of the one and the other.
    *_bytes("moves", "rendered", "checksum"),
    Index("digests_held", "subscription", "stream", sqlite_where=text("state = 'held'")),
    Index("digests_by_stream", "subscription", "stream", "created"),
    Index("digests_by_creation", "created"),
)

# The events for which the digest of a stream is held; a newer digest that replaces it continues their time.
holds = _table(
    "holds",
    *_key("subscription", "stream", "source", "tag", "kind"),  # the tag is empty if it concerns several
    *_texts("said"),
    *_texts("content", server_default=""),  # details for operators, one a line
    *_moments("counted_from"),  # the start of the hold
)

# Facts that subscriptions remember beside their cursors: core/advice/waits_and_reminders.py.
remembered = _table(
    "remembered",
    *_key("subscription", "key"),
    *_texts("source"),
    Column("revision", Text),  # a revision that is pinned for this fact
    *_bytes("content"),
    *_moments("noted_at"),
    Index("remembered_by_time", "noted_at"),
)

# Content that several messages share, stored once: of mails, everything after the headers.
bodies = _table("bodies", Column("checksum", types.LargeBinary, primary_key=True), *_bytes("content"))

# Queued, being sent, or to be tried again.
_OPEN = text("state IN ('queued', 'sending', 'deferred')")
deliveries = _table(
    "deliveries",
    Column("id", types.Integer, primary_key=True),
    Column("digest", Text, ForeignKey("digests.key"), nullable=False),
    *_texts("channel", "target"),
    Column("copy", types.Integer, nullable=False, server_default="0"),  # more than 0: sent again by an operator
    *_texts("state"),
    *_moments("created", "due", "give_up"),  # `due`: or since when it is being sent
    Column("attempts", types.Integer, nullable=False, server_default="0"),
    Column("may_have_arrived", types.Boolean, nullable=False, server_default="0"),
    Column("settled_at", Moment),
    *_texts("said", server_default=""),
    Column("message_id", Text),
    *_texts("content_type"),
    *_bytes("payload"),
    Column("claimed_by", Text),  # the run of the service that sends it, or did before it was queued again
    *_bytes("checksum"),  # of the whole message and its target
    Column("body", types.LargeBinary),  # the checksum in `bodies` of what follows the payload; NULL if nothing does
    UniqueConstraint("digest", "channel", "target", "copy"),
    Index("deliveries_by_state", "channel", "state", "due"),
    Index("deliveries_by_target", "channel", "target", "state", "id"),
    # A query finds it only if it has the very condition in its text, not as a parameter.
    Index("deliveries_by_body", "body", sqlite_where=text("body IS NOT NULL")),
    Index("deliveries_open", "channel", "id", "state", "due", "target", sqlite_where=_OPEN),
)

# The history of each delivery, for `deliveries show`.
attempts = _table(
    "attempts",
    Column("id", types.Integer, primary_key=True),
    Column("delivery", types.Integer, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False, index=True),
    *_moments("at"),
    *_texts("event"),
    *_texts("said", server_default=""),
)

# Addresses that get no more digests, because they refused several in a row.
suppressed = _table("suppressed", *_key("channel", "target"), *_moments("since"), *_texts("said"))

sources = _table(
    "sources",
    *_key("name"),
    Column("polled_at", Moment),
    Column("succeeded_at", Moment),
    Column("revision", Text),
    Column("revision_time", Moment),
    Column("changed_at", Moment),  # when we first saw that revision
    Column("failures", types.Integer, nullable=False, server_default="0"),
    *_texts("error", server_default=""),
)

channels = _table(
    "channels",
    *_key("name"),
    Column("blocked_until", Moment),
    Column("failures", types.Integer, nullable=False, server_default="0"),
    *_texts("error", server_default=""),
    Column("error_at", Moment),
    Column("sent_at", Moment),
)

alerts = _table(
    "alerts",
    # The name of a source, channel or subscription, and of that a tag, target or stream; empty for the whole.
    *_key("kind", "name", "part"),
    *_moments("opened_at"),
    Column("notified_at", Moment),  # when operators were notified of it last
    Column("resolved_at", Moment),  # by a command; the service notifies operators and deletes the row
    *_texts("title"),
    *_texts("detail", server_default=""),
)

counters = _table("counters", *_key("name"), Column("value", types.Float, nullable=False))


def make_tables(connection: Connection) -> None:
    """Create all tables, and their indexes sorted by name, because SQLite uses the newest of equally good indexes."""
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            # The condition of a partial one; named above for another database, it would load that one's dialect.
            index.dialect_options[connection.dialect.name]["where"] = index.dialect_options["sqlite"]["where"]
            connection.execute(CreateIndex(index))


def filled(kind: type[Value], source: object, **others: Any) -> Value:
    """Return a new `kind`; its fields are `others` and, for the rest, attributes of `source` with the same names."""
    return kind(**{name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}, **others)


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    """Insert a row with `values` unless a row with the same key exists."""
    connection.execute(insert_into(connection, table).on_conflict_do_nothing(), dict(values))


def put(
    connection: Connection, table: Table, key: Sequence[str], *rows: Mapping[str, Any], only_new: Collection[str] = ()
) -> None:
    """Insert `rows` with equal columns; where a row has the same columns `key`, update all but `only_new`."""
    if rows:
        new = insert_into(connection, table)
        changed = {name: text(f"excluded.{name}") for name in rows[0] if name not in (*key, *only_new)}
        connection.execute(new.on_conflict_do_update(index_elements=key, set_=changed), rows)


def insert_into(connection: Connection, table: Table) -> Any:
    """Return an INSERT statement of the connection's database that can also update rows which exist."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


def checksum_of(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return one checksum, of 16 bytes, for several values in this order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.digest()
