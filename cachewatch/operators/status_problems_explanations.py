"""The status of the service, and the only list of its problems, for `status`, /readyz, metrics and alerts.

The second part explains which subscriptions report a package, and why: which patterns decide it, which silences hide it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_quiet_times import parse_when, quiet_until
from cachewatch.config.settings_and_subscriptions import Config, Match, Silence
from cachewatch.config.sources_and_channels import MailConfig
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.core.kinds_and_specs import Document
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.environments import open_environment
from cachewatch.errors import DocumentError, UnknownRevision, UsageError
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import read_package, tags_of
from cachewatch.git.trees import folders
from cachewatch.report.dates_and_totals import how_long
from cachewatch.report.words import number
from cachewatch.service.alerts_and_silent_sources import OPERATORS
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.digest_assembly_and_hold_times import goes_out_at
from cachewatch.service.recipients_and_retries import is_operator, last_addresses
from cachewatch.service.streams_starts_silences import Stream, selection_of, streams_of
from cachewatch.store import delivery_queue_and_order as deliveries
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.delivery_queue_and_order import DeliveryState
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, ChannelHealth, SourceHealth
from cachewatch.store.schema import filled
from cachewatch.store.transactions_and_sqlite import Connection


class StreamStatus(Struct, frozen=True, kw_only=True):
    """When the next digest of a stream is due."""

    subscription: str
    stream: str
    schedule: str  # in words
    due: datetime | None  # None if digests are due with each new revision


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """The deliveries that wait for a channel, and its health."""

    health: ChannelHealth
    is_configured: bool
    queue: dict[str, int]  # by state
    oldest: datetime | None  # when the oldest open delivery was created
    due_since: datetime | None  # when the first overdue delivery should have been sent
    suppressed: int  # the number of suppressed addresses


class HeldDigestStatus(Struct, frozen=True, kw_only=True):
    """A digest that is held until an operator releases or drops it, or until its time is over."""

    key: str
    subscription: str
    stream: str
    is_configured: bool  # whether the subscription is still configured
    since: datetime  # since when it, or a digest that it replaced, was held
    title: str
    reason: str
    goes_out_at: datetime | None  # when it is sent if no operator answers; None if never or not known yet


class SilenceStatus(Struct, frozen=True):
    """A configured silence, and whether it is active today."""

    name: str
    until: date
    is_active: bool
    reason: str


class Problem(Struct, frozen=True):
    """A problem of the service, or an open alert. The alert about a problem has the same kind, name and part."""

    kind: AlertKind
    name: str
    what: str  # a sentence; that of a problem has only names from the configuration, and no addresses of people
    part: str = ""
    detail: str = ""  # such as the error message of a server
    since: datetime | None = None

    @property
    def key(self) -> AlertKey:
        """The key of the alert about the problem."""
        return AlertKey(self.kind, self.name, self.part)


class ServiceStatus(Struct, frozen=True, kw_only=True):
    """Everything that `status` shows."""

    sources: tuple[SourceHealth, ...]
    streams: tuple[StreamStatus, ...]
    quiet_until: datetime | None  # None if digests may be created now
    channels: tuple[ChannelStatus, ...]
    held: tuple[HeldDigestStatus, ...]
    silences: tuple[SilenceStatus, ...]
    suppressed: tuple[deliveries.Suppressed, ...]
    alerts: tuple[Problem, ...]
    leader: str | None = None  # the process that works on a state that hosts share


def read_status(context: Context) -> ServiceStatus:
    """Return the whole status, read in one transaction."""
    config, now, day = context.config, context.clock(), context.today()
    is_over, leader = quiet_until(config.quiet, now, config.timezone), context.database.leader()
    with context.database.read() as connection:
        slots = digests.pending(connection)
        return ServiceStatus(
            sources=tuple(health.source(connection, name) for name in config.sources),
            streams=tuple(_stream(slots, stream) for stream in streams_of(config)),
            quiet_until=is_over if is_over > now else None,
            channels=tuple(_channels(connection, config, now)),
            held=tuple(_held(config, stored) for stored in digests.all_held(connection)),
            silences=tuple(SilenceStatus(s.name, s.until, s.is_active(day), s.reason) for s in config.silences),
            suppressed=tuple(deliveries.all_suppressed(connection)),
            alerts=tuple(
                Problem(each.key.kind, each.key.name, each.title, each.key.part, each.detail, each.opened_at)
                for each in health.all_open(connection)
            ),
            leader=leader,
        )


def _stream(slots: Mapping[tuple[str, str], digests.Slot], stream: Stream) -> StreamStatus:
    slot = None if stream.is_each_revision else slots.get((stream.subscription.name, stream.name))
    # A slot of another schedule is from an earlier configuration: the next pass replaces it.
    due = None if slot is None or slot.schedule != stream.schedule_text else slot.due
    name, schedule = stream.subscription.name, stream.schedule.in_words()
    return StreamStatus(subscription=name, stream=stream.name, schedule=schedule, due=due)


def _held(config: Config, stored: digests.HeldDigest) -> HeldDigestStatus:
    since = min([stored.created, *(hold.counted_from for hold in stored.holds)])
    is_configured, end = stored.subscription in config.subscriptions, goes_out_at(config, stored)
    return filled(HeldDigestStatus, stored, is_configured=is_configured, since=since, goes_out_at=end)


def _channels(connection: Connection, config: Config, now: datetime) -> Iterator[ChannelStatus]:
    queue, oldest = deliveries.queue(connection), deliveries.oldest_open(connection)
    due = {each.channel: each.due for each in reversed(deliveries.overdue(connection, now, timedelta(0)))}
    suppressed = Counter(each.channel for each in deliveries.all_suppressed(connection))
    for name in dict.fromkeys((*config.channels, *(channel for channel, _ in queue))):
        yield ChannelStatus(
            health=health.channel(connection, name),
            is_configured=name in config.channels,
            queue={state: count for (channel, state), count in queue.items() if channel == name},
            oldest=oldest.get(name),
            due_since=due.get(name),
            suppressed=suppressed[name],
        )


# Problems that arise as time passes; their alerts are opened and resolved to agree with this list.
LATE = frozenset({AlertKind.SOURCE_LATE, AlertKind.DIGEST_LATE, AlertKind.DELIVERY_LATE})
# Alerts that are problems, since the service does not do its work; all others are warnings.
_ERRORS = LATE | {AlertKind.SOURCE_FAILED, AlertKind.SOURCE_EMPTY, AlertKind.SOURCE_UNREADABLE}
_ERRORS |= {AlertKind.DIGEST_FAILED, AlertKind.CHANNEL_DOWN, AlertKind.WORK_FAILED}
_MISSED_POLLS = 3
PATIENCE = timedelta(hours=1)


class ProblemList(Struct, frozen=True, kw_only=True):
    """The problems that keep the service from working, and the warnings that somebody should check."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def is_ready(self) -> bool:
        """Whether there are no problems; warnings do not count."""
        return not self.problems

    @property
    def all(self) -> tuple[Problem, ...]:
        """Problems and warnings, problems first."""
        return (*self.problems, *self.warnings)


