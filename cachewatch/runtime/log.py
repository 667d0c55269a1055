"""One line for each event on stderr: text for people, or JSON with the same stable names."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, TextIO

from cachewatch.core.safetext import safe

_LOGGER = "cachewatch"


class Log:
    """Says what happens. Event names are stable: `source.polled`, `digest.queued`, `delivery.sent`."""

    def __init__(self, logger: logging.Logger, write: Callable[[Callable[[], None]], None] = lambda act: act()) -> None:
        self._logger = logger
        self._write = write

    def deferred(self, write: Callable[[Callable[[], None]], None]) -> "Log":
        """Return a log that hands each line to `write`, to be written when it is called."""
        return Log(self._logger, write)

    def info(self, event: str, **fields: Any) -> None:
        """Say that something happened as it should."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Say that something failed that will be tried again, or that somebody should look at."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Say that something failed for good."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: dict[str, Any]) -> None:
        self._write(partial(self._logger.log, level, event, extra={"fields": fields}))


def open_log(form: str = "text", stream: TextIO | None = None, level: int = logging.INFO) -> Log:
    """Return the log, which writes `text` or `json` lines; other libraries' warnings go the same way."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logger = logging.getLogger(_LOGGER)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level)
    scheduler = logging.getLogger("apscheduler")
    scheduler.handlers[:] = [handler]
    # Each job that fails is the event `job.failed`, once; the scheduler would tell of it each time.
    logging.getLogger("apscheduler.executors").setLevel(logging.CRITICAL)
    scheduler.setLevel(logging.ERROR)
    scheduler.propagate = False
    return Log(logger)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_value(value)}" for name, value in _fields(record).items())
        return f"{_time(record)} {record.levelname.lower()} {safe(record.getMessage())} {fields}".rstrip()


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = {"time": _time(record), "level": record.levelname.lower()}
        # What is said outside of the service is a sentence, and not the name of an event.
        event = (
            {"event": record.getMessage()}
            if hasattr(record, "fields")
            else {"event": "note", "said": record.getMessage()}
        )
        return json.dumps(head | event | _fields(record), default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        fields["exception"] = repr(record.exc_info[1])
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _value(value: Any) -> str:
    text = safe(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text or not text else text
