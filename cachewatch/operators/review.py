"""Review all alerts against the state, and send the daily summary while one is open.

What is held and which addresses are suppressed is in the state, and so are the alerts about them: they are opened and
resolved to agree with it, whoever changed it. No alert stays open that nothing could resolve any more, such as one
of a source that the configuration no longer has.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from cachewatch.config.model import Config
from cachewatch.config.schedule import minute
from cachewatch.operators.status import LATE, PATIENCE, Problem, find_problems, late, read_status
from cachewatch.service import recipients
from cachewatch.service.alerts import (
    DAEMON,
    Alert,
    OperatorNotice,
    alert_key,
    notify_within,
    open_within,
    place,
    questions,
    resolve_within,
)
from cachewatch.service.context import Context
from cachewatch.service.notes import unreadable
from cachewatch.service.recipients import is_recipient, is_used
from cachewatch.service.streams import streams_of
from cachewatch.store import cursors, outbox
from cachewatch.store import digests as held
from cachewatch.store import health as alerts
from cachewatch.store import health as outages
from cachewatch.store import messages as suppressions
from cachewatch.store.database import Connection
from cachewatch.store.health import AlertKey, AlertKind, OpenAlert


def review(context: Context) -> bool:
    """Bring the alerts up to date, and notify operators of what is new; tell whether nothing is wrong."""
    now = context.clock()
    with context.database.read() as connection:
        causes = (alerts.has_any, held.all_held, cursors.unreadable, suppressions.all_suppressed)
        is_well = not any(each(connection) for each in causes)
        ended = outages.moment(connection, outages.ENDED)
    # What is late since nothing ran is no news.
    has_run = now - max(filter(None, (context.started, ended))) >= PATIENCE
    found = list(late(read_status(context), context.config, now)) if has_run else []
    if is_well and not found:
        return True
    with context.database.write() as connection:
        recipients.try_again(connection, context)
        resolve_settled(connection, context, [problem.key for problem in found])
        for alert in (*_following(connection, context.config), *map(_alert, found)):
            open_within(connection, context, alert)
        for new in alerts.all_open(connection):  # of another host
            if new.notified_at is None:
                open_within(connection, context, Alert(key=new.key, title=new.title, lines=(new.detail,)))
        for over in alerts.all_resolved(connection):
            resolve_within(connection, context, over.key, _end(context.config, over))
    return False


def resolve_settled(connection: Connection, context: Context, still_late: Collection[AlertKey] | None = None) -> None:
    """Resolve what is settled, or what nothing could settle any more; the next review notifies operators.

    Without `still_late`, alerts of what is late are left as they are.
    """
    for alert in alerts.all_open(connection):
        is_over = alert.key.kind in LATE and still_late is not None and alert.key not in still_late
        if is_over or not _lasts(connection, context.config, alert.key):
            alerts.mark_resolved(connection, alert.key, context.clock())


def _alert(problem: Problem) -> Alert:
    """Return the alert about what is late; how late it is stands below the title."""
    titles = {
        AlertKind.SOURCE_LATE: f"the source {problem.name} is not polled",
        AlertKind.DIGEST_LATE: f"the digest of {problem.name} is late",
        AlertKind.DELIVERY_LATE: f"deliveries through {problem.name} wait",
    }
    return Alert(key=problem.key, title=titles[problem.kind], lines=(problem.what,), commands=("cachewatch status",))


def _lasts(connection: Connection, config: Config, key: AlertKey) -> bool:
    """Tell whether an alert can still come to an end by itself, or has to be decided."""
    match key.kind:
        case (
            AlertKind.SOURCE_FAILED
            | AlertKind.SOURCE_INCOMPLETE
            | AlertKind.SOURCE_EMPTY
            | AlertKind.SOURCE_STALE
            | AlertKind.WORK_FAILED
        ):
            lasts = key.name in config.sources or key.name == DAEMON
        case AlertKind.DOCUMENTS_UNREADABLE:
            lasts = key.name in config.sources and not _streams(config).isdisjoint(
                alerts.unread_by(connection, key.name, key.part)
            )
        case AlertKind.SUSPICIOUS_LOSS | AlertKind.LARGE_CHANGE:
            digests = held.all_held(connection)
            lasts = any(alert_key(hold.event) == key for digest in digests for hold in digest.holds)
        case AlertKind.DIGEST_FAILED | AlertKind.TEMPLATE_FAILED:
            lasts = any(name == key.name and key.part in ("", stream) for name, stream in _streams(config))
        case AlertKind.CHANNEL_DOWN:
            lasts = is_used(config, key.name) or key.name in outbox.oldest_open(connection)
        case AlertKind.DELIVERY_FAILED:
            lasts = is_recipient(config, key.name, key.part) and outbox.has_failed(connection, key.name, key.part)
        case AlertKind.ADDRESS_SUPPRESSED:
            is_left_out = suppressions.is_suppressed(connection, key.name, key.part)
            lasts = is_left_out and is_recipient(config, key.name, key.part)
        case _:
            lasts = True  # the review, or the daemon, resolves it
    return lasts


def _streams(config: Config) -> set[tuple[str, str]]:
    return {(stream.subscription.name, stream.name) for stream in streams_of(config)}


def _following(connection: Connection, config: Config) -> Iterator[Alert]:
    """Yield the alerts that follow from the state."""
    yield from questions(config, held.all_held(connection))
    for (source, tag), reasons in cursors.unreadable(connection).items():
        alert = unreadable(source, tag, reasons)
        if _lasts(connection, config, alert.key):
            yield alert
    for each in suppressions.all_suppressed(connection):
        if is_recipient(config, each.channel, each.target):
            yield recipients.alert(each.channel, each.target, each.said)


def _end(config: Config, over: OpenAlert) -> str:
    key = over.key
    match key.kind:
        case AlertKind.SUSPICIOUS_LOSS:
            return f"no digest is held for a loss in {place(key.name, key.part)}"
        case AlertKind.LARGE_CHANGE:
            return f"no large change in {place(key.name, key.part)} is held"
        case AlertKind.DOCUMENTS_UNREADABLE if key.name in config.sources:
            return f"documents of {key.part} in {key.name} were repaired or removed"
        case AlertKind.ADDRESS_SUPPRESSED if is_recipient(config, key.name, key.part):
            return f"{key.part} receives digests again"
        case _:
            return f"closed: {over.title}"


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


def _summary(listed: Sequence[Problem], down: tuple[str, ...], zone: str) -> OperatorNotice:
    more = len(listed) - _LISTED
    return OperatorNotice(
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
