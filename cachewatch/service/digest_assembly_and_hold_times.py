"""Assemble the digest that is due for a stream, and build its messages for every channel; nothing is stored here.

The second part says when operators are asked before a digest is sent, what they are asked, and how long it is held.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import chain, count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_quiet_times import minute
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.config.sources_and_channels import FileConfig, MailConfig
from cachewatch.core.advice.actions import TASKS
from cachewatch.core.advice.environment_coverage import CoverageChange, Environment, best, compare_coverage
from cachewatch.core.advice.verbs_and_reasons import LOCK_FILES, OF_LOCK_FILE, PINNED, Known, Verb
from cachewatch.core.advice.waits_and_reminders import Departure, Memory, MetBinaries, OpenAction, Remembered, confirmed
from cachewatch.core.filters_and_spec_patterns import Globs
from cachewatch.core.kinds_and_specs import grouped
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.environments import file_of, open_environment
from cachewatch.errors import TemplateError, UsageError, WorkFailed
from cachewatch.report.digest_and_message_values import (
    MAX_HTML,
    Digest,
    Form,
    Message,
    Note,
    RenderedDigest,
    Silenced,
    newest_day,
    open_channel,
)
from cachewatch.report.digests.rendering_and_sizes import render_lengths
from cachewatch.report.digests.subject import clauses_of_statements
from cachewatch.report.words import names, number
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import INLINE, Piece
from cachewatch.service.alerts_and_silent_sources import Alert
from cachewatch.service.changes_since_last_digest import SourceDiff, compare_source
from cachewatch.service.comparing_tags_and_pins import TagNews
from cachewatch.service.comparison_cache import Comparisons
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.streams_starts_silences import URGENT, Stream, StreamState, commands, why
from cachewatch.store.cursors_and_remembered import Advance
from cachewatch.store.digests_and_holds import DigestState, HeldDigest, Hold
from cachewatch.store.health_and_alerts import AlertKey, AlertKind

# Part of every key: raise it when digests change their form, so that they count as other digests.
_FORM = 1


class PendingDigest(Struct, frozen=True, kw_only=True):
    """A digest that is not stored yet, with the new positions to store with it."""

    digest: Digest
    advances: tuple[Advance, ...]
    is_empty: bool
    holds: tuple[Hold, ...] = ()  # the events that operators have to be asked about first
    lacks_pin: bool = False  # no source has ever had the pinned snapshot

    @property
    def hold(self) -> str:
        """Why operators must be asked before the digest is sent; "" if they need not be asked."""
        said = ", ".join(dict.fromkeys(hold.said for hold in self.holds))
        is_suspicious = any(hold.alert.kind is AlertKind.SUSPICIOUS_LOSS for hold in self.holds)
        return f"a suspicious loss: {said}" if is_suspicious else said

    @property
    def reason(self) -> str:
        """Why the digest is held, or that it is sent because operators did not answer in time; "" for other digests."""
        unconfirmed = self.digest.unconfirmed
        return self.hold or (unconfirmed and f"not confirmed by the operators: {unconfirmed}")

    @property
    def content(self) -> frozenset[Hashable]:
        """A value that is equal for a regular and an urgent digest that report the same."""
        statements = {
            (tag.source, tag.report.after.tag, one.kind, one.name, one.before, one.after, one.packages)
            for tag in self.digest.tags
            for one in tag.statements
        }
        pins = {(pin.source, pin.tag, pin.is_gone, pin.newest) for pin in self.digest.pinned}
        return frozenset({*statements, *pins, bool(self.digest.environment)})


def compose(
    context: Context,
    stream: Stream,
    state: StreamState,
    *,
    occasion: str = "",
    since: str | None = None,
    comparisons: Comparisons | None = None,
    takes: Callable[[str, str], bool] = lambda _source, _tag: True,
) -> PendingDigest:
    """Return the digest of the changes since the stream's last report, or since the revision `since`.

    `occasion` makes the keys of digests without changes differ; `comparisons` are those of the pass, shared with other
    streams (None: make new ones). Only tags for which `takes(source, tag)` is true are compared.
    """
    lock = stream.subscription.match.environment
    own = nullcontext(comparisons) if comparisons else closing(Comparisons(lambda _: INLINE, None, context.go_on))
    with own as shared:
        environment: Environment | None = None
        if lock is not None:
            read = partial(_read, context.config.environment_folders)
            ((_, found),) = shared.isolation(f"environment {lock}").each(read, [lock], _about_file)
            if isinstance(found, WorkFailed):
                raise UsageError(f"{lock}: {found}")
            environment = found
        compared = partial(compare_source, since=since, environment=environment, comparisons=shared, takes=takes)
        parts = [compared(context, stream, source, state) for source in stream.sources]
    return _assembled(context, stream, state, parts, occasion)


def _assembled(
    context: Context, stream: Stream, state: StreamState, parts: list[SourceDiff], occasion: str
) -> PendingDigest:
    # A package counts once, however many tags it is in.
    hidden = Counter(name for name, _ in {pair for part in parts for each in part.news for pair in each.hidden})
    now = context.clock()
    key = _key(stream, state, parts, occasion)
    coverages = [part.coverage for part in parts if part.coverage]
    # A binary is there if one of the sources has it.
    sides = [reduce(best, side) for side in zip(*coverages, strict=True)]
    environment = compare_coverage(*sides) if sides else None
    advances = tuple(part.advance for part in parts if part.advance is not None)
    learned = [fact for each in advances for fact in each.learned]
    over = {key for each in advances for key in each.forgotten}
    pins = tuple(part.pinned for part in parts if part.pinned)
    others = [part.alternative for part in parts if part.alternative]
    period = period_of(parts, now, is_urgent=stream.is_urgent)
    sent = (each for each in state.digests if each.state in (DigestState.READY, DigestState.RELEASED))
    is_taken = any(each.period == period for each in sent)
    known = state.remembered.learned(learned).of_lock(_lock_of(environment))
    # Readers do not wait for packages that are back.
    remembered = Remembered(tuple(o for o in known.facts if not (isinstance(o, Departure) and o.key in over)))
    of_lock = (one.since for one in remembered.actions if one.verb in OF_LOCK_FILE)
    digest = Digest(
        key=key,
        subscription=stream.subscription.name,
        description=stream.subscription.description,
        created=now,
        period=f"{period}-{key[:8]}" if is_taken else period,
        is_urgent=stream.is_urgent,
        spans=tuple(span for part in parts for span in part.spans),
        tags=tuple(each.tag for part in parts for each in part.news),
        remembered=remembered,
        known=Known(
            left={key: found for part in parts for key, found in part.left.items()},
            kept={need: tag for part in parts for need, tag in part.kept.items()},
        ),
        environment=environment,
        alternative=next((each for each in others if environment and each.has > environment.after.met), None),
        # The pinned tag counts as gone only if no source has it.
        pinned=tuple(pin for pin in pins if not pin.is_gone) or pins,
        silenced=tuple(
            Silenced(each.name, hidden[each.name], each.reason, each.until.isoformat())
            for each in context.config.silences
            if hidden[each.name]
        ),
        why=why(stream, min(of_lock, default="")),
        stacks=Globs(stream.subscription.match.stacks),
        commands=tuple(filter(None, (line for part in parts for line in commands(stream, part.spans, part.resolved)))),
        zone=context.config.timezone,
        operator=", ".join(context.config.operators.to),
        links=context.config.links,
        rows=stream.subscription.limit.rows,
    )
    still_open = digest.assessment.still_open
    is_repeated = not stream.is_urgent and digest.remembered.repeats_advice(still_open, digest.created)
    return PendingDigest(
        digest=digest,
        advances=advances,
        is_empty=digest.is_empty and not is_repeated and not any(part.is_lost for part in parts),
        holds=tuple(holds_needed(parts, stream.subscription.limit.hold_above, state.holds, now)),
        lacks_pin=bool(parts) and all(part.lacks_pin for part in parts),
    )


def _lock_of(environment: CoverageChange | None) -> str:
    """Return a checksum of the hashes in the lock file of an environment; "" if there are no hashes."""
    hashes = sorted(environment.after.environment.hashes) if environment is not None else ()
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:12] if hashes else ""


def with_actions(draft: PendingDigest, stream: Stream, state: StreamState, *, is_sent: bool) -> PendingDigest:
    """Return `draft` with facts to remember: binaries ever found and, if the digest `is_sent`, actions for readers."""
    digest, assessment = draft.digest, draft.digest.assessment
    if draft.hold or not draft.advances or (stream.is_urgent and not is_sent):
        return draft
    today = max((span.after.time or "" for span in digest.spans), default="")[:10]
    known = {each.key: each for each in digest.remembered.actions}
    asked = [
        OpenAction(
            source=each.source,
            verb=each.verb,
            subject=subject,
            since=each.since or today,
            last_repeated=digest.created,
            lock=_lock_of(digest.environment),
            task=None
            if each.verb is not Verb.LOOK
            else each.only(each.names[n : n + 1])
            if len(each.subjects) == len(each.names)
            else each,
        )
        for each in (*assessment.actions, *assessment.paused, *assessment.quiet)
        # That there is something else to use is asked for once, when it can be done.
        if each.verb is not Verb.LOOK
        or ((each.because in TASKS or each in assessment.paused) and not is_snapshot(each.tag))
        for n, subject in enumerate(each.subjects)
    ]
    # The first time counts, not the last: an action is repeated for a month.
    is_task = {each.key for each in asked if each.task and each.task.since}
    asked = [
        replace(one, last_repeated=known.get(one.key, one).last_repeated) if one.key in is_task else one
        for one in asked
    ]
    keys = {each.key for each in asked}
    # While readers wait, nobody knows what to do about missing binaries.
    settled = {key for key, each in known.items() if each.task is not None or not assessment.is_waiting}
    # Of pins, urgent digests say nothing.
    told = (one for one in state.remembered.actions if not (stream.is_urgent and one.verb in PINNED))
    forgotten = [one.key for one in told if one.key not in keys and (one.key in settled or one.key not in known)]
    # Of what lock files name, digests that are not sent say more, too.
    kept = (
        each for each in asked if is_sent or (each.task and each.key in is_task and each.task.because in LOCK_FILES)
    )
    learned: list[Memory] = [*kept, *_met(digest)]
    first, *others = draft.advances
    first = replace(first, learned=(*first.learned, *learned), forgotten=(*first.forgotten, *forgotten))
    return replace(draft, advances=(first, *others))


def _met(digest: Digest) -> list[MetBinaries]:
    """Return which binaries of the environment were ever in the cache, as one fact; [] if it is already remembered."""
    if digest.environment is None:
        return []
    needs = (*digest.environment.before.needs, *digest.environment.after.needs)
    there = {each.need.hash for each in needs if each.is_met and each.need.hash}
    found = (there | digest.remembered.met) & digest.environment.after.environment.hashes
    return [MetBinaries(hashes=tuple(sorted(found)))] if found != digest.remembered.met else []


def as_released(draft: PendingDigest) -> Digest:
    """Return the digest as it is sent once operators release it: suspicious losses count as confirmed losses."""
    if not any(hold.alert.kind is AlertKind.SUSPICIOUS_LOSS for hold in draft.holds):
        return draft.digest
    facts = (fact for advance in draft.advances for fact in advance.learned)
    return replace(draft.digest, remembered=draft.digest.remembered.learned(confirmed(facts)))


def _key(stream: Stream, state: StreamState, parts: list[SourceDiff], occasion: str) -> str:
    """Return a key, made of tags and revisions or else of `occasion`, that no stored digest has."""
    steps = sorted(step for part in parts for step in part.steps)
    made_of: list[object] = [_FORM, stream.subscription.name, stream.name, steps or occasion]
    forms = chain([made_of], ([*made_of, time] for time in count(2)))
    keys = (hashlib.sha256(json.dumps(each).encode()).hexdigest() for each in forms)
    known = {each.key for each in state.digests}
    return next(key for key in keys if key not in known)


def period_of(parts: Sequence[SourceDiff], now: datetime, *, is_urgent: bool) -> str:
    """Return the compared period for file names: two days, or one day and a time; `is_urgent` adds `-urgent`."""
    sides = [span for part in parts for span in part.spans]
    end = max((span.after.time for span in sides if span.after.time), default=now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    begin = min((span.before.time for span in sides if span.before.time), default=end)
    period = end.replace(":", "") if begin[:10] == end[:10] else f"{begin[:10]}..{end[:10]}"
    return f"{period}-urgent" if is_urgent else period


def split(
    composed: Callable[..., PendingDigest], state: StreamState, holds: Iterable[Hold], due: Collection[Hold]
) -> tuple[PendingDigest, PendingDigest]:
    """Call `composed` for two digests: one to send, and one to hold, which has the tags whose `holds` are not `due`."""
    waiting = tuple(hold for hold in holds if hold not in due)
    places, due_places = ({(hold.alert.name, hold.alert.part) for hold in each} for each in (waiting, due))

    def waits(source: str, tag: str) -> bool:
        return (source, tag) in places or ((source, "") in places and (source, tag) not in due_places)

    sent, stays = composed(takes=lambda source, tag: not waits(source, tag)), composed(takes=waits)
    # A held tag may be new; it stays so only if the stream's position in this source does not move.
    kept = [
        replace(advance, revision=state.positions[advance.source].revision, tags=())
        for advance in sent.advances
        if advance.source in state.positions and any(source == advance.source for source, _ in places)
    ]
    sent = replace(sent, holds=tuple(due), advances=(*sent.advances, *kept))
    return unconfirmed(sent), replace(stays, holds=waiting)


def unconfirmed(draft: PendingDigest) -> PendingDigest:
    """Return the digest without holds, with a first note that operators did not confirm it."""
    # The digest names suspicious losses anyway.
    large = [hold.said for hold in draft.holds if hold.alert.kind is AlertKind.LARGE_CHANGE]
    note = Note("unconfirmed-large", {"what": large[0]}) if large else Note("unconfirmed")
    first, *others = draft.digest.spans
    spans = replace(first, notes=(note, *first.notes)), *others
    return replace(draft, digest=replace(draft.digest, unconfirmed=draft.hold, spans=spans), holds=())


_LOG = Log()


class ChannelMessages(Struct, frozen=True):
    """The messages to deliver through one channel."""

    channel: str
    messages: tuple[Message, ...]
    lasting: timedelta  # how long deliveries are retried
    rendered: RenderedDigest
    short: RenderedDigest  # the totals only, for recipients who refuse `rendered` as too large
    problem: str  # why the site's own templates could not be used; "" if they could


Packed = tuple[ChannelMessages, ...]


def pack_messages(config: Config, stream: Stream, digest: Digest, *, forms: frozenset[Form] | None = None) -> Packed:
    """Return the messages for each channel; `forms` are the forms to render, by default all that the channels need."""
    channels, rendered = [config.channels[name] for name in stream.channels], {}
    if forms is None:  # those of the channels, and of the site if the subscription is published
        of_site = {Form.PAGE} if stream.subscription.publish else ()
        forms = frozenset[Form]().union(of_site, *(channel.forms for channel in channels))
    archive = next((channel.archive for channel in channels if channel.archive), None)
    packed = []
    for channel in channels:
        url = channel.archive or archive
        url = url and url.format(subscription=digest.subscription, period=digest.period, key=digest.key)
        is_file = isinstance(channel, FileConfig)
        options: dict[str, Any] = {"is_archived": is_file, "max_html": MAX_HTML, "attach": False, "unsubscribe": None}
        if isinstance(channel, MailConfig):
            has_table = channel.attach is not None
            options |= {"max_html": channel.max_html, "attach": has_table, "unsubscribe": channel.unsubscribe}
        look = url, *options.values()
        if look not in rendered:
            of_channel = replace(digest, unsubscribe=options.pop("unsubscribe"), archive_url=url)
            rendered[look] = _render_both(config, stream, of_channel, to=stream.to, forms=forms, **options)
        whole, short, problem = rendered[look]
        messages = tuple(open_channel(channel).build_messages(whole))
        packed.append(ChannelMessages(channel.name, messages, channel.retry.lasting, whole, short, problem))
    return tuple(packed)


def _render_both(
    config: Config, stream: Stream, digest: Digest, **options: Any
) -> tuple[RenderedDigest, RenderedDigest, str]:
    """Return the whole digest, the short one, and why built-in templates had to be used ("" if they were not)."""
    render = partial(render_lengths, digest, (False, True), **options)
    try:
        rendered, short = render(templates_dir=config.templates_dir, template=stream.subscription.template)
        return rendered, short, ""
    except TemplateError as error:
        _LOG.error("template.failed", subscription=stream.subscription.name, error=str(error))
        rendered, short = render()
        return rendered, short, str(error)


def _read(folders: Sequence[Path], paths: Sequence[Path]) -> Environment:
    (path,) = paths
    return open_environment(path, folders)


def _about_file(path: Path) -> Piece:
    """Return, for a worker, inode, size and time of a file as its id, so that a changed file counts as another."""
    with suppress(OSError):
        found = file_of(path).stat()
        return Piece((f"{found.st_ino} {found.st_size} {found.st_mtime_ns}",), 0)
    return Piece((), 0)


# The longest time for which urgent digests are held.
_URGENT_FOR = timedelta(hours=1)
# For how many digests a notice has commands, and how many are in one command.
_NAMED, _NAMED_AT_ONCE = 30, 6

_TITLES = {AlertKind.SUSPICIOUS_LOSS: "a suspicious loss", AlertKind.LARGE_CHANGE: "a large change"}


def holds_needed(parts: list[SourceDiff], limit: int, known: Iterable[Hold], now: datetime) -> list[Hold]:
    """Return the events to ask operators about: suspicious losses, else large changes.

    More than `limit` changed specs are large: one event for each tag with so many or, if only the sum is so large, for
    each source. An event in the stored holds `known` keeps its start; others begin at `now`.
    """
    since = {hold.alert: hold.counted_from for hold in known}

    def hold(kind: AlertKind, source: str, said: str, news: TagNews | None = None) -> Hold:
        key = AlertKey(kind, source, news.name if news else "")
        content = tuple(_content(news)) if news else ()
        return Hold(alert=key, said=said, content=content, counted_from=since.get(key, now))

    found = []
    for part in parts:
        if part.vanished and part.advance is not None:
            said = f"all watched tags are gone ({', '.join(part.vanished)})"
            found.append(hold(AlertKind.SUSPICIOUS_LOSS, part.advance.source, said))
        suspicious = (each for each in part.news if each.suspicion)
        found += [hold(AlertKind.SUSPICIOUS_LOSS, each.tag.source, each.suspicion, each) for each in suspicious]
    counts = ((each, each.tag.report.specs) for part in parts for each in part.news)
    news = [(each, specs.net_added + specs.net_removed) for each, specs in counts]
    changed = sum(count for _, count in news)
    if found or changed <= limit:
        return found
    said = f"{changed:,} changed specs, more than hold_above: {limit:,}"
    large = [hold(AlertKind.LARGE_CHANGE, each.tag.source, said, each) for each, count in news if count > limit]
    sources = sorted({each.tag.source for each, count in news if count})
    return large or [hold(AlertKind.LARGE_CHANGE, source, said) for source in sources]


def _content(news: TagNews) -> Iterator[str]:
    found = [one for one in news.tag.statements if one.kind.is_of_tag and one.kind is not StatementKind.SUSPICIOUS]
    yield from (clause.said for clause in clauses_of_statements(found, "", newest_day(news.tag.report)))
    kinds = (StatementKind.SUSPICIOUS, StatementKind.PACKAGE_REMOVED)
    effects = [effect for one in news.tag.statements for effect in one.effects]
    gone = {package for one in news.tag.statements if one.kind in kinds for package in one.packages}
    gone |= {package for effect in effects if effect.kind in kinds for package in effect.packages}
    if gone:
        yield f"{number(len(gone), 'package')} gone: {names(sorted(gone), 10)}"


def held_for(config: Config, subscription: str, stream: str) -> timedelta | None:
    """Return how long digests of a stream are held if no operator answers; None if they are held without end."""
    known = config.subscriptions.get(subscription)
    if known is None or known.limit.hold_for is None or (stream == URGENT and known.urgent is None):
        return None
    return min(known.limit.hold_for, _URGENT_FOR) if stream == URGENT else known.limit.hold_for


def goes_out_at(config: Config, digest: HeldDigest) -> datetime | None:
    """Return when the first hold of a digest ends if no operator answers; None if no hold ends."""
    lasting = held_for(config, digest.subscription, digest.stream)
    return None if lasting is None else min((hold.counted_from + lasting for hold in digest.holds), default=None)


def over(config: Config, stream: Stream, holds: Iterable[Hold], now: datetime) -> list[Hold]:
    """Return those of `holds` whose time is over, so that operators are no longer waited for."""
    lasting = held_for(config, stream.subscription.name, stream.name)
    # A beginning that is far ahead was stored by a wrong clock.
    return [] if lasting is None else [hold for hold in holds if abs(now - hold.counted_from) >= lasting]


def questions(config: Config, digests: Sequence[HeldDigest]) -> Iterator[Alert]:
    """Yield one alert for each event for which digests are held; several digests may wait for the same event."""
    held = grouped((hold.alert, (digest, hold)) for digest in digests for hold in digest.holds)
    yield from (_question(config, key, found) for key, found in held.items())


def place(source: str, tag: str) -> str:
    """Return the place of an event in words: tag and source, or only the source if `tag` is "" (several tags)."""
    return f"{tag} of {source}" if tag else source


def _question(config: Config, key: AlertKey, held: list[tuple[HeldDigest, Hold]]) -> Alert:
    digests = [digest for digest, _ in held]
    reason = ", ".join(dict.fromkeys(hold.said for _, hold in held))
    all_names = []  # which fit newer digests that replace these, too
    ends: dict[str, list[str]] = {}  # by the time at which they are sent; "": never
    for digest, hold in held:
        known = config.subscriptions.get(digest.subscription)
        has_one_stream = known is not None and known.urgent is None
        all_names.append(digest.subscription if has_one_stream else f"{digest.subscription}/{digest.stream}")
        lasting = held_for(config, digest.subscription, digest.stream)
        end = "" if lasting is None else minute(hold.counted_from + lasting, config.timezone)
        ends.setdefault(end, []).append(all_names[-1])
    shown, never = all_names[:_NAMED], ends.pop("", [])
    others = f" and {len(digests) - _NAMED} more, which `cachewatch status` lists" if len(digests) > _NAMED else ""
    advice = "Check whether upstream published everything, then release or drop what is held. A newer digest replaces it, and is sent if nothing is unusual any longer."
    is_one = len(ends) + bool(never) == 1
    times = [f"at {end}" + ("" if is_one else f" for {names(of)}") for end, of in sorted(ends.items())]
    deadline = f"What nobody drops is sent {', '.join(times)}, marked as not confirmed by the operators."
    whose = "" if is_one else f" for {names(never)}"
    commands = []
    if digests[0].subscription in config.subscriptions:
        commands = [f"cachewatch preview {digests[0].subscription}{' --urgent' if digests[0].stream == URGENT else ''}"]
    for start in range(0, len(shown), _NAMED_AT_ONCE):
        some = " ".join(shown[start : start + _NAMED_AT_ONCE])
        commands += [f"cachewatch deliveries release {some}", f"cachewatch deliveries drop {some} --reason '...'"]
    return Alert(
        key=key,
        title=f"{_TITLES[key.kind]} in {place(key.name, key.part)}",
        lines=(
            f"{reason}; held for {', '.join(shown)}{others}.",
            *max((hold.content for _, hold in held), key=lambda content: sum(map(len, content))),
            advice,
            *([deadline] if times else []),
            *([f"Nothing is sent{whose} until somebody releases or drops it."] if never else []),
        ),
        commands=tuple(commands),
    )
