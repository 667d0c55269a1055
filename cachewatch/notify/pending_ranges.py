"""What is pending for a stream: the revisions between its cursors and the newest revision of a source."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from cachewatch.config.sources import Source
from cachewatch.core import tag_names
from cachewatch.errors import UnknownRevision
from cachewatch.git.catalogue import tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision, is_there, resolve
from cachewatch.store.cursors import Cursor, Position


class PendingRange(Struct, frozen=True, kw_only=True):
    """Tags that were last told of at one revision."""

    base: Revision
    tags: frozenset[str]


class PendingRanges(Struct, frozen=True, kw_only=True):
    """Everything to compare with the newest revision, and where the cursors go."""

    ranges: tuple[PendingRange, ...]
    places: Mapping[str, str | None]  # the new revision of each tag's cursor; None where the tag is gone
    lost: tuple[str, ...] = ()  # revisions that are nowhere any more: what changed since cannot be known
    returned: Mapping[str, datetime]  # tags that are back, and when the stream was told that they are gone
    vanished: tuple[str, ...] = ()  # all tags of the stream, if all of them are gone at once


def plan_ranges(
    repository: Repository, position: Position, newest: Revision, *, wanted: Callable[[str], bool]
) -> PendingRanges:
    """Find what a stream was not told yet of the tags that it wants.

    A tag without a cursor is new if the revision that the
    stream was compared with last did not have it; if it did, somebody wants more than before, and it begins at the
    newest revision. A tag that returns is compared with what was told of it last.
    """
    there = frozenset(filter(wanted, tags_of(repository, newest).ids))
    known = {tag: cursor for tag, cursor in position.cursors.items() if wanted(tag)}
    due = {tag: cursor.revision for tag, cursor in known.items() if _is_due(tag, cursor, newest, there)}
    due |= dict.fromkeys(_new(repository, position, there - known.keys()), position.revision)
    behind: defaultdict[str, set[str]] = defaultdict(set)
    for tag, revision in due.items():
        behind[revision].add(tag)
    lost = {revision for revision in behind if not is_there(repository, revision)}
    gone = {tag for tag, cursor in known.items() if cursor.vanished_at is None} - there
    gaps = [
        PendingRange(base=resolve(repository, revision), tags=frozenset(those))
        for revision, those in behind.items()
        if revision not in lost
    ]
    return PendingRanges(
        ranges=tuple(sorted(gaps, key=lambda gap: sorted(gap.tags))),
        places={**dict.fromkeys(there, newest.commit), **dict.fromkeys(gone)},
        lost=tuple(sorted(lost)),
        returned={tag: at for tag in due if tag in known and (at := known[tag].vanished_at) is not None},
        vanished=_vanished_together(repository, gone, known, newest),
    )


def _is_due(tag: str, cursor: Cursor, newest: Revision, there: frozenset[str]) -> bool:
    """Tell whether there may be news of a tag: it is back, or gone, or was told of at another revision."""
    if cursor.vanished_at is not None:
        return tag in there
    return tag not in there or cursor.revision != newest.commit


def _new(repository: Repository, position: Position, unknown: frozenset[str]) -> frozenset[str]:
    """Return the tags that are new since the stream was compared last; all of them if that cannot be known."""
    if not unknown or not is_there(repository, position.revision):
        return unknown
    return unknown - tags_of(repository, resolve(repository, position.revision)).ids.keys()


def _vanished_together(
    repository: Repository, gone: set[str], known: Mapping[str, Cursor], newest: Revision
) -> tuple[str, ...]:
    """Return all tags of a stream if they are gone at once; snapshots of a series that goes on are retired, not lost."""
    if not gone or any(cursor.vanished_at is None for tag, cursor in known.items() if tag not in gone):
        return ()
    going_on = {tag_names.series(tag) for tag in tags_of(repository, newest).ids if tag_names.is_snapshot(tag)}
    if all(tag_names.is_snapshot(tag) and tag_names.series(tag) in going_on for tag in gone):
        return ()
    return tuple(tag_names.in_order(gone))


def first_revision(repository: Repository, source: Source, newest: Revision) -> Revision:
    """Return the revision that is taken for told: silently the newest, or as the source asks an earlier one."""
    if source.since is not None:
        try:
            return resolve(repository, source.since)
        except UnknownRevision as error:
            raise UnknownRevision(f"sources.{source.name}.since: {error}") from error
    if source.first_run == "report":
        try:
            return resolve(repository, f"{newest.commit}~1")
        except UnknownRevision:
            pass  # there is but one
    return newest
