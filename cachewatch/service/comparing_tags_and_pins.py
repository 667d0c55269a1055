"""Compare the tags of one open source between two revisions, with the selection of one stream.

For a subscription with an environment or a pinned snapshot, it also says which binaries of the environment are there,
what a move to another snapshot would change, and whether the pinned snapshot will soon be deleted.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.sources_and_channels import MailConfig, Source
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.actions import lost_by_moving, needs_of
from cachewatch.core.advice.environment_coverage import (
    Coverage,
    Environment,
    Nearest,
    Need,
    Resolution,
    compare_coverage,
)
from cachewatch.core.advice.urgency_and_levels import CAN_BE_URGENT
from cachewatch.core.advice.verbs_and_reasons import Alternative, Because, Home, Pinned
from cachewatch.core.advice.waits_and_reminders import Memory, SeenPin
from cachewatch.core.changesets import Comparison, Report, TagPair
from cachewatch.core.filters_and_spec_patterns import ALWAYS_REPORTED, Globs, Selection
from cachewatch.core.kinds_and_specs import Kind, Side
from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.core.statements import Wants
from cachewatch.core.versions_spellings_targets import is_newer, version_key
from cachewatch.environments import cover_both
from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, is_there, resolve
from cachewatch.git.tags_and_documents import Bases, Restored, compare_revisions, tags_of
from cachewatch.hooks import extensions
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.report.digests.data_for_templates import DigestCollector, read_tag_digest
from cachewatch.report.json_and_safe_csv import MOST_CSV
from cachewatch.runtime.worker import Isolation
from cachewatch.service.comparison_cache import Comparisons
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.missing_and_returned import Steps, all_statements, tag_added, with_statements
from cachewatch.service.streams_starts_silences import PendingRanges, Silencing, Stream, StreamState, selection_of

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
# Removals of packages or versions.
_REMOVED = (StatementKind.PACKAGE_REMOVED, StatementKind.RETIRED, StatementKind.DOWNGRADED)
# How many lines of a source's digest get a stay; finding one of the largest package takes some hundredths of a second.
_MOST_STAYS = 25
# The greatest numbers of packages whose lost builds are searched in snapshots, and of these snapshots.
_MOST_KEPT, _MOST_SNAPSHOTS = 20, 3
# Kinds that no single package has.
_OF_WHOLE_TAGS = {Kind.TAG_ADDED, Kind.TAG_REMOVED, Kind.STACK_EVENT, Kind.PRUNE, Kind.SUSPICIOUS, Kind.UNREADABLE}


class TagNews(Struct, frozen=True):
    """The part of a digest about one tag, why the tag is suspicious, if it is, and which packages silences hid."""

    tag: TagDigest
    name: str  # of the tag, after or else before
    suspicion: str  # why the whole tag is suspicious, if that touches the selection; else ""
    hidden: Set[tuple[str, str]]  # pairs of a silence and a package of which it hid something

    @property
    def size(self) -> int:
        """The approximate number of lines, packages and versions in the news."""
        statements = (*self.tag.statements, *self.tag.rest, *self.tag.report.statements)
        return len(self.tag.versions) + sum(1 + len(one.lines) + len(one.packages) for one in statements)


class OpenSource(Struct, frozen=True, kw_only=True):
    """A source opened for one stream, with the ranges of revisions to compare."""

    context: Context
    stream: Stream
    source: Source
    state: StreamState
    repository: Repository
    newest: Revision
    ranges: PendingRanges
    comparisons: Comparisons
    isolation: Isolation
    environment: Environment | None = None

    def compared(
        self,
        before: Revision,
        after: Revision,
        wanted_tag: Callable[[str], bool],
        bases: Bases = MappingProxyType({}),
        restored: Restored = MappingProxyType({}),
        *,
        steps: Steps | None = None,
        is_new: bool = False,
    ) -> tuple[TagNews, ...]:
        """Compare `before` with `after`; return the news of each wanted tag. If `is_new`, the tags are new snapshots.

        Some packages are not compared with `before`: `bases` gives an earlier revision for them, or `restored` gives a
        restored document. If `steps` are given, a tag is suspicious only if a single revision makes it so.
        """
        comparison = self._between_revisions(
            before, after, wanted_tag=wanted_tag, wanted_package=self.wants_package(), bases=bases, restored=restored
        )
        selection, news = self.selection(), list[TagNews]()
        channels = (self.context.config.channels[name] for name in self.stream.channels)
        has_table = any(isinstance(channel, MailConfig) and channel.attach is not None for channel in channels)
        room = MOST_CSV if has_table else None
        pairs = tuple(replace(pair, is_new_tag=pair.is_new_tag or is_new) for pair in comparison.pairs)
        for pair in pairs:
            single = replace(comparison, pairs=(pair,))
            others = (replacing.get(pair.after.tag or "", {}) for replacing in (bases, restored))
            based_on = frozenset(each for of_tag in others for each in of_tag.items())
            if steps is not None and pair.before.tag == pair.after.tag:
                single = self._judged_by_steps(single, steps)
            news.append(self._tag_news(single, selection, room, based_on))
            table = news[-1].tag.table
            # If a table was too large, the others are left out, too: all are sent, or none.
            room = room - len(table.content) if room is not None and table.is_complete else None
        return self._with_stays(news, pairs)

    def _between_revisions(self, before: Revision, after: Revision, **options: Any) -> Comparison:
        trees = self.comparisons.trees(self.source.name)
        return compare_revisions(self.repository, before, after, trees=trees, count=self.comparisons.count, **options)

    def _judged_by_steps(self, comparison: Comparison, steps: Steps) -> Comparison:
        """Return `comparison`; let its tag be suspicious only if one of `steps` removed or broke most packages."""
        if comparison.revisions_between == 1:
            return comparison
        tag = comparison.pairs[0].after.tag or ""
        # Where history was rewritten there are no steps between the two.
        is_judged = len(steps.chain) <= 2 or steps.suspicious(tag, partial(self._is_broken, tag))
        return replace(comparison, revisions_between=None) if is_judged else comparison

    def _is_broken(self, tag: str, earlier: Revision, later: Revision) -> bool:
        """Tell whether the step from `earlier` to `later` makes the tag suspicious; False if these cannot be read."""
        try:
            return bool(self.unselected(earlier, later, tag, Globs()).suspicion)
        except BrokenSource:
            raise  # such as a full disk, which says nothing about the tag
        except SourceError:
            return False  # the revisions between are not in this clone

    def unselected(self, before: Revision, after: Revision, tag: str, packages: Callable[[str], bool]) -> Report:
        """Return the report on `tag` from `before` to `after`, on all specs of the packages that `packages` accepts."""
        sides = replace(before, tag=tag), replace(after, tag=tag)
        comparison = self._between_revisions(*sides, wanted_tag=Globs(), wanted_package=packages)
        make_collector = partial(DigestCollector, _wants_nothing, has_table=False)
        changeset = self.comparisons.changeset(self.source.name, comparison, Selection(), make_collector)
        list(changeset.collected())
        return changeset.report

    def _with_stays(self, news: Sequence[TagNews], pairs: Sequence[TagPair]) -> tuple[TagNews, ...]:
        """Return `news` about `pairs`; with a history index, the first lines say how long removed versions stayed."""
        if not any(statement.kind in _REMOVED for each in news for statement in each.tag.statements):
            return tuple(news)
        left, found = count(_MOST_STAYS, -1), []

        def with_stays(one: Statement, before: Side, after: Side) -> Statement:
            if past is None or one.kind not in _REMOVED or before.tag != after.tag:
                return one
            stays = (past.stay(line, before, after) if next(left) > 0 else line.stay for line in one.lines)
            lines = (replace(line, stay=stay) for line, stay in zip(one.lines, stays, strict=True))
            return replace(one, lines=tuple(lines))

        with self._past() as past:
            for each, pair in zip(news, pairs, strict=True):
                statements = tuple(with_stays(one, pair.before, pair.after) for one in each.tag.statements)
                found.append(replace(each, tag=replace(each.tag, statements=statements)))
        return tuple(found)

    @contextmanager
    def _past(self) -> Iterator[Any]:
        """Yield the recorded history of the source, or None if there is no history index."""
        past = extensions().hook.past(repository=self.repository, log=self.context.log.bind(source=self.source.name))
        with nullcontext() if past is None else closing(past):
            yield past

    def _tag_news(self, comparison: Comparison, selection: Selection, room: int | None, based_on: Hashable) -> TagNews:
        """Return the news of the tag in `comparison`, as `selection` selects it.

        `room` is the most bytes that the attached table may have; None means no table. `based_on` is part of the
        key by which equal comparisons share their news: it names what took the place of documents of the earlier revision.
        """
        (pair,) = comparison.pairs
        find = partial(self._news, comparison, selection, room, based_on)
        # The packages that patterns chose, not the patterns, so that subscriptions can share the news.
        asked = room is None and (
            (self.source.name, self.context.today(), based_on, pair.before, pair.after, pair.is_new_tag),
            (comparison.revisions_between, comparison.diagnostics),
            tuple([document.package for document in pair.difference.documents]),
            (len(pair.difference.others), pair.difference.packages),
            (pair.difference.diagnostics, pair.difference.unreadable),
            (selection.of_specs, selection.kinds.patterns),
        )
        news: TagNews = self.comparisons.remembered.recall(asked, find) if asked else find()
        # Events of whole tags concern the stream, whichever packages they happen to.
        is_open = selection.packages.is_open and selection.takes_all_specs and self.environment is None
        if news.suspicion or is_open or self.stream.changes <= _OF_WHOLE_TAGS:
            return news
        return replace(news, tag=without_suspicion(news.tag))

    def _news(self, comparison: Comparison, selection: Selection, room: int | None, based_on: Hashable) -> TagNews:
        (pair,) = comparison.pairs
        name = pair.after.tag or pair.before.tag or ""
        silencing = self.silencing(name)
        # Each batch has a collector of its own.
        make_collector = partial(silencing.body, partial(DigestCollector, has_table=room is not None))
        changeset = self.comparisons.changeset(self.source.name, comparison, selection, make_collector, based_on)
        reported = silencing.reported(changeset)
        tag = read_tag_digest(
            reported, source=self.source.name, wants=silencing.wants, wants_line=silencing.wants_line, room=room
        )
        tag = replace(tag, statements=tuple(silencing.told(tag.statements)), silenced=frozenset(silencing.hidden))
        tag = self._with_causes(tag, pair, selection)
        if pair.is_new_tag and not any(one.kind is StatementKind.TAG_ADDED for one in all_statements(tag)):
            tag = with_statements(tag, [tag_added(name)], silencing.wants)
        if pair.is_lost_tag and (left := self._left_after(name)):
            told = (replace(one, after=(left,)) if one.name == name else one for one in tag.statements)
            tag = replace(tag, statements=tuple(told))
        is_hidden = not self.silencing(name, lambda *_: True).wants({Kind.SUSPICIOUS})
        is_touched = any(reported.report.own_kinds)  # whether it is reported or not
        return TagNews(tag, name, reported.report.suspicion if is_touched and not is_hidden else "", silencing.silenced)

    def _left_after(self, tag: str) -> str:
        """Return what users of the removed `tag` can go back to: an older snapshot, else its branch; "" without either."""
        there, branch = tags_of(self.repository, self.newest).ids, tag_names.series(tag) or ""
        snapshots = (name for name in there if tag_names.is_snapshot(name) and tag_names.series(name) == branch)
        left = max(snapshots, key=version_key, default=branch)
        return left if left in there and version_key(left) < version_key(tag) and tag_names.is_snapshot(tag) else ""

    def _with_causes(self, tag: TagDigest, pair: TagPair, selection: Selection) -> TagDigest:
        """Return `tag` with the causes of rebuilt specs, if the source records dependency graphs."""
        causes = extensions().hook.causes(repository=self.repository)
        if causes is not None:
            log, remember = self.context.log.bind(source=self.source.name), self.comparisons.recall
            tag = causes.of_digest(tag, pair, selection, isolation=self.isolation, remember=remember, log=log)
        return tag

    def selection(self) -> Selection:
        """Return the stream's selection; systems and targets that it leaves open come from its environment, if any."""
        always = ALWAYS_REPORTED & CAN_BE_URGENT if self.stream.is_urgent else ALWAYS_REPORTED
        selection = selection_of(self.stream.subscription.match, self.stream.changes | always)
        if self.environment is None:
            return selection
        oses, targets = _exactly(self.environment.oses), _exactly(self.environment.targets)
        return replace(
            selection,
            oses=oses if selection.oses.is_open else selection.oses,
            targets=targets if selection.targets.is_open else selection.targets,
        )

    def wants_package(self) -> Callable[[str], bool]:
        """Return a function that takes the name of a package and tells whether the stream selects the package."""
        packages = Globs(self.stream.subscription.match.packages)
        if self.environment is None:
            return packages
        needed = self.environment.packages
        return lambda package: package in needed and packages(package)

    def silencing(self, tag: str, wants: Wants | None = None) -> Silencing:
        """Return the silences active for a tag; `wants` accepts kinds of change to report (None: as selected)."""
        silences, day = self.context.config.silences, self.context.today()
        return Silencing(silences, wants or self.selection().wants, source=self.source.name, tag=tag, day=day)

    def coverage(self, bases: Bases, restored: Restored) -> tuple[Coverage, Coverage] | None:
        """Return what the cache had of the environment at the last report, and has now; None without an environment.

        For `bases` and `restored`, see `compared`.
        """
        if self.environment is None:
            return None
        told = {tag: gap.base for gap in self.ranges.ranges for tag in gap.tags}
        before = [replace(told.get(tag, self.newest), tag=tag) for tag in self.ranges.places]
        after = [replace(self.newest, tag=tag) for tag in self.ranges.places]
        had, has = cover_both(
            self.repository, self.environment, before, after, bases=bases, restored=restored, isolation=self.isolation
        )
        lock, log = self.stream.subscription.match.environment, self.context.log.bind(source=self.source.name)
        causes = extensions().hook.causes(repository=self.repository)
        if causes is not None and after:  # with the causes of changed hashes, if the source records dependency graphs
            has = causes.of_environment(
                has,
                lock,
                folders=self.context.config.environment_folders,
                tags=tuple((self.newest.commit, tag) for tag in self.ranges.places),
                isolation=self.isolation,
                warn=lambda said: log.warning("causes.unknown", environment=lock, error=said),
            )
        return had, has

    def left(self, bases: Bases, news: Iterable[TagNews]) -> Iterator[tuple[tuple[str, str, Need], Resolution]]:
        """Yield (source, tag, build) and the present state of each build that readers are still asked to act on.

        `news` shows which stacks were renamed. For `bases`, see `compared`.
        """
        renamed = {
            (each.name, old): one.after[0]
            for each in news
            for one in each.tag.report.statements
            if one.kind is StatementKind.STACK_MERGED
            for old in one.before
        }
        tasks = [one.task for one in self.state.remembered.actions if one.task is not None]
        for tag, base in ((tag, gap.base) for gap in self.ranges.ranges for tag in sorted(gap.tags)):
            found = {need for one in tasks if (one.source, one.tag) == (self.source.name, tag) for need in one.needs}
            if found and self.ranges.places.get(tag) is not None:
                own = {need: replace(need, stack=renamed.get((tag, need.stack), need.stack)) for need in found}
                needed = Environment(name=tag, needs=tuple(sorted({*own.values()}, key=lambda need: need.sort_key)))
                before, after = (replace(side, tag=tag) for side in (base, self.newest))
                sides = cover_both(self.repository, needed, [before], [after], bases=bases, isolation=self.isolation)
                now = {one.need: one for one in sides[1].needs}
                yield from (((self.source.name, tag, need), now[one]) for need, one in own.items())

    def kept(self, known: Iterable[Resolution], news: Iterable[TagNews]) -> Mapping[Need, Home]:
        """Return, by build, a snapshot in which readers still find a lost build, or at least a newer version.

        Lost are builds that `known` has as missing, or that `news` reports as gone, downgraded or soon pruned.
        """
        lost = {one.need: one.suggestion for one in known if one.left is Nearest.NONE}
        for one in news if self.environment is None else ():
            statements = one.tag.statements if one.tag.report.before.tag == one.tag.report.after.tag else ()
            names = {package for each in statements for package in each.packages}
            older = {
                line.package: line.story.pairs[-1][1]
                for each in statements
                for line in each.lines
                if each.kind is StatementKind.DOWNGRADED and line.story.pairs
            }
            fallen = (lost for each in statements for lost in each.losses if lost.outside and lost.fell_from)
            older |= {lost.package: lost.outside.version for lost in fallen if lost.outside}
            for because in (Because.GONE, Because.GOING, Because.DOWNGRADED):
                own = (need for need in needs_of(because, None, names, statements) if need.version)
                lost |= {need: older.get(need.package, "") for need in own}
        names = set(sorted({need.package for need in lost})[:_MOST_KEPT])
        needs = sorted((need for need in lost if need.package in names), key=lambda need: need.sort_key)
        # For all streams of a pass, most of which lost the same; None where no snapshot has it.
        key = "kept", self.source.name, self.newest.commit
        homes: dict[tuple[Need, str], Home | None] = self.comparisons.recall(key, dict)
        if unknown := tuple(need for need in needs if (need, lost[need]) not in homes):
            homes |= dict.fromkeys(((need, lost[need]) for need in unknown), None)
            snapshots = filter(tag_names.is_snapshot, tags_of(self.repository, self.newest).ids)
            for tag in sorted(snapshots, key=version_key)[-_MOST_SNAPSHOTS:]:
                needed, there = Environment(name="", needs=unknown), replace(self.newest, tag=tag)
                _, has = cover_both(self.repository, needed, [], [there], isolation=self.isolation)
                for covered in has.needs:
                    need, version = covered.need, lost[covered.need]
                    had = homes[need, version]
                    if covered.nearest is not Nearest.NONE:
                        homes[need, version] = Home(tag, need.version)
                    elif is_newer(covered.suggestion, version) and not (had and had.version == need.version):
                        homes[need, version] = Home(tag, covered.suggestion)
        return {need: home for need in needs if (home := homes[need, lost[need]])}

    def alternative(self) -> Alternative | None:
        """Return the snapshot with most binaries of the environment; None if there is none, or no history index."""
        if self.environment is None or self.stream.is_urgent:
            return None
        with self._past() as past:
            found: Alternative | None = past and past.alternative(self.environment.hashes)
        return found

    def lacks_pin(self) -> bool:
        """Tell whether this source never had the pinned snapshot; False if none is pinned, and for urgent digests."""
        tag = self.stream.subscription.match.pinned
        if tag is None or self.stream.is_urgent or self.state.remembered.pin(self.source.name, tag) is not None:
            return False
        sides = (self.newest, *(gap.base for gap in self.ranges.ranges))
        return not any(tag in tags_of(self.repository, side).ids for side in sides)

    def pinned(self, learned: list[Memory]) -> Pinned | None:
        """Return the state of the pinned snapshot, and what readers gain and lose by a move to a newer one.

        Return None for urgent digests, without a pin, if the source never had the snapshot, or if a digest reported
        that the snapshot is gone. Otherwise, append to `learned` what to remember of the snapshot.
        """
        tag = self.stream.subscription.match.pinned
        if tag is None or self.stream.is_urgent:
            return None
        seen = self.state.remembered.pin(self.source.name, tag)
        bases = [gap.base for gap in self.ranges.ranges]
        pin, known = _find_pin(self.repository, (self.source.name, tag), self.newest, bases, seen)
        if pin is None or known is None or (pin.is_gone and known.is_reported_gone):
            return None
        learned.append(replace(known, is_reported_gone=pin.is_gone))
        if not pin.newest or not is_there(self.repository, known.revision):
            return pin
        before = replace(resolve(self.repository, known.revision), tag=tag)
        first = self._with_move(pin, before, pin.newest)
        if not (pin.is_gone or pin.is_ending) or not lost_by_moving(first)[0]:
            return first
        # The newest of the other snapshots to which a move loses nothing.
        older = (name for name in pin.others if not lost_by_moving(self._with_move(pin, before, name))[0])
        return replace(first, best=next(older, ""))

    def _with_move(self, pin: Pinned, before: Revision, to: str) -> Pinned:
        """Return `pin` with what a move from it (in the revision `before`) to the snapshot `to` gains and loses."""
        after = replace(self.newest, tag=to)
        if self.environment is not None:
            held = cover_both(self.repository, self.environment, [before], [after], isolation=self.isolation)
            return replace(pin, move=compare_coverage(*held))
        whole = next(iter(self.compared(before, after, lambda _: True)), None)
        return replace(pin, statements=whole.tag.statements if whole is not None else None)


