"""The streams of a subscription, their stored state, the revisions to compare, and what is selected and silenced.

The regular and the urgent stream have cursors and slots of their own, so the regular digest repeats what the urgent one
reported. A silence hides changes of a package if it matches every changed spec of the package, else none of them.
"""

import shlex
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date, datetime

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.schedules_and_quiet_times import Schedule, parse_when
from cachewatch.config.settings_and_subscriptions import Config, Match, Silence, Subscription
from cachewatch.config.sources_and_channels import Source
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.waits_and_reminders import Remembered
from cachewatch.core.changesets import Changeset, Collector
from cachewatch.core.filters_and_spec_patterns import GROUPS, Globs, Selection, select
from cachewatch.core.kinds_and_specs import Kind, PackageChange, grouped
from cachewatch.core.statement_kinds import OF_VALUES, Line, Statement
from cachewatch.core.statements import OF_STACKS, Wants, is_wanted, without_packages
from cachewatch.errors import DamagedRow, UnknownRevision
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, is_there, resolve
from cachewatch.git.tags_and_documents import tags_of
from cachewatch.report.digest_and_message_values import Span
from cachewatch.report.digests.subject import day_of
from cachewatch.store import cursors_and_remembered as cursors
from cachewatch.store import digests_and_holds as digests
from cachewatch.store import health_and_alerts as health
from cachewatch.store.cursors_and_remembered import Advance, Cursor, Position, Unread
from cachewatch.store.digests_and_holds import DigestState, DigestSummary, Hold, Slot
from cachewatch.store.health_and_alerts import AlertKey, AlertKind, SourceHealth
from cachewatch.store.schema import filled
from cachewatch.store.transactions_and_sqlite import Connection

REGULAR = "regular"
URGENT = "urgent"


class Stream(Struct, frozen=True, kw_only=True):
    """The regular or the urgent digests of a subscription: what they select, when they are due, and who gets them."""

    subscription: Subscription
    name: str
    changes: frozenset[Kind]
    channels: tuple[str, ...]
    to: tuple[str, ...]
    schedule: Schedule
    sources: tuple[Source, ...]

    @property
    def is_each_revision(self) -> bool:
        """Whether a digest is due with each new revision instead of at scheduled times."""
        return not self.schedule.lines

    @property
    def schedule_text(self) -> str:
        """The schedule as text; it is stored with a pending slot to notice a change of the schedule."""
        return " | ".join((self.schedule.zone, *self.schedule.lines))

    def wants_tag(self, source: Source) -> Callable[[str], bool]:
        """Return a function that tells whether a tag of `source` belongs to this stream."""
        of_source, of_match = Globs(source.tags), Globs(self.subscription.match.tags)
        return lambda tag: of_source(tag) and of_match(tag)

    def depends_on(self, sources: Collection[str]) -> bool:
        """Tell whether any of the named `sources` is a source of this stream."""
        return any(source.name in sources for source in self.sources)

    @property
    def is_urgent(self) -> bool:
        """Whether this is the urgent stream of its subscription."""
        return self.name == URGENT


def streams_of(config: Config) -> Iterator[Stream]:
    """Yield every stream of every subscription."""
    for subscription in config.subscriptions.values():
        wanted = Globs(subscription.match.sources)
        sources = tuple(source for source in config.sources.values() if wanted(source.name))
        of, when = {"subscription": subscription, "sources": sources}, parse_when(subscription.when, config.timezone)
        yield filled(Stream, subscription, name=REGULAR, schedule=when, **of)
        if urgent := subscription.urgent:
            at_once, to = parse_when("each revision", config.timezone), urgent.to or subscription.to
            yield filled(Stream, urgent, name=URGENT, schedule=at_once, to=to, **of)


