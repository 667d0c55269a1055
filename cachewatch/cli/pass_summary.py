"""What a pass did, for the person who started it: sources, digests with their deliveries, and what needs attention."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

from cachewatch.cli.status import when
from cachewatch.notify.pass_context import Context
from cachewatch.notify.problems import Problems, find_problems
from cachewatch.notify.status import Status, StreamStatus, read_status
from cachewatch.render.statement_phrases import number
from cachewatch.store import digests, outbox
from cachewatch.store.digests import DigestSummary
from cachewatch.store.health import SourceHealth
from cachewatch.store.outbox import OPEN, Delivery

_MOST_DELIVERIES = 500


class PassSummary(Struct, frozen=True):
    """The state before and after a pass, and what it made or tried to deliver."""

    begun: datetime  # in the time zone of the configuration
    before: Status
    after: Status
    problems: Problems
    delivered: tuple[tuple[DigestSummary | None, tuple[Delivery, ...]], ...]  # by digest; None: for operators


def summarize(context: Context, before: Status, begun: datetime) -> PassSummary:
    """Return what the pass that began then did."""
    after = read_status(context)
    with context.database.read() as connection:
        touched = [
            each
            for each in reversed(outbox.find(connection, limit=_MOST_DELIVERIES))
            if each.created >= begun or (each.settled_at is not None and each.settled_at >= begun)
        ]
        keys = dict.fromkeys(each.digest for each in touched)
        delivered = tuple(
            (digests.find(connection, key), tuple(each for each in touched if each.digest == key)) for key in keys
        )
    problems = find_problems(after, context.config, context.clock())
    return PassSummary(begun.astimezone(ZoneInfo(context.config.timezone)), before, after, problems, delivered)


def lines(summary: PassSummary) -> Iterator[str]:
    """Yield the summary for a terminal."""
    then = {source.name: source for source in summary.before.sources}
    yield "SOURCES"
    for source in summary.after.sources:
        yield f"  {source.name}  {_source(source, then.get(source.name), summary.begun)}"
    yield "DIGESTS"
    yield from _digests(summary)
    yield from _waiting(summary)
    if summary.problems.all:
        yield "PROBLEMS  (`cachewatch status` says more)"
        yield from (f"  {problem.what}" for problem in summary.problems.all)


def _waiting(summary: PassSummary) -> Iterator[str]:
    """Yield what waits for a channel, and when it is tried again."""
    for channel in summary.after.channels:
        count = sum(channel.queue.get(state, 0) for state in OPEN)
        if count:
            blocked = channel.health.blocked_until
            again = f"; next attempt {when(blocked, summary.begun)}" if blocked else ""
            yield f"  {channel.health.name}: {number(count, 'delivery', 'deliveries')} waiting{again}"


def _source(source: SourceHealth, then: SourceHealth | None, now: datetime) -> str:
    if source.failures:
        return f"cannot be read: {source.error}"
    if source.revision is None:
        return "nothing fetched yet"
    is_same = then is not None and then.revision == source.revision
    is_first = then is None or then.revision is None
    what = "unchanged" if is_same else "fetched for the first time" if is_first else "new"
    return f"{source.revision[:10]} of {when(source.revision_time, now)}, {what}"


def _digests(summary: PassSummary) -> Iterator[str]:
    told = set()
    for digest, deliveries in summary.delivered:
        told.add(digest.subscription if digest else "")
        yield f"  {digest.subscription}: {digest.title}" if digest else "  an alert to the operators"
        yield from (f"    {_delivery(each)}" for each in deliveries)
    failed = {alert.name: alert.detail for alert in summary.after.alerts if alert.kind == "digest-failed"}
    yield from (f"  {name}: could not be created: {detail}" for name, detail in failed.items())
    held = [each for each in summary.after.held if each.since >= summary.begun]
    yield from (f"  {each.subscription}: held for the operators: {each.reason}" for each in held)
    quiet = told | failed.keys() | {each.subscription for each in held}
    for stream in _regular(summary.after.streams):
        if stream.subscription not in quiet:
            yield f"  {stream.subscription}: nothing to send now; {_next(stream, summary)}"


def _regular(streams: Sequence[StreamStatus]) -> list[StreamStatus]:
    return [stream for stream in streams if stream.stream == "regular"]


def _next(stream: StreamStatus, summary: PassSummary) -> str:
    due = f"next {when(stream.due, summary.begun)}" if stream.due else f"next {stream.schedule}"
    if any(source.revision is None for source in summary.before.sources):
        return f"it begins here, {due} (`cachewatch preview {stream.subscription} --since HEAD~1` shows one)"
    return due


def _delivery(delivery: Delivery) -> str:
    said = f": {delivery.said}" if delivery.said and delivery.state != "sent" else ""
    return f"{delivery.channel} -> {delivery.target}: {delivery.state}{said}"
