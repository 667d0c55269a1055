"""One line for each event on stderr: text for people, or JSON with the same stable names. Only this module imports structlog.

What libraries, and modules that know nothing of the service, log with `logging` is written in the same form, as a `note`.
"""

import json
import logging
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from structlog import wrap_logger
from structlog.processors import JSONRenderer, TimeStamper
from structlog.stdlib import BoundLogger, ProcessorFormatter, add_log_level, filter_by_level
from structlog.typing import EventDict, Processor

from cachewatch.core.names import safe
from cachewatch.errors import CachewatchError

_LOGGER = "cachewatch"
_HEAD = ("time", "level", "event")
# What is said outside of the service is a sentence, and not the name of an event.
_NOTE = "note"


class Log:
    """Says what happens. Event names are stable: `source.polled`, `digest.queued`, `delivery.sent`."""

    def __init__(
        self, logger: BoundLogger | None = None, write: Callable[[Callable[[], None]], None] = lambda act: act()
    ) -> None:
        """Say nothing yet; where the lines go to is for open_log."""
        self._logger = logger or _unbound()
        self._write = write

    def bind(self, **fields: Any) -> "Log":
        """Return a log whose events have these fields too, before their own."""
        return Log(self._logger.bind(**fields), self._write)

    def deferred(self, write: Callable[[Callable[[], None]], None]) -> "Log":
        """Return a log that hands each line to `write`, to be written when it is called."""
        return Log(self._logger, write)

    def info(self, event: str, **fields: Any) -> None:
        """Say that something happened as it should."""
        self._write(partial(self._logger.info, event, **fields))

    def warning(self, event: str, **fields: Any) -> None:
        """Say that something failed that will be tried again, or that somebody should look at."""
        self._write(partial(self._logger.warning, event, **fields))

    def error(self, event: str, **fields: Any) -> None:
        """Say that something failed for good."""
        self._write(partial(self._logger.error, event, **fields))


def open_log(form: str = "text", stream: TextIO | None = None, level: int = logging.INFO) -> Log:
    """Return the log, which writes `text` or `json` lines; other libraries' warnings go the same way."""
    handler = logging.StreamHandler(stream or sys.stderr)
    render = JSONRenderer(serializer=json.dumps, default=str) if form == "json" else _text
    processors = [ProcessorFormatter.remove_processors_meta, _tidy, render]
    handler.setFormatter(
        ProcessorFormatter(foreign_pre_chain=[add_log_level, _timestamp, _note], processors=processors)
    )
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
    return Log()


def said_of(error: BaseException) -> str:
    """Return the sentence of an error; one that nobody expected is a bug."""
    if isinstance(error, CachewatchError):
        return str(error)
    return f"cachewatch failed: {error!r}; please report it, with the traceback in the log"


def traceback_of(error: BaseException) -> str | None:
    """Return where an error was raised that nobody expected, for the log; None where its sentence says all."""
    return None if isinstance(error, CachewatchError) else "".join(traceback.format_exception(error))


def _unbound() -> BoundLogger:
    processors: list[Processor] = [filter_by_level, add_log_level, _timestamp, ProcessorFormatter.wrap_for_formatter]
    logger: BoundLogger = wrap_logger(
        logging.getLogger(_LOGGER), processors=processors, wrapper_class=BoundLogger, context_class=dict
    ).bind()
    return logger


_timestamp = TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True, key="time")


def _note(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Turn a record of `logging` into an event."""
    fields["said"] = fields["event"]
    fields["event"] = _NOTE
    failure = fields.pop("exc_info", None)
    if failure and failure[1] is not None:
        fields["exception"] = repr(failure[1])
    return fields


def _tidy(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Put first what every line has, and leave out what is empty."""
    head = {name: fields.pop(name) for name in _HEAD}
    return head | {name: value for name, value in fields.items() if value not in (None, "")}


def _text(_logger: Any, _method: str, fields: EventDict) -> str:
    time, level, event = (fields.pop(name) for name in _HEAD)
    words = safe(fields.pop("said", "")) if event == _NOTE else safe(event)
    return " ".join([time, level, words, *(f"{name}={_value(value)}" for name, value in fields.items())]).rstrip()


def _value(value: Any) -> str:
    text = safe(str(value))
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text or not text else text
