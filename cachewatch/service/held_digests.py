"""When operators are asked before a digest is sent, what they are asked, and how long it is held before it is sent."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from cachewatch.config.schedules_and_dates import minute
from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.report.digest_and_message_values import newest_day
from cachewatch.report.digests.subject import clauses_of_statements
from cachewatch.report.words import names, number
from cachewatch.service.alerts_and_silent_sources import Alert
from cachewatch.service.changes_since_last_digest import SourceDiff
from cachewatch.service.comparing_tags_and_pins import TagNews
from cachewatch.service.streams_and_silences import URGENT, Stream
from cachewatch.store.digests_and_holds import HeldDigest, Hold
from cachewatch.store.health_and_alerts import AlertKey, AlertKind

# The longest time for which urgent digests are held.
_URGENT_FOR = timedelta(hours=1)
# For how many digests a notice has commands, and how many are in one command.
_NAMED, _NAMED_AT_ONCE = 30, 6

_TITLES = {AlertKind.SUSPICIOUS_LOSS: "a suspicious loss", AlertKind.LARGE_CHANGE: "a large change"}

Held = tuple[HeldDigest, Hold]


def holds_needed(parts: list[SourceDiff], limit: int, known: Iterable[Hold], now: datetime) -> list[Hold]:
    """Return the events to ask operators about: suspicious losses, else large changes.

    A change is large in each tag with more changed specs than `limit`; if only the sum exceeds it, in each source. An
    event in the stored holds `known` keeps its start; others begin at `now`.
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
    """Return when the first part of a held digest is sent if no operator answers; None if never."""
    lasting = held_for(config, digest.subscription, digest.stream)
    return None if lasting is None else min((hold.counted_from + lasting for hold in digest.holds), default=None)


def over(config: Config, stream: Stream, holds: Iterable[Hold], now: datetime) -> list[Hold]:
    """Return those of `holds` whose time is over, so that operators are no longer waited for."""
    lasting = held_for(config, stream.subscription.name, stream.name)
    # A beginning that is far ahead was stored by a wrong clock.
    return [] if lasting is None else [hold for hold in holds if abs(now - hold.counted_from) >= lasting]


def questions(config: Config, digests: Sequence[HeldDigest]) -> Iterator[Alert]:
    """Yield one alert for each event for which digests are held; several digests may wait for the same event."""
    held: defaultdict[AlertKey, list[Held]] = defaultdict(list)
    for digest, hold in ((each, hold) for each in digests for hold in each.holds):
        held[hold.alert].append((digest, hold))
    yield from (_question(config, key, found) for key, found in held.items())


def place(source: str, tag: str) -> str:
    """Return the place of an event in words: tag and source, or only the source if `tag` is "" (several tags)."""
    return f"{tag} of {source}" if tag else source


def _question(config: Config, key: AlertKey, held: list[Held]) -> Alert:
    digests = [digest for digest, _ in held]
    reason = ", ".join(dict.fromkeys(hold.said for _, hold in held))
    names = []  # which fit newer digests that replace these, too
    for digest in digests[:_NAMED]:
        known = config.subscriptions.get(digest.subscription)
        has_one_stream = known is not None and known.urgent is None
        names.append(digest.subscription if has_one_stream else f"{digest.subscription}/{digest.stream}")
    others = f" and {len(digests) - _NAMED} more, which `cachewatch status` lists" if len(digests) > _NAMED else ""
    advice = "Check whether upstream published everything, then release or drop what is held. A newer digest replaces it, and is sent if nothing is unusual any longer."
    times = ((hold.counted_from, held_for(config, one.subscription, one.stream)) for one, hold in held)
    ends = sorted(begin + lasting for begin, lasting in times if lasting is not None)
    when = [minute(end, config.timezone) for end in ends]
    until = " to ".join(dict.fromkeys((when[0], when[-1]))) if when else ""
    deadline = f"What nobody drops is sent at {until}, marked as not confirmed by the operators."
    commands = []
    if digests[0].subscription in config.subscriptions:
        commands = [f"cachewatch preview {digests[0].subscription}{' --urgent' if digests[0].stream == URGENT else ''}"]
    for start in range(0, len(names), _NAMED_AT_ONCE):
        some = " ".join(names[start : start + _NAMED_AT_ONCE])
        commands += [f"cachewatch deliveries release {some}", f"cachewatch deliveries drop {some} --reason '...'"]
    return Alert(
        key=key,
        title=f"{_TITLES[key.kind]} in {place(key.name, key.part)}",
        lines=(
            f"{reason}; held for {', '.join(names)}{others}.",
            *max((hold.content for _, hold in held), key=lambda content: sum(map(len, content))),
            advice,
            deadline if when else "Nothing is sent until somebody releases or drops it.",
        ),
        commands=tuple(commands),
    )
