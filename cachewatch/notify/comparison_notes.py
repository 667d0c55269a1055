"""What the service has to know of a comparison beside its digest: what is suspicious, removed or back.

A comparison passes its packages to a body that notes them before the digest's own body takes them.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from msgspec import Struct

from cachewatch.core.changesets import Changeset, Collector, show
from cachewatch.core.model import Event, Kind, PackageChange, Status
from cachewatch.report.digest import TagDigest
from cachewatch.store.reported_removals import Departure, DepartureKind

# Of one tag, those with most specs first.
_MOST = 1000
_NAMED = 10

Wants = Callable[[Set[Kind]], bool]


class Packages(Struct):
    """The packages of some chunk that a digest tells of."""

    told: int = 0
    gone: list[Departure] = []
    joined: list[Departure] = []

    def join(self, other: "Packages") -> None:
        """Add those of another chunk of the same tag."""
        self.told += other.told
        self.gone = _largest([*self.gone, *other.gone])
        self.joined = _largest([*self.joined, *other.joined])


class TagNotes(Struct, frozen=True, kw_only=True):
    """One tag of one source."""

    tag: str
    told: int  # packages of which something is told
    suspicion: str  # what is suspicious about the whole tag, if something happened to what was asked for
    gone: tuple[Departure, ...]
    joined: tuple[Departure, ...]

    @property
    def facts(self) -> Iterator[str]:
        """Yield what an operator has to know of a loss, a fact each."""
        for kind in DepartureKind:
            names = [each.name for each in self.gone if each.kind is kind]
            if names:
                more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
                yield f"{len(names):,} {kind}{'s' if len(names) > 1 else ''} gone: {', '.join(names[:_NAMED])}{more}"


class TagNews(Struct, frozen=True):
    """What is told of a tag, what is noted of it, and how many packages silences kept from it, by their names."""

    tag: TagDigest
    notes: TagNotes
    hidden: Counter[str]

    @property
    def size(self) -> int:
        """About how much there is of it."""
        tag = self.tag
        statements = (*tag.statements, *tag.rest, *tag.report.statements)
        lines = sum(1 + len(one.lines) + len(one.packages) for one in statements)
        return lines + len(tag.versions) + (len(tag.move.packages) if tag.move is not None else 0)


class NotesCollector:
    """Notes packages on their way to another body."""

    def __init__(self, body: Collector, wants: Wants) -> None:
        """`wants` tells which kinds are told."""
        self._body = body
        self._wants = wants
        self._packages = Packages()

    def add(self, change: PackageChange) -> None:
        """Take one package."""
        self._packages.told += 1
        if change.status is Status.REMOVED and self._wants({Kind.PACKAGE_REMOVED}):
            self._packages.gone.append(_departure(change.package, change.counts.before))
        if change.status is Status.ADDED and self._wants({Kind.PACKAGE_ADDED}):
            self._packages.joined.append(_departure(change.package, change.counts.after))
        self._body.add(change)

    def see(self, change: PackageChange) -> None:
        """Let the body look at what nobody may be told: what moving to a new snapshot means is found from all."""
        show(self._body, change)

    def take(self) -> tuple[Any, Packages]:
        """Hand over what the body has, and what was noted."""
        packages, self._packages = self._packages, Packages()
        return self._body.take(), packages


def unwrapped(changeset: Changeset, packages: Packages) -> Changeset:
    """Return `changeset` with the bodies within NotesCollector, and gather in `packages` what was noted."""

    def open_body(taken: tuple[Any, Packages]) -> Any:
        inner, found = taken
        packages.join(found)
        return inner

    return changeset.mapped(open_body)


def noted(changeset: Changeset, packages: Packages, events: Iterable[Event], *, is_suspicion_hidden: bool) -> TagNotes:
    """Return what there is to note of a tag; `events` are those that are told."""
    happened = {event.kind for event in changeset.outcome.events}
    gone = [*_of(events, Kind.TAG_REMOVED, DepartureKind.TAG), *_of(events, Kind.STACK_REMOVED, DepartureKind.STACK)]
    joined = _of(events, Kind.STACK_ADDED, DepartureKind.STACK)
    # A new tag is compared with another one, and what goes with a whole tag comes back with it.
    is_new, is_lost = Kind.TAG_ADDED in happened, Kind.TAG_REMOVED in happened
    is_touched = any(changeset.outcome.tally.kinds.values())  # whether it is told or not
    return TagNotes(
        tag=changeset.after.tag or changeset.before.tag or "",
        told=packages.told,
        suspicion=changeset.outcome.suspicion if is_touched and not is_suspicion_hidden else "",
        gone=() if is_new else (*gone, *(() if is_lost else packages.gone)),
        joined=() if is_new else (*joined, *packages.joined),
    )


def _of(events: Iterable[Event], kind: Kind, becomes: DepartureKind) -> Iterator[Departure]:
    for event in events:
        if event.kind is kind:
            yield Departure(kind=becomes, name=event.name, packages=event.packages, specs=event.specs)


def _departure(package: str, specs: int) -> Departure:
    return Departure(kind=DepartureKind.PACKAGE, name=package, packages=1, specs=specs)


def _largest(found: list[Departure]) -> list[Departure]:
    return heapq.nsmallest(_MOST, found, key=lambda each: (-each.specs, each.name))
