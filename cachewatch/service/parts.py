"""What one source gives to a digest: all that came between the cursors of a track and its newest revision."""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial

from msgspec import Struct, field, structs

from cachewatch import digests
from cachewatch.config.model import Source
from cachewatch.coverage import Coverage, Environment, compare_coverage
from cachewatch.digests import Pinned, Span, Table, TagDigest
from cachewatch.pipeline import changesets
from cachewatch.render.digest import MOST_CSV, DigestBody, read_tag_digest
from cachewatch.select import Selection, selection_of
from cachewatch.service import wording
from cachewatch.service.context import Context
from cachewatch.service.pins import find_pin
from cachewatch.service.sharing import Comparisons, Found, question_of
from cachewatch.service.spans import Gap, Gaps, find_gaps
from cachewatch.service.tracks import Track
from cachewatch.silences import Silencing
from cachewatch.sources import Comparison
from cachewatch.sources.catalogue import compare_revisions
from cachewatch.sources.git import Repository
from cachewatch.sources.revisions import Revision, count_between, lacks, resolve, times_between
from cachewatch.standings import cover_both
from cachewatch.store import cursors, health
from cachewatch.store.cursors import Move
from cachewatch.store.health import SourceHealth


class Part(Struct, frozen=True, kw_only=True):
    """What one source gives to a digest."""

    spans: tuple[Span, ...] = ()
    tags: tuple[TagDigest, ...] = ()
    moves: tuple[Move, ...] = ()
    hidden: Counter[str] = field(default_factory=Counter)  # packages by the silence that kept them out
    steps: tuple[tuple[str, str, str, str], ...] = ()  # source, tag, before, after: what the key is made of
    coverage: tuple[Coverage, Coverage] | None = None  # of the environment, before and after
    pinned: Pinned | None = None
    is_lost: bool = False  # readers must hear that something cannot be known


class Asked(Struct, frozen=True, kw_only=True):
    """What a digest is wanted of, whatever the source."""

    track: Track
    since: str | None
    environment: Environment | None
    comparisons: Comparisons


