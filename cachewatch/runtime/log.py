"""Write one line for each event to stderr, as text or JSON with the same stable names. Only this module uses structlog.

Messages that libraries and lower modules log with `logging` are written in the same form, as the event `note`.
"""

import json
import logging
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO

from structlog import wrap_logger
from structlog.processors import JSONRenderer, TimeStamper
from structlog.stdlib import BoundLogger, ProcessorFormatter, add_log_level, filter_by_level
from structlog.typing import EventDict, Processor

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.errors import CachewatchError

_LOGGER = "cachewatch"
_HEAD = ("time", "level", "event")
_NOTE = "note"  # the event of messages of `logging`, which are sentences without a stable name


class Log:
    """A log of events with stable names, such as `source.polled`, `digest.queued` and `delivery.sent`."""

    def __init__(
        self, logger: BoundLogger | None = None, write: Callable[[Callable[[], None]], None] = lambda act: act()
    ) -> None:
        """Make a log, silent before `open_log` is called. `write` is called with a function that writes one line."""
        if logger is None:
            chain: list[Processor] = [filter_by_level, add_log_level, _timestamp, ProcessorFormatter.wrap_for_formatter]
            usual = wrap_logger(logging.getLogger(_LOGGER), chain, wrapper_class=BoundLogger, context_class=dict)
            logger = usual.bind()
        self._logger: BoundLogger = logger
        self._write = write

    def bind(self, **fields: Any) -> "Log":
        """Return a log that adds these fields to each of its events, before other fields."""
        return Log(self._logger.bind(**fields), self._write)

    def deferred(self, write: Callable[[Callable[[], None]], None]) -> "Log":
        """Return a log that, for each line, calls `write` with a function that writes the line."""
        return Log(self._logger, write)

    def info(self, event: str, **fields: Any) -> None:
        """Log a normal event."""
        self._write(partial(self._logger.info, event, **fields))

    def warning(self, event: str, **fields: Any) -> None:
        """Log a failure that is retried, or that somebody should check."""
        self._write(partial(self._logger.warning, event, **fields))

    def error(self, event: str, **fields: Any) -> None:
        """Log a permanent failure."""
        self._write(partial(self._logger.error, event, **fields))


def open_log(form: str = "text", stream: TextIO | None = None, level: int = logging.INFO) -> Log:
    """Set up a log in `form` (`text` or `json`), from `level` up, to `stream` (None: stderr), and return it."""
    handler = logging.StreamHandler(stream or sys.stderr)
    render = JSONRenderer(serializer=json.dumps, default=str) if form == "json" else _text
    processors = [ProcessorFormatter.remove_processors_meta, _tidy, render]
    if form != "json" and handler.stream is not None and handler.stream.isatty():
        whole: Any = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": "    "}
        processors.append(lambda *line: textwrap.fill(str(line[-1]), shutil.get_terminal_size().columns, **whole))
    of_others: list[Processor] = [add_log_level, _timestamp, _note]
    handler.setFormatter(ProcessorFormatter(foreign_pre_chain=of_others, processors=processors))
    for name, least in ((_LOGGER, level), ("apscheduler", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(least)
    # A failed job is logged once, as the event `job.failed`; the scheduler would log it each time.
    logging.getLogger("apscheduler.executors").setLevel(logging.CRITICAL)
    return Log()


def error_message(error: BaseException) -> str:
    """Return the message of an error; for one that is no CachewatchError, ask the user to report it as a bug."""
    if isinstance(error, CachewatchError):
        return str(error)
    return f"cachewatch failed: {error!r}; please report it, with the traceback in the log"


def traceback_of(error: BaseException) -> str | None:
    """Return the traceback of an unexpected error, for the log; None for a CachewatchError."""
    return None if isinstance(error, CachewatchError) else "".join(traceback.format_exception(error))


_timestamp = TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True, key="time")


def _note(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Change the `fields` of a record of the module `logging` into those of an event named `note`, and return them."""
    fields["said"] = fields["event"]
    fields["event"] = _NOTE
    failure = fields.pop("exc_info", None)
    if failure and failure[1] is not None:
        fields["exception"] = repr(failure[1])
    return fields


def _tidy(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    """Return the fields with time, level and event first, and without empty ones."""
    head = {name: fields.pop(name) for name in _HEAD}
    return head | {name: value for name, value in fields.items() if value not in (None, "")}


def _text(_logger: Any, _method: str, fields: EventDict) -> str:
    time, level, event = (fields.pop(name) for name in _HEAD)
    words = safe(fields.pop("said", "")) if event == _NOTE else safe(event)
    for name, text in ((name, safe(str(value))) for name, value in fields.items()):
        is_quoted = " " in text or '"' in text or not text
        words += f" {name}={json.dumps(text, ensure_ascii=False) if is_quoted else text}"
    return f"{time} {level} {words}".rstrip()