def find_problems(status: ServiceStatus, config: Config, now: datetime) -> ProblemList:
    """Return the problems and warnings of a service that has this status at the time `now`."""
    since = {alert.key: alert.since for alert in status.alerts}
    shown = [replace(each, since=since.get(each.key, each.since)) for each in shown_by_state(status, config, now)]
    keys, warnings = {problem.key for problem in shown}, []
    for channel in status.channels:
        if dead := channel.queue.get(DeliveryState.DEAD, 0):
            what = f"{number(dead, 'delivery', 'deliveries')} through {channel.health.name} failed for good"
            advice = "see `cachewatch deliveries list --dead`, and retry or drop them"
            warnings.append(Problem(AlertKind.DELIVERY_FAILED, channel.health.name, what, detail=advice))
    for alert in status.alerts:
        if alert.key in keys:
            continue
        if alert.kind is not AlertKind.DELIVERY_FAILED:
            (shown if alert.kind in _ERRORS else warnings).append(alert)
        elif is_operator(config, alert.name, alert.part):  # all others are counted by channel
            what = f"operators cannot be reached through the channel {alert.name}"
            shown.append(replace(alert, what=what, detail=f"{alert.what}: {alert.detail}"))
    return ProblemList(problems=tuple(shown), warnings=tuple(warnings))


