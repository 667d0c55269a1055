"""Alerts and notices: messages to the operators of cachewatch, never to the recipients of digests."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice, pairwise

from msgspec import Struct
from msgspec.structs import asdict

from cachewatch.config.schedules_and_quiet_times import minute
from cachewatch.config.sources_and_channels import Source
from cachewatch.errors import StateError, TemplateError
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import LATEST, Revision, back_from
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.digest_and_message_values import Note, Notice, open_channel
from cachewatch.report.digests.rendering_and_sizes import render_notice
from cachewatch.report.words_file import words
from cachewatch.runtime.log import error_message, traceback_of
from cachewatch.service.context_and_source_copies import Context, EndingError
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.digests_and_holds import DigestRecord
from cachewatch.store.health_and_alerts import OF_HOLDS, AlertKey, AlertKind, SourceHealth
from cachewatch.store.schema import to_text
from cachewatch.store.transactions_and_sqlite import Connection

# Used in place of the names of a subscription and of a source; none can be called so.
OPERATORS, DAEMON = "(operators)", "(daemon)"


class OperatorNotice(Struct, frozen=True, kw_only=True):
    """A message to operators."""

    topic: str  # shown in the list of digests in place of a stream's name
    title: str
    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # command lines that help
    is_good: bool = False  # whether it reports the end of a problem
    facts: tuple[tuple[str, str], ...] = ()  # a name and its value, shown on a line each
    avoid: tuple[str, ...] = ()  # channels that do not work, used only if there is no other


class Alert(OperatorNotice, frozen=True, kw_only=True):
    """A message to operators that opens an alert; `cachewatch status` also shows its title and its first line."""

    key: AlertKey
    topic: str = ""  # not used: the topic is that of the key


def notify_within(connection: Connection, context: Context, notice: OperatorNotice) -> None:
    """Queue a notice to operators within the open transaction of `connection`, and log it."""
    event = "operators.notified" if queue_within(connection, context, notice) else "operators.unnotified"
    context.log_within(connection).warning(event, topic=notice.topic, title=notice.title)


def queue_within(connection: Connection, context: Context, notice: OperatorNotice) -> bool:
    """Queue a notice within the open transaction of `connection`; return False if no channel of operators takes it."""
    context.notices += 1
    now, config = context.clock(), context.config  # one of them, though a reload may bring another
    topic = notice.key.topic if isinstance(notice, Alert) else notice.topic
    whom, packed = config.operators, []
    message = Notice(
        key=hashlib.sha256(f"{topic}\n{notice.title}\n{to_text(now)}".encode()).hexdigest(),
        created=now,
        title=notice.title,
        is_good=notice.is_good,
        said=notice.lines,
        facts=notice.facts,
        commands=notice.commands,
        zone=config.timezone,
        operator=", ".join(whom.to),
    )
    try:
        rendered = render_notice(message, to=whom.to, templates_dir=config.templates_dir)
    except TemplateError as error:
        context.log.error("template.failed", error=str(error))
        rendered = render_notice(message, to=whom.to)
    for name in [name for name in whom.channels if name not in notice.avoid] or whom.channels:
        channel = config.channels[name]
        try:
            packed.append((channel, open_channel(channel).build_messages(rendered)))
        except Exception as error:  # noqa: BLE001  a channel that cannot pack a notice must not silence the others
            log = context.log_within(connection).bind(channel=name)
            log.error("operators.unreachable", error=error_message(error), traceback=traceback_of(error))
    if packed:
        digests.add(connection, DigestRecord.ready(rendered, rendered, subscription=OPERATORS, stream=topic))
    for channel, messages in packed:
        deliveries.add(connection, channel.name, messages, state=DeliveryState.QUEUED, lasting=channel.retry.lasting)
    return bool(packed)


def open_now(context: Context, alert: Alert) -> None:
    """Open an alert, and notify operators unless it was open already."""
    with context.database.write() as connection:
        open_within(connection, context, alert)


def open_within(connection: Connection, context: Context, alert: Alert) -> None:
    """Open an alert within the open transaction of `connection`, and notify operators unless it was open already."""
    now, detail = context.clock(), alert.lines[0] if alert.lines else ""
    if health.put_alert(connection, alert.key, alert.title, detail, now):
        queue_within(connection, context, alert)
        context.log_within(connection).warning("alert.opened", **asdict(alert.key), title=alert.title)


def resolve_now(context: Context, key: AlertKey, title: str) -> None:
    """Resolve the alert `key`, and send operators a notice titled `title`; do nothing if there is no such alert."""
    with context.database.read() as connection:
        if health.get(connection, key) is None:
            return
    with context.database.write() as connection:
        resolve_within(connection, context, key, title)


@contextmanager
def contained(context: Context, name: str, part: str) -> Iterator[None]:
    """Turn an error in the `with` block into an alert. `part` names the work that failed, `name` names its source.

    After success, resolve that alert if there is one. A StateError or an EndingError is raised, and becomes no alert.
    """
    key = AlertKey(AlertKind.WORK_FAILED, name, part)
    try:
        yield
    except (StateError, EndingError):
        raise  # no faults of the work
    except Exception as error:  # noqa: BLE001  whatever it is, it stops only this
        if context.is_ending.is_set():
            return  # we may have ended what it worked with
        said = error_message(error)
        context.log.error("work.failed", name=name, part=part, error=said, traceback=traceback_of(error))
        open_now(context, Alert(key=key, title=f"{part} of {name} fails", lines=(said,)))
    else:
        resolve_now(context, key, f"{part} of {name} works again")


def settle_within(connection: Connection, context: Context, alert: Alert, end: str, *, is_open: bool) -> None:
    """Open `alert` if its cause exists (`is_open`), else resolve it, with a notice to operators titled `end`."""
    if is_open:
        open_within(connection, context, alert)
    else:
        resolve_within(connection, context, alert.key, end)


def resolve_within(connection: Connection, context: Context, key: AlertKey, title: str) -> datetime | None:
    """Resolve the alert `key`; return its start, None if it was not open. Notify with `title`, unless that is ""."""
    alert = health.remove(connection, key)
    if alert is None:
        return None
    if title:
        began = f"It began at {minute(alert.opened_at, context.config.timezone)}."
        lines = (alert.detail, began) if key.kind in OF_HOLDS else (began,)
        queue_within(connection, context, OperatorNotice(topic=key.topic, title=title, lines=lines, is_good=True))
    context.log_within(connection).info("alert.resolved", **asdict(key), title=title or alert.title)
    return alert.opened_at


def review_source(connection: Connection, context: Context, source: Source, source_health: SourceHealth) -> None:
    """Open the alert that `source` has no news if its newest data is too old, else resolve that alert."""
    key, now = AlertKey(AlertKind.SOURCE_STALE, source.name), context.clock()
    # How often a source publishes is known only after watching it for that long.
    is_watched = source_health.changed_at is not None and now - source_health.changed_at > source.stale_after
    age = staleness(source_health, now, context.config.timezone).said(words())
    answers = "It answers, but upstream may have stopped publishing."
    lines = (
        f"{age[:1].upper()}{age[1:]}; `stale_after` is {how_long(source.stale_after)}.",
        "It cannot be read either." if source_health.failures else answers,
    )
    alert = Alert(key=key, title=f"the source {source.name} has no news", lines=lines)
    is_open, end = is_watched and is_stale(source, source_health, now), f"the source {source.name} has news again"
    settle_within(connection, context, alert, end, is_open=is_open)


def is_stale(source: Source, source_health: SourceHealth, now: datetime) -> bool:
    """Tell whether the newest data of a source is older than its `stale_after`."""
    newest = _newest(source_health)
    return newest is not None and now - newest > source.stale_after


def staleness(source_health: SourceHealth, now: datetime, zone: str) -> Note:
    """Return a note that says how old the newest data of a source is, or that there is none."""
    newest = _newest(source_health)
    return Note("old", {"since": minute(newest, zone), "age": how_long(now - newest)}) if newest else Note("empty")


def _newest(source_health: SourceHealth) -> datetime | None:
    """Return the earlier of two times of the newest revision: published and first fetched; None if both are unknown."""
    return min(filter(None, (source_health.revision_time, source_health.changed_at)), default=None)


def longest_pause(repository: Repository, newest: Revision, stale_after: timedelta) -> timedelta:
    """Return the longest usual pause between commits up to `newest`; if commits are few, `stale_after` or more."""
    times = (each.time for each in back_from(repository, newest.commit))
    known = sorted(islice((time for time in times if time is not None and time != LATEST), 10))
    intervals = sorted(b - a for a, b in pairwise(known))
    # Three times the upper quartile, so that neither gaps nor commits in quick succession matter.
    usual = [3 * each for each in intervals[len(intervals) * 3 // 4 :][:1]]
    return max([timedelta(days=1) if len(intervals) >= 3 else stale_after, *usual])
