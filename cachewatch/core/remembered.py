"""What a subscription remembers beside its cursors, for the digests that follow: what went, and what was told of it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names as tag_names


class DepartureKind(StrEnum):
    """What can go and come back."""

    TAG = "tag"
    STACK = "stack"
    PACKAGE = "package"


class Point(Struct, frozen=True):
    """A tag in one revision, with the day of the revision (UTC)."""

    revision: str
    tag: str
    day: str = ""


class Departure(Struct, frozen=True, kw_only=True, tag="departure"):
    """What went from a tag in one revision, whether anybody was told of it or not."""

    source: str
    tag: str  # for snapshots, their series
    kind: DepartureKind
    name: str = ""  # of the tag, the stack or the package; empty for several packages
    last: Point  # that had it
    first: Point  # that lacked it
    packages: tuple[str, ...]
    is_suspicious: bool = False  # publishing may have failed
    is_confirmed: bool = False  # the operators said that it did not
    is_settled: bool = False  # it was suspicious for so long that it is told as a loss
    back: tuple[tuple[str, tuple[str, ...]], ...] = ()  # streams, and the packages that each told as back
    told: tuple[tuple[str, str], ...] = ()  # streams, and the revision of which each had told before

    @property
    def key(self) -> str:
        """What names it among all that a subscription remembers."""
        return f"departure {self.source} {self.tag} {self.kind} {self.name} {self.last.revision} {self.first.revision}"

    @property
    def revision(self) -> str | None:
        """The revision that is kept for it."""
        return self.last.revision

    def missing(self, stream: str) -> tuple[str, ...]:
        """Return the packages that a stream has not told as back."""
        told = frozenset(dict(self.back).get(stream, ()))
        return tuple(package for package in self.packages if package not in told)

    @property
    def is_waiting(self) -> bool:
        """Whether readers are to wait, because nobody knows yet if it really went."""
        there = {package for _, told in self.back for package in told}
        is_back = len(there) >= BACK_SHARE * len(self.packages)
        return self.is_suspicious and not (self.is_confirmed or self.is_settled or is_back)

    def joined(self, later: "Departure") -> "Departure":
        """Return what is known of it together with what another digest learned."""
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
            told=tuple(sorted((dict(later.told) | dict(self.told)).items())),
        )


class OpenAction(Struct, frozen=True, kw_only=True, tag="action"):
    """What readers were told to do, while its cause lasts."""

    source: str = ""
    stream: str
    verb: str
    subject: str
    since: str  # the day of the revision of its cause
    last_said: datetime
    lock: str = ""  # checksum of the environment's lock file; another one means that somebody acted
    revision: ClassVar[str | None] = None

    @property
    def key(self) -> str:
        """What names it among all that a subscription remembers."""
        return f"action {self.stream} {self.source} {self.verb} {self.subject}"


class AnnouncedWave(Struct, frozen=True, kw_only=True, tag="wave"):
    """Old builds that were announced to go at some prune."""

    source: str
    tag: str
    revision: str  # in which they were old
    day: str
    count: int

    @property
    def key(self) -> str:
        """What names it among all that a subscription remembers."""
        return f"wave {self.source} {self.tag}"


class SeenPin(Struct, frozen=True, kw_only=True, tag="pin"):
    """A pinned snapshot that was there."""

    source: str
    tag: str
    revision: str  # the last one that had it
    is_told_gone: bool = False

    @property
    def key(self) -> str:
        """What names it among all that a subscription remembers."""
        return f"pin {self.source} {self.tag}"


class StillMissing(Struct, frozen=True, kw_only=True, tag="still-missing"):
    """For how many snapshots a stream said what is still missing from earlier ones."""

    source: str
    series: str
    stream: str
    packages: tuple[str, ...]
    times: int
    revision: ClassVar[str | None] = None

    @property
    def key(self) -> str:
        """What names it among all that a subscription remembers."""
        return f"still-missing {self.source} {self.series} {self.stream}"


class MetBinaries(Struct, frozen=True, kw_only=True, tag="met"):
    """The binaries of the environment that were ever there, by their hashes."""

    hashes: tuple[str, ...]
    revision: ClassVar[str | None] = None
    key: ClassVar[str] = "met"


Fact = Departure | OpenAction | AnnouncedWave | SeenPin | StillMissing | MetBinaries
BACK_SHARE = 0.9  # of what went: then it is back


class Remembered(Struct, frozen=True):
    """All that a subscription remembers, in the order of its keys."""

    facts: tuple[Fact, ...] = ()

    def departures(self, source: str, tag: str) -> Iterator[Departure]:
        """Yield what went from a tag, or from the series of a snapshot, the latest first."""
        name = place_of(tag)
        found = [one for one in self.facts if isinstance(one, Departure) and (one.source, one.tag) == (source, name)]
        yield from sorted(found, key=lambda one: (one.first.day, one.key), reverse=True)

    @property
    def suspicions(self) -> tuple[Departure, ...]:
        """What is missing while nobody knows whether publishing failed."""
        return tuple(one for one in self.facts if isinstance(one, Departure) and one.is_waiting)

    def was_suspicious(self, source: str, days: tuple[str, ...]) -> bool:
        """Tell whether readers were to wait for what a source had on the first of two days and lacked on the second."""
        return any(
            one.is_suspicious and not (one.is_confirmed or one.is_settled)
            for one in self.facts
            if isinstance(one, Departure) and (one.source, (one.last.day, one.first.day)) == (source, days)
        )

    @property
    def confirmed(self) -> frozenset[tuple[str, str]]:
        """The sources and tags of which the operators said that what was missing last really went."""
        last: dict[tuple[str, str], Departure] = {}
        for one in self.facts:
            if isinstance(one, Departure) and one.is_suspicious:
                place = one.source, one.tag
                last[place] = max(last.get(place, one), one, key=lambda found: found.first.day)
        return frozenset(place for place, one in last.items() if one.is_confirmed)

    @property
    def actions(self) -> tuple[OpenAction, ...]:
        """What readers were told to do."""
        return tuple(one for one in self.facts if isinstance(one, OpenAction))

    @property
    def met(self) -> frozenset[str]:
        """The hashes of the environment that were ever there."""
        return frozenset(name for one in self.facts if isinstance(one, MetBinaries) for name in one.hashes)

    def wave(self, source: str, tag: str) -> AnnouncedWave | None:
        """Return the old builds of a tag that were announced."""
        found = (one for one in self.facts if isinstance(one, AnnouncedWave))
        return next((one for one in found if (one.source, one.tag) == (source, tag)), None)

    def pin(self, source: str, tag: str) -> SeenPin | None:
        """Return the pinned snapshot, if it was ever there."""
        found = (one for one in self.facts if isinstance(one, SeenPin))
        return next((one for one in found if (one.source, one.tag) == (source, tag)), None)

    def still_missing(self, source: str, tag: str, stream: str) -> StillMissing | None:
        """Return how often a stream said what is still missing from snapshots of the series of `tag`."""
        found = (one for one in self.facts if isinstance(one, StillMissing))
        wanted = source, place_of(tag), stream
        return next((one for one in found if (one.source, one.series, one.stream) == wanted), None)

    def of_lock(self, stream: str, lock: str) -> "Remembered":
        """Return this without what other streams asked for, or what was asked for with another lock file."""
        kept = (
            one for one in self.facts if not isinstance(one, OpenAction) or (one.stream, one.lock) == (stream, lock)
        )
        return Remembered(tuple(kept))

    def learned(self, facts: Iterable[Fact]) -> "Remembered":
        """Return this with what a digest learns."""
        known = {one.key: one for one in self.facts}
        for one in facts:
            known[one.key] = merged(known.get(one.key), one)
        return Remembered(tuple(known[key] for key in sorted(known)))


def confirmed(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return what is remembered once the operators said that what is missing really went."""
    return tuple(
        replace(one, is_confirmed=True) if isinstance(one, Departure) and one.is_suspicious else one for one in facts
    )


def place_of(tag: str) -> str:
    """Return under which name departures of a tag are remembered: of a snapshot, develop-*, the series that goes on."""
    own = tag_names.series(tag) if tag_names.is_snapshot(tag) else None
    return f"{own}-*" if own else tag


def merged(known: Fact | None, later: Fact) -> Fact:
    """Return what is to be remembered of what is known and what a digest learned later."""
    return known.joined(later) if isinstance(known, Departure) and isinstance(later, Departure) else later
