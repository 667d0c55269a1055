"""Create the digest of a stream if it is due, in four acts: read its state, decide, pin the revisions, write.

Deciding compares and renders (digest_assembly_and_hold_times), and does not use the database. Writing is one transaction,
which first checks that the state read is unchanged. If the process ends at any moment, either the digest is stored and
the cursors have moved, or neither. Deliveries are sent later, from the stored messages.
"""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_quiet_times import quiet_until
from cachewatch.core.advice.waits_and_reminders import A_MONTH, series_or_tag
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import DiagnosticKind
from cachewatch.errors import DamagedRow, StateError
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import tags_of
from cachewatch.runtime.log import Log, error_message, traceback_of
from cachewatch.service import alerts_and_silent_sources as alerts
from cachewatch.service import digest_assembly_and_hold_times as assembly
from cachewatch.service.alerts_and_silent_sources import OPERATORS, Alert, OperatorNotice, notify_within
from cachewatch.service.comparison_cache import Comparisons
from cachewatch.service.context_and_source_copies import Context, EndingError
from cachewatch.service.digest_assembly_and_hold_times import Packed, PendingDigest, compose, over, pack_messages
from cachewatch.service.streams_starts_silences import Stream, StreamState, first_revision, is_current, read_stream
from cachewatch.service.unreadable_documents import find_unreadable, tags_to_read, unread_at_begin
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.cursors_and_remembered import Advance, CursorUpdate, Unread
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.digests_and_holds import DigestRecord, DigestState, Slot
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, Counter
from cachewatch.store.transactions_and_sqlite import Connection


def take_over_renamed(context: Context) -> None:
    """Move the state of each renamed subscription (`renamed_from:`) to its new name, unless that was done before."""
    for new, old in ((each.name, each.renamed_from) for each in context.config.subscriptions.values()):
        if old:
            with context.database.write() as connection:
                if cursors.rename(connection, old, new):
                    context.log_within(connection).info("subscription.renamed", subscription=new, renamed_from=old)


def ask_about(connection: Connection, context: Context, new: str) -> None:
    """Ask operators whether the new subscription `new` is a renamed one, if others are no longer configured."""
    known = cursors.subscriptions(connection)
    gone = sorted(known - context.config.subscriptions.keys() - {OPERATORS})
    if new in known or not gone:
        return
    notice = OperatorNotice(
        topic=f"new {new}",
        title=f"the subscription {new} is new and does not continue an earlier one",
        lines=(
            f"The state has subscriptions that are no longer configured: {', '.join(gone)}.",
            f"If {new} is one of them under a new name, write `renamed_from: {gone[0]}` below it in {context.config.path}:",
            "it then continues where the old one stopped, and nothing is lost or sent again.",
            "Without that, it begins at the newest revision, or where `since:` of a source says.",
        ),
    )
    notify_within(connection, context, notice)


def store(connection: Connection, context: Context, stream: Stream, draft: PendingDigest, packed: Packed) -> None:
    """Store `draft` if `packed` has messages; move the cursors now or, if held, when it is released or dropped."""
    now, name, pin = context.clock(), stream.subscription.name, stream.subscription.match.pinned
    digests.store_holds(connection, name, stream.name, draft.holds)
    if not (packed and draft.hold):
        cursors.advance(connection, _without_doubtful_tags(draft), now)
    _report_reused_hashes(connection, context, draft)
    if draft.lacks_pin and not digests.has_any(connection, OPERATORS, f"pin {name} {pin}"):
        title = f"{name} is pinned to {safe(str(pin))}, which no source has ever had"
        lines = (f"Correct `pinned:` of {name} in {context.config.path}; its digests go out without it.",)
        notify_within(connection, context, OperatorNotice(topic=f"pin {name} {pin}", title=title, lines=lines))
    if not packed:
        return
    problem = next((each.problem for each in packed if each.problem), "")
    alert = Alert(
        key=AlertKey(AlertKind.TEMPLATE_FAILED, name),
        title=f"a template for {name} is wrong",
        lines=(problem, "Its digests are created with the built-in templates until this is fixed."),
        commands=("cachewatch config check",),
    )
    alerts.settle_within(connection, context, alert, f"the templates for {name} work again", is_open=bool(problem))
    stored = DigestRecord.ready(packed[0].rendered, packed[0].short, subscription=name, stream=stream.name)
    stored, state = replace(stored, created=now, reason=draft.reason), DeliveryState.QUEUED
    if draft.hold:
        stored, state = replace(stored, state=DigestState.HELD, advances=draft.advances), DeliveryState.HELD
    digests.add(connection, stored)
    for each in packed:
        deliveries.add(connection, each.channel, each.messages, state=state, lasting=each.lasting)
    health.count(connection, Counter.of("digests_total", subscription=name, result=stored.state))


