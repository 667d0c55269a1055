"""The tables of the state in this version, and how each database keeps times and text.

database.py upgrades older tables. A time is UTC text of one width in SQLite, which sorts as time does.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct
from sqlalchemy import (
    TIMESTAMP,
    Boolean,
    Column,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy import Text as AnyText
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from cachewatch.report.values import Message

RowType = TypeVar("RowType", bound=Struct)
Clock = Callable[[], datetime]

# A form that one call reads in a sixteenth of the time of `strptime`; by itself, that call takes other forms as well.
_IS_OF_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII).fullmatch
UNKNOWN = datetime.fromtimestamp(0, UTC)


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """Return `moment` as the database keeps it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def to_datetime(text: str) -> datetime:
    """Return the moment that the database keeps as `text`; one that is damaged was long ago."""
    try:
        return datetime.fromisoformat(text) if _IS_OF_FORM(text) else UNKNOWN
    except (TypeError, ValueError):  # a bit that flipped may make another type of it
        return UNKNOWN


_POSTGRESQL = "postgresql"
_NUL, _INSTEAD = "\0", "\ufffd"


class Moment(TypeDecorator[datetime]):
    """A moment: `timestamptz` in PostgreSQL; in SQLite, UTC text of one width, which sorts as time does."""

    impl = AnyText
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the type that the database knows."""
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if dialect.name == _POSTGRESQL else AnyText())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Return a moment as the database takes it."""
        return value if value is None or dialect.name == _POSTGRESQL else to_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return a moment of the database; one that is damaged was long ago."""
        return value if value is None or dialect.name == _POSTGRESQL else to_datetime(value)


class _PostgresText(TypeDecorator[str]):
    """Text that PostgreSQL takes: it has no place for NUL."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the contract
        """Return text without NUL."""
        return None if value is None else str(value).replace(_NUL, _INSTEAD)


# Text that sorts by its bytes in every database, whatever the locale of a server is.
Text = AnyText().with_variant(_PostgresText(collation="C"), _POSTGRESQL)


# Raised by every migration step.
FORM = 1
metadata = MetaData()


def _key(*names: str) -> list[Column[str]]:
    """Return the columns of a primary key."""
    return [Column(name, Text, primary_key=True) for name in names]


# Up to which revision a stream of a subscription has been told of a tag.
cursors = Table(
    "cursors",
    metadata,
    *_key("subscription", "stream", "source", "tag"),
    Column("revision", Text, nullable=False),
    Column("moved_at", Moment, nullable=False),
    Column("vanished_at", Moment),  # when the stream was told that the tag is gone; it was told of `revision` before
)

# Streams that have begun, and the revision of each source that they were compared with last.
streams = Table(
    "streams",
    metadata,
    *_key("subscription", "stream", "source"),
    Column("revision", Text, nullable=False),
    Column("begun_at", Moment, nullable=False),
)

# Documents that could not be compared, so that they are compared later.
unread = Table(
    "unread",
    metadata,
    *_key("subscription", "stream", "source", "tag", "package"),
    Column("base", Text, nullable=False),  # the revision with the last readable version, or where there was none yet
    Column("base_tag", Text, nullable=False),  # the tag there: another one for a snapshot that was new
    Column("since", Text, nullable=False),  # the revision that was found unreadable first
    Column("noted_at", Moment, nullable=False),
    Column("reason", Text, nullable=False),
    Column("blob", Text),  # the object id of the document, if it ended the process that read it
    Column("readable_at", Moment),  # when another stream found it readable again
)

# When a stream is due: one pending row each, and those that are done.
slots = Table(
    "slots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("subscription", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("schedule", Text, nullable=False),  # as configured; another one makes another slot
    Column("due", Moment, nullable=False),
    Column("done_at", Moment),
    Column("digest", Text),
    UniqueConstraint("subscription", "stream", "due"),
    Index("slots_pending", "subscription", "stream", "due", sqlite_where=text("done_at IS NULL")),
)

