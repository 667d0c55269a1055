"""Documents that cannot be read: what a stream stores about them to compare them later, and what it reports."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.changesets import Readers
from cachewatch.core.kinds_and_specs import Unreadable, grouped
from cachewatch.core.names_and_layouts import predecessors
from cachewatch.documents.records_parsing_diagnostics import Problems, Read, about_pair, parse_pair, read
from cachewatch.errors import CachewatchError, OutOfTime, SourceError, UnknownRevision, WorkerEnded, WorkFailed
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import Bases, GitReader, last_readable, tags_of
from cachewatch.git.trees import TreeDifference, folders
from cachewatch.report.digest_and_message_values import Note, TagDigest
from cachewatch.report.words import number
from cachewatch.runtime.worker import INLINE, Isolation
from cachewatch.service.alerts_and_silent_sources import Alert
from cachewatch.service.comparing_tags_and_pins import TagNews
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.streams_starts_silences import PendingRanges, streams_of
from cachewatch.store.cursors_and_remembered import Unread
from cachewatch.store.health_and_alerts import AlertKey, AlertKind
from cachewatch.store.schema import filled

# How many documents an alert or a note names; `cachewatch diff` shows all of them.
_MOST_NAMED = 20
_MOST_IN_TITLE = 3


class UnreadAfter(Struct, frozen=True):
    """By tag: documents that a stream cannot read, those readable again or gone, and those never readable before."""

    left: dict[str, tuple[Unread, ...]]
    resolved: dict[str, tuple[Unread, ...]]
    unknown: dict[str, tuple[str, ...]]  # packages without an earlier readable version


class UnreadDocuments(Struct, frozen=True):
    """The documents of one source that a stream could not read at the last comparison."""

    repository: Repository
    known: Mapping[str, tuple[Unread, ...]]  # by tag
    isolation: Isolation = INLINE

    def bases(self, tags: Collection[str]) -> Bases:
        """Return, by tag and package, the revisions with which unreadable documents of `tags` are to be compared."""
        found: dict[str, dict[str, Revision]] = {}
        for tag, entry in ((each, entry) for each in sorted(tags) for entry in self.known.get(each, ())):
            with suppress(UnknownRevision):  # upstream rewrote its history, and our copy was lost: nobody can know
                base = replace(resolve(self.repository, entry.base), tag=entry.base_tag)
                found.setdefault(tag, {})[entry.package] = base
        return found

    def earlier(self, news: Iterable[TagNews], bases: Bases) -> Bases:
        """Return, for documents unreadable on the earlier side of `news`, the last revision where each was readable.

        None of these is later than the revision in `bases`, if there is one: digests reported no later versions.
        """
        found: dict[str, dict[str, Revision]] = {}
        for digest in (each.tag for each in news):
            tag, side = digest.report.after.tag or "", digest.report.before
            reported = replace(resolve(self.repository, side.revision), tag=side.tag) if side.revision else None
            for package in (each.package for each in digest.unreadable if each.before):
                # No later version than this: digests reported no later ones.
                revision = bases.get(tag, {}).get(package) or reported
                if revision is None:
                    continue
                later = digest.report.after.revision or revision.commit
                with suppress(SourceError):  # the history may not be in this clone
                    if base := last_readable(self.repository, revision, package, later, self.isolation):
                        found.setdefault(tag, {})[package] = base
        return found

    def after(self, gaps: PendingRanges, news: Iterable[TagNews], bases: Bases, earlier: Bases) -> UnreadAfter:
        """Return which documents are unreadable, readable again or unknown, now that comparing `gaps` has given `news`.

        `bases` has, by tag and package, the revisions that were compared instead of the first revision of a range.
        `earlier` is the part of `bases` that was chosen because a document is unreadable in the first revision.
        """
        left = {tag: entries for tag, entries in self.known.items() if gaps.places.get(tag)}
        resolved: dict[str, tuple[Unread, ...]] = {}
        unknown: dict[str, tuple[str, ...]] = {}
        seen = {each.tag.report.after.tag: each.tag for each in news}
        for begun_at, tag in ((gap.base.commit, tag) for gap in gaps.ranges for tag in gap.tags):
            known = {entry.package: entry for entry in self.known.get(tag, ())}
            unreadable = seen[tag].unreadable if tag in seen else ()
            now = dict(self._unread(seen[tag], known, bases.get(tag, {}))) if tag in seen else {}
            left[tag] = tuple(now.values())
            # Documents that can be read now or are gone, but of which no earlier version can be read.
            if lacking := tuple(each.package for each in unreadable if each.before and not each.after):
                unknown[tag] = lacking
            begun = {
                package: Unread(package=package, base=base.commit, base_tag=base.tag or "", since=begun_at, reason="")
                for package, base in earlier.get(tag, {}).items()
            }
            done = begun | {package: entry for package, entry in known.items() if package not in lacking}
            resolved[tag] = tuple(entry for package, entry in done.items() if package not in now)
        return UnreadAfter(left, resolved, unknown)

    def _unread(
        self, digest: TagDigest, known: Mapping[str, Unread], bases: Mapping[str, Revision]
    ) -> Iterator[tuple[str, Unread]]:
        before, after = digest.report.before, digest.report.after
        for each in digest.unreadable:
            if each.after:
                base = bases.get(each.package)
                at, tag = (base.commit, base.tag) if base else (before.revision, before.tag)
                new = filled(Unread, each, base=at or "", base_tag=tag or "", since=after.revision or "")
                yield each.package, replace(known.get(each.package, new), reason=each.reason, blob=each.blob)


def tags_to_read(tags: Collection[str]) -> Collection[str]:
    """Return the tags to read where a stream begins: of a series only the newest, since the others do not change."""
    return set(tags) - set(predecessors(tags).values())


def find_unreadable(repository: Repository, revision: Revision, isolation: Isolation) -> Mapping[str, Unreadable]:
    """Return, by package, the unreadable documents that the tag `revision.tag` has in `revision`."""
    tag = revision.tag or ""
    tree = tags_of(repository, revision).ids.get(tag)
    there = TreeDifference(repository, (tag, tag), None, tree).chosen(lambda _: True)
    reader = GitReader(repository)
    faults = {each.package: each for each in there.unreadable}
    for pairs, done in isolation.each(_unread_among, read(there.documents, Readers(reader, reader)), about_pair):
        if isinstance(done, WorkFailed):
            ((pair, *_),) = pairs
            blob = pair.after.name if pair.after is not None and isinstance(done, WorkerEnded) else None
            if not isinstance(done, OutOfTime):
                faults[pair.package] = Unreadable(package=pair.package, reason=str(done), after=True, blob=blob)
        else:
            faults |= {each.package: each for each in done}
    return faults


def _unread_among(contents: Sequence[Read]) -> tuple[Unreadable, ...]:
    problems = Problems()
    for pair, before, after in contents:
        parse_pair(pair, before, after, problems)
    return tuple(problems.unreadable)


def unread_at_begin(
    repository: Repository, first: Revision, newest: Revision, found: Iterable[Unreadable], isolation: Isolation
) -> Iterator[Unread]:
    """Yield what a stream that begins at `first` stores about `found`, the documents unreadable in `newest`."""
    for document in found:
        base = first
        with suppress(SourceError):  # the history may not be in this clone
            base = last_readable(repository, first, document.package, newest.commit, isolation) or first
        yield filled(Unread, document, base=base.commit, base_tag=first.tag or "", since=newest.commit)


def unreadable(source: str, tag: str, reasons: Mapping[str, str]) -> Alert:
    """Return the alert about unreadable documents of a tag; `reasons` maps packages to reasons."""
    named = [f"{package}: {reason}." for package, reason in sorted(reasons.items())[:_MOST_NAMED]]
    more, names = len(reasons) - len(named), _listed(sorted(reasons), _MOST_IN_TITLE)
    return Alert(
        key=AlertKey(AlertKind.DOCUMENTS_UNREADABLE, source, tag),
        title=f"{number(len(reasons), 'document')} of {tag} in {source} cannot be read: {names}",
        lines=(
            *named,
            *([f"And {more:,} more."] if more else []),
            "What changes in them is compared later, with their last readable versions.",
            "Upstream has to repair them.",
        ),
    )


def unreadable_sources(
    context: Context, unread: Mapping[tuple[str, str], Mapping[str, str]], newest: Mapping[str, str]
) -> Iterator[Alert]:
    """Yield an alert for each source without a readable document in any used tag.

    `unread` has reasons by source and tag, then by package; `newest` has the newest revision of each source.
    """
    for name in sorted({source for source, _ in unread} & context.config.sources.keys() & newest.keys()):
        source = context.config.sources[name]
        wants = [stream.wants_tag(source) for stream in streams_of(context.config) if source in stream.sources]
        with suppress(CachewatchError), closing(context.open_repository(source)) as repository:
            trees = tags_of(repository, resolve(repository, newest[name])).ids
            tags = [tag for tag in tags_to_read(trees) if any(wanted(tag) for wanted in wants)]
            whole = (unread.get((name, tag), {}).keys() >= folders(repository, trees[tag]).ids.keys() for tag in tags)
            if tags and all(whole):
                yield Alert(
                    key=AlertKey(AlertKind.SOURCE_UNREADABLE, name),
                    title=f"no document of the source {name} can be read",
                    lines=("Nothing of it can be compared until that is repaired.",),
                    commands=("cachewatch status", "cachewatch config check --source"),
                )


def unknown(packages: Mapping[str, Collection[str]]) -> Iterator[Note]:
    """Yield a note for each tag in `packages`, on its packages that have no readable earlier version."""
    for tag, names in sorted(packages.items()):
        yield Note("unknown", {"tag": tag, "names": _listed(sorted(names), _MOST_NAMED)})


def by_tag(key: str, entries: Mapping[str, Collection[Unread]], revision_of: Callable[[Unread], str]) -> Iterator[Note]:
    """Yield notes with text `key`, one for the documents in `entries` (by tag) with the same tag and `revision_of`."""
    packages = grouped(((tag, revision_of(each)), each.package) for tag, those in entries.items() for each in those)
    for (tag, revision), names in sorted(packages.items()):
        yield Note(key, {"tag": tag, "revision": revision[:10], "names": _listed(sorted(names), _MOST_NAMED)})


def _listed(names: list[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
