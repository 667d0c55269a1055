"""What streams were told is gone, so that its return can be told with since when."""

from collections.abc import Collection, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, delete, select

from cachewatch.store.schema import departures
from cachewatch.store.upserts import put


class DepartureKind(StrEnum):
    """What can go and come back."""

    TAG = "tag"
    STACK = "stack"
    PACKAGE = "package"

    @classmethod
    def _missing_(cls, value: object) -> "DepartureKind":  # noqa: ARG003  the contract of an Enum
        return cls.PACKAGE  # its row is damaged


class Departure(Struct, frozen=True, kw_only=True):
    """Something that is gone from a tag, and how much of it there was."""

    kind: DepartureKind
    name: str
    packages: int
    specs: int


class ReportedDeparture(Struct, frozen=True, kw_only=True):
    """A departure that a stream was told of."""

    departure: Departure
    revision: str  # in which it was gone
    told_at: datetime


Stream = dict[str, str]


def stream_key(subscription: str, stream: str, source: str, tag: str) -> Stream:
    """Return what departures of one tag are kept under."""
    return {"subscription": subscription, "stream": stream, "source": source, "tag": tag}


def note(connection: Connection, of: Stream, found: Iterable[Departure], revision: str, now: datetime) -> None:
    """Remember what a stream was told is gone; what is gone again is gone since now."""
    for each in found:
        where = {**of, "kind": each.kind, "name": each.name}
        values = {"revision": revision, "told_at": now, "packages": each.packages, "specs": each.specs}
        put(connection, departures, where, values)


def told(connection: Connection, of: Stream, names: Collection[tuple[DepartureKind, str]]) -> list[ReportedDeparture]:
    """Return which of these a stream was told are gone."""
    rows = connection.execute(select(departures).filter_by(**of).order_by(*departures.primary_key)) if names else ()
    return [found for found in map(_told, rows) if (found.departure.kind, found.departure.name) in names]


def forget_returned(connection: Connection, of: Stream, names: Iterable[tuple[DepartureKind, str]]) -> None:
    """Forget what a stream was told is back."""
    for kind, name in names:
        connection.execute(delete(departures).filter_by(**of, kind=kind, name=name))


def forget(connection: Connection, before: datetime) -> None:
    """Forget what was told before a moment."""
    connection.execute(delete(departures).where(departures.c.told_at < before))


def _told(row: Any) -> ReportedDeparture:
    departure = Departure(kind=DepartureKind(row.kind), name=row.name, packages=row.packages, specs=row.specs)
    return ReportedDeparture(departure=departure, revision=row.revision, told_at=row.told_at)
