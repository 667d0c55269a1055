"""Repair the state before anything else is done with it: unfinished work, damaged rows, and times of a wrong clock.

Damaged rows are set aside and reported; everything else continues. Times that lie further ahead than their own
interval were written by a wrong clock, and are computed again: else slots, polls and deliveries would wait until that
time. Times that only say what was are left alone, and whoever reads them takes none for more than now.
"""

import socket
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cachewatch.channels import longest_attempt
from cachewatch.config.advice import obsolete_keys
from cachewatch.config.model import Config
from cachewatch.core.schedule import check_zone, parse_when
from cachewatch.errors import ConfigError, DamagedRow
from cachewatch.runtime.files import shared_kind
from cachewatch.service import alerts as operator_notices
from cachewatch.service import recipients
from cachewatch.service.alerts import DAEMON, Alert, Notice, open_within
from cachewatch.service.context import Context
from cachewatch.service.recipients import LONGEST_PAUSE
from cachewatch.store import digests, outbox, schema
from cachewatch.store import digests as scheduled_runs
from cachewatch.store import health as alerts
from cachewatch.store import health as future_times
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestState, DigestSummary
from cachewatch.store.health import AheadLimit, AlertKey, AlertKind


def bury_unknown(context: Context) -> None:
    """Put deliveries into the dead letters of which nobody knows any more what became of them."""
    said = "its stored state was damaged: it may have been sent, or not"
    with context.database.write() as connection:
        digests.settle_unknown(connection, said, context.clock())
        for each in outbox.bury_unknown(connection, said, context.clock()):
            alert = Alert(
                key=AlertKey(AlertKind.DELIVERY_FAILED, each.channel, each.target),
                title=f"the delivery record of a digest for {each.target} is damaged",
                lines=(f"Delivery {each.id} through {each.channel}: {said}.",),
                commands=(f"cachewatch deliveries show {each.id}", f"cachewatch deliveries retry {each.id}"),
            )
            open_within(connection, context, alert)
            context.log_within(connection, each).error("delivery.dead", said=said)


def set_aside_damaged(context: Context) -> None:
    """Set aside what is held and damaged: its cursors were not moved, so the next digest tells the same."""
    with context.database.read() as connection:
        found = digests.damaged_held(connection)
    for record, error in found:
        with context.database.write() as connection:
            set_aside(connection, context, record, error)


def set_aside(connection: Connection, context: Context, record: DigestSummary, error: DamagedRow) -> None:
    """Set aside one digest that is held and damaged, and let its stream be due now."""
    now = context.clock()
    digests.settle(connection, record.key, DigestState.DAMAGED, str(error), now)
    scheduled_runs.hasten(connection, record.subscription, record.stream, now)
    notice = Notice(
        topic=f"damaged {record.subscription}/{record.stream}",
        title=f"a digest for {record.subscription} that was held is damaged",
        lines=(str(error), "It was not sent, and its cursors did not move: the next one reports the same."),
    )
    operator_notices.notify_within(connection, context, notice)
    context.log_within(connection).error(
        "digest.damaged", digest=record.key[:12], subscription=record.subscription, error=str(error)
    )


# Clocks are adjusted by less than that every day.
_SLACK = timedelta(minutes=1)
_NEVER = datetime(9999, 12, 31, tzinfo=UTC)
# How long an answer may take to be written down, beside the attempt itself.
_WRITING = timedelta(minutes=5)


def correct(context: Context) -> None:
    """Compute anew what waits for a time that no right clock would have set, and say so once."""
    now = context.clock()
    with context.database.read() as connection:
        if not _is_anything_wrong(connection, now):
            return
    with context.database.write() as connection:
        found = Counter[str]()
        for name, limit in (*_signs(now), *_limits_of_deliveries(context.config, now)):
            found[name] += future_times.correct(connection, limit)
        found["slots"] += _plan_anew(connection, now)
        said = ", ".join(f"{count} {name}" for name, count in found.items() if count)
        if not said:
            return
        operator_notices.notify_within(connection, context, _notice(said))
    context.log.warning("clock.corrected", corrected=said)


def lease(config: Config, channel: str | None) -> timedelta:
    """Return for how long a delivery through `channel`, or any, is claimed: longer than any attempt takes."""
    known = list(config.channels.values()) if channel is None else [config.channels[channel]]
    return max(map(longest_attempt, known), default=timedelta(0)) + _WRITING


def _is_anything_wrong(connection: Connection, now: datetime) -> bool:
    signs = (limit for _, limit in _signs(now))
    return any(future_times.is_exceeded(connection, limit) for limit in signs) or bool(_slots_ahead(connection, now))


def _signs(now: datetime) -> Iterator[tuple[str, AheadLimit]]:
    """Yield what every run with a wrong clock leaves something behind."""
    sources, channels, soon = schema.sources.c, schema.channels.c, now + _SLACK
    yield "polls", AheadLimit(column=sources.polled_at, latest=soon, instead=None)
    for column in (sources.succeeded_at, sources.changed_at, channels.error_at, channels.sent_at):
        yield "times of sources and channels", AheadLimit(column=column, latest=soon, instead=now)
    yield "blocked channels", AheadLimit(column=channels.blocked_until, latest=soon + LONGEST_PAUSE, instead=None)
    yield "times of the service", AheadLimit(column=schema.service.c.value, latest=soon, instead=now)
    yield "held digests", AheadLimit(column=schema.holds.c.counted_from, latest=soon, instead=now)
    columns, only = schema.deliveries.c, (outbox.is_open(),)
    yield "deliveries", AheadLimit(column=columns.due, latest=soon + LONGEST_PAUSE, instead=now, only=only)
    yield (
        "ends of deliveries",
        AheadLimit(column=columns.give_up, latest=_NEVER, instead=now + LONGEST_PAUSE, only=only),
    )
    yield "leases", AheadLimit(column=columns.lease_until, latest=_NEVER, instead=now, only=only)


