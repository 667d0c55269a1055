"""The health of sources and channels, and counters."""

import re
from datetime import datetime
from typing import Self

from msgspec import Struct
from sqlalchemy import Connection, Table, select

from cachewatch.store import schema
from cachewatch.store.queries import rows_of
from cachewatch.store.schema import channels, sources
from cachewatch.store.upserts import add_to, put


class SourceHealth(Struct, frozen=True, kw_only=True):
    """The health of a source."""

    name: str
    polled_at: datetime | None = None
    succeeded_at: datetime | None = None
    revision: str | None = None
    revision_time: datetime | None = None  # when its newest revision was published
    changed_at: datetime | None = None  # when we first saw that revision
    failures: int = 0  # in a row
    error: str = ""


class ChannelHealth(Struct, frozen=True, kw_only=True):
    """The health of a channel."""

    name: str
    blocked_until: datetime | None = None
    failures: int = 0  # in a row
    error: str = ""
    error_at: datetime | None = None
    sent_at: datetime | None = None


class Counter(Struct, frozen=True):
    """A figure that only grows: its name, and what it is of."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, **labels: str) -> Self:
        """Return the counter with these labels, in this order."""
        return cls(name, tuple(labels.items()))


def source(connection: Connection, name: str) -> SourceHealth:
    """Return the health of a source."""
    row = connection.execute(rows_of(sources, "name"), {"name": name}).one_or_none()
    if row is None:
        return SourceHealth(name=name)
    return SourceHealth(
        name=name,
        polled_at=row.polled_at,
        succeeded_at=row.succeeded_at,
        revision=row.revision,
        revision_time=row.revision_time,
        changed_at=row.changed_at,
        failures=row.failures,
        error=row.error,
    )


def save_source(connection: Connection, health: SourceHealth) -> None:
    """Store the health of a source."""
    _save(connection, sources, health)


def channel(connection: Connection, name: str) -> ChannelHealth:
    """Return the health of a channel."""
    row = connection.execute(rows_of(channels, "name"), {"name": name}).one_or_none()
    if row is None:
        return ChannelHealth(name=name)
    return ChannelHealth(
        name=name,
        blocked_until=row.blocked_until,
        failures=row.failures,
        error=row.error,
        error_at=row.error_at,
        sent_at=row.sent_at,
    )


def save_channel(connection: Connection, health: ChannelHealth) -> None:
    """Store the health of a channel."""
    _save(connection, channels, health)


def count(connection: Connection, counter: Counter, amount: float = 1) -> None:
    """Let a counter grow."""
    add_to(connection, schema.counters, {"name": _stored(counter)}, "value", amount)


def counters(connection: Connection) -> dict[Counter, float]:
    """Return the value of every counter."""
    table = schema.counters
    rows = connection.execute(select(table).order_by(table.c.name))
    return {_counter(row.name): row.value for row in rows}


# The column has this form: deliveries_total{channel="mail",result="sent"}. Nobody else knows it.
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def _stored(counter: Counter) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in counter.labels)
    return f"{counter.name}{{{labels}}}" if labels else counter.name


def _counter(stored: str) -> Counter:
    name, _, labels = stored.partition("{")
    return Counter(name, tuple((label, _plain(value)) for label, value in _LABEL.findall(labels)))


def _escaped(value: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", value)


def _plain(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)


def _save(connection: Connection, table: Table, health: SourceHealth | ChannelHealth) -> None:
    values = {name: getattr(health, name) for name in health.__struct_fields__ if name != "name"}
    put(connection, table, {"name": health.name}, values)