class StreamState(Struct, frozen=True, kw_only=True):
    """The stored state of one stream."""

    sources: Mapping[str, SourceHealth]
    positions: Mapping[str, Position]  # by source; only of those with which the stream has begun
    remembered: Remembered  # what its subscription remembers of earlier digests
    slot: Slot | None  # when it is due next
    holds: tuple[Hold, ...]  # the reasons why its digest is held for operators
    held: tuple[str, ...]  # the keys of its held digests
    held_advances: frozenset[Advance]  # how the cursors move if the held digests are released
    digests: tuple[DigestSummary, ...]  # all stored digests of its subscription
    is_failing: bool  # an alert is open because its digests cannot be created

    def begun_with(self, advances: Iterable[Advance]) -> "StreamState":
        """Return a copy of the state with the positions of `advances`, at which the stream begins in new sources."""
        begun = {
            each.source: Position(
                revision=each.revision,
                cursors={step.tag: Cursor(step.revision) for step in each.tags if step.revision is not None},
                unread={step.tag: step.unread for step in each.tags if step.unread},
            )
            for each in advances
        }
        return replace(self, positions={**self.positions, **begun})

    @property
    def has_news(self) -> bool:
        """Whether some source has a revision that no digest of the stream covers, sent or held."""
        held = {each.source: each.revision for each in self.held_advances}
        covered = {name: held.get(name, position.revision) for name, position in self.positions.items()}
        return any(self.sources[name].revision not in (None, revision) for name, revision in covered.items())


def read_stream(connection: Connection, stream: Stream) -> StreamState:
    """Return the stored state of a stream."""
    of = stream.subscription.name, stream.name
    known = digests.known(connection, of[0])
    held = tuple(each.key for each in known if each.stream == stream.name and each.state is DigestState.HELD)
    held_advances: frozenset[Advance] = frozenset()
    with suppress(DamagedRow):  # a digest made anew then takes its place
        held_advances = frozenset(advance for key in held for advance in digests.advances(connection, key))
    positions = {each.name: cursors.position_of(connection, *of, each.name) for each in stream.sources}
    return StreamState(
        sources={each.name: health.source(connection, each.name) for each in stream.sources},
        positions={name: position for name, position in positions.items() if position is not None},
        remembered=cursors.remembered_by(connection, of[0]),
        slot=digests.pending(connection, subscription=of[0], stream=of[1]).get(of),
        holds=digests.holds_of(connection, *of),
        held=held,
        held_advances=held_advances,
        digests=known,
        is_failing=health.get(connection, AlertKey(AlertKind.DIGEST_FAILED, *of)) is not None,
    )


def is_current(stream: Stream, slot: Slot | None, now: datetime) -> bool:
    """Tell whether `slot` belongs to the configured schedule, and was not planned by a clock that was ahead."""
    next_one = stream.schedule.next_after(now)
    return slot is not None and slot.schedule == stream.schedule_text and (next_one is None or slot.due <= next_one)


def streams_to_look_at(connection: Connection, streams: Iterable[Stream], now: datetime) -> list[Stream]:
    """Return the `streams` that have work at `now` (begin, plan or create a digest), a held digest or an open alert."""
    newest, compared = health.newest_revisions(connection), cursors.compared_revisions(connection)
    slots = digests.pending(connection)
    open_matters = {(each.key.name, each.key.part) for each in health.all_open(connection)}
    open_matters |= digests.streams_held(connection)

    def is_to_look_at(stream: Stream) -> bool:
        name = stream.subscription.name, stream.name
        if name in open_matters:
            return True
        revisions = [
            (compared.get((*name, each.name)), newest[each.name]) for each in stream.sources if each.name in newest
        ]
        if stream.is_each_revision:
            return any(before != after for before, after in revisions)
        slot = slots.get(name)
        is_due = slot is None or slot.due <= now or not is_current(stream, slot, now)
        return is_due or any(before is None for before, _ in revisions)

    return list(filter(is_to_look_at, streams))


class PendingRange(Struct, frozen=True, kw_only=True):
    """Tags whose cursors are at the same revision, from which they are compared."""

    base: Revision
    tags: frozenset[str]


class PendingRanges(Struct, frozen=True, kw_only=True):
    """All tags of a stream to compare with the newest revision of a source, and where their cursors move to."""

    ranges: tuple[PendingRange, ...]
    places: Mapping[str, str | None]  # the new revision of each tag's cursor; None where the tag is gone
    lost: tuple[str, ...] = ()  # revisions of cursors that no longer exist, so what changed since then is unknown
    vanished: tuple[str, ...] = ()  # all tags of the stream, if all of them vanished together


