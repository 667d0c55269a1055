"""Times that lie further ahead than their own interval were written by a wrong clock: they are computed again.

A clock that is set, a year ahead for one pass or back at the next start, would otherwise keep slots,
polls and deliveries waiting until it is there again. Times that only say what was are left alone, and
whoever reads them takes none for more than now.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cachewatch.channels.deadlines import longest_attempt
from cachewatch.config.model import Config
from cachewatch.core.schedule import check_zone, parse_when
from cachewatch.errors import ConfigError
from cachewatch.notify import operator_notices, outages
from cachewatch.notify.backoff import LONGEST_PAUSE
from cachewatch.notify.operator_notices import Notice
from cachewatch.notify.pass_context import Context
from cachewatch.store import future_times, outbox, scheduled_runs, schema
from cachewatch.store.database import Connection
from cachewatch.store.future_times import AheadLimit

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
            ("ends of deliveries", columns.give_up, outages.longest(config, channel)),
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
