"""Create the digest of a stream that is due: plan the ranges, compare them, assemble the digest, store it.

The first three steps write nothing (compose.py). Storing the digest, its deliveries and the cursors is one transaction:
whatever ends the process, either the recipients will get the digest and the cursors have moved, or neither. Sending
works from what is stored. A renamed subscription continues where its old name was.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.sources import Source
from cachewatch.core.model import DiagnosticKind
from cachewatch.core.names import safe
from cachewatch.core.schedule import is_quiet
from cachewatch.errors import DamagedRow, StateError
from cachewatch.git.catalogue import tags_of
from cachewatch.git.revisions import resolve
from cachewatch.runtime.log import said_of, traceback_of
from cachewatch.service import alerts
from cachewatch.service import alerts as operator_notices
from cachewatch.service.alerts import OPERATORS, Alert, Notice, notify_within
from cachewatch.service.comparisons import Comparisons
from cachewatch.service.compose import ChannelMessages, PendingDigest, build_messages, compose, split, unconfirmed
from cachewatch.service.context import Context, EndingError
from cachewatch.service.held import over
from cachewatch.service.streams import Stream, first_revision
from cachewatch.store import cursors, digests, health, outbox
from cachewatch.store import digests as held
from cachewatch.store import digests as scheduled_runs
from cachewatch.store.cursors import Advance, CursorUpdate
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestRecord, DigestState, Hold, Slot, first_held
from cachewatch.store.health import AlertKey, AlertKind, Counter
from cachewatch.store.outbox import State


def take_over_renamed(context: Context) -> None:
    """Let each subscription with `renamed_from:` go on where that one stands, if it is not done."""
    renamed = {each.name: each.renamed_from for each in context.config.subscriptions.values() if each.renamed_from}
    if not renamed:
        return
    with context.database.read() as connection:
        known = cursors.subscriptions(connection)
    for new, old in renamed.items():
        if old in known:
            with context.database.write() as connection:
                cursors.rename(connection, old, new)
            context.log.info("subscription.renamed", subscription=new, renamed_from=old)


def ask_about(connection: Connection, context: Context, new: str) -> None:
    """Notify operators of a subscription that is about to begin while others have gone: it may be one of those."""
    known = cursors.subscriptions(connection)
    gone = sorted(known - context.config.subscriptions.keys() - {OPERATORS})
    if new in known or not gone:
        return
    notice = Notice(
        topic=f"new {new}",
        title=f"the subscription {new} is new and does not continue an earlier one",
        lines=(
            f"The state has subscriptions that are no longer configured: {', '.join(gone)}.",
            f"If {new} is one of them under a new name, write `renamed_from: {gone[0]}` below it in {context.config.path}:",
            "it then continues where the old one stopped, and nothing is lost or sent again.",
            "Without that, it begins at the newest revision, or where `since:` of a source says.",
        ),
    )
    operator_notices.notify_within(connection, context, notice)


# Documents whose hashes were reused, in a notice; the digest and `cachewatch diff` name all of them.
_MOST_NAMED = 20


def store(
    connection: Connection,
    context: Context,
    stream: Stream,
    draft: PendingDigest,
    packed: tuple[ChannelMessages, ...],
    *,
    held_before: Iterable[str],
) -> None:
    """Store `draft` and move the cursors; the digests that were held before are superseded."""
    now = context.clock()
    for key in held_before:
        digests.settle(connection, key, DigestState.SUPERSEDED, "a newer digest covers it", now)
    if draft.hold:
        held.hold(connection, stream.subscription.name, stream.name, draft.holds, now)
    else:
        held.let_go(connection, stream.subscription.name, stream.name)
    if not (packed and draft.hold):
        cursors.advance(connection, _certain(draft), now)
    _report_reused_hashes(connection, context, draft)
    if packed:
        _report_templates(connection, context, stream, next((each.problem for each in packed if each.problem), ""))
        _store_digest(connection, stream, draft, packed, now)


def finish(connection: Connection, stream: Stream, slot: Slot, digest: str | None, now: datetime) -> None:
    """Mark a slot as done with this digest, or with none, and plan the next one."""
    scheduled_runs.finish(connection, slot, digest, now)
    scheduled_runs.plan(
        connection, slot.subscription, slot.stream, stream.schedule_text, stream.schedule.next_after(now)
    )


def reason_of(draft: PendingDigest) -> str:
    """Say why a digest is held, or that it goes out without an answer."""
    return draft.hold or (draft.digest.unconfirmed and f"not confirmed by the operators: {draft.digest.unconfirmed}")


def _certain(draft: PendingDigest) -> tuple[Advance, ...]:
    """Return how far streams are compared, without the tags that operators are asked about.

    There is nothing to tell of those, but what is missing now would be news when it is back.
    """
    doubtful = {(hold.event.source, hold.event.tag) for hold in draft.holds}
    return tuple(
        replace(
            advance,
            tags=tuple(
                tag for tag in advance.tags if doubtful.isdisjoint({(advance.source, tag.tag), (advance.source, "")})
            ),
        )
        for advance in draft.advances
    )


def _store_digest(
    connection: Connection, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...], now: datetime
) -> None:
    stored = DigestRecord(
        key=draft.digest.key,
        subscription=stream.subscription.name,
        stream=stream.name,
        state=DigestState.HELD if draft.hold else DigestState.READY,
        title=packed[0].rendered.title,
        period=draft.digest.period,
        created=now,
        reason=reason_of(draft),
        advances=draft.advances if draft.hold else (),
        rendered=packed[0].rendered,
        short=packed[0].short,
    )
    digests.add(connection, stored)
    state = State.HELD if draft.hold else State.QUEUED
    for each in packed:
        outbox.add_all(connection, each.channel, each.messages, state=state, lasting=each.lasting)
    counter = Counter.of("digests_total", subscription=stream.subscription.name, result=stored.state)
    health.count(connection, counter)


def _report_reused_hashes(connection: Connection, context: Context, draft: PendingDigest) -> None:
    """Notify operators once of hashes that name other specs now, however many streams find them."""
    for tag in draft.digest.tags:
        reused = [found for found in tag.report.diagnostics if found.kind is DiagnosticKind.REUSED_HASH]
        lines = tuple(f"{safe(found.path)}: {safe(found.message)}." for found in reused[:_MOST_NAMED])
        name = tag.report.after.tag or ""
        topic = f"reused-hash {tag.source} {name} {hashlib.sha256(repr(lines).encode()).hexdigest()[:12]}"
        if lines and digests.last_created(connection, OPERATORS, topic) is None:
            more = (f"And {len(reused) - len(lines):,} more documents.",) if len(reused) > len(lines) else ()
            notice = Notice(
                topic=topic,
                title=f"published hashes of {name} in {tag.source} now name other specs",
                lines=(
                    *lines,
                    *more,
                    "A binary must never change under its hash: the catalogue is damaged, or somebody replaced binaries.",
                ),
            )
            notify_within(connection, context, notice)


def _report_templates(connection: Connection, context: Context, stream: Stream, problem: str) -> None:
    name = stream.subscription.name
    key = AlertKey(AlertKind.TEMPLATE_FAILED, name)
    if not problem:
        alerts.resolve_within(connection, context, key, f"the templates for {name} work again")
        return
    alert = Alert(
        key=key,
        title=f"a template for {name} is wrong",
        lines=(problem, "Its digests are created with the built-in templates until this is fixed."),
        commands=("cachewatch config check",),
    )
    alerts.open_within(connection, context, alert)


def begin(context: Context, stream: Stream) -> None:
    """Let a stream begin with each source that it has not begun with, where that source begins."""
    for source in stream.sources:
        with context.database.read() as connection:
            newest = health.source(connection, source.name).revision
            first = cursors.revision_of(connection, stream.subscription.name, stream.name, source.name)
        if newest is not None and first is None:
            _begin(context, stream, source, newest)


def _begin(context: Context, stream: Stream, source: Source, newest_commit: str) -> None:
    with closing(context.open_repository(source)) as repository:
        newest = resolve(repository, newest_commit)
        first = first_revision(repository, source, newest)
        tags = tags_of(repository, newest).ids.keys() | tags_of(repository, first).ids.keys()
    begun = Advance(
        subscription=stream.subscription.name,
        stream=stream.name,
        source=source.name,
        revision=first.commit,
        tags=tuple(
            CursorUpdate(tag=tag, revision=first.commit) for tag in sorted(filter(stream.wants_tag(source), tags))
        ),
    )
    context.pin([begun])
    with context.database.write() as connection:
        ask_about(connection, context, stream.subscription.name)
        cursors.advance(connection, [begun], context.clock())
    context.log.info(
        "stream.begun",
        subscription=stream.subscription.name,
        stream=stream.name,
        source=source.name,
        revision=first.commit,
    )


def due_slot(context: Context, stream: Stream, now: datetime) -> Slot | None:
    """Return the slot that is due now; plan the next one where there is none, or another schedule."""
    if stream.is_each_revision:
        return None
    name = stream.subscription.name
    with context.database.read() as connection:
        slot = scheduled_runs.pending(connection, name, stream.name)
    if slot is None or slot.schedule != stream.schedule_text:
        with context.database.write() as connection:
            scheduled_runs.plan(connection, name, stream.name, stream.schedule_text, stream.schedule.next_after(now))
        return None
    return slot if slot.due <= now else None


def has_news(context: Context, stream: Stream) -> bool:
    """Tell whether some source has a revision that the stream has neither been told nor holds for operators."""
    name = stream.subscription.name
    with context.database.read() as connection:
        held = {each.source: each.revision for each in _held_advances(connection, stream)}
        for source in stream.sources:
            last = cursors.revision_of(connection, name, stream.name, source.name)
            newest = health.source(connection, source.name).revision
            if newest is not None and last is not None and newest != held.get(source.name, last):
                return True
    return False


def is_held(context: Context, stream: Stream, advances: Collection[Advance]) -> bool:
    """Tell whether a digest of the very same steps waits for an operator."""
    with context.database.read() as connection:
        return _held_advances(connection, stream) == frozenset(advances)


def _held_advances(connection: Connection, stream: Stream) -> frozenset[Advance]:
    """Return how far a stream is compared if what is held is released."""
    keys = digests.held(connection, stream.subscription.name, stream.name)
    return frozenset(advance for key in keys for advance in digests.advances(connection, key))


_A_MONTH = timedelta(days=28)


class _Held(Struct, frozen=True):
    keys: list[str]  # of the digests of a stream
    holds: tuple[Hold, ...]


def create_digest(context: Context, stream: Stream, comparisons: Comparisons) -> None:
    """Create and store the digest of `stream` if it is due; operators are notified of a failure."""
    with _failures(context, stream):
        begin(context, stream)
        now = context.clock()
        slot = due_slot(context, stream, now)
        if is_quiet(context.config.quiet, now):
            return  # held, and merged into the first digest afterwards
        was_held = _held(context, stream)
        due = over(context.config, stream, was_held.holds, was_held.holds, now)
        has_waited = bool(was_held.keys and due)
        if slot is None and not has_waited and not (stream.is_each_revision and has_news(context, stream)):
            return
        draft = compose(context, stream, occasion=slot.due.isoformat() if slot else "", comparisons=comparisons)
        if draft.hold and not has_waited and is_held(context, stream, draft.advances):
            # Operators were asked about this very step, and have not answered yet.
            if slot is not None:
                with context.database.write() as connection:
                    finish(connection, stream, slot, None, now)
            return
        drafts = [
            (each, _messages(context, stream, each, now))
            for each in _what_goes_out(context, stream, draft, was_held, comparisons)
        ]
        for each, _ in drafts:
            context.pin(each.advances)
        with context.database.write() as connection:
            if digests.held(connection, stream.subscription.name, stream.name) != was_held.keys:
                return  # an operator answered meanwhile: the next pass goes on from there
            held_before = was_held.keys
            for each, packed in drafts:
                store(connection, context, stream, each, packed, held_before=held_before)
                held_before = []
            if slot is not None:
                made, packed = drafts[0]
                finish(connection, stream, slot, made.digest.key if packed else None, now)
        for each, packed in drafts:
            _log(context, stream, each, packed)


def _what_goes_out(
    context: Context, stream: Stream, draft: PendingDigest, was_held: _Held, comparisons: Comparisons
) -> tuple[PendingDigest, ...]:
    """Return the digest to be stored; if operators had their time for some of what it is held for, that goes out by itself."""
    holds = [replace(hold, counted_from=first_held(was_held.holds, hold.event)) for hold in draft.holds]
    due = over(context.config, stream, holds, holds, context.clock())
    if not due:
        return (draft,)
    return (unconfirmed(draft),) if len(due) == len(holds) else split(context, stream, holds, due, comparisons)


def _messages(context: Context, stream: Stream, draft: PendingDigest, now: datetime) -> tuple[ChannelMessages, ...]:
    if is_left_out(context, stream, draft, now):
        return ()
    return build_messages(context.config, stream, draft.digest)


@contextmanager
def _failures(context: Context, stream: Stream) -> Iterator[None]:
    """Alert operators while digests of `stream` cannot be created, whatever the reason: other streams go on."""
    key = AlertKey(AlertKind.DIGEST_FAILED, stream.subscription.name, stream.name)
    name = f"{stream.subscription.name}/{stream.name}"
    try:
        yield
    except EndingError:
        raise
    except Exception as error:
        if isinstance(error, StateError) and not isinstance(error, DamagedRow):
            raise  # the digest is not to blame
        context.go_on()  # whatever it worked with was perhaps ended by us
        title = f"digests cannot be created for {name}"
        alerts.open_now(context, Alert(key=key, title=title, lines=(said_of(error),)))
        # After that: where nothing can be stored, the digest is not to blame.
        log = context.log.bind(subscription=stream.subscription.name, stream=stream.name)
        log.error("digest.failed", error=said_of(error), traceback=traceback_of(error))
    else:
        alerts.resolve_now(context, key, f"digests can be created again for {name}")


def _held(context: Context, stream: Stream) -> _Held:
    """Return what of a stream is held, and for what."""
    where = stream.subscription.name, stream.name
    with context.database.read() as connection:
        return _Held(digests.held(connection, *where), held.holds_of(connection, *where))


def is_left_out(context: Context, stream: Stream, draft: PendingDigest, now: datetime) -> bool:
    """Tell whether there is nothing to send: nothing happened, and nobody wants an empty digest."""
    if not draft.is_empty:
        return False
    if stream.is_urgent or stream.subscription.if_empty == "skip":
        return True
    if stream.subscription.if_empty == "send":
        return False
    with context.database.read() as connection:
        last = digests.last_created(connection, stream.subscription.name, stream.name)
    return last is not None and now - last < _A_MONTH


def _log(context: Context, stream: Stream, draft: PendingDigest, packed: tuple[ChannelMessages, ...]) -> None:
    event = "digest.empty" if not packed else "digest.held" if draft.hold else "digest.queued"
    context.log.info(
        event,
        subscription=stream.subscription.name,
        stream=stream.name,
        digest=draft.digest.key[:12] if packed else None,
        deliveries=sum(len(each.messages) for each in packed) or None,
        reason=reason_of(draft),
    )
