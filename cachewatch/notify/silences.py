"""What is silenced is left out of a digest, and counted under the name of the silence.

A package is hidden as far as a silence covers it: kinds that it names, or all, if everything
that happened to the package happened to specs that it matches. What is only partly covered is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.config.model import Silence
from cachewatch.core.changesets import Changeset, Collector, show
from cachewatch.core.filter_patterns import Globs
from cachewatch.core.model import Kind, PackageChange, Signature
from cachewatch.core.selection import Selection
from cachewatch.core.statements import Line
from cachewatch.notify.match_to_selection import selection_of

Wants = Callable[[Set[Kind]], bool]


class _Hush(Struct, frozen=True):
    """A silence, ready to be asked."""

    name: str
    kinds: frozenset[Kind]
    selection: Selection

    def covers(self, change: PackageChange) -> bool:
        """Tell whether all that happened to the package is the silence's business."""
        if not self.selection.packages(change.package):
            return False
        return self.selection.takes_all_specs or all(self._covers_spec(*pair) for pair in _concerned(change))

    def _covers_spec(self, signature: Signature, stacks: Set[str]) -> bool:
        # What two stacks share is news to the one that is not silent.
        is_of_stacks = self.selection.stacks.is_open or (bool(stacks) and all(map(self.selection.stacks, stacks)))
        return is_of_stacks and replace(self.selection, stacks=Globs()).chooses(signature)

    @property
    def is_everywhere(self) -> bool:
        """Whether it speaks of whole tags, and so of their events too."""
        return self.selection.packages.is_open and self.selection.takes_all_specs


class Silencing:
    """The silences that hold for one tag of one source on one day."""

    def __init__(self, silences: Iterable[Silence], wants: Wants, *, source: str, tag: str | None, day: date) -> None:
        """`wants` tells which kinds are told when nothing is silent."""
        self._wants = wants
        self._hushes = [
            _Hush(silence.name, silence.changes or frozenset(Kind), selection_of(silence.match))
            for silence in silences
            if silence.is_active(day) and Globs(silence.match.sources)(source) and Globs(silence.match.tags)(tag or "")
        ]
        self._hidden: dict[str, frozenset[Kind]] = {}  # by package
        self._everywhere = frozenset(k for hush in self._hushes if hush.is_everywhere for k in hush.kinds)

    def wants(self, kinds: Set[Kind]) -> bool:
        """Tell whether something of these kinds that happened to the whole tag is told."""
        return _is_wanted(self._wants, kinds, self._everywhere)

    def body(self, make_collector: Callable[[Wants], Collector]) -> Collector:
        """Return a body that hears no more than it may; `heard` reads what it hands over."""
        return (
            _SilencedCollector(self._hushes, self._wants, make_collector)
            if self._hushes
            else make_collector(self._wants)
        )

    def heard(self, changeset: Changeset, hidden: Counter[str]) -> Changeset:
        """Return `changeset` with the bodies that `make_collector` made, and count hidden packages by silence."""
        if not self._hushes:
            return changeset

        def open_body(taken: tuple[object, Counter[str], Mapping[str, frozenset[Kind]]]) -> object:
            inner, counts, kinds = taken
            hidden.update(counts)
            self._hidden.update(kinds)
            return inner

        return changeset.mapped(open_body)

    def wants_line(self, line: Line) -> bool:
        """Tell whether a line of a statement is told, once all bodies were read."""
        return _is_wanted(self._wants, line.kinds, self._hidden.get(line.package, frozenset()))


class _SilencedCollector:
    """Keeps hidden kinds of packages from the body within."""

    def __init__(self, hushes: Iterable[_Hush], wants: Wants, make_collector: Callable[[Wants], Collector]) -> None:
        self._hushes = hushes
        self._wants = wants
        self._hidden: frozenset[Kind] = frozenset()  # of the package in hand
        self._counts: Counter[str] = Counter()
        self._kinds: dict[str, frozenset[Kind]] = {}
        self._body = make_collector(self._wants_now)

    def add(self, change: PackageChange) -> None:
        """Take one package, unless a silence covers all of it that would be told."""
        hushes = [hush for hush in self._hushes if self._wants_any(change, hush) and hush.covers(change)]
        self._counts.update(hush.name for hush in hushes)
        self._hidden = frozenset(kind for hush in hushes for kind in hush.kinds)
        if self._hidden:
            self._kinds[change.package] = self._hidden
        if self._wants_now(change.kinds):
            self._body.add(change)

    def see(self, change: PackageChange) -> None:
        """Let the body look at what may be silent: what a snapshot lacks is a fact of the snapshot."""
        show(self._body, change)

    def take(self) -> tuple[object, Counter[str], Mapping[str, frozenset[Kind]]]:
        """Hand over what the body has, how many packages each silence kept from it, and the hidden kinds of each."""
        counts, self._counts = self._counts, Counter()
        kinds, self._kinds = self._kinds, {}
        return self._body.take(), counts, kinds

    def _wants_any(self, change: PackageChange, hush: _Hush) -> bool:
        silenced = change.kinds & hush.kinds
        return bool(silenced) and self._wants(silenced)

    def _wants_now(self, kinds: Set[Kind]) -> bool:
        return _is_wanted(self._wants, kinds, self._hidden)


def _is_wanted(wants: Wants, kinds: Set[Kind], hidden: Set[Kind]) -> bool:
    """Tell whether something is told: for a kind of it that is not hidden."""
    left = kinds - hidden
    return wants(kinds) and (left == kinds or (bool(left) and wants(left)))


def _concerned(change: PackageChange) -> Iterator[tuple[Signature, Set[str]]]:
    """Yield every signature that something happened to, with the stacks whose subscriptions report it."""
    for match in change.matches:
        yield match.before, frozenset(match.before.stacks)
        yield match.after, frozenset(match.after.stacks)
    for alike in (*change.gone, *change.new):
        yield alike.signature, frozenset(alike.signature.stacks)
    for kept in change.restacked:
        yield kept.after, frozenset((*kept.gained, *kept.lost))