def shown_by_state(status: ServiceStatus, config: Config, now: datetime) -> Iterator[Problem]:
    """Yield the problems that the state shows, whether or not there are alerts about them."""
    every = min((source.poll.every for source in config.sources.values()), default=timedelta(0))
    limit = now - max(PATIENCE, every)
    for source in status.sources:
        name, interval = source.name, config.sources[source.name].poll.every
        if source.polled_at is None:
            yield Problem(AlertKind.SOURCE_LATE, name, f"the source {name} was never polled")
        elif now - source.polled_at > _MISSED_POLLS * interval:
            what = f"the source {name} was polled {_ago(source.polled_at, now)}, but should be polled every {how_long(interval)}"
            yield Problem(AlertKind.SOURCE_LATE, name, what, since=source.polled_at)
    for stream in status.streams:
        # A digest that is due in quiet hours is due at their end.
        if stream.due is not None and (due := quiet_until(config.quiet, stream.due, config.timezone)) < limit:
            name, what = stream.subscription, f"the digest of {stream.subscription} was due {_ago(due, now)}"
            yield Problem(AlertKind.DIGEST_LATE, name, what, stream.stream, since=stream.due)
    for channel in status.channels:
        yield from _of_channel(channel, limit, now)
    # The suppressed addresses without which nobody is reached.
    needed = last_addresses(config, {(each.channel, each.target) for each in status.suppressed})
    for one in status.suppressed:
        if whose := needed.get((one.channel, one.target)):
            who = "an operator is" if whose == OPERATORS else f"all recipients of {whose} are"
            what, said = f"{who} suppressed in the channel {one.channel}", f"{one.target} refused: {one.said}"
            yield Problem(AlertKind.ADDRESS_SUPPRESSED, one.channel, what, one.target, said, one.since)


def _of_channel(channel: ChannelStatus, limit: datetime, now: datetime) -> Iterator[Problem]:
    name, health = channel.health.name, channel.health
    if not channel.is_configured:
        if channel.oldest is not None:
            what = f"deliveries wait for the channel {name}, which is no longer configured"
            yield Problem(AlertKind.CHANNEL_DOWN, name, what, since=channel.oldest)
    elif health.blocked_until is not None and health.is_blocked(now):
        until = how_long(health.blocked_until - now)
        what = f"the channel {name} does not work; next attempt in {until}"
        yield Problem(AlertKind.CHANNEL_DOWN, name, what, detail=health.error, since=health.error_at)
    elif channel.due_since is not None and channel.due_since < limit:
        what = f"a delivery through {name} was due {_ago(channel.due_since, now)}, but has no result"
        yield Problem(AlertKind.DELIVERY_LATE, name, what, since=channel.due_since)


def _ago(moment: datetime, now: datetime) -> str:
    return f"{how_long(now - moment)} ago"


_SPEC_KEYS = ("stacks", "targets", "oses", "compilers", "versions")


class SubscriptionAnswer(Struct, frozen=True, kw_only=True):
    """Whether a subscription reports changes of a package, and why."""

    subscription: str
    is_notified: bool
    reasons: tuple[str, ...]  # each a clause without a full stop
    lacks_specs: bool = False  # nothing excludes the package, but no spec that it has now is selected
    when: str = ""  # the schedule in words, if changes are reported
    where: tuple[str, ...] = ()  # names of channels; those for mail with the addresses of recipients
    urgent: tuple[str, ...] = ()  # the channels of urgent digests, and the kinds of changes that these report


class UnreadDocument(Struct, frozen=True):
    """A document of a tag that cannot be read, and why."""

    tag: str
    reason: str


def explain(
    config: Config, package: str, documents: Sequence[Document | UnreadDocument], *, day: date
) -> Iterator[SubscriptionAnswer]:
    """Yield whether and why each subscription reports `package` in `documents`, and which silences apply on `day`."""
    for subscription in config.subscriptions.values():
        match, urgent = subscription.match, subscription.urgent
        is_chosen, why = _judge(package, match.packages)
        reasons, lacks_specs = [why], False
        if is_chosen and match.environment is not None:
            is_chosen, why = _of_environment(config, match.environment, package)
            reasons.append(why)
        if is_chosen:
            lines = [_of_document(document, match) for document in documents]
            reasons += [line for _, line in lines] or _conditions(match)
            is_chosen = not lines or any(is_there for is_there, _ in lines)
            lacks_specs = any(Globs(match.tags)(one.tag) for one in documents)
        if not is_chosen:
            yield SubscriptionAnswer(
                subscription=subscription.name, is_notified=False, reasons=tuple(reasons), lacks_specs=lacks_specs
            )
            continue
        if match.pinned:
            reasons.append(f"pinned: {match.pinned} is compared with the newest of its series")
        at_once = _where(config, urgent.channels, urgent.to or subscription.to) if urgent else []
        if urgent:
            at_once[-1] += f": {', '.join(sorted(urgent.changes))}"
        yield SubscriptionAnswer(
            subscription=subscription.name,
            is_notified=True,
            reasons=(*reasons, *_silences(config.silences, package, day)),
            when=parse_when(subscription.when, config.timezone).in_words(),
            where=tuple(_where(config, subscription.channels, subscription.to)),
            urgent=tuple(at_once),
        )


