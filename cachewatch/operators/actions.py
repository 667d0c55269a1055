"""What operators do with digests and deliveries by command; each action is recorded."""

from msgspec import structs

from cachewatch.channels import open_channel
from cachewatch.config.schedule import duration_in_words, minute
from cachewatch.core.remembered import confirmed
from cachewatch.errors import DamagedRow, UsageError
from cachewatch.operators.review import resolve_settled
from cachewatch.report.values import Message
from cachewatch.service import recipients
from cachewatch.service.context import Context
from cachewatch.service.recipients import set_aside, why_not
from cachewatch.store import cursors, digests, health, outbox
from cachewatch.store import digests as held
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestRecord, DigestState, HeldDigest
from cachewatch.store.outbox import OPEN, Delivery, State

_RETRIED = (State.QUEUED, State.DEFERRED, State.DEAD, State.SUPPRESSED, State.DROPPED)


def retry(context: Context, number: int, *, is_forced: bool = False) -> Delivery:
    """Let a delivery that is not sent be due now, with the same bytes under the same Message-ID.

    What is being sent is left alone unless `is_forced`.
    """
    now = context.clock()
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state is State.SENDING:
            _check_sender(delivery, context.config.timezone, is_forced=is_forced)
        elif delivery.state not in _RETRIED:
            raise UsageError(f"delivery {number} is {delivery.state}; only what was not sent can be retried")
        config = context.config.channels.get(delivery.channel)
        _check_recipient(connection, context, delivery)
        message_of(connection, context, number)
        was_sending = delivery.state is State.SENDING
        outbox.settle(
            connection, delivery, State.QUEUED, now=now, said="retried by an operator", may_have_arrived=was_sending
        )
        if config is not None:
            outbox.prolong(connection, number, now + config.retry.lasting)
        # Whoever asks has repaired the channel, or wants to see whether it was.
        channel_health = health.channel(connection, delivery.channel)
        health.save_channel(connection, structs.replace(channel_health, blocked_until=None))
    return delivery


def resend(context: Context, number: int) -> None:
    """Send again what was sent: as a new message that refers to the old one, since receivers drop repeated ones."""
    now = context.clock()
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state is not State.SENT:
            raise UsageError(f"delivery {number} is {delivery.state}, not sent; use `cachewatch deliveries retry`")
        config = context.config.channels.get(delivery.channel)
        stored = digests.get(connection, delivery.digest)
        if config is None or stored is None:
            raise UsageError(f"delivery {number}: its channel {delivery.channel} is no longer configured")
        _check_recipient(connection, context, delivery)
        original = message_of(connection, context, number)
        again = open_channel(config).rebuild_message(structs.replace(stored.rendered, created=now), original)
        copy = outbox.next_copy(connection, delivery)
        outbox.add(connection, delivery.channel, again, state=State.QUEUED, lasting=config.retry.lasting, copy=copy)
        outbox.note(connection, number, "resent", "by an operator, as a new message", now)


def message_of(connection: Connection, context: Context, number: int) -> Message:
    """Return the bytes of a delivery; raise UsageError where they are kept no longer."""
    found = outbox.message(connection, number)
    if not found.payload:
        kept = duration_in_words(context.config.retention.payload)
        raise UsageError(
            f"delivery {number}: its text was deleted {kept} after it was sent (`retention: payload`); "
            f"`cachewatch preview {digests.subscription_of(connection, found.key)} --since REVISION` makes one anew"
        )
    return found


def release(context: Context, name: str) -> DigestRecord:
    """Let a held digest go out, and move the cursors that it covers."""
    now = context.clock()
    _check_damage(context, name)
    with context.database.write() as connection:
        stored = _held(connection, name)
        digests.settle(connection, stored.key, DigestState.RELEASED, "released by an operator", now)
        for each in outbox.find(connection, digest_key=stored.key):
            outbox.prolong(connection, each.id, each.give_up + (now - stored.created))
        held.let_go(connection, stored.subscription, stored.stream)
        told = [structs.replace(each, learned=confirmed(each.learned)) for each in stored.advances]
        cursors.advance(connection, told, now)
        resolve_settled(connection, context)
    return stored


