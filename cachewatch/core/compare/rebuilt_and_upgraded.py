"""Match vanished with new specs, by keys that have fewer fields from step to step.

Nearly every hash turns over when a dependency is rebuilt, so a new hash says little. What
counts is what a spec was built as: where all of that is equal it was merely rebuilt, where
all but the version is, it was upgraded, and so on. Inside a class of equal keys only the
count can be known, so matches are counts of signatures, never arrows between hashes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.model import MatchKind, Signature, SpecMatch
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.versions import Prerelease, Segment, VersionKey, version_key

Counts = Counter[Signature]
Key = Callable[[Signature], Hashable]
_Age = list[
    tuple[bool, tuple[Segment, ...], Prerelease]
]  # what versions are sorted by, without references and spellings


# Operating system, platform and target are in every key: another machine is another thing.
def _all_but_stacks(s: Signature) -> Hashable:
    return (s.os, s.platform, s.target, s.versions, s.compiler, s.variants)


def _all_but_version(s: Signature) -> Hashable:
    return (s.os, s.platform, s.target, s.compiler, s.variants, s.stacks)


def _all_but_compiler(s: Signature) -> Hashable:
    return (s.os, s.platform, s.target, s.versions, s.variants, s.stacks)


def _all_but_variants(s: Signature) -> Hashable:
    return (s.os, s.platform, s.target, s.versions, s.compiler, s.stacks)


_KEYS: tuple[tuple[MatchKind, Key], ...] = (
    (MatchKind.MOVED, _all_but_stacks),
    (MatchKind.UPGRADED, _all_but_version),
    (MatchKind.RECOMPILED, _all_but_compiler),
    (MatchKind.RECONFIGURED, _all_but_variants),
)


class _Order(Struct, frozen=True):
    """The one order in which every step takes signatures, and how new each one is; found once for all steps."""

    ranks: Mapping[Signature, int]
    ages: Mapping[tuple[str, ...], _Age]  # by the versions of a signature

    def of(self, signatures: Iterable[Signature]) -> list[Signature]:
        """Return `signatures`, newest versions first."""
        return sorted(signatures, key=self.ranks.__getitem__)

    def rest(self, counts: Counts) -> tuple[tuple[Signature, int], ...]:
        """Return what is left of `counts`, newest versions first."""
        return tuple([(signature, counts[signature]) for signature in self.of(counts)])


class Account(Struct, frozen=True):
    """Where every vanished and every new spec went, each once."""

    matches: tuple[SpecMatch, ...]
    gone: tuple[tuple[Signature, int], ...]  # newest versions first
    new: tuple[tuple[Signature, int], ...]


def account(vanished: Counts, new: Counts, *, is_compiler_unknown: bool = False) -> Account:
    """Match `vanished` with `new` as far as the keys reach. Both counts are used up.

    With `is_compiler_unknown`, one of the two documents writes compilers as before Spack
    1.0 and the other does not: a spec without compiler then matches any compiler.
    """
    matches = _take_equal(vanished, new)
    if not vanished and not new:
        return Account(tuple(matches), (), ())
    order = _order(vanished.keys() | new.keys())
    if is_compiler_unknown:
        matches += _take_without_compiler(MatchKind.REBUILT, vanished, new, lambda s: s, order)
    for kind, key in _KEYS:
        if not vanished or not new:
            break
        matches += _take(kind, vanished, new, (key, key), order)
        if is_compiler_unknown:
            matches += _take_without_compiler(kind, vanished, new, key, order)
    return Account(tuple(matches), order.rest(vanished), order.rest(new))


def _take_equal(vanished: Counts, new: Counts) -> list[SpecMatch]:
    """Take what was merely rebuilt off both counts; often that is all."""
    matches = []
    for signature in sorted(vanished.keys() & new.keys()):
        went, came = vanished.pop(signature), new.pop(signature)
        matches.append(SpecMatch(MatchKind.REBUILT, signature, signature, min(went, came)))
        if went > came:
            vanished[signature] = went - came
        elif came > went:
            new[signature] = came - went
    return matches


def _take(kind: MatchKind, vanished: Counts, new: Counts, keys: tuple[Key, Key], order: _Order) -> list[SpecMatch]:
    """Pair what is equal under its side's key, newest versions first, and take it off both counts."""
    key, key_of_new = keys
    queues = _queues(new, key_of_new, order)
    ages = order.ages
    matches = []
    for before in order.of(vanished):
        queue = queues.get(key(before), [])
        place = len(queue)
        while place and vanished[before]:
            place -= 1
            after = queue[place]
            judged = _regraded(ages[before.versions], ages[after.versions]) if kind is MatchKind.UPGRADED else kind
            if judged is None:
                continue  # another reference of the same number is neither newer nor older
            count = min(vanished[before], new[after])
            matches.append(SpecMatch(judged, before, after, count))
            vanished[before] -= count
            new[after] -= count
            if not new[after]:
                del queue[place]
    _drop_empty(vanished)
    _drop_empty(new)
    return matches


def _take_without_compiler(kind: MatchKind, vanished: Counts, new: Counts, key: Key, order: _Order) -> list[SpecMatch]:
    """Pair specs of unknown compiler with those of a known one, and take them off both counts."""

    def blind(signature: Signature) -> Hashable:
        return key(replace(signature, compiler=NO_COMPILER))

    keys = (
        lambda before: (before.compiler == NO_COMPILER, blind(before)),
        lambda after: (after.compiler != NO_COMPILER, blind(after)),
    )
    return _take(kind, vanished, new, keys, order)


def _queues(counts: Counts, key: Key, order: _Order) -> dict[Hashable, list[Signature]]:
    queues: defaultdict[Hashable, list[Signature]] = defaultdict(list)
    for signature in reversed(order.of(counts)):
        queues[key(signature)].append(signature)
    return queues


def _order(signatures: Iterable[Signature]) -> _Order:
    # The newest version first, so that an upgrade starts from the version that it replaces;
    # then by everything else, so that the order of a document never matters.
    of_versions: defaultdict[tuple[str, ...], list[Signature]] = defaultdict(list)
    for signature in signatures:
        of_versions[signature.versions].append(signature)
    newest_first = {versions: _newest_first(versions) for versions in sorted(of_versions)}
    ranked = [
        signature
        for versions in sorted(newest_first, key=newest_first.__getitem__, reverse=True)
        for signature in sorted(of_versions[versions])
    ]
    # Without the reference of a git version, and without its spelling.
    ages = {versions: [key[:3] for key in keys] for versions, keys in newest_first.items()}
    return _Order({signature: rank for rank, signature in enumerate(ranked)}, ages)


def _newest_first(versions: Iterable[str]) -> list[VersionKey]:
    return sorted(map(version_key, versions), reverse=True)


def _regraded(before: _Age, after: _Age) -> MatchKind | None:
    """Return in which direction a version changed, if it did."""
    if before == after:
        return None
    return MatchKind.UPGRADED if after > before else MatchKind.DOWNGRADED


def _drop_empty(counts: Counts) -> None:
    for signature in [s for s, count in counts.items() if not count]:
        del counts[signature]
