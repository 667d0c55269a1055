"""One pass: poll the sources, create the digests that are due, deliver what is queued.

`once` is this and no more; the daemon does the same things as they fall due.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import cache

from msgspec import Struct

from cachewatch.config.model import Source
from cachewatch.errors import StateError
from cachewatch.notify.alert_review import review
from cachewatch.notify.cleanup import clean_up
from cachewatch.notify.creating_digests import create_digest
from cachewatch.notify.daily_summary import summarize
from cachewatch.notify.digest_streams import Stream, streams_of
from cachewatch.notify.history_index import update_histories
from cachewatch.notify.pass_context import Context, EndingError
from cachewatch.notify.poll_sources import Polls
from cachewatch.notify.recovery import recover
from cachewatch.notify.renamed_subscriptions import take_over_renamed
from cachewatch.notify.sending_deliveries import deliver_all
from cachewatch.notify.shared_comparisons import Comparisons, kept_comparisons
from cachewatch.runtime.isolation import Isolated
from cachewatch.runtime.limited_process import Worker
from cachewatch.store import alerts, cursors, health, suppressions
from cachewatch.store.alerts import AlertKind


class Result(Struct, frozen=True, kw_only=True):
    """What a pass came to."""

    failed_sources: int
    failed_digests: int  # streams whose digests cannot be created
    dead: int
    suppressed: int  # deliveries for addresses that kept refusing
    blocked: int  # channels through which nothing is delivered until somebody repairs them

    @property
    def is_undelivered(self) -> bool:
        """Whether somebody does not get a digest, now or unless an operator acts."""
        return bool(self.dead or self.suppressed or self.blocked)


def run_pass(context: Context) -> Result:
    """Do all that is due now; a failing source or channel stops only itself, a hanging source what depends on it."""
    begun, untold, dead = context.clock(), list(streams_of(context.config)), 0
    with Worker(go_on=context.go_on) as worker:
        worker.start()  # before there are threads
        context.doing("polling")
        with Polls(context) as polls:
            for pending in polls:
                ready = [stream for stream in untold if not stream.depends_on(pending)]
                untold = [stream for stream in untold if stream.depends_on(pending)]
                _create_digests(context, ready, worker)
                if not pending:
                    summarize(context)
                context.doing("delivering")
                dead += deliver_all(context)
    update_histories(context)
    clean_up(context)
    with context.database.read() as connection:
        suppressed = suppressions.count_since(connection, begun)
        kinds = Counter(alert.key.kind for alert in alerts.all_open(connection))
    return Result(
        failed_sources=polls.failed,
        failed_digests=kinds[AlertKind.DIGEST_FAILED],
        dead=dead,
        suppressed=suppressed,
        blocked=kinds[AlertKind.CHANNEL_DOWN],
    )


def create_digests(context: Context, beat: Callable[[], None] = lambda: None) -> None:
    """Make the digest of every stream that is due; `beat` hears that we live, after each of them and while one is made."""

    def go_on() -> None:
        context.go_on()
        beat()

    with Worker(go_on=go_on) as worker:
        _create_digests(context, streams_of(context.config), worker, beat)


def _create_digests(
    context: Context, streams: Iterable[Stream], worker: Worker, beat: Callable[[], None] = lambda: None
) -> None:
    recover(context)
    take_over_renamed(context)
    behind = _sources_behind(context)
    ready = [stream for stream in streams if not stream.depends_on(behind)]

    @cache
    def isolated(source: str) -> Isolated:
        with context.database.read() as connection:
            return Isolated(worker, cursors.blobs_not_to_read(connection, source))

    with (
        kept_comparisons(context.folder, ready) as kept,
        closing(Comparisons(isolated, kept)) as comparisons,
        suppress(EndingError),
    ):
        for stream in ready:
            context.go_on()
            context.doing(f"comparing for {stream.subscription.name}")
            create_digest(context, stream, comparisons)
            beat()
        review(context)


def _sources_behind(context: Context) -> frozenset[str]:
    """Name the sources whose newest revision another host fetched, and this one has yet to: they are polled first."""
    if not context.database.is_shared:
        return frozenset()
    return frozenset(name for name, source in context.config.sources.items() if _is_behind(context, source))


def _is_behind(context: Context, source: Source) -> bool:
    with context.database.read() as connection:
        newest = health.source(connection, source.name).revision
    try:
        return newest is not None and bool(context.watched(source).lacking({newest}))
    except StateError:
        raise
    except Exception:  # noqa: BLE001  its poll says what is wrong, and the other sources go on
        return True