def plan_ranges(
    repository: Repository, position: Position, newest: Revision, *, wanted: Callable[[str], bool]
) -> PendingRanges:
    """Return which tags of a stream to compare with `newest`, and from which revisions; `wanted` selects the tags.

    A tag without a cursor is new if the revision that the stream was compared with last did not have it; else the
    selection was widened, and the tag begins at the newest revision. A tag that is back is compared with its last
    reported state.
    """
    told = {cursor.revision for cursor in position.cursors.values()}
    told |= {entry.base for entries in position.unread.values() for entry in entries}
    others = sorted(revision for revision in told - {newest.commit} if is_there(repository, revision))
    there = frozenset(filter(wanted, tags_of(repository, newest, others).ids))
    known = {tag: cursor for tag, cursor in position.cursors.items() if wanted(tag)}
    due = {
        tag: cursor.revision
        for tag, cursor in known.items()
        if (tag in there if cursor.vanished_at is not None else tag not in there or cursor.revision != newest.commit)
    }
    new = there - known.keys()
    if new and is_there(repository, position.revision):
        new -= tags_of(repository, resolve(repository, position.revision)).ids.keys()
    due |= dict.fromkeys(new, position.revision)
    behind = grouped((revision, tag) for tag, revision in due.items())
    lost = {revision for revision in behind if not is_there(repository, revision)}
    gone = {tag for tag, cursor in known.items() if cursor.vanished_at is None} - there
    gaps = [PendingRange(base=resolve(repository, at), tags=frozenset(behind[at])) for at in behind if at not in lost]
    return PendingRanges(
        ranges=tuple(sorted(gaps, key=lambda gap: sorted(gap.tags))),
        places={**dict.fromkeys(there, newest.commit), **dict.fromkeys(gone)},
        lost=tuple(sorted(lost)),
        vanished=_vanished_together(repository, gone, known, newest),
    )


def _vanished_together(
    repository: Repository, gone: set[str], known: Mapping[str, Cursor], newest: Revision
) -> tuple[str, ...]:
    """Return the tags in `gone` if all in `known` vanished, and not because newer snapshots replaced them; else ()."""
    if not gone or any(cursor.vanished_at is None for tag, cursor in known.items() if tag not in gone):
        return ()
    going_on = {tag_names.series(tag) for tag in tags_of(repository, newest).ids if tag_names.is_snapshot(tag)}
    if all(tag_names.is_snapshot(tag) and tag_names.series(tag) in going_on for tag in gone):
        return ()  # snapshots of series that go on were retired as usual
    return tuple(tag_names.in_order(gone))


def first_revision(repository: Repository, source: Source, newest: Revision) -> Revision:
    """Return where a stream begins: at `since:` of `source`, at `newest` or, for `first_run: report`, one before it."""
    if source.since is not None:
        try:
            return resolve(repository, source.since)
        except UnknownRevision as error:
            # Where the service keeps its copy helps nobody.
            said = str(error).removeprefix(repository.prefix)
            raise UnknownRevision(f"sources.{source.name}.since: {said}") from error
    with suppress(UnknownRevision):  # there may be only one revision
        return resolve(repository, f"{newest.commit}~1") if source.first_run == "report" else newest
    return newest


_OPTIONS = {"tags": "tag", "packages": "package", "stacks": "stack", "targets": "target", "oses": "os"}
_OPTIONS |= {"compilers": "compiler", "versions": "versions"}


def why(stream: Stream, lock_since: str = "") -> tuple[str, ...]:
    """Return what a subscription selects, in lines; `lock_since` is when its lock file last changed ("" if unknown)."""
    match = stream.subscription.match
    name_of = {"stacks": "only in stacks"} if match.packages else {}
    lines = [f"{name_of.get(key, key)} {', '.join(patterns)}" for key, patterns in _patterns(match)]
    if match.environment is not None:
        day = lock_since and day_of(lock_since)
        known = f" (unchanged since {day}; give cachewatch the new one when you have it)" if day else ""
        lines.append(f"environment {match.environment.name}{known}")
    if match.pinned is not None:
        lines.append(f"pinned {match.pinned}")
    return (*lines, f"changes {', '.join(_kinds(stream.changes))}")


def commands(stream: Stream, spans: Sequence[Span], resolved: Mapping[str, Collection[Unread]]) -> Iterator[str]:
    """Yield commands that show the changes in `spans`, and in documents readable again (`resolved`, by tag)."""
    yield from (command(stream, span) for span in spans)
    if stream.subscription.match.environment is not None:
        return
    found = ((tag, entry) for tag, entries in sorted(resolved.items()) for entry in entries)
    by_base = grouped(((tag, entry.base), entry.package) for tag, entry in found if entry.base_tag == tag)
    for (tag, base), packages in by_base.items():
        yield command(stream, spans[0], base, {"tags": (tag,), "packages": tuple(sorted(packages))})