def _without_doubtful_tags(draft: PendingDigest) -> Iterator[Advance]:
    """Yield the advances of `draft` without the tags about which operators are asked; these keep their cursors."""
    for each in draft.advances:
        tags = {hold.alert.part for hold in draft.holds if hold.alert.name == each.source}
        series = {series_or_tag(tag) for tag in tags}
        steps = tuple(step for step in each.tags if tags.isdisjoint((step.tag, "")))
        facts = tuple(fact for fact in each.learned if series.isdisjoint((getattr(fact, "tag", ""), "")))
        yield replace(each, tags=steps, learned=facts)


def _report_reused_hashes(connection: Connection, context: Context, draft: PendingDigest) -> None:
    """Notify operators, once, of published hashes that now name another spec; list up to 20 documents for each tag."""
    for tag in draft.digest.tags:
        reused = [found for found in tag.report.diagnostics if found.kind is DiagnosticKind.REUSED_HASH]
        lines = [f"{safe(found.path)}: {safe(found.message)}." for found in reused[:20]]
        name = tag.report.after.tag or ""
        topic = f"reused-hash {tag.source} {name} {hashlib.sha256(repr(tuple(lines)).encode()).hexdigest()[:12]}"
        if len(reused) > len(lines):
            lines.append(f"And {len(reused) - len(lines):,} more documents.")
        why = "A binary must never change under its hash: the catalogue is damaged, or somebody replaced binaries."
        title = f"published hashes of {name} in {tag.source} now name other specs"
        if reused and not digests.has_any(connection, OPERATORS, topic):
            notify_within(connection, context, OperatorNotice(topic=topic, title=title, lines=(*lines, why)))


Drafts = tuple[tuple[PendingDigest, Packed], ...]  # digests with their messages; one without messages is not sent


class StreamDecision(Struct, frozen=True, kw_only=True):
    """Everything that a pass writes for a stream, in one transaction."""

    begun: tuple[Advance, ...] = ()  # where the stream begins, in sources that are new to it
    plans_slot: bool = False  # whether its next slot is to be stored, because none is or its schedule changed
    finished: Slot | None = None  # the slot for which the digest was due
    drafts: Drafts = ()
    failure: Exception | None = None  # why there is no digest


def create_digest(context: Context, stream: Stream, comparisons: Comparisons) -> None:
    """Read the state of `stream`, decide, and write its digest if it is due; notify operators of a failure."""
    name = stream.subscription.name
    log = context.log.bind(subscription=name, stream=stream.name)
    try:
        with context.database.read() as connection:
            state = read_stream(connection, stream)
        decision = decide(context, stream, state, comparisons)
        if decision == StreamDecision() and not state.is_failing:
            return
        context.pin((*decision.begun, *(advance for draft, _ in decision.drafts for advance in draft.advances)))
        with context.database.write() as connection:
            write_decision(connection, context, stream, state, decision)
        if decision.failure is not None:
            raise decision.failure
    except Exception as error:
        if isinstance(error, (EndingError, StateError)) and not isinstance(error, DamagedRow):
            raise  # the digest is not to blame
        context.go_on()
        key = AlertKey(AlertKind.DIGEST_FAILED, name, stream.name)
        title = f"digests cannot be created for {name}/{stream.name}"
        alerts.open_now(context, Alert(key=key, title=title, lines=(error_message(error),)))
        # Only after the alert is stored: if that fails, the digest is not to blame.
        log.error("digest.failed", error=error_message(error), traceback=traceback_of(error))


