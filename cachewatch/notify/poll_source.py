"""Poll one source for its newest revision, and record the result."""

from msgspec.structs import replace

from cachewatch.config.model import Source
from cachewatch.errors import StateError
from cachewatch.notify import alerts, notice_sentences, operator_notices, stale_sources
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.operator_notices import Notice
from cachewatch.notify.pass_context import Context
from cachewatch.notify.watched_source import News
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.store import health
from cachewatch.store.database import Connection
from cachewatch.store.health import Counter, SourceHealth


def poll(context: Context, source: Source) -> bool:
    """Fetch what is new, and tell whether the source could be read."""
    if context.is_ending.is_set():
        return False
    context.doing(f"polling {source.name}")
    try:
        news = context.watched(source).update()
        _succeeded(context, source, news)
    except StateError:
        raise  # the source is not to blame
    except Exception as error:  # noqa: BLE001  a bug that this source brings to light must not stop the others
        if not context.is_ending.is_set():  # or we ended it, and it is asked again when we are back
            _failed(context, source, error)
        return False
    return True


def has_answered(context: Context, source: Source) -> bool:
    """Tell whether a source answered when it was polled last."""
    with context.database.read() as connection:
        source_health = health.source(connection, source.name)
    return source_health.succeeded_at is not None and not source_health.failures


def _failed(context: Context, source: Source, error: Exception) -> None:
    now, said = context.clock(), said_of(error)
    with context.database.write() as connection:
        source_health = health.source(connection, source.name)
        source_health = replace(source_health, polled_at=now, failures=source_health.failures + 1, error=said)
        health.save_source(connection, source_health)
        health.count(connection, Counter.of("poll_failures_total", source=source.name))
        if source_health.failures >= context.config.operators.after_failures:
            alerts.open_within(connection, context, _complaint(source_health))
        stale_sources.review(connection, context, source, source_health)
    log = context.log.bind(source=source.name, failures=source_health.failures)
    log.error("source.failed", error=said, traceback=traceback_of(error))


def _complaint(source_health: SourceHealth) -> Alert:
    return Alert(
        key=AlertKey(AlertKind.SOURCE_FAILED, source_health.name),
        title=f"the source {source_health.name} cannot be read",
        lines=(
            source_health.error,
            f"It {notice_sentences.in_a_row(source_health.failures)}.",
            "Stored data is kept, and the source is polled again as configured.",
        ),
    )


def _succeeded(context: Context, source: Source, news: News) -> None:
    now = context.clock()
    with context.database.write() as connection:
        before = health.source(connection, source.name)
        is_new = news.revision != before.revision
        source_health = SourceHealth(
            name=source.name,
            polled_at=now,
            succeeded_at=now,
            revision=news.revision,
            revision_time=news.time,
            changed_at=now if is_new else before.changed_at,
        )
        health.save_source(connection, source_health)
        title = f"the source {source.name} can be read again"
        alerts.resolve_within(connection, context, AlertKey(AlertKind.SOURCE_FAILED, source.name), title)
        for warning in news.warnings:
            title = f"notice about the source {source.name}"
            notice = Notice(topic=f"source {source.name}", title=title, lines=(warning,))
            operator_notices.notify_within(connection, context, notice)
        _report_problem(connection, context, source, news)
        stale_sources.review(connection, context, source, source_health)
    context.log.info("source.polled", source=source.name, revision=news.revision[:12], is_new=is_new)


def _report_problem(connection: Connection, context: Context, source: Source, news: News) -> None:
    """Open or resolve the alerts of what is missing as long as it is."""
    for kind, said, title, solved in (
        (
            AlertKind.SOURCE_INCOMPLETE,
            news.problem,
            f"a part of the source {source.name} was skipped",
            "is complete again",
        ),
        (
            AlertKind.SOURCE_EMPTY,
            news.no_documents,
            f"the source {source.name} has no documents",
            "has documents again",
        ),
    ):
        key = AlertKey(kind, source.name)
        if not said:
            alerts.resolve_within(connection, context, key, f"the source {source.name} {solved}")
            continue
        context.log_within(connection).warning(f"source.{kind.removeprefix('source-')}", source=source.name, said=said)
        alerts.open_within(connection, context, Alert(key=key, title=title, lines=(said,)))
