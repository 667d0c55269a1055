"""The changes in one source between the cursors of a stream and the newest revision."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from itertools import count, pairwise

from msgspec import Struct, structs

from cachewatch.config.sources import Source
from cachewatch.core import names as tag_names
from cachewatch.core.advice.actions import lost_by_moving, needs_of
from cachewatch.core.advice.coverage import Coverage, Environment, Nearest, Need, Resolution, compare_coverage
from cachewatch.core.advice.remembered import Departure, Fact, Point, Remembered, StillMissing, merged, series_or_tag
from cachewatch.core.advice.values import Alternative, Because, Home, Pinned
from cachewatch.core.changesets import Changeset, Comparison, TagPair
from cachewatch.core.model import Kind
from cachewatch.core.selection import ALWAYS_REPORTED, CAN_BE_URGENT, Globs, Selection
from cachewatch.core.spack import is_newer, version_key
from cachewatch.core.statement_values import Line, Statement, StatementKind
from cachewatch.core.statements import Wants
from cachewatch.environments import cover_both
from cachewatch.errors import SourceError
from cachewatch.git.catalogue import Bases, compare_revisions, document_in, tags_of
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import (
    Revision,
    count_between,
    is_there,
    lacks,
    longest_pause,
    resolve,
    resolve_upstream,
    times_between,
)
from cachewatch.hooks import extensions
from cachewatch.report.formats import MOST_CSV, DigestCollector, read_tag_digest
from cachewatch.report.values import Note, Outage, Span, TagDigest
from cachewatch.runtime.worker import Isolation
from cachewatch.service.alerts import is_stale, staleness
from cachewatch.service.comparisons import Comparisons, find_pin, has_table, what_is_asked
from cachewatch.service.context import Context
from cachewatch.service.departures import (
    Departures,
    Returns,
    Steps,
    all_statements,
    announced,
    is_old,
    learned_back,
    missing_since,
    packages_of,
    pruned,
    returned,
    tag_added,
    urgent_only,
    with_statements,
)
from cachewatch.service.streams import (
    REGULAR,
    URGENT,
    PendingRange,
    PendingRanges,
    Silencing,
    Stream,
    StreamState,
    first_revision,
    plan_ranges,
    selection_of,
)
from cachewatch.service.unread import (
    NO_BASES,
    TagNews,
    UnreadAfter,
    UnreadDocuments,
    by_tag,
    unknown,
)
from cachewatch.store.cursors import Advance, Cursor, CursorUpdate, Position, Unread
from cachewatch.store.health import SourceHealth

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
# Removals of packages or versions.
_REMOVED = (StatementKind.PACKAGE_REMOVED, StatementKind.RETIRED, StatementKind.DOWNGRADED)
# How many lines of a source's digest get a stay; finding one of the largest package takes some hundredths of a second.
_MOST_STAYS = 25
# Of what is gone, how much is looked for in snapshots, and in how many of these.
_MOST_KEPT, _MOST_SNAPSHOTS = 20, 3
# For how many snapshots in a row a digest names the same packages that they still lack.
_MOST_TIMES = 3
# Kinds that no single package has.
_OF_WHOLE_TAGS = frozenset(
    {Kind.TAG_ADDED, Kind.TAG_REMOVED, Kind.STACK_EVENT, Kind.PRUNE, Kind.SUSPICIOUS, Kind.UNREADABLE}
)


class SourceDiff(Struct, frozen=True, kw_only=True):
    """The part of a digest that comes from one source."""

    spans: tuple[Span, ...] = ()
    news: tuple[TagNews, ...] = ()
    resolved: Mapping[str, tuple[Unread, ...]] = {}  # documents that are not unreadable any more, by tag
    advance: Advance | None = None  # how the cursors move; None if nothing was ever fetched
    steps: tuple[tuple[str, str, str, str], ...] = ()  # source, tag, before, after: what the key is made of
    coverage: tuple[Coverage, Coverage] | None = None  # of the environment, before and after
    left: Mapping[tuple[str, str, Need], Resolution] = {}  # of the builds that earlier digests asked to look after
    kept: Mapping[Need, Home] = {}  # where builds that are gone are left
    alternative: Alternative | None = None  # the snapshot that has most of the environment
    pinned: Pinned | None = None
    lacks_pin: bool = False  # the source never had the pinned snapshot
    is_lost: bool = False  # changes are unknown, which readers have to be told even if there is nothing else
    vanished: tuple[str, ...] = ()  # all tags of the stream, if all of them vanished together


class NewSnapshot(Struct, frozen=True):
    """The state that the newest of a series' new snapshots is compared with, and the other new snapshots."""

    base: Revision  # with the tag of the earlier snapshot
    others: tuple[str, ...]
    unnamed: tuple[str, ...] = ()  # the newest, where readers are to move to another one