digests = Table(
    "digests",
    metadata,
    Column("key", Text, primary_key=True),
    Column("subscription", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("state", Text, nullable=False),  # ready | held | released | dropped | superseded | damaged
    Column("title", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("reason", Text, nullable=False, server_default=""),  # why it is held, or was dropped
    Column("moves", LargeBinary, nullable=False),  # the cursors that go with it
    Column("rendered", LargeBinary, nullable=False),
    Column("checksum", LargeBinary, nullable=False),  # of the moves, then of what was rendered
    Index("digests_held", "subscription", "stream", sqlite_where=text("state = 'held'")),
    Index("digests_by_stream", "subscription", "stream", "created"),
    Index("digests_by_creation", "created"),
)

# What the digest of a stream is held for; newer digests that take its place go on counting from the first.
holds = Table(
    "holds",
    metadata,
    # The tag is empty if it concerns several.
    *_key("subscription", "stream", "source", "tag", "kind"),
    Column("said", Text, nullable=False),
    Column("content", Text, nullable=False, server_default=""),  # for operators, a fact a line
    Column("counted_from", Moment, nullable=False),  # time without service moves it on
)

# What subscriptions remember beside their cursors: core/remembered.py.
remembered = Table(
    "remembered",
    metadata,
    *_key("subscription", "key"),
    Column("source", Text, nullable=False),
    Column("revision", Text),  # that is kept for it
    Column("content", LargeBinary, nullable=False),
    Column("noted_at", Moment, nullable=False),
    Index("remembered_by_time", "noted_at"),
)

# Queued, being sent, or to be tried again.
_OPEN = text("state IN ('queued', 'sending', 'deferred')")
_HAS_BODY = text("body IS NOT NULL")

# What several messages have in common, once: of mails, all behind their headers.
bodies = Table(
    "bodies",
    metadata,
    Column("checksum", LargeBinary, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", Text, ForeignKey("digests.key"), nullable=False),
    Column("channel", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("copy", Integer, nullable=False, server_default="0"),  # more than 0: sent again by hand
    Column("state", Text, nullable=False),
    Column("created", Moment, nullable=False),
    Column("due", Moment, nullable=False),  # or since when it is being sent
    Column("give_up", Moment, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("may_have_arrived", Boolean, nullable=False, server_default="0"),
    Column("settled_at", Moment),
    Column("said", Text, nullable=False, server_default=""),
    Column("message_id", Text),
    Column("content_type", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("claimed_by", Text),  # the run that sends it, or was sending it when it was taken back
    Column("checksum", LargeBinary, nullable=False),  # of the whole message and of where it goes
    Column("body", LargeBinary),  # of `bodies`, what follows the payload; none if that is all
    UniqueConstraint("digest", "channel", "target", "copy"),
    Index("deliveries_by_state", "channel", "state", "due"),
    Index("deliveries_by_target", "channel", "target", "state", "id"),
    # A query finds it only if it has the very condition in its text, not as a parameter.
    Index("deliveries_by_body", "body", sqlite_where=_HAS_BODY),
    Index("deliveries_open", "channel", "id", "state", "due", "target", sqlite_where=_OPEN),
)

# What happened to a delivery, for `deliveries show`.
attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("delivery", Integer, ForeignKey("deliveries.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("at", Moment, nullable=False),
    Column("event", Text, nullable=False),
    Column("said", Text, nullable=False, server_default=""),
)

# Addresses that refused several digests in a row.
suppressed = Table(
    "suppressed",
    metadata,
    *_key("channel", "target"),
    Column("since", Moment, nullable=False),
    Column("said", Text, nullable=False),
)

sources = Table(
    "sources",
    metadata,
    Column("name", Text, primary_key=True),
    Column("polled_at", Moment),
    Column("succeeded_at", Moment),
    Column("revision", Text),
    Column("revision_time", Moment),
    Column("changed_at", Moment),  # when we first saw that revision
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("error", Text, nullable=False, server_default=""),
)

channels = Table(
    "channels",
    metadata,
    Column("name", Text, primary_key=True),
    Column("blocked_until", Moment),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("error", Text, nullable=False, server_default=""),
    Column("error_at", Moment),
    Column("sent_at", Moment),
)

# What operators have to know until it is over, so that they are notified once when it begins and once when it ends.
alerts = Table(
    "alerts",
    metadata,
    # The name of a source, channel or subscription, and of that a tag, target or stream; empty for the whole.
    *_key("kind", "name", "part"),
    Column("opened_at", Moment, nullable=False),
    Column("notified_at", Moment),  # when operators were notified of it last
    Column("resolved_at", Moment),  # by a command; the service notifies operators and deletes the row
    Column("title", Text, nullable=False),
    Column("detail", Text, nullable=False, server_default=""),
)

# When the service ran last, and its last outage.
service = Table(
    "service",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Moment, nullable=False),
)

# The configuration of the host that works on a state that hosts share, or did last.
configuration = Table(
    "configuration",
    metadata,
    Column("host", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("last_kept", Integer, nullable=False),  # deliveries up to this one: another host made them, with another one
)

# Figures that only ever grow: digests made, deliveries by result.
counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Float, nullable=False),
)


def make_tables(connection: Connection) -> None:
    """Make all tables, and their indexes in the order of their names: of two that serve alike, SQLite takes the newest."""
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            # The condition of a partial one; named above for another database, it would load that one's dialect.
            index.dialect_options[connection.dialect.name]["where"] = index.dialect_options["sqlite"]["where"]
            connection.execute(CreateIndex(index))


def read_row(kind: type[RowType], row: Row[Any], **others: Any) -> RowType:
    """Return what the columns of a row say that are called as fields of `kind` are, and of `others` what is given."""
    return kind(**{name: getattr(row, name) for name in kind.__struct_fields__ if name not in others}, **others)


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless there is one with the same key, and tell whether it was new."""
    done = connection.execute(_insert_into(connection, table).on_conflict_do_nothing(), dict(values))
    return bool(done.rowcount > 0)


def put(
    connection: Connection,
    table: Table,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    only_new: Collection[str] = (),
) -> None:
    """Insert a row, or let the row of this key have these values but those that are `only_new`."""
    new = _insert_into(connection, table)
    changed = {name: new.excluded[name] for name in values if name not in only_new}
    connection.execute(new.on_conflict_do_update(index_elements=tuple(key), set_=changed), {**key, **values})


def add_to(connection: Connection, table: Table, key: Mapping[str, Any], name: str, amount: float) -> None:
    """Let a column of a row grow, from nothing if there is no such row."""
    new = _insert_into(connection, table)
    grown = {name: table.c[name] + new.excluded[name]}
    connection.execute(new.on_conflict_do_update(index_elements=tuple(key), set_=grown), {**key, name: amount})


def _insert_into(connection: Connection, table: Table) -> Any:
    """Return an insert that may update, of which SQLAlchemy has no common form."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


BYTES = 16


def of_message(message: Message) -> bytes:
    """Return the checksum of a message: of its bytes, and of what says where and as what they go."""
    parts = (message.key, message.target, message.content_type, message.message_id or "")
    return of_parts((*(part.encode(errors="surrogatepass") for part in parts), message.payload))


def of_parts(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return the checksum of several values, in their order."""
    found = blake2b(digest_size=BYTES)
    for part in parts:
        found.update(len(part).to_bytes(8))
        found.update(part)
    return found.digest()
