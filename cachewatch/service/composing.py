"""A track and what its sources have now -> the digest that it is due, or none. Nothing is written."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import count

from msgspec import Struct

from cachewatch.digests import Digest, Silenced, TagDigest
from cachewatch.model import Kind
from cachewatch.service import wording
from cachewatch.service.context import Context
from cachewatch.service.parts import Asked, Part, read_part
from cachewatch.service.pins import environment_of, found_pins, joined
from cachewatch.service.sharing import Comparisons
from cachewatch.service.tracks import Track
from cachewatch.store.cursors import Advance
from cachewatch.store.digests import find as stored_digest
from cachewatch.store.held import Loss

# Part of every key: digests of another form are other digests.
_FORM = 1


class Draft(Struct, frozen=True, kw_only=True):
    """A digest that nobody has seen yet, and how far its sources are compared with it."""

    digest: Digest
    advances: tuple[Advance, ...]
    is_empty: bool
    hold: str  # why operators have to be asked first; empty if they have not
    losses: tuple[Loss, ...] = ()  # for which it is held


def compose(
    context: Context,
    track: Track,
    *,
    occasion: str = "",
    since: str | None = None,
    comparisons: Comparisons | None = None,
) -> Draft:
    """Compare what the track was told last, or the revision `since`, with the newest revisions.

    `occasion` tells digests apart that have nothing to say; `comparisons` are shared with other tracks.
    """
    environment = environment_of(track.subscription.match)
    asked = Asked(track=track, since=since, environment=environment, comparisons=comparisons or Comparisons())
    parts = [read_part(context, asked, source) for source in track.sources]
    hidden = sum((part.hidden for part in parts), start=Counter[str]())
    tags = tuple(tag for part in parts for tag in part.tags)
    now = context.clock()
    digest = Digest(
        key=_key(context, track, parts, occasion),
        subscription=track.subscription.name,
        description=track.subscription.description,
        created=now,
        period=_period(parts, now, is_urgent=track.is_urgent),
        is_urgent=track.is_urgent,
        spans=tuple(span for part in parts for span in part.spans),
        tags=tags,
        returns=tuple(each for part in parts for each in part.returns),
        environment=joined(part.coverage for part in parts if part.coverage),
        pinned=found_pins(track.subscription.match.pinned, [part.pinned for part in parts if part.pinned]),
        silenced=tuple(_silenced(context, hidden)),
        why=wording.why(track),
        commands=tuple(wording.command(track, span) for part in parts for span in part.spans),
        operator=", ".join(context.config.operators.to),
        links=context.config.links,
        rows=track.subscription.limit.rows,
    )
    return Draft(
        digest=digest,
        advances=tuple(part.advance for part in parts if part.advance),
        is_empty=digest.is_empty and not any(part.is_lost or part.has_returned for part in parts),
        hold=_hold(parts, tags, track.subscription.limit.hold_above),
        losses=tuple(_losses(parts, tags)),
    )


def _silenced(context: Context, hidden: Counter[str]) -> Iterator[Silenced]:
    for silence in context.config.silences:
        if hidden[silence.name]:
            yield Silenced(silence.name, hidden[silence.name], silence.reason, silence.until.isoformat())


def _key(context: Context, track: Track, parts: list[Part], occasion: str) -> str:
    """Return the same key for the same steps until they are stored; who goes back and takes them again gets another."""
    steps = sorted(step for part in parts for step in part.steps)
    made_of: list[object] = [_FORM, track.subscription.name, track.name, steps or occasion]
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()
    with context.database.read() as connection:
        for time in count(2):
            if stored_digest(connection, key) is None:
                break
            key = hashlib.sha256(json.dumps([*made_of, time]).encode()).hexdigest()
    return key


def _period(parts: list[Part], now: datetime, *, is_urgent: bool) -> str:
    """Name the span so that it can be a file's name: one day with its hour, or two days."""
    sides = [span for part in parts for span in part.spans]
    end = max((span.after.time for span in sides if span.after.time), default=now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    begin = min((span.before.time for span in sides if span.before.time), default=end)
    same_day = begin[:10] == end[:10]
    period = end.replace(":", "") if same_day else f"{begin[:10]}..{end[:10]}"
    return f"{period}-urgent" if is_urgent else period


def _losses(parts: list[Part], tags: tuple[TagDigest, ...]) -> Iterator[Loss]:
    for part in parts:
        if part.vanished and part.advance is not None:
            yield Loss(part.advance.source, "", f"all watched tags are gone ({', '.join(part.vanished)})")
    for tag in tags:
        name = tag.report.after.tag or tag.report.before.tag or ""
        yield from (Loss(tag.source, name, each.name) for each in tag.report.events if each.kind is Kind.SUSPICIOUS)


def _hold(parts: list[Part], tags: tuple[TagDigest, ...], limit: int) -> str:
    changed = sum(tag.report.specs.net_added + tag.report.specs.net_removed for tag in tags)
    suspicious = [event.name for tag in tags for event in tag.report.events if event.kind is Kind.SUSPICIOUS]
    if vanished := [tag for part in parts for tag in part.vanished]:
        return f"a suspicious loss: all watched tags are gone ({', '.join(vanished)})"
    if suspicious:
        return f"a suspicious loss: {', '.join(suspicious)}"
    return f"{changed:,} changed specs, more than hold_above: {limit:,}" if changed > limit else ""