class OpenSource(Struct, frozen=True, kw_only=True):
    """A source that is open to be compared for one stream, with the ranges to compare."""

    context: Context
    stream: Stream
    source: Source
    state: StreamState
    repository: Repository
    newest: Revision
    ranges: PendingRanges
    comparisons: Comparisons
    documents: UnreadDocuments
    returns: Returns
    cursors: Mapping[str, Cursor]
    longest_pause: timedelta  # between two revisions; a longer one is an outage
    isolation: Isolation
    environment: Environment | None = None

    @property
    def health(self) -> SourceHealth:
        """The results of the polls of this source."""
        return self.state.sources[self.source.name]

    def compare(self) -> SourceDiff:
        """Compare everything that the stream has not reported yet."""
        news: list[TagNews] = []
        bases: dict[str, Mapping[str, Revision]] = {}
        earlier: dict[str, Mapping[str, Revision]] = {}
        learned: list[Fact] = []
        pinned = self._pinned(learned)
        for each in self.ranges.ranges:  # each tag is in one of them
            of_range, bases_of_range, readable = self._news_of(each, learned, pinned)
            news += of_range
            bases.update(bases_of_range)
            earlier.update(readable)
        unread = self.documents.after(self.ranges, news, bases, earlier)
        coverage, left = self._coverage(bases), dict(self._left(bases))
        learned += (wave for each in news for wave in announced(self.source.name, each.tag))
        return SourceDiff(
            spans=tuple(self._spans(unread)),
            news=tuple(news),
            resolved=unread.resolved,
            advance=self._advance(unread, learned, news),
            steps=tuple(
                (self.source.name, tag, gap.base.commit, self.newest.commit)
                for gap in self.ranges.ranges
                for tag in sorted(gap.tags)
            ),
            coverage=coverage,
            left=left,
            kept=self._kept([*(left.values() if coverage is None else coverage[1].needs)], news),
            alternative=self._alternative(),
            pinned=pinned,
            lacks_pin=pinned is None and self._lacks_pin(),
            is_lost=bool(self.ranges.lost or unread.unknown),
            vanished=self.ranges.vanished,
        )

    def _news_of(
        self, gap: PendingRange, learned: list[Fact], pinned: Pinned | None
    ) -> tuple[tuple[TagNews, ...], Bases, Bases]:
        """Return the news of the tags in `gap`, and two mappings of packages to the versions they were compared with.

        The second mapping has only those that cannot be read where the range begins. Departures and returns are added
        to `learned`.
        """
        steps, wanted = Steps(self.repository, gap.base, self.newest), self._wants(self._selection())
        compare = partial(self._compared_range, gap, steps, self._new_snapshots(gap, pinned))
        documents = {tag: found for tag in sorted(gap.tags) if (found := self.returns.documents(tag, wanted))}
        bases: Bases = {tag: self._bases_of(found, steps, gap.base, tag) for tag, found in documents.items()}
        bases = _joined(bases, self.documents.bases(gap.tags))
        news = compare(bases)
        builds = {
            tag: found for each in news if (found := self.returns.builds(each.tag)) and (tag := each.name) in gap.tags
        }
        if builds:
            bases = _joined({tag: self.returns.bases(found) for tag, found in builds.items()}, bases)
            news = compare(bases)
        # What the earlier state cannot tell is compared with the last version that could be read.
        if earlier := self.documents.earlier(news, bases):
            bases = _joined(bases, earlier)
            news = compare(bases)
        back = {tag: {**builds.get(tag, {}), **documents.get(tag, {})} for tag in sorted({*builds, *documents})}
        departed = list(self._departed(news, gap, steps, bases))
        learned += departed
        learned += (fact for found in back.values() for fact in learned_back(found, self.stream.name))
        known = self.state.remembered.learned(learned)
        old = list(self._settled(gap, known, wanted))
        learned += (structs.replace(one, is_settled=True) for one, _ in old)
        sure = {one.last.tag for one in departed if (one.source, one.tag) in known.confirmed}
        news = tuple(_without_decided_suspicion(each, sure, {one.last.tag for one, _ in old}) for each in news)
        more = [*self._returned(back, news), *((one.last.tag, missing_since(one, names)) for one, names in old)]
        more += ((each.name, one) for each in news for one in self._announced_prune(each))
        news = self._with_statements(news, more, gap, bases)
        news = tuple(self._with_missing(each, wanted, learned) for each in news)
        if self.stream.is_urgent:
            news = tuple(structs.replace(each, tag=urgent_only(each.tag)) for each in news)
        return news, bases, earlier

    def _compared_range(
        self, gap: PendingRange, steps: Steps, snapshots: Mapping[str, NewSnapshot], bases: Bases
    ) -> tuple[TagNews, ...]:
        """Compare the tags of a range; of several new snapshots of a series, only the newest is compared."""
        new = {tag for one in snapshots.values() for tag in (*one.others, *one.unnamed)}
        others = gap.tags - snapshots.keys() - new
        news = self._compared(gap.base, self.newest, others.__contains__, bases, steps) if others else ()
        if snapshots:  # without the empty news of a comparison that found nothing
            news = tuple(each for each in news if any(all_statements(each.tag)) or each.tag.report.diagnostics)
        for tag, snapshot in snapshots.items():
            newest = structs.replace(self.newest, tag=tag)
            (one,) = self._compared(snapshot.base, newest, lambda _: True, bases, is_new=True)
            added = [tag_added(name) for name in snapshot.others]
            news = (*news, structs.replace(one, tag=with_statements(one.tag, added, self._silencing(tag).wants)))
        return news

    def _new_snapshots(self, gap: PendingRange, pinned: Pinned | None) -> Mapping[str, NewSnapshot]:
        """Return the newest new snapshot of each series, with the pinned or newest older one to compare it with.

        In place of the newest it is the one to move to from a pinned snapshot that is gone.
        """
        had, has = (tags_of(self.repository, side).ids for side in (gap.base, self.newest))
        gone = {
            tag: one.revision for tag, one in self.cursors.items() if one.vanished_at is not None and tag not in has
        }
        known = {**gone, **{tag: gap.base.commit for tag in had if tag in self.cursors and tag not in gone}}
        pin = self.stream.subscription.match.pinned or ""
        seen = self.state.remembered.pin(self.source.name, pin)
        pin = "" if seen is not None and seen.is_told_gone else pin
        if pin in has or (pin in had and pin not in gone):
            known[pin] = self.newest.commit if pin in has else gap.base.commit
        found: dict[str, NewSnapshot] = {}
        new = [tag for tag in gap.tags if tag in has and tag not in had and tag_names.is_snapshot(tag)]
        for name in sorted({series_or_tag(tag) for tag in new}):
            *others, newest = sorted((tag for tag in new if series_or_tag(tag) == name), key=version_key)
            there = [tag for tag in known if series_or_tag(tag) == name and is_there(self.repository, known[tag])]
            is_older = pin in there and version_key(pin) < version_key(newest)
            base = pin if is_older else tag_names.predecessors((*there, newest)).get(newest)
            if base is not None:
                at = structs.replace(resolve(self.repository, known[base]), tag=base)
                best = pinned.best if pinned is not None and pinned.is_gone and pinned.tag == base else ""
                named = tuple(tag for tag in others if tag != best)
                found[best or newest] = NewSnapshot(base=at, others=named, unnamed=(newest,) if best else ())
        return found

    def _with_missing(self, news: TagNews, wanted: Callable[[str], bool], learned: list[Fact]) -> TagNews:
        """Add the packages that a new snapshot still lacks; the same packages are named for three snapshots at most."""
        tag, base = news.name, news.tag.report.before.tag
        if base == tag or not tag_names.is_snapshot(tag) or self.stream.subscription.match.pinned is not None:
            return news
        packages = self.returns.still_missing(tag, wanted)
        said = self.state.remembered.still_missing(self.source.name, tag, self.stream.name)
        times = said.times if said is not None and said.packages == packages else 0
        if not packages or times >= _MOST_TIMES:
            return news
        learned.append(
            StillMissing(
                source=self.source.name,
                series=series_or_tag(tag),
                stream=self.stream.name,
                packages=packages,
                times=times + 1,
            )
        )
        return structs.replace(news, tag=structs.replace(news.tag, still_missing=packages))

    def _bases_of(
        self, found: Mapping[str, Sequence[Departure]], steps: Steps, base: Revision, tag: str
    ) -> Mapping[str, Revision]:
        """Return the revisions to compare returned packages with, for those that the tag lacks in `base`."""
        had = steps.packages(base, tag)
        return self.returns.bases({package: those for package, those in found.items() if package not in had})

    def _departed(self, news: Iterable[TagNews], gap: PendingRange, steps: Steps, bases: Bases) -> Iterator[Departure]:
        """Yield the departures from the tags of a range, and those of tags that vanished as a whole."""
        departures = Departures(self.repository, self.source.name, self.newest)
        found: list[Departure] = []
        for each in news:
            if self.ranges.places.get(each.name) is not None:
                found += departures.of_tag(each.tag, steps, gap.base)
        going_on = {series_or_tag(tag) for tag, revision in self.ranges.places.items() if revision is not None}
        for tag in sorted(gap.tags):
            if tag in self.ranges.places and self.ranges.places[tag] is None and series_or_tag(tag) not in going_on:
                found.append(departures.of_lost_tag(tag, steps))
        for one in found:
            tag = one.first.tag
            told = {"": one.last if one.last.tag != tag else Point(gap.base.commit, tag)}  # or of an earlier snapshot
            told |= {
                package: Point(base.commit, base.tag or tag)
                for package, base in bases.get(tag, {}).items()
                if package in one.packages
            }
            yield structs.replace(one, told=tuple((self.stream.name, *of) for of in told.items()))

    def _returned(
        self, back: Mapping[str, Mapping[str, Sequence[Departure]]], news: Iterable[TagNews]
    ) -> Iterator[tuple[str, Statement]]:
        """Yield the statements on packages that are back, each with its tag."""
        by_tag = {each.name: each.tag for each in news}
        for tag, found in back.items():
            statements = all_statements(by_tag[tag]) if tag in by_tag else ()
            changed = {package for one in statements for package in one.packages}
            for one in returned(found, changed, self.stream.name):
                yield tag, one

    def _announced_prune(self, news: TagNews) -> Iterator[Statement]:
        """Yield that announced builds were pruned, if the selected stacks do not show it: no stack built them."""
        wave = self.state.remembered.wave(self.source.name, news.name)
        is_told = any(one.kind is StatementKind.PRUNE for one in all_statements(news.tag))
        if wave is not None and not is_told and news.tag.report.pruned >= wave.count:
            yield pruned(wave)

    def _settled(
        self, gap: PendingRange, known: Remembered, wanted: Callable[[str], bool]
    ) -> Iterator[tuple[Departure, tuple[str, ...]]]:
        """Yield departures that were suspicious for so long that they count as losses, with what is still missing."""
        for one in () if self.stream.is_urgent else known.suspicions:
            if one.source == self.source.name and one.last.tag in gap.tags and is_old(one, self.newest):
                has = packages_of(self.repository, self.newest, one.last.tag)
                missing = {*one.packages} - has.keys() or {*one.packages}
                if packages := tuple(package for package in one.packages if package in missing and wanted(package)):
                    yield one, packages

    def _with_statements(
        self, news: Sequence[TagNews], more: Iterable[tuple[str, Statement]], gap: PendingRange, bases: Bases
    ) -> tuple[TagNews, ...]:
        """Add statements to the news of tags; a tag without news is compared to get some."""
        by_tag = {each.name: each for each in news}
        for tag, statement in more:
            if tag not in by_tag:
                base, newest = (structs.replace(side, tag=tag) for side in (gap.base, self.newest))
                if tag not in tags_of(self.repository, base).ids:
                    continue
                (by_tag[tag],) = self._compared(base, newest, lambda _: True, bases)
            one = by_tag[tag]
            by_tag[tag] = structs.replace(one, tag=with_statements(one.tag, [statement], self._silencing(tag).wants))
        return tuple(by_tag.values())

    def _coverage(self, bases: Bases) -> tuple[Coverage, Coverage] | None:
        """Return the environment's coverage by all tags of the stream, as last reported and as it is now."""
        if self.environment is None:
            return None
        told = {tag: gap.base for gap in self.ranges.ranges for tag in gap.tags}
        before = [structs.replace(told.get(tag, self.newest), tag=tag) for tag in self.ranges.places]
        after = [structs.replace(self.newest, tag=tag) for tag in self.ranges.places]
        had, has = cover_both(self.repository, self.environment, before, after, bases=bases, isolation=self.isolation)
        return had, self._explained(has)

    def _left(self, bases: Bases) -> Iterator[tuple[tuple[str, str, Need], Resolution]]:
        """Yield what tags have of the builds that earlier digests asked to look after, in any stack."""
        tasks = [
            one.task for one in self.state.remembered.actions if one.task is not None and one.stream == self.stream.name
        ]
        for tag, base in ((tag, gap.base) for gap in self.ranges.ranges for tag in sorted(gap.tags)):
            found = {need for one in tasks if (one.source, one.tag) == (self.source.name, tag) for need in one.needs}
            if found and self.ranges.places.get(tag) is not None:
                needed = Environment(name=tag, needs=tuple(sorted(found, key=lambda need: need.sort_key)))
                before, after = (structs.replace(side, tag=tag) for side in (base, self.newest))
                sides = cover_both(self.repository, needed, [before], [after], bases=bases, isolation=self.isolation)
                yield from (((self.source.name, tag, one.need), one) for one in sides[1].needs)

    def _kept(self, known: Iterable[Resolution], news: Iterable[TagNews]) -> Mapping[Need, Home]:
        """Return the newest snapshot that still has each of the builds that are gone: those `known`, and those in `news`.

        Of what its tag only has in an older version, any newer version than that will do where no snapshot has it.
        """
        lost = {one.need: one.suggestion for one in known if one.nearest is Nearest.NONE}
        for one in news if self.environment is None else ():
            statements = one.tag.statements if one.tag.report.before.tag == one.tag.report.after.tag else ()
            names = {package for each in statements for package in each.packages}
            older = {
                line.package: line.story.pairs[-1][1]
                for each in statements
                for line in each.lines
                if each.kind is StatementKind.DOWNGRADED and line.story.pairs
            }
            for because in (Because.GONE, Because.DOWNGRADED):
                own = (need for need in needs_of(because, None, names, statements) if need.version)
                lost |= {need: older.get(need.package, "") for need in own}
        needs = sorted(lost, key=lambda need: need.sort_key)[:_MOST_KEPT]
        # For all streams of a pass, most of which lost the same; None where no snapshot has it.
        found: dict[tuple[Need, str], Home | None] = self.comparisons.recall(
            ("kept", self.source.name, self.newest.commit), dict
        )
        if unknown := tuple(need for need in needs if (need, lost[need]) not in found):
            found |= dict.fromkeys(((need, lost[need]) for need in unknown), None)
            snapshots = filter(tag_names.is_snapshot, tags_of(self.repository, self.newest).ids)
            for tag in sorted(snapshots, key=version_key)[-_MOST_SNAPSHOTS:]:
                needed, there = Environment(name="", needs=unknown), structs.replace(self.newest, tag=tag)
                _, has = cover_both(self.repository, needed, [], [there], isolation=self.isolation)
                for each in has.needs:
                    key = each.need, lost[each.need]
                    had = found[key]
                    if each.nearest is not Nearest.NONE:
                        found[key] = Home(tag, each.need.version)
                    elif is_newer(each.suggestion, key[1]) and not (had and had.version == each.need.version):
                        found[key] = Home(tag, each.suggestion)
        return {need: home for need in needs if (home := found[need, lost[need]])}

    def _alternative(self) -> Alternative | None:
        """Return the snapshot with most binaries of the environment, or None if the source has no history index."""
        if self.environment is None or self.stream.is_urgent:
            return None
        past = extensions().hook.past(repository=self.repository, log=self.context.log.bind(source=self.source.name))
        with nullcontext() if past is None else closing(past):
            found: Alternative | None = past and past.alternative(self.environment.hashes)
        return found

    def _explained(self, has: Coverage) -> Coverage:
        """Return `has` with the causes of changed hashes, if the source records dependency graphs."""
        lock = self.stream.subscription.match.environment
        tags = tuple((self.newest.commit, tag) for tag in self.ranges.places)
        causes = extensions().hook.causes(repository=self.repository)
        if lock is None or not tags or causes is None:
            return has
        log = self.context.log.bind(source=self.source.name)
        explained: Coverage = causes.of_environment(
            has,
            lock,
            folders=self.context.config.environment_folders,
            tags=tags,
            isolation=self.isolation,
            warn=lambda said: log.warning("causes.unknown", environment=lock, error=said),
        )
        return explained

    def _lacks_pin(self) -> bool:
        """Tell whether this source never had the pinned snapshot."""
        tag = self.stream.subscription.match.pinned
        if tag is None or self.stream.is_urgent or self.state.remembered.pin(self.source.name, tag) is not None:
            return False
        sides = (self.newest, *(gap.base for gap in self.ranges.ranges))
        return not any(tag in tags_of(self.repository, side).ids for side in sides)

    def _pinned(self, learned: list[Fact]) -> Pinned | None:
        """Return the place of the pinned snapshot in its series, and what a move to the newest one would change.

        If the snapshot is gone and that move loses something, `best` is the newest other one without a loss. That the
        snapshot is gone is returned only once; after that, and without a pin, it is None.
        """
        tag = self.stream.subscription.match.pinned
        if tag is None or self.stream.is_urgent:
            return None
        seen = self.state.remembered.pin(self.source.name, tag)
        bases = [gap.base for gap in self.ranges.ranges]
        found, known = find_pin(self.repository, (self.source.name, tag), self.newest, bases, seen)
        if found is None or known is None or (found.is_gone and known.is_told_gone):
            return None
        learned.append(structs.replace(known, is_told_gone=found.is_gone))
        if not found.newest or not is_there(self.repository, known.revision):
            return found
        before = structs.replace(resolve(self.repository, known.revision), tag=tag)
        first = self._with_move(found, before, found.newest)
        if not found.is_gone or not lost_by_moving(first)[0]:
            return first
        # The newest of the other snapshots to which a move loses nothing.
        older = (name for name in found.others if not lost_by_moving(self._with_move(found, before, name))[0])
        return structs.replace(first, best=next(older, ""))

    def _with_move(self, pin: Pinned, before: Revision, to: str) -> Pinned:
        """Return `pin` with what a move from the pinned snapshot, in `before`, to the snapshot `to` gains and loses."""
        after = structs.replace(self.newest, tag=to)
        if self.environment is not None:
            held = cover_both(self.repository, self.environment, [before], [after], isolation=self.isolation)
            return structs.replace(pin, move=compare_coverage(*held))
        whole = next(iter(self._compared(before, after, lambda _: True)), None)
        return structs.replace(pin, statements=whole.tag.statements if whole is not None else None)

    def _compared(
        self,
        before: Revision,
        after: Revision,
        wanted_tag: Callable[[str], bool],
        bases: Bases = NO_BASES,
        steps: Steps | None = None,
        *,
        is_new: bool = False,
    ) -> tuple[TagNews, ...]:
        selection = self._selection()
        comparison = compare_revisions(
            self.repository,
            before,
            after,
            wanted_tag=wanted_tag,
            wanted_package=self._wants(selection),
            bases=bases,
            trees=self.comparisons.trees(self.source.name),
        )
        news: list[TagNews] = []
        room = MOST_CSV if has_table(self.stream, self.context.config) else None
        # Compared with other versions of some documents, the result cannot be shared with other streams.
        compare = self.comparisons.compared_alone if bases else self.comparisons.changeset
        pairs = tuple(structs.replace(pair, is_new_tag=pair.is_new_tag or is_new) for pair in comparison.pairs)
        for pair in pairs:
            one = structs.replace(comparison, pairs=(pair,))
            if steps is not None and pair.before.tag == pair.after.tag:
                one = self._judged_by_steps(one, steps)
            news.append(self._tag_news(one, selection, room, compare))
            table = news[-1].tag.table
            # If a table was too large, the others are left out, too: all are sent, or none.
            room = room - len(table.content) if room is not None and table.is_complete else None
        return self._with_stays(news, pairs)

    def _judged_by_steps(self, comparison: Comparison, steps: Steps) -> Comparison:
        """Return `comparison` so that a tag is suspicious only if a single revision removed more than half of it."""
        if comparison.revisions_between == 1:
            return comparison
        tag = comparison.pairs[0].after.tag or ""
        is_broken = partial(self._is_broken, tag)
        # Where history was rewritten there are no steps between the two.
        is_judged = len(steps.chain) <= 2 or steps.suspicious(tag, is_broken)
        return structs.replace(comparison, revisions_between=None) if is_judged else comparison

    def _is_broken(self, tag: str, earlier: Revision, later: Revision) -> bool:
        """Tell whether one revision removed more than half of what stacks build in a tag."""
        try:
            comparison = compare_revisions(
                self.repository,
                structs.replace(earlier, tag=tag),
                structs.replace(later, tag=tag),
                wanted_tag=lambda _: True,
                wanted_package=lambda _: True,
                trees=self.comparisons.trees(self.source.name),
            )
            make_collector = partial(DigestCollector, _wants_nothing, has_table=False)
            found = self.comparisons.changeset(
                self.source.name, comparison, Selection(), make_collector, self.context.go_on
            )
            list(found.collected())
        except SourceError:
            return False  # the revisions between are not in this clone
        return bool(found.report.suspicion)

    def _with_stays(self, news: Sequence[TagNews], pairs: Sequence[TagPair]) -> tuple[TagNews, ...]:
        """Add to the first lines on removals the stay, the period in which it was there, if the history is known."""
        if not any(statement.kind in _REMOVED for each in news for statement in each.tag.statements):
            return tuple(news)
        log = self.context.log.bind(source=self.source.name)
        past = extensions().hook.past(repository=self.repository, log=log)
        if past is None:
            return tuple(news)
        left = count(_MOST_STAYS, -1)
        with closing(past):

            def with_stay(line: Line, pair: TagPair) -> Line:
                return structs.replace(line, stay=past.stay(line, pair.before, pair.after)) if next(left) > 0 else line

            return tuple(
                structs.replace(each, tag=_with_lines(each.tag, partial(with_stay, pair=pair)))
                if pair.before.tag == pair.after.tag
                else each
                for each, pair in zip(news, pairs, strict=True)
            )

    def _selection(self) -> Selection:
        """Return the subscription's selection; for an environment, only of its systems and targets by default."""
        always = ALWAYS_REPORTED & CAN_BE_URGENT if self.stream.is_urgent else ALWAYS_REPORTED
        selection = selection_of(self.stream.subscription.match, self.stream.changes | always)
        if self.environment is None:
            return selection
        oses, targets = _exactly(self.environment.oses), _exactly(self.environment.targets)
        return structs.replace(
            selection,
            oses=oses if selection.oses.is_open else selection.oses,
            targets=targets if selection.targets.is_open else selection.targets,
        )

    def _wants(self, selection: Selection) -> Callable[[str], bool]:
        if self.environment is None:
            return selection.packages
        needed = self.environment.packages
        return lambda package: package in needed and selection.packages(package)

    def _tag_news(
        self, comparison: Comparison, selection: Selection, room: int | None, compare: Callable[..., Changeset]
    ) -> TagNews:
        """Compare one tag, without what is silenced; `room` is how many bytes a table may have, None for no table."""
        find = partial(self._news, comparison, selection, room, compare)
        if room is None and compare == self.comparisons.changeset:
            day = self.context.today()
            name = self.source.name, day, what_is_asked(comparison, selection)
            news: TagNews = self.comparisons.remembered.recall(name, find)
        else:
            news = find()
        if news.suspicion or self._asks_for_whole_tags(selection):
            return news
        return structs.replace(news, tag=_without_suspicion(news.tag))

    def _news(
        self, comparison: Comparison, selection: Selection, room: int | None, compare: Callable[..., Changeset]
    ) -> TagNews:
        hidden = Counter[str]()
        (pair,) = comparison.pairs
        name = pair.after.tag or pair.before.tag or ""
        silencing = self._silencing(name)
        # Each batch has a collector of its own.
        make_collector = partial(silencing.body, partial(DigestCollector, has_table=room is not None))
        changeset = compare(self.source.name, comparison, selection, make_collector, self.context.go_on)
        heard = silencing.heard(changeset, hidden)
        tag = read_tag_digest(
            heard, source=self.source.name, wants=silencing.wants, wants_line=silencing.wants_line, room=room
        )
        tag = structs.replace(self._with_causes(tag, pair, selection), silenced=silencing.packages)
        if pair.is_new_tag and not any(one.kind is StatementKind.TAG_ADDED for one in all_statements(tag)):
            tag = with_statements(tag, [tag_added(name)], silencing.wants)
        is_hidden = not self._silencing(name, lambda _: True).wants({Kind.SUSPICIOUS})
        is_touched = any(heard.report.own_kinds)  # whether it is reported or not
        return TagNews(tag, name, heard.report.suspicion if is_touched and not is_hidden else "", hidden)

    def _with_causes(self, tag: TagDigest, pair: TagPair, selection: Selection) -> TagDigest:
        """Return `tag` with the causes of rebuilt specs, if the source records dependency graphs."""
        causes = extensions().hook.causes(repository=self.repository)
        if causes is None:
            return tag
        log = self.context.log.bind(source=self.source.name)
        explained: TagDigest = causes.of_digest(
            tag, pair, selection, isolation=self.isolation, remember=self.comparisons.recall, log=log
        )
        return explained

    def _silencing(self, tag: str, wants: Wants | None = None) -> Silencing:
        return Silencing(
            self.context.config.silences,
            wants or self._selection().wants,
            source=self.source.name,
            tag=tag,
            day=self.context.today(),
        )

    def _asks_for_whole_tags(self, selection: Selection) -> bool:
        """Tell whether events of whole tags concern the stream, whichever packages they happen to."""
        is_open = selection.packages.is_open and selection.takes_all_specs and self.environment is None
        return is_open or self.stream.changes <= _OF_WHOLE_TAGS

    def _spans(self, unread: UnreadAfter) -> Iterator[Span]:
        """Yield the compared span of each range; the first one has the notes on the source as a whole."""
        removed = {tag: tuple(filter(partial(self._lacks, tag), each)) for tag, each in unread.resolved.items()}
        readable = {
            tag: tuple(entry for entry in each if entry not in removed[tag]) for tag, each in unread.resolved.items()
        }
        # By the revision since which documents are unreadable, and by the one that they are compared with now.
        notes = (
            *((Note("rewritten"),) if any(self._between(gap)[1] for gap in self.ranges.ranges) else ()),
            *by_tag("unread", unread.left, lambda entry: entry.since),
            *by_tag("read-again", readable, lambda entry: entry.base),
            *by_tag("removed", removed, lambda _: ""),
            *unknown(unread.unknown),
            *self._notes_on_dates(),
        )
        packages = tuple(dict.fromkeys(entry.package for left in unread.left.values() for entry in left))
        is_unknown = bool(unread.unknown)
        for gap in self.ranges.ranges:
            yield structs.replace(self._span(gap, notes), unread=packages, is_unknown=is_unknown)
            notes, packages, is_unknown = (), (), False
        if self.ranges.lost or not self.ranges.ranges:
            # Nothing is compared; the notes may say why.
            revisions = ", ".join(revision[:10] for revision in self.ranges.lost)
            lost = (Note("lost", {"revisions": revisions}), Note("lost-why"), Note("lost-then")) if revisions else ()
            span = self._span_from(self.newest, 0, (*lost, *notes))
            yield structs.replace(span, is_unknown=bool(self.ranges.lost), unread=packages)

    def _lacks(self, tag: str, entry: Unread) -> bool:
        return document_in(self.repository, self.newest.commit, tag, entry.package) is None

    def _between(self, gap: PendingRange) -> tuple[int | None, bool, Sequence[datetime]]:
        """Return how many revisions a range has, whether upstream no longer has its first one, and the times of all."""
        return self.comparisons.recall(
            ("between", self.repository.git_dir, gap.base.commit, self.newest.commit),
            lambda: (
                count_between(self.repository, gap.base, self.newest),
                lacks(self.repository, self.newest, gap.base),
                times_between(self.repository, gap.base, self.newest),
            ),
        )

    def _span(self, gap: PendingRange, notes: tuple[Note, ...]) -> Span:
        revisions, _, times = self._between(gap)
        span = self._span_from(gap.base, revisions, notes)
        gaps = (Outage(a, b) for a, b in pairwise(sorted(times)) if b - a > self.longest_pause)
        return structs.replace(span, gaps=tuple(gaps))

    def _notes_on_dates(self) -> Iterator[Note]:
        """Yield what is said of a source that published nothing for long, or whose newest revision is of no real day."""
        now = self.context.clock()
        newest = self.newest.time
        is_usual = newest is not None and now - newest <= self.longest_pause
        if is_stale(self.source, self.health, now) and not is_usual:
            yield staleness(self.health, now, self.context.config.timezone)
        if self.newest.has_impossible_date:
            yield Note("impossible-date", {"revision": self.newest.commit[:10]})

    def _span_from(self, before: Revision, revisions: int | None, notes: tuple[Note, ...]) -> Span:
        return Span(
            source=self.source.name,
            address=self.source.public_address,
            before=before.side(),
            after=self.newest.side(),
            revisions=revisions,
            newest=self.health.revision_time,
            checked=self.health.succeeded_at,
            notes=notes,
        )

    def _advance(self, unread: UnreadAfter, learned: Iterable[Fact], news: Iterable[TagNews]) -> Advance:
        updates = (
            CursorUpdate(tag=tag, revision=revision, unread=tuple(unread.left.get(tag, ())))
            for tag, revision in sorted(self.ranges.places.items())
        )
        known = {fact.key: fact for fact in self.state.remembered.facts}
        facts = {fact.key: merged(known.get(fact.key), fact) for fact in learned}
        over = tuple(key for key, fact in facts.items() if isinstance(fact, Departure) and self._is_over(fact))
        return Advance(
            subscription=self.stream.subscription.name,
            stream=self.stream.name,
            source=self.source.name,
            revision=self.newest.commit,
            tags=tuple(updates),
            learned=tuple(fact for key, fact in facts.items() if key not in over and known.get(key) != fact),
            forgotten=(*(key for key in over if key in known), *self._pruned(news)),
        )

    def _pruned(self, news: Iterable[TagNews]) -> Iterator[str]:
        """Yield the keys of announced prunes that took place; the regular digest tells of them."""
        for each in () if self.stream.is_urgent else news:
            wave = self.state.remembered.wave(self.source.name, each.name)
            if wave is not None and any(one.kind is StatementKind.PRUNE for one in all_statements(each.tag)):
                yield wave.key

    def _is_over(self, departure: Departure) -> bool:
        """Tell whether every stream of the subscription has reported that everything of `departure` is back."""
        names = (REGULAR, URGENT) if self.stream.subscription.urgent is not None else (REGULAR,)
        return not any(departure.missing(name) for name in names)