def _where(config: Config, channels: Iterable[str], to: Sequence[str]) -> list[str]:
    """Return the names of `channels`; those of channels for mail are followed by the addresses `to`."""
    mail = f" to {', '.join(to)}" if to else ""
    return [f"{name}{mail}" if isinstance(config.channels[name], MailConfig) else name for name in channels]


def _judge(package: str, patterns: Iterable[str]) -> tuple[bool, str]:
    """Return whether `patterns` match `package`, and a clause that names the deciding pattern."""
    globs = Globs(patterns)
    deciding = globs.deciding(package)
    if globs(package):
        return True, f"packages: {deciding} matches" if deciding else "packages: nothing excludes it"
    return False, f"packages: {deciding} excludes it" if deciding else f"packages: none of {_list(patterns)} matches"


def _of_environment(config: Config, path: Path, package: str) -> tuple[bool, str]:
    """Return whether the environment at `path` needs `package`, and a clause: how many binaries of `package`."""
    try:
        needs = open_environment(path, config.environment_folders).needs
    except UsageError as error:
        return False, f"environment: {error}"
    if count := sum(need.package == package for need in needs):
        return True, f"environment: {path} needs {number(count, 'binary', 'binaries')} of it"
    return False, f"environment: {path} does not need it"


def _of_document(document: Document | UnreadDocument, match: Match) -> tuple[bool, str]:
    """Return whether `match` selects specs of `document`; also say how many, or which key of `match` selects none."""
    where = f"in {document.tag}"
    if not Globs(match.tags)(document.tag):
        return False, f"{where}: not one of the tags {_list(match.tags)}"
    if isinstance(document, UnreadDocument):
        said = f"{where}: the document cannot be read ({document.reason})"
        return True, f"{said}; changes in it are reported when it can be read again"
    total = len(document.specs)
    selection = selection_of(match)
    if count := sum(map(selection.chooses, document.specs.values())):
        return True, f"{where}: {count:,} of {number(total, 'spec')}"
    for key in _SPEC_KEYS:
        alone = Selection(**{key: getattr(selection, key)})
        if not any(map(alone.chooses, document.specs.values())):
            return False, f"{where}: none of {number(total, 'present spec')} has {key} {_list(getattr(match, key))}"
    return False, f"{where}: none of {total:,} present specs agrees with all keys of `match:` at once"


def _conditions(match: Match) -> list[str]:
    return [f"if {key} match {_list(getattr(match, key))}" for key in ("tags", *_SPEC_KEYS) if getattr(match, key)]


def _silences(silences: Iterable[Silence], package: str, day: date) -> Iterator[str]:
    for silence in silences:
        if silence.is_active(day) and Globs(silence.match.packages)(package):
            conditions = f", {' and '.join(_conditions(silence.match))}," if _conditions(silence.match) else ""
            some = "" if silence.changes is None else f" ({', '.join(sorted(silence.changes))})"
            yield f"but the silence {silence.name} hides it{some}{conditions} until {silence.until}: {silence.reason}"


def _list(patterns: Iterable[str]) -> str:
    return f"[{', '.join(patterns)}]"


def explain_package(context: Context, package: str) -> tuple[list[SubscriptionAnswer], set[str]]:
    """Explain which subscriptions report `package` in the newest revisions; also return the names of all packages."""
    documents: list[Document | UnreadDocument] = []
    names: set[str] = set()
    for source in context.config.sources.values():
        with context.database.read() as connection:
            newest = health.source(connection, source.name).revision
        if newest is None:
            continue
        with closing(context.open_repository(source)) as repository:
            revision = resolve(repository, newest)
            trees = tags_of(repository, revision).ids
            for tag in filter(Globs(source.tags), trees):
                names |= folders(repository, trees[tag]).ids.keys()
                try:
                    found = read_package(repository, replace(revision, tag=tag), package)
                    # Documents of a new tag may still name the tag that they were copied from.
                    documents.append(replace(parse(found.content, found.path, package=package), tag=tag))
                except UnknownRevision:
                    continue  # the tag does not have the package
                except DocumentError as error:
                    documents.append(UnreadDocument(tag, str(error)))
    return list(explain(context.config, package, documents, day=context.today())), names