def drop_digest(context: Context, name: str, reason: str) -> DigestRecord:
    """Give up a held digest: its changes are told to nobody, and the cursors move on."""
    now = context.clock()
    _check_damage(context, name)
    with context.database.write() as connection:
        stored = _held(connection, name)
        digests.settle(connection, stored.key, DigestState.DROPPED, reason, now)
        held.let_go(connection, stored.subscription, stored.stream)
        cursors.advance(connection, stored.advances, now)
        resolve_settled(connection, context)
    return stored


def drop_delivery(context: Context, number: int, reason: str) -> None:
    """Give up one delivery that was not sent."""
    with context.database.write() as connection:
        delivery = _delivery(connection, number)
        if delivery.state not in (*OPEN, State.DEAD, State.SUPPRESSED):
            raise UsageError(f"delivery {number} is {delivery.state}; only what waits or failed can be dropped")
        outbox.settle(connection, delivery, State.DROPPED, now=context.clock(), said=reason)
        resolve_settled(connection, context)


def restore(context: Context, channel: str, target: str) -> None:
    """Deliver again to a suppressed address, and send what was kept for it."""
    with context.database.write() as connection:
        if not recipients.restore(connection, context, channel, target):
            raise UsageError(f"{target} is not suppressed in {channel}")
        resolve_settled(connection, context)


def _delivery(connection: Connection, number: int) -> Delivery:
    found = outbox.delivery(connection, number)
    if found is None:
        raise UsageError(f"there is no delivery {number}; see `cachewatch deliveries list`")
    return found


def _check_sender(delivery: Delivery, zone: str, *, is_forced: bool) -> None:
    if not is_forced:
        raise UsageError(
            f"delivery {delivery.id} is being sent by {delivery.claimed_by} since {minute(delivery.due, zone)}, and comes "
            "back by itself if that one has ended; --force sends it now, and perhaps a second time"
        )


def _check_recipient(connection: Connection, context: Context, delivery: Delivery) -> None:
    subscription = digests.subscription_of(connection, delivery.digest)
    if why := why_not(context.config, subscription, delivery.channel, delivery.target):
        raise UsageError(f"delivery {delivery.id}: {why}; see `channels:` and `to:` in {context.config.path}")


def _check_damage(context: Context, name: str) -> None:
    """Set a held digest aside if it is damaged, and say so: nobody can tell where its cursors would go."""
    with context.database.write() as connection:
        record = digests.find(connection, _key(connection, name))
        if record is None or record.state is not DigestState.HELD:
            return
        try:
            digests.get(connection, record.key)
            return
        except DamagedRow as error:
            set_aside(connection, context, record, error)
            said = f"{error}; it was set aside, and the next pass creates it again"
    raise UsageError(said)


def _key(connection: Connection, name: str) -> str:
    """Return the key of a held digest, or its beginning, by that, by its subscription, or by that and its stream."""
    found = [each for each in held.all_held(connection) if name in (each.subscription, _stream(each))]
    if len(found) > 1:
        raise UsageError(f"{name} has {len(found)} held digests; name one of them: {', '.join(map(_stream, found))}")
    return found[0].key if found else name


def _held(connection: Connection, name: str) -> DigestRecord:
    """Return a held digest by its key, its subscription, or its subscription and stream."""
    key = _key(connection, name)
    stored = digests.get(connection, key)
    if stored is None:
        raise UsageError(
            f"{key}: no held digest has this subscription or key, or several keys begin with it; "
            "see `cachewatch deliveries list --held`"
        )
    if stored.state is not DigestState.HELD:
        newer = ", ".join(each[:12] for each in digests.held(connection, stored.subscription, stored.stream))
        advice = f"{newer} replaced it" if newer else "see `cachewatch deliveries list --held`"
        raise UsageError(f"digest {key} is not held but {stored.state}; {advice}")
    return stored


def _stream(digest: HeldDigest) -> str:
    return f"{digest.subscription}/{digest.stream}"
