"""Poll all sources at once, so that one that hangs delays only the digests that depend on it, and store the results."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, as_completed, wait
from contextlib import suppress
from threading import Thread
from typing import Self

from msgspec.structs import replace

from cachewatch.config.sources_and_channels import Source
from cachewatch.errors import StateError
from cachewatch.git.git_processes import interrupt
from cachewatch.hooks import extensions
from cachewatch.runtime.log import error_message, traceback_of
from cachewatch.service import alerts_and_staleness as alerts
from cachewatch.service.alerts_and_staleness import Alert, OperatorNotice
from cachewatch.service.context_and_source_copies import Context, News
from cachewatch.service.streams_and_silences import in_a_row
from cachewatch.store import health_and_alerts as health
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, Counter, SourceHealth


def poll(context: Context, source: Source) -> bool:
    """Fetch the newest revision of `source` and store the result; return whether the source could be read."""
    if context.is_ending.is_set():
        return False
    try:
        news = context.watched(source).update()
        _succeeded(context, source, news)
    except StateError:
        raise  # the source is not to blame
    except Exception as error:  # noqa: BLE001  a bug that this source brings to light must not stop the others
        if not context.is_ending.is_set():  # else the poll was ended by us, and the next run polls again
            _failed(context, source, error)
        return False
    return True


def has_answered(context: Context, source: Source) -> bool:
    """Tell whether a source answered when it was last polled."""
    with context.database.read() as connection:
        source_health = health.source(connection, source.name)
    return source_health.succeeded_at is not None and not source_health.failures


def follow_poll(context: Context, source: Source, *, may_be_open: bool = True) -> None:
    """Call the extensions' `after_poll` for a source; an error becomes an alert and stops nothing else."""
    with alerts.contained(context, source.name, "what follows a poll", may_be_open=may_be_open):
        extensions().hook.after_poll(context=context, source=source)


def _failed(context: Context, source: Source, error: Exception) -> None:
    now, reason, name = context.clock(), error_message(error), source.name
    with context.database.write() as connection:
        before = health.source(connection, name)
        after = replace(before, polled_at=now, failures=before.failures + 1, error=reason)
        health.put_health(connection, after)
        health.count(connection, Counter.of("poll_failures_total", source=name))
        if after.failures >= context.config.operators.after_failures:
            often = f"It {in_a_row(after.failures)}."
            lines = (reason, often, "Stored data is kept, and the source is polled again as configured.")
            key, title = AlertKey(AlertKind.SOURCE_FAILED, name), f"the source {name} cannot be read"
            alerts.open_within(connection, context, Alert(key=key, title=title, lines=lines))
        alerts.review(connection, context, source, after)
    log = context.log.bind(source=name, failures=after.failures)
    log.error("source.failed", error=reason, traceback=traceback_of(error))


def _succeeded(context: Context, source: Source, news: News) -> None:
    now, name = context.clock(), source.name
    with context.database.write() as connection:
        before = health.source(connection, name)
        is_new = news.revision != before.revision
        after = SourceHealth(
            name=name,
            polled_at=now,
            succeeded_at=now,
            revision=news.revision,
            revision_time=news.time,
            changed_at=now if is_new else before.changed_at,
        )
        health.put_health(connection, after)
        key = AlertKey(AlertKind.SOURCE_FAILED, name)
        alerts.resolve_within(connection, context, key, f"the source {name} can be read again")
        for warning in news.warnings:
            title = f"notice about the source {name}"
            notice = OperatorNotice(topic=f"source {name}", title=title, lines=(warning,))
            alerts.notify_within(connection, context, notice)
        skipped, empty = f"a part of the source {name} was skipped", f"the source {name} has no documents"
        for kind, reason, title, solved in (
            (AlertKind.SOURCE_INCOMPLETE, news.problem, skipped, "is complete again"),
            (AlertKind.SOURCE_EMPTY, news.no_documents, empty, "has documents again"),
        ):
            if reason:
                event = f"source.{kind.removeprefix('source-')}"
                context.log_within(connection).warning(event, source=name, said=reason)
            alert = Alert(key=AlertKey(kind, name), title=title, lines=(reason,))
            alerts.settle_within(connection, context, alert, f"the source {name} {solved}", is_open=bool(reason))
        alerts.review(connection, context, source, after)
    context.log.info("source.polled", source=name, revision=news.revision[:12], is_new=is_new)


# How many sources are polled at once: of those that answered last time, and of the others, which may hang again.
ANSWERING, OTHERS = 8, 16
# Digests wait this long for slow sources, so that a usual pass makes all digests together.
_GRACE_SECONDS = 5.0
# Less than TimeoutStopSec of the systemd unit, after which cachewatch is killed.
_ENDING_SECONDS = 20.0
_INTERRUPT_SECONDS = 0.2


class Polls:
    """The polls of one pass, which run in threads; if the `with` block raises, unfinished polls are ended."""

    def __init__(self, context: Context) -> None:
        self.failed = 0  # how many sources could not be read, when all have answered
        self._context = context
        self._polls: dict[Future[bool], str] = {}
        self._threads: list[Thread] = []

    def __enter__(self) -> Self:
        # Those that answered last time come first, and wait for none that hangs.
        sources = sorted(self._context.config.sources.values(), key=lambda each: not has_answered(self._context, each))
        waiting = deque((Future[bool](), source) for source in sources)
        self._polls = {future: source.name for future, source in waiting}
        # As daemons: a hanging thread must not keep the process alive.
        self._threads = [
            Thread(target=self._work, args=(waiting,), name="poll", daemon=True)
            for _ in range(min(ANSWERING + OTHERS, len(waiting)))
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            return
        self._context.is_ending.set()
        deadline = time.monotonic() + _ENDING_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline:
                interrupt()  # again and again, since it may be about to start the next git
                thread.join(_INTERRUPT_SECONDS)

    def __iter__(self) -> Iterator[frozenset[str]]:
        """Yield the names of the pending sources: within five seconds, then after each answer, until none is left.

        In the end, raises the first error that kept the result of a poll from being stored.
        """
        _, late = wait(self._polls, _GRACE_SECONDS)
        yield frozenset(self._polls[each] for each in late)
        for future in as_completed(late):
            late.discard(future)
            yield frozenset(self._polls[each] for each in late)
        self.failed = sum(not future.result() for future in self._polls)

    def _work(self, waiting: deque[tuple[Future[bool], Source]]) -> None:
        while waiting and not self._context.is_ending.is_set():
            with suppress(IndexError):
                future, source = waiting.popleft()
                try:
                    future.set_result(poll(self._context, source))
                except BaseException as error:  # noqa: BLE001  raised again when the others are done
                    future.set_exception(error)
