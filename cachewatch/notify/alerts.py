"""Alerts: operators are notified once when one opens and once when it is resolved, however often it is reported.

Reporting an alert that is open brings its sentences up to date and sends nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from msgspec import Struct

from cachewatch.core.showing_times import minute
from cachewatch.errors import StateError
from cachewatch.notify.operator_notices import Notice, queue_within
from cachewatch.notify.pass_context import Context, EndingError
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.store import alerts
from cachewatch.store.alerts import AlertKey, AlertKind
from cachewatch.store.database import Connection

__all__ = [
    "DAEMON",
    "Alert",
    "AlertKey",
    "AlertKind",
    "contained",
    "open_now",
    "open_within",
    "resolve_now",
    "resolve_within",
]

# Stands in the place of a source's name in alerts about the daemon itself.
DAEMON = "(daemon)"


class Alert(Struct, frozen=True, kw_only=True):
    """An alert, in the words that operators read."""

    key: AlertKey
    title: str
    lines: tuple[str, ...] = ()  # the first one says most, and stands in `status`
    commands: tuple[str, ...] = ()  # that help
    avoid: tuple[str, ...] = ()  # channels that do not work


def open_now(context: Context, alert: Alert) -> None:
    """Open an alert, and notify operators unless it was open."""
    with context.database.write() as connection:
        open_within(connection, context, alert)


def open_within(connection: Connection, context: Context, alert: Alert) -> None:
    """Open an alert, and notify operators unless it was open; in a transaction that is open."""
    now, detail = context.clock(), alert.lines[0] if alert.lines else ""
    if alerts.put(connection, alert.key, alert.title, detail, now):
        alerts.note_notified(connection, alert.key, now)
        queue_within(connection, context, _opened(alert))
        context.log_within(connection).warning("alert.opened", **_fields(alert.key, alert.title))


def resolve_now(context: Context, key: AlertKey, title: str) -> None:
    """Resolve an alert if it is open, and notify operators in the words of `title`."""
    with context.database.read() as connection:
        if alerts.get(connection, key) is None:
            return
    with context.database.write() as connection:
        resolve_within(connection, context, key, title)


@contextmanager
def contained(context: Context, name: str, part: str) -> Iterator[None]:
    """Go on behind the block, whatever it raises: operators are alerted of work on `name` that nobody waits for.

    Raises StateError and EndingError, of which the work is not to blame.
    """
    key = AlertKey(AlertKind.WORK_FAILED, name, part)
    try:
        yield
    except (StateError, EndingError):
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it stops only this
        if context.is_ending.is_set():
            return  # we may have ended what it worked with
        context.log.error("work.failed", name=name, part=part, error=said_of(error), traceback=traceback_of(error))
        open_now(context, Alert(key=key, title=f"{part} of {name} fails", lines=(said_of(error),)))
    else:
        resolve_now(context, key, f"{part} of {name} works again")


def resolve_within(connection: Connection, context: Context, key: AlertKey, title: str) -> datetime | None:
    """Resolve an alert if it is open, notify operators in the words of `title`, and return since when it was open.

    Without a title nobody is notified.
    """
    alert = alerts.remove(connection, key)
    if alert is None:
        return None
    if title:
        lines = (f"It began at {minute(alert.opened_at, context.config.timezone)}.",)
        queue_within(connection, context, Notice(topic=_topic(key), title=title, lines=lines, is_good=True))
    context.log_within(connection).info("alert.resolved", **_fields(key, title or alert.title))
    return alert.opened_at


def _opened(alert: Alert) -> Notice:
    return Notice(
        topic=_topic(alert.key), title=alert.title, lines=alert.lines, commands=alert.commands, avoid=alert.avoid
    )


def _fields(key: AlertKey, title: str) -> dict[str, str]:
    return {"kind": key.kind, "name": key.name, "part": key.part, "title": title}


def _topic(key: AlertKey) -> str:
    return " ".join(filter(None, (key.kind, key.name, key.part)))