def _limits_of_deliveries(config: Config, now: datetime) -> Iterator[tuple[str, AheadLimit]]:
    """Yield what may also lie ahead because the configuration was another one, so that it is no sign."""
    columns = schema.deliveries.c
    for channel in (*config.channels, None):
        is_of_channel = columns.channel.not_in(config.channels) if channel is None else columns.channel == channel
        for name, column, lasting in (
            ("ends of deliveries", columns.give_up, recipients.longest(config, channel)),
            ("leases", columns.lease_until, lease(config, channel)),
        ):
            end = now + lasting
            yield name, AheadLimit(column=column, latest=end, instead=end, only=(outbox.is_open(), is_of_channel))


def _slots_ahead(connection: Connection, now: datetime) -> dict[str, datetime]:
    """Return the schedules that wait for a later time than the next one that they have, and that one."""
    found = {}
    for schedule, latest in scheduled_runs.latest_pending(connection).items():
        next_due = _next_after(schedule, now + _SLACK)
        if next_due is not None and latest > next_due:
            found[schedule] = next_due
    return found


def _next_after(schedule: str, moment: datetime) -> datetime | None:
    """Return when the schedule of a slot, as it was configured, is due after `moment`."""
    zone, *lines = schedule.split(" | ")
    try:
        found = [parse_when(f"cron:{line}", check_zone(zone)).next_after(moment) for line in lines]
    except ConfigError:
        return None  # whoever has another schedule plans a slot of it
    return min((due for due in found if due is not None), default=None)


def _plan_anew(connection: Connection, now: datetime) -> int:
    count = 0
    for schedule, due in _slots_ahead(connection, now).items():
        for slot in scheduled_runs.pending_after(connection, schedule, due):
            scheduled_runs.plan(connection, slot.subscription, slot.stream, schedule, due)
            count += 1
    return count


def _notice(said: str) -> Notice:
    return Notice(
        topic="clock",
        title="the clock of this machine was wrong",
        lines=(
            f"Times in the state were too far in the future: {said}. They were recomputed.",
            "The clock was ahead when they were written, or it is behind now: check it.",
            "No change is lost; but a digest may arrive early, or twice.",
        ),
    )


def resume(context: Context) -> None:
    """Send again what was in hand, and say what is odd about the state."""
    kind = shared_kind(context.folder)
    with context.database.write() as connection:
        # The state's lock says that nobody else is at work, as far as this file system tells other hosts of locks.
        host = socket.gethostname() if kind or context.database.is_shared else None
        count = outbox.requeue_interrupted(connection, context.clock(), host)
        # Of the daemon that ran before: it read another file, and its jobs are gone.
        for alert in alerts.all_open(connection):
            if alert.key.name == DAEMON:
                alerts.mark_resolved(connection, alert.key, context.clock())
    recover(context)
    bury_unknown(context)
    set_aside_damaged(context)
    if context.database.repaired:
        _tell_of_damage(context)
    if count:
        context.log.warning("deliveries.interrupted", count=count)
    if kind:
        context.log.warning("state.shared", folder=context.folder, file_system=kind)
    say_obsolete_keys(context)
    if context.database.is_new and any(context.clone_folder(source).exists() for source in context.config.sources):
        _tell_of_loss(context)


def say_obsolete_keys(context: Context) -> None:
    """Log what the configuration says without effect."""
    for sentence in obsolete_keys(context.config):
        context.log.warning("config.obsolete", advice=sentence)


def recover(context: Context) -> None:
    """Put right what time alone can break; cheap where nothing is wrong, so that it is asked before any work.

    Raises StateError if the state was taken away: nothing more is sent from it.
    """
    context.database.check_place()
    correct(context)
    recipients.account(context)
    _requeue_expired(context)


def _requeue_expired(context: Context) -> None:
    with context.database.read() as connection:
        if not outbox.expired_leases(connection):
            return
    with context.database.write() as connection:
        expired = outbox.requeue_expired(connection, context.clock())
    for each in expired:
        context.log_of(each).warning("lease.expired", owner=each.lease_owner)


def _tell_of_damage(context: Context) -> None:
    """Values that a flipped bit gave another type are whole again; other bits may have flipped unseen."""
    place, values = context.database.place, ", ".join(context.database.repaired)
    context.log.error("state.repaired", database=place, values=values)
    notice = Notice(
        topic="state",
        title="the state was damaged, and repaired",
        lines=(
            f"{place}: {values} had another type, and has its own again.",
            "A disk that changes bits may have changed others: look at the disk, and restore a backup.",
        ),
        commands=("cachewatch state check",),
    )
    with context.database.write() as connection:
        operator_notices.notify_within(connection, context, notice)


def _tell_of_loss(context: Context) -> None:
    """Clones without a database are what somebody left who deleted it, or mounted another disk."""
    place = context.database.place
    context.log.warning("state.lost", database=place)
    notice = Notice(
        topic="state",
        title="the state was lost and starts empty",
        lines=(
            f"{place} was missing or empty, although the clones beside it exist.",
            "Sources start again as on their first run: changes since the last digest are not reported.",
            "Deliveries that were waiting are lost.",
            "If you have a copy (`cachewatch backup`), stop cachewatch, put the copy in that place, and start again.",
        ),
    )
    with context.database.write() as connection:
        operator_notices.notify_within(connection, context, notice)