def _exactly(found: Set[str]) -> Globs:
    """Return patterns that match only the names `found`, or everything if one of these has special characters."""
    return Globs(sorted(found)) if all(map(_PLAIN.fullmatch, found)) else Globs()


def without_suspicion(tag: TagDigest) -> TagDigest:
    """Return `tag` without the event and statement about a suspicious loss."""
    events = tuple(event for event in tag.report.events if event.kind is not Kind.SUSPICIOUS)
    statements = tuple(one for one in tag.statements if one.kind is not StatementKind.SUSPICIOUS)
    return replace(tag, report=replace(tag.report, events=events), statements=statements)


def _wants_nothing(_: Set[Kind]) -> bool:
    """Return False, to want no kind of change; this is no lambda because it is sent to a worker."""
    return False


def _find_pin(
    repository: Repository, place: tuple[str, str], newest: Revision, bases: Sequence[Revision], seen: SeenPin | None
) -> tuple[Pinned | None, SeenPin | None]:
    """Return the state of the snapshot `place` (source, tag) in `newest`, and what to remember of it.

    `bases` are the revisions reported last; `seen` is what was remembered. Both results are None if it was never seen.
    """
    source, tag = place
    own = tag_names.series(tag)

    def series(revision: Revision) -> list[str]:  # oldest first; only the tag itself if it has no series
        names = tags_of(repository, revision).ids
        return sorted(
            (n for n in names if n == tag or (own is not None and tag_names.series(n) == own)), key=version_key
        )

    now, snapshots = series(newest), {base.commit: series(base) for base in bases}
    last = now[-1] if now else ""
    if tag not in now:
        had = next((commit for commit, names in snapshots.items() if tag in names), None)
        known = seen or (SeenPin(source=source, tag=tag, revision=had) if had else None)
        newer = [name for name in reversed(now[:-1]) if version_key(name) > version_key(tag)]
        gone = Pinned(tag=tag, source=source, is_gone=True, newest=last, others=tuple(newer), is_news=True)
        return (gone if known else None), known
    pin = _placed(source, tag, now)
    earlier = [_placed(source, tag, names) for names in snapshots.values() if tag in names]
    is_newer = last != tag and any(last not in names for names in snapshots.values())
    is_ending = pin.is_ending and not all(one.is_ending for one in earlier)
    return replace(pin, is_news=is_newer or is_ending), SeenPin(source=source, tag=tag, revision=newest.commit)


def _placed(source: str, tag: str, series: Sequence[str]) -> Pinned:
    at = series.index(tag)
    newest, newer = series[-1] if series[-1] != tag else "", len(series) - at - 1
    others = tuple(reversed(series[at + 1 : -1]))
    is_ending = newer > 1 and at <= 1  # where old snapshots are deleted, the two oldest are next, if several are newer
    return Pinned(tag=tag, source=source, newest=newest, others=others, newer=newer, older=at, is_ending=is_ending)
