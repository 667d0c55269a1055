"""Held digests: how long they wait for an operator, and what operators are asked, once for each event."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from cachewatch.config.model import Config
from cachewatch.core.schedule import minute
from cachewatch.service.alerts import Alert
from cachewatch.service.streams import URGENT, Stream
from cachewatch.store.digests import HeldDigest, Hold, HoldEvent, HoldKind, first_held
from cachewatch.store.health import AlertKey, AlertKind

# Urgent digests are held for no longer.
_URGENT_FOR = timedelta(hours=1)
# Digests that a notice has commands for, and that fit into one of them.
_NAMED, _NAMED_AT_ONCE = 30, 6

_ADVICE = "A newer digest replaces it, and is sent if nothing is unusual any longer."

_ALERTS = {HoldKind.SUSPICIOUS: AlertKind.SUSPICIOUS_LOSS, HoldKind.LARGE: AlertKind.LARGE_CHANGE}
_TITLES = {HoldKind.SUSPICIOUS: "a suspicious loss", HoldKind.LARGE: "a large change"}

Held = tuple[HeldDigest, Hold]


def held_for(config: Config, subscription: str, stream: str) -> timedelta | None:
    """Return how long digests of a stream are held if no operator answers; None is until one does."""
    known = config.subscriptions.get(subscription)
    if known is None or known.limit.hold_for is None or (stream == URGENT and known.urgent is None):
        return None
    return min(known.limit.hold_for, _URGENT_FOR) if stream == URGENT else known.limit.hold_for


def goes_out_at(config: Config, digest: HeldDigest) -> datetime | None:
    """Return when the first of what a digest is held for goes out unless an operator answers; None if that is not known."""
    times = [_hold_ends_at(config, digest, hold) for hold in digest.holds]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def _hold_ends_at(config: Config, digest: HeldDigest, hold: Hold) -> datetime | None:
    lasting = held_for(config, digest.subscription, digest.stream)
    return None if lasting is None or hold.counted_from is None else hold.counted_from + lasting


def over(config: Config, stream: Stream, holds: Iterable[Hold], known: Sequence[Hold], now: datetime) -> list[Hold]:
    """Return those of `holds` that have lasted their time, counted as it is `known`; those that begin now begin."""
    lasting = held_for(config, stream.subscription.name, stream.name)
    if lasting is None:
        return []
    return [hold for hold in holds if (first_held(known, hold.event) or now) + lasting <= now]


def alert_key(event: HoldEvent) -> AlertKey:
    """Return the key of the alert about an event."""
    return AlertKey(_ALERTS[event.kind], event.source, event.tag)


def questions(config: Config, digests: Sequence[HeldDigest]) -> Iterator[Alert]:
    """Yield an alert for each event for which digests are held, which may be many."""
    held: defaultdict[AlertKey, list[Held]] = defaultdict(list)
    for digest in digests:
        for hold in digest.holds:
            held[alert_key(hold.event)].append((digest, hold))
    for key, found in held.items():
        yield _question(config, key, found)


def place(source: str, tag: str) -> str:
    """Say where an event is."""
    return f"{tag} of {source}" if tag else source


def _question(config: Config, key: AlertKey, found: list[Held]) -> Alert:
    digests, first = [digest for digest, _ in found], found[0][1]
    said = ", ".join(dict.fromkeys(hold.said for _, hold in found))
    names = ", ".join(_name(config, digest) for digest in digests[:_NAMED])
    others = f" and {len(digests) - _NAMED} more, which `cachewatch status` lists" if len(digests) > _NAMED else ""
    advice = "Check whether upstream published everything, then release or drop what is held."
    return Alert(
        key=key,
        title=_title(first.event),
        lines=(
            f"{said}; held for {names}{others}.",
            *max((hold.content for _, hold in found), key=lambda content: sum(map(len, content))),
            f"{advice} {_ADVICE}",
            _deadline(config, found),
        ),
        commands=tuple(_commands(config, digests[:_NAMED])),
    )


def _title(event: HoldEvent) -> str:
    return f"{_TITLES[event.kind]} in {place(event.source, event.tag)}"


def _deadline(config: Config, found: list[Held]) -> str:
    times = [time for digest, hold in found if (time := _hold_ends_at(config, digest, hold)) is not None]
    if not times:
        return "Nothing is sent until somebody releases or drops it."
    first, last = minute(min(times), config.timezone), minute(max(times), config.timezone)
    when = first if first == last else f"{first} to {last}"
    return f"What nobody drops is sent at {when}, marked as not confirmed by the operators."


def _commands(config: Config, digests: list[HeldDigest]) -> Iterator[str]:
    first = digests[0]
    if first.subscription in config.subscriptions:
        yield f"cachewatch preview {first.subscription}{' --urgent' if first.stream == URGENT else ''}"
    for start in range(0, len(digests), _NAMED_AT_ONCE):
        names = " ".join(_name(config, digest) for digest in digests[start : start + _NAMED_AT_ONCE])
        yield f"cachewatch deliveries release {names}"
        yield f"cachewatch deliveries drop {names} --reason '...'"


def _name(config: Config, digest: HeldDigest) -> str:
    """Name a held digest so that commands are right for a newer one too."""
    known = config.subscriptions.get(digest.subscription)
    has_one_stream = known is not None and known.urgent is None
    return digest.subscription if has_one_stream else f"{digest.subscription}/{digest.stream}"