def decide(context: Context, stream: Stream, state: StreamState, comparisons: Comparisons) -> StreamDecision:
    """Return what to write for a stream, without using the database; an error becomes the `failure` of the decision."""
    now = context.clock()
    is_planned = stream.is_each_revision or is_current(stream, state.slot, now)
    decision = StreamDecision(plans_slot=not is_planned)
    try:
        begun = tuple(_begin(context, stream, state, comparisons))
        decision = replace(decision, begun=begun)
        slot = state.slot if is_planned and state.slot is not None and state.slot.due <= now else None
        drafts = _drafts(context, stream, state.begun_with(begun), slot, comparisons)
        return decision if drafts is None else replace(decision, finished=slot, drafts=drafts)
    except (EndingError, StateError):
        raise
    except Exception as error:  # noqa: BLE001  whatever it is, it stops only this stream
        context.go_on()  # raises if cachewatch is ending, which may have caused the error
        return replace(decision, failure=error)


def _begin(context: Context, stream: Stream, state: StreamState, comparisons: Comparisons) -> Iterator[Advance]:
    """Yield the first position of a stream in each source that is new to it, with the unreadable documents there."""
    wants_package = Globs(stream.subscription.match.packages)
    for source in stream.sources:
        newest_commit = state.sources[source.name].revision
        if newest_commit is None or source.name in state.positions:
            continue
        isolation = comparisons.isolation(source.name)
        with closing(context.open_repository(source)) as repository:
            newest = resolve(repository, newest_commit)
            first = first_revision(repository, source, newest)
            if first.commit == newest.commit and source.since is None and source.first_run == "report":
                why = "the source has one revision alone, so that there is nothing to compare it with yet"
                context.log.warning("stream.silent", subscription=stream.subscription.name, source=source.name, why=why)
            there = tags_of(repository, newest).ids.keys()
            wanted = sorted(filter(stream.wants_tag(source), there | tags_of(repository, first).ids.keys()))
            unread: dict[str, tuple[Unread, ...]] = {}
            for tag in set(wanted).intersection(tags_to_read(there)):
                begin, now = (replace(revision, tag=tag) for revision in (first, newest))
                key = find_unreadable, repository.git_dir, now.commit, tag
                known = comparisons.recall(key, partial(find_unreadable, repository, now, isolation))
                found = [each for each in known.values() if wants_package(each.package)]
                unread[tag] = tuple(unread_at_begin(repository, begin, now, found, isolation))
        yield Advance(
            subscription=stream.subscription.name,
            stream=stream.name,
            source=source.name,
            revision=first.commit,
            tags=tuple(CursorUpdate(tag=tag, revision=first.commit, unread=unread.get(tag, ())) for tag in wanted),
        )


def _drafts(
    context: Context, stream: Stream, state: StreamState, slot: Slot | None, comparisons: Comparisons
) -> Drafts | None:
    """Return the digests to store, each with its messages; None if none is due, () if operators have yet to answer.

    Outside of `quiet:` hours, one is due at a `slot`, when a hold ends, or if a stream without schedule has news.
    """
    now = context.clock()
    if quiet_until(context.config.quiet, now, context.config.timezone) > now:
        return None  # held, and merged into the first digest afterwards
    has_waited = bool(state.held and over(context.config, stream, state.holds, now))
    if slot is None and not has_waited and not (stream.is_each_revision and state.has_news):
        return None
    composed = partial(compose, context, stream, state, comparisons=comparisons)
    draft = composed(occasion=slot.due.isoformat() if slot else "")
    if draft.hold and not has_waited and state.held_advances == frozenset(draft.advances):
        return ()  # operators were asked about this very step, and have not answered yet
    due = over(context.config, stream, draft.holds, now)
    made: tuple[PendingDigest, ...] = (assembly.unconfirmed(draft) if due else draft,)
    if 0 < len(due) < len(draft.holds):  # one to send, and one to hold
        made = assembly.split(composed, state, draft.holds, due)
    drafts = []
    for each in made:
        packed = () if is_left_out(stream, state, each, now) else _packed(context, stream, each, comparisons)
        drafts.append((assembly.with_actions(each, stream, state, is_sent=bool(packed)), packed))
    return tuple(drafts)


