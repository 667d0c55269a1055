"""The daily summary: while an alert is open, operators are reminded once a day."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from cachewatch.core.showing_times import minute
from cachewatch.notify.operator_notices import Notice, notify_within
from cachewatch.notify.pass_context import Context
from cachewatch.notify.problems import LATE, Problem, find_problems
from cachewatch.notify.status import read_status
from cachewatch.store import alerts
from cachewatch.store.alerts import AlertKind, OpenAlert
from cachewatch.store.database import Connection

# Where the configuration says; fixed, so that neither a pass that is late nor a restart moves it.
_AT = time(8)
# An alert that was opened shortly before is still in everybody's mind.
_AFTER = timedelta(hours=12)
_LISTED = 200


def summarize(context: Context) -> None:
    """Notify operators of all open alerts once it is due, and some alert was open for long by then."""
    due = _last_due(context.clock(), ZoneInfo(context.config.timezone))
    with context.database.read() as connection:
        if not any(_is_due(alert, due) for alert in alerts.all_open(connection)):
            return
    listed = find_problems(read_status(context), context.config, context.clock()).all
    with context.database.write() as connection:
        _summarize(connection, context, listed)


def _summarize(connection: Connection, context: Context, listed: Sequence[Problem]) -> None:
    now, found = context.clock(), alerts.all_open(connection)
    keys = {alert.key for alert in found}
    # What is late need not be known as an alert yet: the service may have been off.
    listed = [problem for problem in listed if problem.key in keys or problem.kind not in LATE]
    down = {alert.key.name for alert in found if alert.key.kind is AlertKind.CHANNEL_DOWN}
    if down.issuperset(context.config.operators.channels):
        return  # summaries would pile up; one is made when a channel works again
    notify_within(connection, context, _summary(listed, tuple(sorted(down)), context.config.timezone))
    for alert in found:
        alerts.note_notified(connection, alert.key, now)


def _is_due(alert: OpenAlert, due: datetime) -> bool:
    return alert.opened_at <= due - _AFTER and (alert.notified_at is None or alert.notified_at < due)


def _last_due(now: datetime, zone: ZoneInfo) -> datetime:
    """Return the last moment at which a summary was due."""
    today = now.astimezone(zone).date()
    due = datetime.combine(today, _AT, zone)
    return due if due <= now else datetime.combine(today - timedelta(days=1), _AT, zone)


def _summary(listed: Sequence[Problem], down: tuple[str, ...], zone: str) -> Notice:
    more = len(listed) - _LISTED
    return Notice(
        topic="summary",
        title="1 alert is open" if len(listed) == 1 else f"{len(listed)} alerts are open",
        lines=(f"`cachewatch status` lists {more} more.",) if more > 0 else (),
        facts=tuple((problem.what, _since(problem, zone)) for problem in listed[:_LISTED]),
        commands=("cachewatch status",),
        avoid=down,
    )


def _since(problem: Problem, zone: str) -> str:
    since = f"since {minute(problem.since, zone)}" if problem.since else "now"
    return f"{since}: {problem.detail}" if problem.detail else since
