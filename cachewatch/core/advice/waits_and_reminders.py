"""What a subscription remembers for later digests: removals, requested actions, announced prunes and pins."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.advice.verbs_and_reasons import LOCK_FILES, OF_LOCK_FILE, Action, Verb


class DepartureKind(StrEnum):
    """What was removed and may come back: a tag, a stack, packages, or places of packages (or machines there)."""

    TAG = "tag"
    STACK = "stack"
    PACKAGE = "package"
    PLACE = "place"


class Point(Struct, frozen=True):
    """A tag in one revision, and the day of that revision (UTC)."""

    revision: str
    tag: str
    day: str = ""


class Departure(Struct, frozen=True, kw_only=True, tag="departure"):
    """A removal, by one revision, of a tag, a stack, or packages of a tag or place; the packages may come back."""

    source: str
    tag: str  # for snapshots, their series
    kind: DepartureKind
    # Of the tag, the stack, the package, the place (e4s (zen4)) or the machine there (e4s (rhel8, zen4)); empty for
    # several packages.
    name: str = ""
    last: Point  # the last revision that had it
    first: Point  # the first revision without it
    packages: tuple[str, ...]
    is_suspicious: bool = False  # publishing may have failed
    is_confirmed: bool = False  # operators confirmed that publishing did not fail
    is_settled: bool = False  # it was suspicious for so long that it is reported as a loss
    back: tuple[tuple[str, tuple[str, ...]], ...] = ()  # streams, with the packages that each reported as back
    # The state that each stream had reported before the removal: stream, package ("" for all others) and state.
    told: tuple[tuple[str, str, Point], ...] = ()

    @property
    def key(self) -> str:
        """The key under which the state stores this fact; unique in a subscription."""
        return f"departure {self.source} {self.tag} {self.kind} {self.name} {self.last.revision} {self.first.revision}"

    @property
    def revision(self) -> str | None:
        """The last revision before the removal, which git must keep for later comparisons."""
        return self.last.revision

    def missing(self, stream: str) -> tuple[str, ...]:
        """Return the packages that the digests of `stream` (regular or urgent ones) have not yet reported as back."""
        told = frozenset(dict(self.back).get(stream, ()))
        return tuple(package for package in self.packages if package not in told)

    @property
    def is_waiting(self) -> bool:
        """Whether readers are asked to wait: the removal is suspicious, unconfirmed, and most packages are not back."""
        is_back = len(self.packages) - len(self.left) >= BACK_SHARE * len(self.packages)
        return self.is_suspicious and not (self.is_confirmed or self.is_settled or is_back)

    @property
    def left(self) -> tuple[str, ...]:
        """The packages that no digest has reported as back."""
        there = {package for _, told in self.back for package in told}
        return tuple(package for package in self.packages if package not in there)

    def joined(self, later: "Departure") -> "Departure":
        """Return this removal combined with `later`, which is the same removal as seen by a later digest."""
        back: dict[str, set[str]] = {}
        for stream, packages in (*self.back, *later.back):
            back.setdefault(stream, set()).update(packages)
        return replace(
            later,
            packages=tuple(sorted({*self.packages, *later.packages})),
            is_suspicious=self.is_suspicious or later.is_suspicious,
            is_confirmed=self.is_confirmed or later.is_confirmed,
            is_settled=self.is_settled or later.is_settled,
            back=tuple((stream, tuple(sorted(back[stream]))) for stream in sorted(back)),
            told=tuple({of[:2]: of for of in (*later.told, *self.told)}.values()),
        )


class OpenAction(Struct, frozen=True, kw_only=True, tag="action"):
    """An action that readers were asked to take and whose cause still lasts."""

    source: str = ""
    verb: str
    subject: str
    since: str  # the day of the revision of its cause
    last_repeated: datetime
    lock: str = ""  # checksum of the environment's lock file; if it changes, somebody acted
    task: Action | None = None  # actions of which nobody sees whether they were done
    revision: ClassVar[str | None] = None

    @property
    def key(self) -> str:
        """The key under which the state stores this fact; unique in a subscription."""
        return f"action regular {self.source} {self.verb} {self.subject}"  # by this word, states know it

    def is_repeated(self, now: datetime) -> bool:
        """Tell whether digests repeat the action at `now`: for 28 days; always if on lock files or versions."""
        is_lasting = self.task is not None and (self.task.is_requirement or self.task.because in LOCK_FILES)
        return is_lasting or self.last_repeated >= now - A_MONTH


class AnnouncedWave(Struct, frozen=True, kw_only=True, tag="wave"):
    """The announcement of a digest that the next prune will remove `count` old builds of a tag."""

    source: str
    tag: str
    revision: str  # in which they were announced
    day: str
    count: int

    @property
    def key(self) -> str:
        """The key under which the state stores this fact; unique in a subscription."""
        return f"wave {self.source} {self.tag}"


class SeenPin(Struct, frozen=True, kw_only=True, tag="pin"):
    """A pinned snapshot that a source had at least once."""

    source: str
    tag: str
    revision: str  # the last one with the snapshot
    is_reported_gone: bool = False

    @property
    def key(self) -> str:
        """The key under which the state stores this fact; unique in a subscription."""
        return f"pin {self.source} {self.tag}"


class StillMissing(Struct, frozen=True, kw_only=True, tag="still-missing"):
    """Packages that the digests of `stream` reported as missing in several snapshots in a row, `times` of them."""

    source: str
    series: str
    stream: str
    packages: tuple[str, ...]
    times: int
    revision: ClassVar[str | None] = None

    @property
    def key(self) -> str:
        """The key under which the state stores this fact; unique in a subscription."""
        return f"still-missing {self.source} {self.series} {self.stream}"


class MetBinaries(Struct, frozen=True, kw_only=True, tag="met"):
    """The hashes of all binaries of the environment that a cache ever had."""

    hashes: tuple[str, ...]
    revision: ClassVar[str | None] = None
    key: ClassVar[str] = "met"


A_MONTH = timedelta(days=28)
_LASTING = (*OF_LOCK_FILE, Verb.STAY, Verb.MOVE)  # remembered until its cause ends
BACK_SHARE = 0.9  # of the packages that vanished; if as many returned, it counts as back
Memory = Departure | OpenAction | AnnouncedWave | SeenPin | StillMissing | MetBinaries


class Remembered(Struct, frozen=True):
    """All that a subscription remembers, sorted by key."""

    facts: tuple[Memory, ...] = ()

    def departures(self, source: str, tag: str) -> Iterator[Departure]:
        """Yield the removals from `tag` or, for a snapshot, from its series; the latest first."""
        name = series_or_tag(tag)
        found = [one for one in self.facts if isinstance(one, Departure) and (one.source, one.tag) == (source, name)]
        yield from sorted(found, key=lambda one: (one.first.day, one.key), reverse=True)

    @property
    def suspicions(self) -> tuple[Departure, ...]:
        """The removals for which readers are asked to wait, because publishing may have failed."""
        return tuple(one for one in self.facts if isinstance(one, Departure) and one.is_waiting)

    @property
    def confirmed(self) -> frozenset[tuple[str, str]]:
        """The pairs of source and tag whose last suspicious removal was confirmed by operators."""
        last: dict[tuple[str, str], Departure] = {}
        for fact in self.facts:
            if isinstance(fact, Departure) and fact.is_suspicious:
                place = fact.source, fact.tag
                last[place] = max(last.get(place, fact), fact, key=lambda found: found.first.day)
        return frozenset(place for place, one in last.items() if one.is_confirmed)

    @property
    def actions(self) -> tuple[OpenAction, ...]:
        """The actions that readers were asked to take."""
        return tuple(one for one in self.facts if isinstance(one, OpenAction))

    def repeats_advice(self, still_open: Iterable[Action], now: datetime) -> bool:
        """Tell whether `still_open` has a verb of _LASTING, and no such action was repeated in 28 days before `now`."""
        said = [each.last_repeated for each in self.actions if each.verb in _LASTING]
        return bool(said) and any(each.verb in _LASTING for each in still_open) and max(said) <= now - A_MONTH

    @property
    def met(self) -> frozenset[str]:
        """The hashes of all binaries of the environment that a cache ever had."""
        return frozenset(name for one in self.facts if isinstance(one, MetBinaries) for name in one.hashes)

    def wave(self, source: str, tag: str) -> AnnouncedWave | None:
        """Return the announcement that old builds of `tag` in `source` will be pruned; None if there was none."""
        found = (one for one in self.facts if isinstance(one, AnnouncedWave))
        return next((one for one in found if (one.source, one.tag) == (source, tag)), None)

    def pin(self, source: str, tag: str) -> SeenPin | None:
        """Return what is remembered of the pinned snapshot `tag` of `source`; None if `source` never had this tag."""
        found = (one for one in self.facts if isinstance(one, SeenPin))
        return next((one for one in found if (one.source, one.tag) == (source, tag)), None)

    def still_missing(self, source: str, tag: str, stream: str) -> StillMissing | None:
        """Return what digests of `stream` reported as missing in the series of `tag`; None if that is nothing."""
        found = (one for one in self.facts if isinstance(one, StillMissing))
        wanted = source, series_or_tag(tag), stream
        return next((one for one in found if (one.source, one.series, one.stream) == wanted), None)

    def of_lock(self, lock: str) -> "Remembered":
        """Return the facts, except actions that belong to a lock file with another checksum than `lock`."""
        others = {one.key for one in self.actions if one.verb in OF_LOCK_FILE and one.lock != lock}
        return Remembered(tuple(fact for fact in self.facts if fact.key not in others))

    def learned(self, facts: Iterable[Memory]) -> "Remembered":
        """Return the remembered facts with `facts` of a new digest added; facts with equal keys are merged into one."""
        known = {one.key: one for one in self.facts}
        for one in facts:
            known[one.key] = merged(known.get(one.key), one)
        return Remembered(tuple(known[key] for key in sorted(known)))


def confirmed(facts: Iterable[Memory]) -> tuple[Memory, ...]:
    """Return `facts`, in which all suspicious removals are marked as confirmed by operators."""
    return tuple(
        replace(one, is_confirmed=True) if isinstance(one, Departure) and one.is_suspicious else one for one in facts
    )


def series_or_tag(tag: str) -> str:
    """Return the name under which removals are stored: the series of a snapshot (develop-*), else the tag."""
    own = tag_names.series(tag) if tag_names.is_snapshot(tag) else None
    return f"{own}-*" if own else tag


def merged(known: Memory | None, later: Memory) -> Memory:
    """Return the fact to store when `later` is learned; `known` is the stored fact with the same key, or None."""
    return known.joined(later) if isinstance(known, Departure) and isinstance(later, Departure) else later
