"""Compare one source from the cursors of a stream to the newest revision."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.sources_and_channels import Source
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.environment_coverage import Coverage, Environment, Need, Resolution
from cachewatch.core.advice.verbs_and_reasons import Alternative, Home, Pinned
from cachewatch.core.advice.waits_and_reminders import Departure, Memory, Point, Remembered, merged, series_or_tag
from cachewatch.core.kinds_and_specs import Kind, Machine
from cachewatch.core.statement_kinds import Counts, OwnedLoss, Statement, StatementKind
from cachewatch.core.versions_spellings_targets import runs, version_key
from cachewatch.errors import SourceError
from cachewatch.git.revision_names_and_times import Revision, covers, is_there, resolve, resolve_upstream, times_between
from cachewatch.git.tags_and_documents import Bases, Restored, RestoredDocument, document_in, tags_of
from cachewatch.report.digest_and_message_values import Note, Outage, Span
from cachewatch.service import missing_and_returned as removals
from cachewatch.service import streams_starts_silences as streams
from cachewatch.service.alerts_and_silent_sources import is_stale, longest_pause, staleness
from cachewatch.service.comparing_tags_and_pins import OpenSource, TagNews, without_suspicion
from cachewatch.service.comparison_cache import Comparisons
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.missing_and_returned import Returns, Steps, all_statements, packages_of
from cachewatch.service.streams_starts_silences import PendingRange, Stream, StreamState, first_revision, plan_ranges
from cachewatch.service.unreadable_documents import UnreadAfter, UnreadDocuments, by_tag, unknown
from cachewatch.store.cursors_and_remembered import Advance, Cursor, CursorUpdate, Position, Unread
from cachewatch.store.health_and_alerts import SourceHealth


class SourceDiff(Struct, frozen=True, kw_only=True):
    """The part of a digest that comes from one source."""

    spans: tuple[Span, ...] = ()
    news: tuple[TagNews, ...] = ()
    resolved: Mapping[str, tuple[Unread, ...]] = {}  # documents that are not unreadable any more, by tag
    advance: Advance | None = None  # how the cursors move; None if nothing was ever fetched
    steps: tuple[tuple[str, str, str, str], ...] = ()  # the parts of the key: source, tag, before, after
    coverage: tuple[Coverage, Coverage] | None = None  # of the environment, before and after
    left: Mapping[tuple[str, str, Need], Resolution] = {}  # state now, by source, tag and build, of open actions
    kept: Mapping[Need, Home] = {}  # the snapshots that still have builds which are gone elsewhere
    alternative: Alternative | None = None  # the snapshot that has most of the environment
    pinned: Pinned | None = None
    lacks_pin: bool = False  # the source never had the pinned snapshot
    is_lost: bool = False  # changes are unknown, which the digest must say even if it has nothing else
    vanished: tuple[str, ...] = ()  # all tags of the stream, if all of them vanished together


class NewSnapshot(Struct, frozen=True):
    """What a new snapshot of a series is compared with, and the other new snapshots of the series."""

    base: Revision  # with the tag of the earlier snapshot
    others: tuple[str, ...]  # tags that are only reported as added
    unnamed: tuple[str, ...] = ()  # the newest tag, if readers are to move to another one


class PendingSource(OpenSource, frozen=True, kw_only=True):
    """An open source, with the data needed to compare what a stream has not reported of it yet."""

    documents: UnreadDocuments
    returns: Returns
    cursors: Mapping[str, Cursor]
    health: SourceHealth
    longest_pause: timedelta  # between two revisions; a longer one is an outage

    def compare(self) -> SourceDiff:
        """Return everything that changed in the source and that the stream has not reported yet."""
        news: list[TagNews] = []
        bases: dict[str, Mapping[str, Revision]] = {}
        restored: dict[str, Mapping[str, RestoredDocument]] = {}
        earlier: dict[str, Mapping[str, Revision]] = {}
        learned: list[Memory] = []
        pinned = self.pinned(learned)
        for each in self.ranges.ranges:  # each tag is in one of them
            of_range, bases_of_range, restored_in_range, readable = self._news_of(each, learned, pinned)
            news += of_range
            bases.update(bases_of_range)
            restored.update(restored_in_range)
            earlier.update(readable)
        unread = self.documents.after(self.ranges, news, bases, earlier)
        coverage, left = self.coverage(bases, restored), dict(self.left(bases, news))
        begins = [(tag, gap.base.commit) for gap in self.ranges.ranges for tag in sorted(gap.tags)]
        learned += (wave for each in news for wave in removals.announced(self.source.name, each.tag))
        return SourceDiff(
            spans=tuple(self._spans(unread)),
            news=tuple(news),
            resolved=unread.resolved,
            advance=self._advance(unread, learned, news),
            steps=tuple((self.source.name, tag, begin, self.newest.commit) for tag, begin in begins),
            coverage=coverage,
            left=left,
            kept=self.kept([*(left.values() if coverage is None else coverage[1].needs)], news),
            alternative=self.alternative(),
            pinned=pinned,
            lacks_pin=pinned is None and self.lacks_pin(),
            is_lost=bool(self.ranges.lost or unread.unknown),
            vanished=self.ranges.vanished,
        )

    def _news_of(
        self, gap: PendingRange, learned: list[Memory], pinned: Pinned | None
    ) -> tuple[tuple[TagNews, ...], Bases, Restored, Bases]:
        """Return the news of the tags in `gap`, and three mappings of what is compared instead of its first revision.

        Each has, by tag and package: earlier revisions; restored documents; those of the earlier revisions that were
        chosen because a document is unreadable. Facts about removals and returns are appended to `learned`. `pinned` is
        the state of the pinned snapshot; None if there is none to report.
        """
        steps, wanted = Steps(self.source.name, self.repository, gap.base, self.newest), self.wants_package()
        compare = partial(self._compared_range, gap, steps, self._new_snapshots(gap, pinned))
        last = self.documents.bases(gap.tags)  # without those of returns
        documents = {tag: found for tag in sorted(gap.tags) if (found := self.returns.documents(tag, wanted))}
        if documents and not self.selection().takes_all_specs:
            documents = _with_builds(documents, steps, compare(last, {}))
        bases = dict(last)
        for tag, found in documents.items():
            had = steps.packages(gap.base, tag)
            lost = {name: those for name, those in found.items() if name not in had or not _is_during(steps, those)}
            bases[tag] = {**self.returns.bases(lost), **bases.get(tag, {})}
        restored: dict[str, Mapping[str, RestoredDocument]] = {}
        # What changed since the last report? Documents that are back are compared with what was last reported of them.
        news = compare(bases, {})
        builds = {each.name: own for each in news if each.name in gap.tags and (own := self.returns.builds(each.tag))}
        for each in news:
            if each.name in builds:
                built, known_bases = builds[each.name], bases.get(each.name, {})
                lost = {name: those for name, those in built.items() if name not in known_bases}
                restored[each.name] = self.returns.restored(lost, each.tag.report.before, self.isolation)
                others = {name: those for name, those in built.items() if name not in restored[each.name]}
                bases[each.name] = {**self.returns.bases(others), **known_bases}
        if builds:  # what changed in packages that stacks build again, since that was last reported?
            news = compare(bases, restored)
        # What changed in documents that are unreadable in the earlier state, since they were last readable?
        if earlier := self.documents.earlier(news, bases):
            bases = {tag: {**bases.get(tag, {}), **earlier.get(tag, {})} for tag in {*bases, *earlier}}
            news = compare(bases, restored)
        back = {tag: {**builds.get(tag, {}), **documents.get(tag, {})} for tag in sorted({*builds, *documents})}
        departed = list(self._departed(news, gap, steps, bases, back))
        learned += departed
        learned += (fact for found in back.values() for fact in removals.learned_back(found, self.stream.name))
        known = self.state.remembered.learned(learned)
        old = list(self._settled(gap, known, wanted))
        learned += (replace(one, is_settled=True) for one, _ in old)
        sure = {one.last.tag for one in departed if (one.source, one.tag) in known.confirmed}
        news = tuple(_without_decided_suspicion(each, sure, {one.last.tag for one, _ in old}) for each in news)
        statements = {each.name: tuple(all_statements(each.tag)) for each in news}
        last = {tag: {**last.get(tag, {}), **earlier.get(tag, {})} for tag in {*last, *earlier}}
        if bases != last or any(restored.values()):
            # Which hashes are gone since the last report, when what is back had none?
            since = {each.name: each.tag for each in compare(last, {})}
            news = tuple(replace(each, tag=removals.gone_since(each.tag, since.get(each.name))) for each in news)
        known_back = ((each, back.get(each.name, {})) for each in news)
        news = tuple(
            replace(one, tag=removals.without_told_losses(one.tag, own, self.stream.name)) for one, own in known_back
        )
        more: list[tuple[str, Statement]] = []
        for tag, those in back.items():
            more += ((tag, one) for one in self.returns.statements(tag, those, statements.get(tag, ())))
        more += ((one.last.tag, removals.missing_since(one, names)) for one, names in old)
        more += self._lost_elsewhere(gap, wanted, statements, back)
        more += ((each.name, one) for each in news for one in self._announced_prune(each))
        news = self._with_statements(news, more, gap.base, bases, restored)
        news = tuple(self._with_missing(each, wanted, learned) for each in news)
        if self.stream.is_urgent:
            news = tuple(replace(each, tag=removals.urgent_only(each.tag)) for each in news)
        return news, bases, restored, earlier

    def _compared_range(
        self, gap: PendingRange, steps: Steps, snapshots: Mapping[str, NewSnapshot], bases: Bases, restored: Restored
    ) -> tuple[TagNews, ...]:
        """Return the news of the tags in `gap`; compare new snapshots with the earlier ones that `snapshots` gives.

        `steps` are the revisions of `gap`. For `bases` and `restored`, see `compared`.
        """
        new = {tag for one in snapshots.values() for tag in (*one.others, *one.unnamed)}
        others = gap.tags - snapshots.keys() - new
        news = self.compared(gap.base, self.newest, others.__contains__, bases, restored, steps=steps) if others else ()
        if snapshots:  # without the empty news of a comparison that found nothing
            news = tuple(each for each in news if any(all_statements(each.tag)) or each.tag.report.diagnostics)
        for tag, snapshot in snapshots.items():
            newest = replace(self.newest, tag=tag)
            (one,) = self.compared(snapshot.base, newest, lambda _: True, bases, restored, is_new=True)
            added = [removals.tag_added(name) for name in snapshot.others]
            news = (*news, replace(one, tag=removals.with_statements(one.tag, added, self.silencing(tag).wants)))
        return news

    def _new_snapshots(self, gap: PendingRange, pinned: Pinned | None) -> Mapping[str, NewSnapshot]:
        """Return, by tag, the new snapshots to compare: of each series in `gap`, the newest or `pinned.best`."""
        had, has = (tags_of(self.repository, side).ids for side in (gap.base, self.newest))
        gone = {tag: one.revision for tag, one in self.cursors.items() if one.vanished_at is not None}  # it may be back
        known = {**gone, **{tag: gap.base.commit for tag in had if tag in self.cursors and tag not in gone}}
        pin = self.stream.subscription.match.pinned or ""
        seen = self.state.remembered.pin(self.source.name, pin)
        pin = "" if seen is not None and seen.is_reported_gone else pin
        if pin in has or (pin in had and pin not in gone):
            known[pin] = self.newest.commit if pin in has else gap.base.commit
        snapshots: dict[str, NewSnapshot] = {}
        new = [tag for tag in gap.tags if tag in has and tag not in had and tag_names.is_snapshot(tag)]
        for name in sorted({series_or_tag(tag) for tag in new}):
            *others, newest = sorted((tag for tag in new if series_or_tag(tag) == name), key=version_key)
            own = (tag for tag in known if series_or_tag(tag) == name and tag != newest)  # it may be the pin
            there = [tag for tag in own if is_there(self.repository, known[tag])]
            is_older = pin in there and version_key(pin) < version_key(newest)
            base = pin if is_older else tag_names.predecessors((*there, newest)).get(newest)
            if base is not None:
                at = replace(resolve(self.repository, known[base]), tag=base)
                best = pinned.best if pinned is not None and pinned.is_gone and pinned.tag == base else ""
                named = tuple(tag for tag in others if tag != best)
                snapshots[best or newest] = NewSnapshot(base=at, others=named, unnamed=(newest,) if best else ())
        return snapshots

    def _with_missing(self, news: TagNews, wanted: Callable[[str], bool], learned: list[Memory]) -> TagNews:
        """Return `news`; on a new snapshot, add to it and to `learned` the `wanted` packages that this still lacks."""
        tag, base = news.name, news.tag.report.before.tag
        if base == tag or not tag_names.is_snapshot(tag) or self.stream.subscription.match.pinned is not None:
            return news
        missing = self.returns.still_missing(tag, wanted)
        if missing is None:
            return news
        learned.append(missing)
        return replace(news, tag=replace(news.tag, still_missing=missing.packages))

    def _departed(
        self,
        news: Iterable[TagNews],
        gap: PendingRange,
        steps: Steps,
        bases: Bases,
        back: Mapping[str, Mapping[str, Sequence[Departure]]],
    ) -> Iterator[Departure]:
        """Yield the removals that `news` shows, and those of whole tags in `gap`.

        Packages in `back` keep the date of their first removal. `steps` are the revisions of `gap`. `bases` has, by tag
        and package, the earlier revisions that were compared instead of the first revision of `gap`.
        """
        there = {tag for tag, revision in self.ranges.places.items() if revision is not None}
        departed = [one for each in news if each.name in there for one in steps.departures(each.tag)]
        gone = gap.tags & (self.ranges.places.keys() - there)
        going_on = set(map(series_or_tag, there))
        departed += [steps.of_lost_tag(tag) for tag in sorted(gone) if series_or_tag(tag) not in going_on]
        lasting: defaultdict[tuple[Departure, Point, Point], list[str]] = defaultdict(list)
        for one in departed:
            for package in one.packages or ("",):
                since, *_ = back.get(one.first.tag, {}).get(package, [one])
                lasting[one, since.last, since.first].append(package)
        for (whole, last, first), packages in lasting.items():
            one = replace(whole, last=last, first=first, packages=tuple(filter(None, packages)))
            tag = one.first.tag
            points = {"": one.last if one.last.tag != tag else Point(gap.base.commit, tag)}  # or of an earlier snapshot
            of_packages = {package: base for package, base in bases.get(tag, {}).items() if package in one.packages}
            points |= {package: Point(base.commit, base.tag or tag) for package, base in of_packages.items()}
            yield replace(one, told=tuple((self.stream.name, *of) for of in points.items()))

    def _announced_prune(self, news: TagNews) -> Iterator[Statement]:
        """Yield a statement that an announced prune took place, if `news` shows that and has no such statement."""
        wave = self.state.remembered.wave(self.source.name, news.name)
        is_told = any(one.kind is StatementKind.PRUNE for one in all_statements(news.tag))
        if wave is not None and not is_told and news.tag.report.pruned >= wave.count:
            yield Statement(kind=StatementKind.PRUNE, counts=Counts(vanished=wave.count), kinds=frozenset({Kind.PRUNE}))

    def _settled(
        self, gap: PendingRange, known: Remembered, wanted: Callable[[str], bool]
    ) -> Iterator[tuple[Departure, tuple[str, ...]]]:
        """Yield the suspicious removals in `known` that are now old enough to count as losses, for tags in `gap`.

        Each comes with those of its packages that are still missing and that `wanted` accepts.
        """
        for one in () if self.stream.is_urgent else known.suspicions:
            if one.source == self.source.name and one.last.tag in gap.tags and removals.is_old(one, self.newest):
                has = packages_of(self.repository, self.newest, one.last.tag)
                missing = {*one.packages} - has.keys() or {*one.packages}
                if packages := tuple(package for package in one.packages if package in missing and wanted(package)):
                    yield one, packages

    def _lost_elsewhere(
        self,
        gap: PendingRange,
        wanted: Callable[[str], bool],
        statements: Mapping[str, Iterable[Statement]],
        back: Mapping[str, Collection[str]],
    ) -> Iterator[tuple[str, Statement]]:
        """Yield (tag, statement) for builds that selected stacks lost earlier, and that other stacks have lost now.

        Earlier digests said that the other stacks still had these builds; the selection hides that this has changed.
        Packages in `statements` or `back` (both by tag) are left out, and those that `wanted` rejects.
        """
        stacks, _, *others = self.selection().of_specs
        for tag, those in statements.items() if stacks and not any(others) and self.environment is None else ():
            named = {package for one in those for package in one.packages}.union(back.get(tag, ()))
            missing: defaultdict[str, list[Departure]] = defaultdict(list)
            for departure in self.returns.in_documents(tag):
                for package in departure.missing(self.stream.name):
                    if package not in named and wanted(package):
                        missing[package].append(departure)
            report = self.unselected(gap.base, self.newest, tag, missing.__contains__) if missing else None
            for one in report.statements if report else ():
                lost = [each for each in one.losses if each.loss is not None and each.loss.is_missed]
                if any(self._can_run(gone, each) for each in lost for gone in missing[each.package]):
                    yield tag, one

    def _can_run(self, departure: Departure, lost: OwnedLoss) -> bool:
        """Tell whether the place or machine of `departure` could run the builds that are `lost` now."""
        with suppress(SourceError):  # this clone may lack the revisions
            last, first = (resolve(self.repository, point.revision) for point in (departure.last, departure.first))
            then = self.unselected(last, first, departure.first.tag, {lost.package}.__contains__)
            own = (each for one in then.statements for each in one.losses if each.package == lost.package)
            those = [each.machines for each in own if departure.name in (each.name, each.place.stack)]
            return any(
                one.platform == other.platform and one.os == other.os and runs(one.target, other.target)
                for one in frozenset[Machine]().union(*those)
                for other in lost.machines
            )
        return removals.is_for_same(departure.name, lost.name)

    def _with_statements(
        self, news: Iterable[TagNews], more: list[tuple[str, Statement]], old: Revision, bases: Bases, back: Restored
    ) -> tuple[TagNews, ...]:
        """Return `news` with the statements in `more` added; `more` has pairs of a tag and a statement.

        A tag without news gets the news since the revision `old`; for `bases` and `back`, see `compared`.
        """
        by_tag = {each.name: each for each in news}
        for tag, statement in more:
            if tag not in by_tag:
                before, newest = (replace(side, tag=tag) for side in (old, self.newest))
                if tag not in tags_of(self.repository, before).ids:
                    continue
                (by_tag[tag],) = self.compared(before, newest, lambda _: True, bases, back)
            one = by_tag[tag]
            by_tag[tag] = replace(one, tag=removals.with_statements(one.tag, [statement], self.silencing(tag).wants))
        return tuple(by_tag.values())

    def _spans(self, unread: UnreadAfter) -> Iterator[Span]:
        """Yield a span for each compared range, or a single one if none is; the first has notes about the source."""
        removed, readable = defaultdict[str, list[Unread]](list), defaultdict[str, list[Unread]](list)
        for tag, entry in ((tag, entry) for tag, entries in unread.resolved.items() for entry in entries):
            is_gone = document_in(self.repository, self.newest.commit, tag, entry.package) is None
            (removed if is_gone else readable)[tag].append(entry)
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
        of_newest = Span(
            source=self.source.name,
            address=self.source.public_address,
            before=self.newest.side(),
            after=self.newest.side(),
            revisions=0,
            newest=self.health.revision_time,
            checked=self.health.succeeded_at,
        )
        for gap in self.ranges.ranges:
            revisions, _, times = self._between(gap)
            gaps = tuple(Outage(a, b) for a, b in pairwise(sorted(times)) if b - a > self.longest_pause)
            span = replace(of_newest, before=gap.base.side(), revisions=revisions, gaps=gaps)
            yield replace(span, notes=notes, unread=packages, is_unknown=is_unknown)
            notes, packages, is_unknown = (), (), False
        if self.ranges.lost or not self.ranges.ranges:
            # Nothing is compared; the notes may say why.
            names = ", ".join(revision[:10] for revision in self.ranges.lost)
            lost = (Note("lost", {"revisions": names}), Note("lost-why"), Note("lost-then")) if names else ()
            yield replace(of_newest, notes=(*lost, *notes), unread=packages, is_unknown=bool(names))

    def _between(self, gap: PendingRange) -> tuple[int | None, bool, Sequence[datetime]]:
        """Return the number of revisions in `gap` (None: unknown), whether upstream lost its base, and commit times."""
        return self.comparisons.recall(
            ("between", self.repository.git_dir, gap.base.commit, self.newest.commit),
            lambda: (
                self.comparisons.count(self.repository, gap.base, self.newest),
                covers(self.repository, self.newest.commit, gap.base.commit) is False,
                times_between(self.repository, gap.base, self.newest),
            ),
        )

    def _notes_on_dates(self) -> Iterator[Note]:
        """Yield notes if the source has published nothing for long, or if its newest commit has an impossible date."""
        now = self.context.clock()
        is_usual = self.newest.time is not None and now - self.newest.time <= self.longest_pause
        if is_stale(self.source, self.health, now) and not is_usual:
            yield staleness(self.health, now, self.context.config.timezone)
        if self.newest.has_impossible_date:
            yield Note("impossible-date", {"revision": self.newest.commit[:10]})

    def _advance(self, unread: UnreadAfter, learned: Iterable[Memory], news: Iterable[TagNews]) -> Advance:
        known = {fact.key: fact for fact in self.state.remembered.facts}
        facts = {fact.key: merged(known.get(fact.key), fact) for fact in learned}
        # Every stream of the subscription has reported that everything of it is back.
        has_urgent = self.stream.subscription.urgent is not None
        names = (streams.REGULAR, streams.URGENT) if has_urgent else (streams.REGULAR,)
        over = tuple(
            key for key, one in facts.items() if isinstance(one, Departure) and not any(map(one.missing, names))
        )
        told = [  # the announced prunes that took place, which only regular digests report
            wave.key
            for each in (() if self.stream.is_urgent else news)
            if any(one.kind is StatementKind.PRUNE for one in all_statements(each.tag))
            and (wave := self.state.remembered.wave(self.source.name, each.name))
        ]
        return Advance(
            subscription=self.stream.subscription.name,
            stream=self.stream.name,
            source=self.source.name,
            revision=self.newest.commit,
            tags=tuple(
                CursorUpdate(tag=tag, revision=revision, unread=tuple(unread.left.get(tag, ())))
                for tag, revision in sorted(self.ranges.places.items())
            ),
            learned=tuple(fact for key, fact in facts.items() if key not in over and known.get(key) != fact),
            forgotten=(*(key for key in over if key in known), *told),
        )


def _with_builds(
    back: Mapping[str, Mapping[str, list[Departure]]], steps: Steps, news: Iterable[TagNews]
) -> dict[str, Mapping[str, list[Departure]]]:
    """Return `back` (packages whose documents are back, by tag) without those of which no selected build is back.

    A selected build is back if `news`, the changes since the first revision of `steps`, names the package, or if the
    package was removed after that revision.
    """
    there = {each.name: {name for one in all_statements(each.tag) for name in one.packages} for each in news}
    found = {
        tag: {name: those for name, those in own.items() if name in there.get(tag, ()) or _is_during(steps, those)}
        for tag, own in back.items()
    }
    return {tag: own for tag, own in found.items() if own}


def _is_during(steps: Steps, departures: Iterable[Departure]) -> bool:
    """Tell whether one of `departures` is that of a revision in `steps`, after the first one."""
    commits = {one.commit for one in steps.chain[1:]}
    return any(one.first.revision in commits for one in departures)


def compare_source(
    context: Context,
    stream: Stream,
    source: Source,
    state: StreamState,
    *,
    since: str | None,
    environment: Environment | None,
    comparisons: Comparisons,
    takes: Callable[[str, str], bool],
) -> SourceDiff:
    """Return changes of a source after `since` (None: the last report), in tags that `takes(source, tag)` accepts."""
    fetched, position = state.sources[source.name].revision, state.positions.get(source.name)
    if fetched is None:
        return SourceDiff()
    with comparisons.opened(source.name, lambda: context.open_repository(source)) as repository:
        newest = resolve(repository, fetched)
        if since is not None or position is None:  # as if the stream had reported everything up to `first`
            first = first_revision(repository, source, newest) if since is None else resolve_upstream(repository, since)
            tags = tags_of(repository, first).ids.keys() | tags_of(repository, newest).ids.keys()
            position = Position(revision=first.commit, cursors=dict.fromkeys(tags, Cursor(first.commit)), unread={})
        isolation, wants_tag = comparisons.isolation(source.name), stream.wants_tag(source)
        opened = PendingSource(
            context=context,
            stream=stream,
            source=source,
            state=state,
            repository=repository,
            newest=newest,
            ranges=plan_ranges(
                repository, position, newest, wanted=lambda tag: wants_tag(tag) and takes(source.name, tag)
            ),
            comparisons=comparisons,
            documents=UnreadDocuments(repository, position.unread, isolation),
            cursors=position.cursors,
            returns=Returns(repository, source.name, stream.name, newest, state.remembered),
            isolation=isolation,
            health=state.sources[source.name],
            longest_pause=longest_pause(repository, newest, source.stale_after),
            environment=environment,
        )
        return opened.compare()


def _without_decided_suspicion(news: TagNews, confirmed: Set[str], settled: Set[str]) -> TagNews:
    """Return `news`, without suspicion if its tag is in `confirmed` (by operators) or `settled` (the loss is old)."""
    if news.name not in confirmed | settled:
        return news
    is_own = any(one.packages for one in all_statements(news.tag) if one.kind is StatementKind.SUSPICIOUS)
    if news.name in settled or not is_own:
        news = replace(news, tag=without_suspicion(news.tag))
    return replace(news, suspicion="")