def _packed(context: Context, stream: Stream, draft: PendingDigest, comparisons: Comparisons) -> Packed:
    """Return the messages of a digest, except to recipients who get the same urgent digest in this pass."""
    packed = pack_messages(context.config, stream, assembly.as_released(draft))
    name, content = stream.subscription.name, draft.content
    if draft.hold:
        return packed
    if stream.is_urgent:
        targets = frozenset((each.channel, message.target) for each in packed for message in each.messages)
        comparisons.urgent[name] = content, targets
        return packed
    said, targets = comparisons.urgent.get(name, (None, frozenset()))
    if said != content:
        return packed
    left = [[one for one in each.messages if (each.channel, one.target) not in targets] for each in packed]
    return tuple(replace(each, messages=tuple(own)) for each, own in zip(packed, left, strict=True) if own)


def is_left_out(stream: Stream, state: StreamState, draft: PendingDigest, now: datetime) -> bool:
    """Tell whether a digest is not sent because it is empty and the subscription wants no empty digest now."""
    if not draft.is_empty:
        return False
    if stream.is_urgent or stream.subscription.if_empty == "skip":
        return True
    if stream.subscription.if_empty == "send":
        return False
    # A digest of a time in the future was stored by a wrong clock.
    return any(each.stream == stream.name and now - A_MONTH < each.created <= now for each in state.digests)


def write_decision(
    connection: Connection, context: Context, stream: Stream, state: StreamState, decision: StreamDecision
) -> None:
    """Write and log a decision; do nothing if the stored state is no longer `state`: the next pass decides again."""
    stored = read_stream(connection, stream)  # of this, polls and alerts may have changed
    if replace(stored, sources=state.sources, is_failing=state.is_failing) != state:
        return
    now = context.clock()
    name = stream.subscription.name
    if decision.begun:
        ask_about(connection, context, name)
        cursors.advance(connection, decision.begun, now)
    for held in state.held if decision.drafts else ():
        digests.settle(connection, held, DigestState.SUPERSEDED, "a newer digest covers it", now)
    for draft, packed in decision.drafts:
        store(connection, context, stream, draft, packed)
    if decision.finished is not None:
        draft_key = next((draft.digest.key for draft, packed in decision.drafts[:1] if packed), None)
        digests.finish(connection, decision.finished, draft_key, now)
    if decision.plans_slot or decision.finished is not None:
        digests.plan(connection, name, stream.name, stream.schedule_text, stream.schedule.next_after(now))
    if state.is_failing and decision.failure is None:
        key = AlertKey(AlertKind.DIGEST_FAILED, name, stream.name)
        alerts.resolve_within(connection, context, key, f"digests can be created again for {name}/{stream.name}")
    _log(context.log_within(connection).bind(subscription=name, stream=stream.name), decision)


def _log(log: Log, decision: StreamDecision) -> None:
    for each in decision.begun:
        log.info("stream.begun", source=each.source, revision=each.revision)
    for draft, packed in decision.drafts:
        log.info(
            "digest.empty" if not packed else "digest.held" if draft.hold else "digest.queued",
            digest=draft.digest.key[:12] if packed else None,
            deliveries=sum(len(each.messages) for each in packed) or None,
            reason=draft.reason,
        )