def command(stream: Stream, span: Span, base: str = "", only: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return the command that shows the changes of `span`; "" if its source has no public address.

    `base` replaces the first revision unless it is ""; `only` has patterns, by key, that replace those of `match:`.
    """
    if not span.address:
        return ""
    before, after = base or span.before.revision or span.before.name, span.after.revision or span.after.name
    match = stream.subscription.match
    if match.environment is not None:
        # `diff` would need a filter for each of its packages, of which there may be hundreds.
        words = ["cachewatch", "coverage", match.environment.name, "--repo", span.address, "--rev", after[:12]]
        is_one_tag = len(match.tags) == 1 and not set(match.tags[0]) & set("*?[]!/")
        return shlex.join([*words, *(["--tag", *match.tags] if is_one_tag else [])])
    words = ["cachewatch", "diff", before[:12], after[:12], "--repo", span.address]
    for key, patterns in {**dict(_patterns(match)), **(only or {})}.items():
        words += [f"--{_OPTIONS[key]}={pattern}" for pattern in patterns]
    words += [f"--kind={pattern}" for pattern in _kind_patterns(stream.changes)]
    return shlex.join(words)


def _kinds(changes: frozenset[Kind]) -> list[str]:
    """Return kinds as a configuration writes them, in the fewest words: default, +rebuilt, -compiler."""
    ways = [
        [
            word,
            *(f"{plus}{kind}" for kind in sorted(changes - kinds)),
            *(f"-{kind}" for kind in sorted(kinds - changes)),
        ]
        for word, kinds in GROUPS.items()
        for plus in ["+" if word == "default" or kinds - changes else ""]
    ]
    return min([*ways, sorted(changes)], key=len)


def _kind_patterns(changes: frozenset[Kind]) -> list[str]:
    """Return arguments of `--kind` that select `changes`: `KIND` beyond the default ones, `!KIND` for one left out."""
    signs = {"+": "", "-": "!"}
    return [f"{signs.get(kind[0], kind[0])}{kind[1:]}" for kind in _kinds(changes)]


def _patterns(match: Match) -> list[tuple[str, tuple[str, ...]]]:
    return [(key, patterns) for key in _OPTIONS if (patterns := getattr(match, key))]


def in_a_row(failures: int) -> str:
    """Return in words that something failed `failures` times."""
    return "failed once" if failures == 1 else f"failed {failures} times in a row"


def selection_of(match: Match, kinds: frozenset[Kind] | None = None) -> Selection:
    """Return the selection of a subscription or a silence; `kinds=None` selects every kind."""
    return select(**dict(_patterns(match)), kinds=() if kinds is None else _kind_patterns(kinds))


class _CompiledSilence(Struct, frozen=True):
    name: str
    kinds: frozenset[Kind]
    selection: Selection

    def covers(self, change: PackageChange) -> bool:
        """Tell whether the silence matches every spec of the package that changed."""
        if not self.selection.packages(change.package):
            return False
        in_any_stack, silenced = replace(self.selection, stacks=Globs()), self.selection.stacks
        # Each changed signature, with the stacks whose subscriptions report it.
        concerned = [(each, each.stacks) for match in change.matches for each in (match.before, match.after)]
        concerned += ((alike.signature, alike.signature.stacks) for alike in (*change.gone, *change.new))
        concerned += ((kept.after, (*kept.gained, *kept.lost)) for kept in change.restacked)
        # A spec in several stacks is hidden only if all of them are silenced.
        return self.selection.takes_all_specs or all(
            (silenced.is_open or (bool(stacks) and all(map(silenced, stacks)))) and in_any_stack.chooses(signature)
            for signature, stacks in concerned
        )


class Silencing:
    """The silences that are active for one tag of one source on one day."""

    def __init__(self, silences: Iterable[Silence], wants: Wants, *, source: str, tag: str | None, day: date) -> None:
        """Compile the silences that are active; `wants` tells which kinds are reported if nothing is silenced."""
        self._wants = wants
        self._silences = [
            _CompiledSilence(silence.name, silence.changes or frozenset(Kind), selection_of(silence.match))
            for silence in silences
            if silence.is_active(day) and Globs(silence.match.sources)(source) and Globs(silence.match.tags)(tag or "")
        ]
        # Complete when all results were read: silences with packages, and the hidden kinds by package.
        self.silenced: set[tuple[str, str]] = set()
        self.hidden: dict[str, frozenset[Kind]] = {}
        # A silence that covers whole tags also covers the events of tags.
        whole = [one for one in self._silences if one.selection.packages.is_open and one.selection.takes_all_specs]
        self._everywhere = frozenset(kind for silence in whole for kind in silence.kinds)

    def wants(self, kinds: Set[Kind], own: Set[Kind] = frozenset()) -> bool:
        """Tell whether an event of the whole tag is reported; `own` are those of `kinds` by which reports name it."""
        return self._wants(kinds, own) and _is_wanted(self._wants, kinds, self._everywhere)

    def body(self, make_collector: Callable[[Wants], Collector]) -> Collector:
        """Return a collector that passes all but silenced changes to one made by `make_collector`; see `reported`."""
        return _SilencedCollector(self._silences, self._wants, make_collector)

    def reported(self, changeset: Changeset) -> Changeset:
        """Return `changeset` with the results of the collectors that `body` wraps; note in `self` what silences hid."""

        def open_body(taken: tuple[object, set[tuple[str, str]], Mapping[str, frozenset[Kind]]]) -> object:
            body, silenced, kinds = taken
            self.silenced |= silenced
            self.hidden.update(kinds)
            return body

        return changeset.mapped(open_body)

    def wants_line(self, line: Line) -> bool:
        """Tell whether a line of a statement is reported; call this only when all results of collectors were read."""
        hidden = self.hidden.get(line.package, frozenset())
        return is_wanted(line, self._wants) and _is_wanted(self._wants, line.kinds, hidden)

    def told(self, statements: Iterable[Statement]) -> Iterator[Statement]:
        """Yield `statements`; from those on stacks or changed values, remove packages that are wholly silenced."""
        for one in statements:
            kinds: defaultdict[str, set[Kind]] = defaultdict(set)  # by package
            if one.kind in (*OF_STACKS, *OF_VALUES):
                kinds |= {name: set() for name in one.packages}
                for line in one.lines:
                    kinds[line.package] |= line.kinds
                for lost in one.losses:
                    kinds[lost.package] |= lost.kinds
            silenced = {name for name, hidden in self.hidden.items() if name in kinds and kinds[name] <= hidden}
            if not silenced:
                yield one
            elif (left := without_packages(one, silenced)).packages:
                yield left


class _SilencedCollector:
    """Passes changes on to another collector, without the silenced ones."""

    def __init__(
        self, silences: Iterable[_CompiledSilence], wants: Wants, make_collector: Callable[[Wants], Collector]
    ) -> None:
        self._silences = silences
        self._wants = wants
        self._hidden: frozenset[Kind] = frozenset()  # of the package that is added now
        self._packages: set[tuple[str, str]] = set()  # each with the silence that hides something of it
        self._kinds: dict[str, frozenset[Kind]] = {}
        self._body = make_collector(self._wants_now)

    def add(self, change: PackageChange) -> None:
        """Pass a package on, unless silences cover everything in it that would be reported."""
        silences = [
            silence
            for silence in self._silences
            if (silenced := change.kinds & silence.kinds) and self._wants(silenced) and silence.covers(change)
        ]
        self._packages.update((silence.name, change.package) for silence in silences)
        self._hidden = frozenset(kind for silence in silences for kind in silence.kinds)
        if self._hidden:
            self._kinds[change.package] = self._hidden
        if self._wants_now(change.kinds):
            self._body.add(change)

    def take(self) -> tuple[object, set[tuple[str, str]], Mapping[str, frozenset[Kind]]]:
        """Return the other collector's result, pairs of a silence and a package it hid, and hidden kinds by package."""
        return self._body.take(), self._packages, self._kinds

    def _wants_now(self, kinds: Set[Kind]) -> bool:
        return _is_wanted(self._wants, kinds, self._hidden)


def _is_wanted(wants: Wants, kinds: Set[Kind], hidden: Set[Kind]) -> bool:
    """Tell whether a change is reported: `wants` must accept the set `kinds`, and again the set without `hidden`."""
    left = kinds - hidden
    return wants(kinds) and (left == kinds or (bool(left) and wants(left)))
