"""What is stored of a comparison beside its digest: suspicious losses, and documents that could not be read.

For each of those documents, the version to compare it with later is stored.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.changesets import Changeset
from cachewatch.errors import SourceError, UnknownRevision
from cachewatch.git.catalogue import Bases, last_readable
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.report.values import TagDigest
from cachewatch.report.words import number
from cachewatch.runtime.worker import INLINE, Isolation
from cachewatch.service.alerts import Alert
from cachewatch.service.streams import PendingRanges
from cachewatch.store.cursors import Unread
from cachewatch.store.health import AlertKey, AlertKind


class TagNotes(Struct, frozen=True, kw_only=True):
    """The notes on one tag of one source."""

    tag: str
    suspicion: str  # what is suspicious about the whole tag, if it touches what the stream selects; else ""


class TagNews(Struct, frozen=True):
    """The part of a digest about a tag, the notes on the tag, and how many packages each silence hid."""

    tag: TagDigest
    notes: TagNotes
    hidden: Counter[str]

    @property
    def size(self) -> int:
        """Roughly the number of lines, packages and versions in it."""
        tag = self.tag
        statements = (*tag.statements, *tag.rest, *tag.report.statements)
        lines = sum(1 + len(one.lines) + len(one.packages) for one in statements)
        return lines + len(tag.versions)


def noted(changeset: Changeset, *, is_suspicion_hidden: bool) -> TagNotes:
    """Return the notes on a tag; `is_suspicion_hidden` tells that a silence hides its suspicion."""
    is_touched = any(changeset.report.own_kinds)  # whether it is reported or not
    return TagNotes(
        tag=changeset.after.tag or changeset.before.tag or "",
        suspicion=changeset.report.suspicion if is_touched and not is_suspicion_hidden else "",
    )


# How many reasons an alert lists; `cachewatch diff` shows all of them.
_MOST_NAMED = 20
_MOST_IN_TITLE = 3

NO_BASES: Bases = MappingProxyType({})


class UnreadAfter(Struct, frozen=True):
    """The documents that a stream cannot read after a comparison, those it could read again, and those without base."""

    left: dict[str, tuple[Unread, ...]] = field(default_factory=dict)
    resolved: dict[str, tuple[Unread, ...]] = field(default_factory=dict)
    unknown: dict[str, tuple[str, ...]] = field(default_factory=dict)  # packages without an earlier readable version


class UnreadDocuments:
    """The documents of one source that a stream could not read so far."""

    def __init__(
        self, repository: Repository, known: Mapping[str, tuple[Unread, ...]], isolation: Isolation = INLINE
    ) -> None:
        self._repository = repository
        self._isolation = isolation
        self._known = known  # by tag

    def bases(self, tags: Collection[str]) -> Bases:
        """Return the revisions to compare unread documents with instead of the reported one, by tag and package."""
        return {tag: found for tag in sorted(tags) if (found := dict(self._bases(self._known.get(tag, ()))))}

    def _bases(self, entries: Iterable[Unread]) -> Iterator[tuple[str, Revision]]:
        for entry in entries:
            try:
                yield entry.package, replace(resolve(self._repository, entry.base), tag=entry.base_tag)
            except UnknownRevision:
                continue  # upstream rewrote its history, and our copy was lost: nobody can know

    def earlier(self, news: Iterable[TagNews], bases: Bases) -> Bases:
        """Return the last readable versions of documents that could not be read in the earlier state of `news`.

        `bases` are the revisions that documents were compared with.
        """
        digests = {each.tag.report.after.tag or "": each.tag for each in news}
        return {
            tag: found
            for tag, digest in digests.items()
            if (found := dict(self._last_readable(digest, bases.get(tag, {}))))
        }

    def _last_readable(self, digest: TagDigest, bases: Mapping[str, Revision]) -> Iterator[tuple[str, Revision]]:
        for package in (each.package for each in digest.unreadable if each.before):
            # No later version than this: readers were told nothing of later ones.
            revision = bases.get(package) or self._told(digest)
            if revision is None:
                continue
            try:
                later = digest.report.after.revision or revision.commit
                base = last_readable(self._repository, revision, package, later, self._isolation)
            except SourceError:
                continue  # the history is not in this clone
            if base is not None:
                yield package, base

    def _told(self, digest: TagDigest) -> Revision | None:
        side = digest.report.before
        return replace(resolve(self._repository, side.revision), tag=side.tag) if side.revision else None

    def after(
        self, gaps: PendingRanges, news: Iterable[TagNews], bases: Bases, earlier: Bases = NO_BASES
    ) -> UnreadAfter:
        """Return the documents that are unread once everything in `gaps` was compared, with `bases` where it has them.

        `earlier` are the bases of documents that cannot be read where their ranges begin.
        """
        left = {tag: entries for tag, entries in self._known.items() if gaps.places.get(tag)}
        resolved: dict[str, tuple[Unread, ...]] = {}
        unknown: dict[str, tuple[str, ...]] = {}
        seen = {each.tag.report.after.tag: each.tag for each in news}
        for begun_at, tag in ((gap.base.commit, tag) for gap in gaps.ranges for tag in gap.tags):
            known = {entry.package: entry for entry in self._known.get(tag, ())}
            now = dict(self._unread(seen[tag], known, bases.get(tag, {}))) if tag in seen else {}
            left[tag] = tuple(now.values())
            if lacking := tuple(_without_base(seen[tag])) if tag in seen else ():
                unknown[tag] = lacking
            done = known.keys() - now.keys() - set(lacking)
            begun = {
                package: Unread(package=package, base=base.commit, base_tag=base.tag or "", since=begun_at, reason="")
                for package, base in earlier.get(tag, {}).items()
                if package not in now
            }
            resolved[tag] = tuple(
                {**begun, **{package: known[package] for package in known if package in done}}.values()
            )
        return UnreadAfter(left, resolved, unknown)

    def _unread(
        self, digest: TagDigest, known: Mapping[str, Unread], bases: Mapping[str, Revision]
    ) -> Iterator[tuple[str, Unread]]:
        before, after = digest.report.before, digest.report.after
        for each in digest.unreadable:
            if each.after:
                base = bases.get(each.package)
                new = Unread(
                    package=each.package,
                    base=base.commit if base else before.revision or "",
                    base_tag=(base.tag if base else before.tag) or "",
                    since=after.revision or "",
                    reason=each.reason,
                )
                yield each.package, replace(known.get(each.package, new), reason=each.reason, blob=each.blob)


def _without_base(digest: TagDigest) -> Iterator[str]:
    """Yield the packages whose documents can be read now or are gone, but of which no earlier version can be read."""
    return (each.package for each in digest.unreadable if each.before and not each.after)


def unreadable(source: str, tag: str, reasons: Mapping[str, str]) -> Alert:
    """Return the alert about documents of a tag that cannot be read; `reasons` are by package."""
    named = [f"{package}: {reason}." for package, reason in sorted(reasons.items())[:_MOST_NAMED]]
    more, others = len(reasons) - len(named), len(reasons) - _MOST_IN_TITLE
    names = f"{', '.join(sorted(reasons)[:_MOST_IN_TITLE])}{f' and {others:,} more' if others > 0 else ''}"
    return Alert(
        key=AlertKey(AlertKind.DOCUMENTS_UNREADABLE, source, tag),
        title=f"{number(len(reasons), 'document')} of {tag} in {source} cannot be read: {names}",
        lines=(
            "What changes in them is compared later, with their last readable versions.",
            *named,
            *([f"And {more:,} more."] if more else []),
            "Upstream has to repair them.",
        ),
    )


def named(bases: Bases) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield the tag and package of each base, with the revision and tag of the base."""
    for tag, packages in bases.items():
        for package, base in packages.items():
            yield tag, package, base.commit, base.tag