class Reading(Struct, frozen=True, kw_only=True):
    """One source, open to be compared for one track."""

    context: Context
    track: Track
    source: Source
    fares: SourceHealth
    repository: Repository
    newest: Revision
    comparisons: Comparisons
    environment: Environment | None = None

    def part(self, gaps: Gaps) -> Part:
        """Compare everything that the track was not told yet."""
        spans = [self._span(gap) for gap in gaps.gaps]
        if gaps.lost or not spans:
            # Nothing to compare, and perhaps a sentence why.
            notes = wording.lost(gaps.lost) if gaps.lost else ()
            span = self._span_from(self.newest, 0, notes)
            spans.append(structs.replace(span, is_unknown=bool(gaps.lost)))
        found = [self._found(gap) for gap in gaps.gaps]
        return Part(
            spans=tuple(spans),
            tags=tuple(tag for each in found for tag in each.tags),
            hidden=sum((each.hidden for each in found), start=Counter[str]()),
            moves=tuple(self._move(tag, revision) for tag, revision in sorted(gaps.places.items())),
            steps=tuple(
                (self.source.name, tag, gap.base.commit, self.newest.commit)
                for gap in gaps.gaps
                for tag in sorted(gap.tags)
            ),
            coverage=self._coverage(gaps),
            pinned=self._pinned(gaps),
            is_lost=bool(gaps.lost),
        )

    def _coverage(self, gaps: Gaps) -> tuple[Coverage, Coverage] | None:
        """Hold the environment against all tags that the track is about, as they were told last and as they are."""
        if self.environment is None:
            return None
        bases = {tag: gap.base for gap in gaps.gaps for tag in gap.tags}
        before = [structs.replace(bases.get(tag, self.newest), tag=tag) for tag in gaps.places]
        after = [structs.replace(self.newest, tag=tag) for tag in gaps.places]
        return cover_both(self.repository, self.environment, before, after)

    def _pinned(self, gaps: Gaps) -> Pinned | None:
        """Say what moving away from the pinned snapshot would gain and lose."""
        tag = self.track.subscription.match.pinned
        if tag is None:
            return None
        found = find_pin(self.repository, self.source.name, tag, self.newest, [gap.base for gap in gaps.gaps])
        if found is None or found.is_gone or not found.newest:
            return found
        before, after = (structs.replace(self.newest, tag=name) for name in (tag, found.newest))
        if self.environment is not None:
            move = compare_coverage(*cover_both(self.repository, self.environment, [before], [after]))
            return structs.replace(found, move=move)
        return structs.replace(found, whole_move=next(iter(self._compared(before, after, lambda _: True).tags), None))

    def _found(self, gap: Gap) -> Found:
        """Compare what was told last with what there is, unless that was just done for another track."""
        needed = self.environment and frozenset(self.environment.packages)
        of = (self.source.name, gap.base.commit, self.newest.commit, gap.tags, needed)
        return self.comparisons.get(
            question_of(self.track), of, lambda: self._compared(gap.base, self.newest, gap.tags.__contains__)
        )

    def _compared(self, before: Revision, after: Revision, wanted_tag: Callable[[str], bool]) -> Found:
        selection = selection_of(self.track.subscription.match, self.track.changes)
        comparison = compare_revisions(
            self.repository, before, after, wanted_tag=wanted_tag, wanted_package=self._wants(selection)
        )
        hidden: Counter[str] = Counter()
        found: list[TagDigest] = []
        room: int | None = MOST_CSV
        for pair in comparison.pairs:
            found.append(self._tag_digest(structs.replace(comparison, pairs=(pair,)), selection, hidden, room))
            room = _left(room, found[-1].table)
        return Found(tuple(found), hidden)

    def _wants(self, selection: Selection) -> Callable[[str], bool]:
        if self.environment is None:
            return selection.packages
        needed = self.environment.packages
        return lambda package: package in needed and selection.packages(package)

    def _tag_digest(
        self, comparison: Comparison, selection: Selection, hidden: Counter[str], room: int | None
    ) -> TagDigest:
        """Compare one tag, and leave out what somebody silenced; without room for a table there is none."""
        subscription = self.track.subscription
        most, group_by = subscription.limit.rows, subscription.group_by
        silencing = Silencing(
            self.context.config.silences,
            selection.wants,
            source=self.source.name,
            tag=comparison.pairs[0].after.tag,
            day=self.context.today(),
        )
        # Each chunk has a body of its own.
        has_table = room is not None
        make_body = partial(silencing.body, lambda wants: DigestBody(most, wants, group_by, has_table=has_table))
        (changeset,) = changesets(comparison, selection, make_body, progress=lambda _: self.context.go_on())
        return read_tag_digest(
            silencing.heard(changeset, hidden),
            source=self.source.name,
            most=most,
            wants=silencing.wants,
            group_by=group_by,
            room=room,
        )

    def _span(self, gap: Gap) -> Span:
        revisions = count_between(self.repository, gap.base, self.newest)
        notes = (wording.REWRITTEN,) if lacks(self.repository, self.newest, gap.base) else ()
        times = times_between(self.repository, gap.base, self.newest)
        span = self._span_from(gap.base, revisions, notes)
        return structs.replace(span, gaps=digests.find_gaps(times, self.source.stale_after))

    def _span_from(self, before: Revision, revisions: int | None, notes: tuple[str, ...]) -> Span:
        now = self.context.clock()
        if wording.is_stale(self.source, self.fares, now):
            notes = (*notes, wording.staleness(self.fares, now))
        return Span(
            source=self.source.name,
            address=self._repository_name(),
            before=before.side(),
            after=self.newest.side(),
            revisions=revisions,
            newest=self.fares.revision_time,
            checked=self.fares.succeeded_at,
            notes=notes,
        )

    def _repository_name(self) -> str:
        """Return where readers find the revisions: what was recorded of a build cache is in our own history of it."""
        if self.source.type == "git":
            return self.source.address
        return str(self.context.clone_folder(self.source.name))

    def _move(self, tag: str, revision: str | None) -> Move:
        subscription = self.track.subscription.name
        return Move(
            subscription=subscription, track=self.track.name, source=self.source.name, tag=tag, revision=revision
        )


def read_part(context: Context, asked: Asked, source: Source) -> Part:
    """Compare what the track was told last of `source` with what is there now."""
    track, since = asked.track, asked.since
    with context.database.read() as connection:
        fares = health.source(connection, source.name)
        known = cursors.cursors_of(connection, track.subscription.name, track.name, source.name)
    if fares.revision is None:
        return Part()  # nothing was ever fetched; how the source fares is told to operators
    with closing(context.open_repository(source)) as repository:
        newest = resolve(repository, fares.revision)
        first = None if since is None else resolve(repository, since)
        known = known if since is None else {}
        gaps = find_gaps(repository, known, newest, first=first, wanted=track.wants_tag(source))
        reading = Reading(
            context=context,
            track=track,
            source=source,
            fares=fares,
            repository=repository,
            newest=newest,
            comparisons=asked.comparisons,
            environment=asked.environment,
        )
        return reading.part(gaps)


def _left(room: int | None, table: Table) -> int | None:
    """Return how much room a table leaves to the next; none at all once one was too large, for all go out or none."""
    return room - len(table.content) if room is not None and table.is_complete else None
