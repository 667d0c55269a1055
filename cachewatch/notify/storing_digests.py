"""Store a digest with its deliveries and cursors, all in the transaction of the caller."""

import hashlib
from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from cachewatch.core.model import DiagnosticKind
from cachewatch.core.untrusted_text import safe
from cachewatch.notify import alerts
from cachewatch.notify.alerts import Alert, AlertKey, AlertKind
from cachewatch.notify.assembling_digests import PendingDigest
from cachewatch.notify.building_messages import ChannelMessages
from cachewatch.notify.digest_streams import Stream
from cachewatch.notify.operator_notices import OPERATORS, Notice, notify_within
from cachewatch.notify.pass_context import Context
from cachewatch.store import cursors, digests, health, held, outbox, scheduled_runs
from cachewatch.store.cursors import Advance
from cachewatch.store.database import Connection
from cachewatch.store.digests import DigestRecord, DigestState
from cachewatch.store.health import Counter
from cachewatch.store.outbox import State
from cachewatch.store.scheduled_runs import Slot

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
