"""What happened to a package in each place: one verdict, the first that holds.

A place is one stack and one target. What a package has there are combinations of version,
compiler, operating system, platform and variants; where compilers cannot be told apart, without them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from msgspec import Struct

from cachewatch.core.model import Kind, Place, PlaceChange, Signature, Verdict, places_in
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.versions import is_newer, newest, sorted_versions


class Combination(NamedTuple):
    """What a spec is to those who install it."""

    version: str  # empty where the spec names none
    compiler: str
    os: str
    platform: str
    variants: tuple[str, ...]


Contents = Set[Combination]

_KINDS = {
    Verdict.GAINED: Kind.PLACE_GAINED,
    Verdict.LOST: Kind.PLACE_LOST,
    Verdict.UPGRADED: Kind.UPGRADED,
    Verdict.DOWNGRADED: Kind.DOWNGRADED,
    Verdict.RETIRED: Kind.RETIRED,
    Verdict.EXTENDED: Kind.EXTENDED,
    Verdict.NARROWED: Kind.NARROWED,
    Verdict.WIDENED: Kind.WIDENED,
}
# What of a combination, beside the version, came or went, and the kind of change that this is.
_ATTRIBUTES = {"compiler": Kind.COMPILER, "os": Kind.OS, "platform": Kind.OS, "variants": Kind.VARIANT}


class PlaceJudgement(Struct, frozen=True):
    """The verdict of one place, and what left it and came to it."""

    verdict: Verdict
    before: Contents
    after: Contents
    left: Contents
    came: Contents
    versions_left: Set[str]
    versions_came: Set[str]

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of change that this is."""
        kinds = {_KINDS[self.verdict]}
        if self.verdict in (Verdict.NARROWED, Verdict.WIDENED):
            kinds |= {kind for name, kind in _ATTRIBUTES.items() if self._differs(name)}
        return frozenset(kinds)

    def _differs(self, name: str) -> bool:
        return {getattr(c, name) for c in self.before} != {getattr(c, name) for c in self.after}


def combinations_of(signature: Signature, *, is_compiler_unknown: bool) -> list[Combination]:
    """Return what a spec of `signature` is, once for each of its versions."""
    compiler = NO_COMPILER if is_compiler_unknown else signature.compiler
    rest = (compiler, signature.os, signature.platform, signature.variants)
    return [Combination(version, *rest) for version in signature.versions or ("",)]


def places_of(signature: Signature) -> frozenset[Place]:
    """Return the places of a spec; one that no stack builds has none."""
    return places_in(signature.stacks, signature.target)


def judge_places(
    touched: frozenset[Place], before: Iterable[Signature], after: Iterable[Signature], *, is_compiler_unknown: bool
) -> dict[Place, PlaceJudgement]:
    """Return the verdict of each of the `touched` places in which something happened."""
    if not touched:
        return {}
    had, has = (_contents(touched, side, is_compiler_unknown=is_compiler_unknown) for side in (before, after))
    judged = ((place, _judge(had.get(place, set()), has.get(place, set()))) for place in sorted(touched))
    return {place: judgement for place, judgement in judged if judgement.verdict is not Verdict.SAME}


def place_changes(judged: Mapping[Place, PlaceJudgement]) -> tuple[PlaceChange, ...]:
    """Return the verdicts as reports and JSON have them: with versions, oldest first."""
    return tuple(
        PlaceChange(
            stack=place.stack,
            target=place.target,
            before=_named(judgement.before),
            after=_named(judgement.after),
            verdict=judgement.verdict,
            kinds=judgement.kinds,
        )
        for place, judgement in judged.items()
    )


def _contents(
    touched: frozenset[Place], signatures: Iterable[Signature], *, is_compiler_unknown: bool
) -> Mapping[Place, set[Combination]]:
    # Many specs are built for the same places, so those come together first.
    together: defaultdict[frozenset[Place], list[Combination]] = defaultdict(list)
    for signature in signatures:
        combinations = combinations_of(signature, is_compiler_unknown=is_compiler_unknown)
        together[places_of(signature)] += combinations
    contents: defaultdict[Place, set[Combination]] = defaultdict(set)
    for places, combinations in together.items():
        for place in touched & places:
            contents[place].update(combinations)
    return contents


def _judge(before: Contents, after: Contents) -> PlaceJudgement:
    old, new = ({combination.version for combination in side} for side in (before, after))
    left, came = before - after, after - before
    return PlaceJudgement(_verdict(old, new, left, came), before, after, left, came, old - new, new - old)


def _verdict(old: Set[str], new: Set[str], left: Contents, came: Contents) -> Verdict:
    if not old or not new:
        return Verdict.GAINED if new else Verdict.LOST
    if is_newer(newest(new), newest(old)):
        return Verdict.UPGRADED
    if is_newer(newest(old), newest(new)):
        return Verdict.DOWNGRADED
    # What is left is at most another reference of the same number, which is neither newer nor older.
    for verdict, is_so in (
        (Verdict.RETIRED, old - new),
        (Verdict.EXTENDED, new - old),
        (Verdict.NARROWED, left),
        (Verdict.WIDENED, came),
    ):
        if is_so:
            return verdict
    return Verdict.SAME


def _named(contents: Contents) -> tuple[str, ...]:
    return tuple(sorted_versions({combination.version for combination in contents if combination.version}))
