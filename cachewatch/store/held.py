"""Digests that wait for an operator, and the losses for which they were held."""

from collections.abc import Iterable

from msgspec import Struct
from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from cachewatch.store.digests import IS_HELD
from cachewatch.store.schema import digests, held_losses


class Loss(Struct, frozen=True, order=True):
    """A suspicious loss in one tag of a source."""

    source: str
    tag: str  # empty if the source lost more than one tag holds
    said: str  # what was lost


class HeldDigest(Struct, frozen=True, kw_only=True):
    """What has to be known of a held digest to ask operators about it; its contents are not read."""

    key: str
    subscription: str
    stream: str
    reason: str
    losses: tuple[Loss, ...]


def add_losses(connection: Connection, digest: str, losses: Iterable[Loss]) -> None:
    """Write down for which losses a digest that was stored is held."""
    for loss in losses:
        values = {"digest": digest, "source": loss.source, "tag": loss.tag, "said": loss.said}
        connection.execute(insert(held_losses).values(**values).on_conflict_do_nothing())


def all_held(connection: Connection, subscription: str | None = None) -> list[HeldDigest]:
    """Return every held digest, or those of one subscription, oldest first."""
    table = digests.c
    query = select(table.key, table.subscription, table.track, table.reason).where(IS_HELD)
    if subscription is not None:
        query = query.where(table.subscription == subscription)
    rows = connection.execute(query.order_by(table.created, table.subscription, table.track)).all()
    return [
        HeldDigest(
            key=row.key,
            subscription=row.subscription,
            stream=row.track,
            reason=row.reason,
            losses=_losses(connection, row.key),
        )
        for row in rows
    ]


def _losses(connection: Connection, digest: str) -> tuple[Loss, ...]:
    query = select(held_losses).filter_by(digest=digest).order_by(held_losses.c.source, held_losses.c.tag)
    return tuple(Loss(row.source, row.tag, row.said) for row in connection.execute(query))
