"""What is back, of what a stream reported as removed."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from cachewatch.notify.comparison_notes import TagNews
from cachewatch.report.digest import Return, TagDigest
from cachewatch.store import reported_removals
from cachewatch.store.database import Connection
from cachewatch.store.reported_removals import Departure, DepartureKind, ReportedDeparture


def find_returns(
    connection: Connection,
    stream: tuple[str, str, str],
    news: Iterable[TagNews],
    returned: Mapping[str, datetime],
) -> Iterator[Return]:
    """Yield what is back of a source, whole tags among it.

    `stream` is a subscription, its stream and a source, `news` what a digest tells of its tags, and `returned` are the
    tags that are back.
    """
    found = {each.notes.tag: each for each in news}
    for tag in sorted({*found, *returned}):
        ours = found.get(tag)
        now = {(each.kind, each.name): each for each in ours.notes.joined} if ours is not None else {}
        names = {*now, *([(DepartureKind.TAG, tag)] if tag in returned else [])}
        for was in reported_removals.told(connection, reported_removals.stream_key(*stream, tag), names):
            key = was.departure.kind, was.departure.name
            yield _return(
                stream[-1], tag, was, now.get(key) or _whole(was.departure, ours.tag if ours is not None else None)
            )


def names_of(returns: Collection[Return], tag: str) -> tuple[tuple[DepartureKind, str], ...]:
    """Return what is back of one tag, as it is remembered."""
    return tuple((DepartureKind(each.kind), each.name) for each in returns if each.tag == tag)


def _whole(was: Departure, digest: TagDigest | None) -> Departure:
    """Return what there is of a tag now, which is compared with what there was before it went."""
    if digest is None:
        return was
    counts = digest.report.specs
    return Departure(
        kind=was.kind,
        name=was.name,
        packages=digest.report.packages.after,
        specs=was.specs + counts.after - counts.before,
    )


def _return(source: str, tag: str, was: ReportedDeparture, now: Departure) -> Return:
    return Return(
        source=source,
        tag=tag,
        kind=was.departure.kind.value,
        name=was.departure.name,
        gone_since=was.told_at,
        revision=was.revision,
        packages_before=was.departure.packages,
        packages_now=now.packages,
        specs_before=was.departure.specs,
        specs_now=now.specs,
    )