def _with_lines(tag: TagDigest, changed: Callable[[Line], Line]) -> TagDigest:
    """Return `tag` with `changed` applied to the lines on removals."""
    return structs.replace(
        tag,
        statements=tuple(
            structs.replace(one, lines=tuple(map(changed, one.lines))) if one.kind in _REMOVED else one
            for one in tag.statements
        ),
    )


def _joined(bases: Bases, earlier: Bases) -> Bases:
    return {tag: {**bases.get(tag, {}), **earlier.get(tag, {})} for tag in {*bases, *earlier}}


def _exactly(found: Set[str]) -> Globs:
    """Return patterns that match exactly these names, or everything if a name could be read as a pattern."""
    return Globs(sorted(found)) if all(map(_PLAIN.fullmatch, found)) else Globs()


@contextmanager
def open_source(
    context: Context,
    stream: Stream,
    source: Source,
    state: StreamState,
    *,
    since: str | None,
    environment: Environment | None,
    comparisons: Comparisons,
    takes: Callable[[str, str], bool],
) -> Iterator[OpenSource | None]:
    """Open a source and plan what to compare: from the last report of `stream`, or `since`, to the newest revision.

    Only tags that `takes` accepts, by source and tag, are compared. A stream that has not begun, as for `preview`, is
    compared from where it begins. Yields None if nothing was ever fetched.
    """
    fetched, position = state.sources[source.name].revision, state.positions.get(source.name)
    if fetched is None:
        yield None
        return
    with comparisons.opened(source.name, lambda: context.open_repository(source)) as repository:
        newest = resolve(repository, fetched)
        if since is not None:
            position = _position_at(repository, resolve_upstream(repository, since), newest)
        elif position is None:
            position = _position_at(repository, first_revision(repository, source, newest), newest)
        isolation = comparisons.isolation(source.name)
        learnt = longest_pause(repository, newest)
        yield OpenSource(
            context=context,
            stream=stream,
            source=source,
            state=state,
            repository=repository,
            newest=newest,
            ranges=plan_ranges(
                repository,
                position,
                newest,
                wanted=lambda tag: stream.wants_tag(source)(tag) and takes(source.name, tag),
            ),
            comparisons=comparisons,
            documents=UnreadDocuments(repository, position.unread, isolation),
            cursors=position.cursors,
            returns=Returns(repository, source.name, stream.name, newest, state.remembered),
            isolation=isolation,
            longest_pause=source.stale_after if learnt is None else learnt,
            environment=environment,
        )


def _position_at(repository: Repository, first: Revision, newest: Revision) -> Position:
    """Return the position of a stream that reported everything up to `first`."""
    tags = tags_of(repository, first).ids.keys() | tags_of(repository, newest).ids.keys()
    return Position(revision=first.commit, cursors=dict.fromkeys(tags, Cursor(first.commit)), unread={})


def _without_suspicion(tag: TagDigest) -> TagDigest:
    """Return `tag` without the event and statement that it is suspicious."""
    events = tuple(event for event in tag.report.events if event.kind is not Kind.SUSPICIOUS)
    statements = tuple(one for one in tag.statements if one.kind is not StatementKind.SUSPICIOUS)
    return structs.replace(tag, report=structs.replace(tag.report, events=events), statements=statements)


def _wants_nothing(_: Set[Kind]) -> bool:
    """Select no kind; a function with a name, since it is sent to a worker."""
    return False


def _without_decided_suspicion(news: TagNews, confirmed: Set[str], settled: Set[str]) -> TagNews:
    """Remove the suspicion from the news of a tag if operators confirmed the loss, or if it counts as a loss by now."""
    if news.name not in confirmed | settled:
        return news
    is_own = any(one.packages for one in all_statements(news.tag) if one.kind is StatementKind.SUSPICIOUS)
    if news.name in settled or not is_own:
        news = structs.replace(news, tag=_without_suspicion(news.tag))
    return structs.replace(news, suspicion="")
