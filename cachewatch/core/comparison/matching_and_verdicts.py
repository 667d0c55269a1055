"""Match removed with added specs, and derive the verdict of each place, the class of each spec, and the kinds.

Nearly every hash changes when a dependency is rebuilt, so a new hash means little. Specs are matched by what they were
built as, with fewer fields from step to step: if all are equal, a spec was rebuilt; if all but the version are,
upgraded; and so on. Specs with equal keys can only be counted, so matches are counts of signatures, never pairs of
hashes. Matching never crosses operating systems and targets; `matched_across` finds migrations afterwards. A place is
one stack and one target, and gets the first verdict that applies.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, product
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.kinds_and_specs import (
    NEW_CLASSES,
    REGRADED,
    VANISHED_CLASSES,
    Kind,
    Loss,
    Machine,
    MatchKind,
    PackageChange,
    Place,
    PlaceChange,
    Signature,
    SignatureCount,
    SpecClass,
    SpecCounts,
    SpecMatch,
    StackChange,
    StackVersions,
    Status,
    Verdict,
    kind_of_fact,
    versions_by_stack,
)
from cachewatch.core.statement_kinds import STATEMENT_OF
from cachewatch.core.versions_spellings_targets import (
    NO_COMPILER,
    is_newer,
    newest,
    sorted_versions,
    that_matter,
    variant_name,
    version_key,
)

BySignature = Counter[Signature]  # how many specs there are of each
Key = Callable[[Signature], Hashable]
# The fields that must be equal: all but the changed ones. Specs for different machines never match. Where a field is
# named last, specs whose lists of this field differ least match first.
_KEYS: tuple[tuple[MatchKind, Key, str], ...] = (
    (MatchKind.MOVED, attrgetter("os", "platform", "target", "versions", "compiler", "variants"), "stacks"),
    (MatchKind.UPGRADED, attrgetter("os", "platform", "target", "compiler", "variants", "stacks"), ""),
    (MatchKind.RECOMPILED, attrgetter("os", "platform", "target", "versions", "variants", "stacks"), ""),
    (MatchKind.RECONFIGURED, attrgetter("os", "platform", "target", "versions", "compiler", "stacks"), ""),
    (MatchKind.RECONFIGURED, attrgetter("os", "platform", "target", "versions", "stacks"), "variants"),
)

_MANY_PAIRS = 10_000  # of signatures with equal keys; so many are paired in their order

KIND_OF_MATCH = {one: Kind.COMPILER if one is MatchKind.RECOMPILED else Kind(one) for one in MatchKind}
_KIND_OF_VERDICT: Mapping[Verdict, Kind] = {one: Kind(STATEMENT_OF[one]) for one in Verdict if one is not Verdict.SAME}

Unmatched = tuple[tuple[Signature, int], ...]
Unpaired = tuple[SignatureCount, ...]


def account(
    vanished: BySignature,
    new: BySignature,
    judged: "Mapping[Place, PlaceJudgement]",
    *,
    is_compiler_unknown: bool = False,
) -> tuple[tuple[SpecMatch, ...], Unmatched, Unmatched]:
    """Match `vanished` specs with `new` ones; return the matches, and the unmatched specs of each side, newest first.

    In `judged` places whose version changed, builds of the old and of the new version match first, because a new
    version that another stack lost did not move there. `is_compiler_unknown`: only one of the two documents writes
    compilers as before Spack 1.0, so a spec without a compiler matches any compiler.
    """
    rebuilt = {signature: min(vanished[signature], new[signature]) for signature in vanished.keys() & new.keys()}
    matches = [SpecMatch(MatchKind.REBUILT, signature, signature, rebuilt[signature]) for signature in sorted(rebuilt)]
    vanished, new = (_newest_first(without(counts, rebuilt)) for counts in (vanished, new))
    if is_compiler_unknown:
        matches += _take_without_compiler(MatchKind.REBUILT, vanished, new, lambda s: s)
    left = {place: one.old - one.new for place, one in judged.items() if one.verdict in REGRADED}
    if left:
        came, key = {place: judged[place].new - judged[place].old for place in left}, _KEYS[1][1]
        matches += _take(
            MatchKind.UPGRADED,
            vanished,
            new,
            lambda one: key(one) if _is_of(one, left) else None,
            lambda one: key(one) if _is_of(one, came) else (),
        )
    for kind, key, nearest_by in _KEYS:
        if nearest_by:
            matches += _take_nearest(kind, vanished, new, key, attrgetter(nearest_by))
        matches += _take(kind, vanished, new, key, key)
        if is_compiler_unknown:
            matches += _take_without_compiler(kind, vanished, new, key)
    return tuple(matches), tuple(vanished.items()), tuple(new.items())


def _is_of(one: Signature, versions: Mapping[Place, Set[str]]) -> bool:
    """Tell whether `one` has places and, for each of these, `versions` lists all versions of `one`."""
    places = one.places
    return bool(places) and all({*one.versions} <= versions.get(place, frozenset()) for place in places)


def without(counts: Mapping[Signature, int], fewer: Mapping[Signature, int]) -> BySignature:
    """Return `counts` minus `fewer`, without zeros."""
    return Counter({one: left for one, count in counts.items() if (left := count - fewer.get(one, 0))})


def _newest_first(counts: BySignature) -> BySignature:
    # The newest version first, so that an upgrade starts from the version that it replaces;
    # then by everything else, so that the order of a document never matters.
    keys = {versions: sorted(map(version_key, versions), reverse=True) for versions in {s.versions for s in counts}}
    return Counter({one: counts[one] for one in sorted(sorted(counts), key=lambda s: keys[s.versions], reverse=True)})


def _take(kind: MatchKind, vanished: BySignature, new: BySignature, key: Key, key_of_new: Key) -> Iterator[SpecMatch]:
    """Yield matches of `vanished` with `new` signatures, in the order of both, and subtract the matches from both.

    An old and a new signature match if `key` of the old equals `key_of_new` of the new. Matches get the `kind`; with
    UPGRADED, matches become DOWNGRADED if the version falls, and are left out if the version neither rises nor falls.
    """
    if not vanished or not new:
        return
    queues: defaultdict[Hashable, list[Signature]] = defaultdict(list)
    for after in reversed(new):
        queues[key_of_new(after)].append(after)
    for before in list(vanished):
        queue = queues.get(key(before), [])
        place = len(queue)
        while place and vanished[before]:
            place -= 1
            after = queue[place]
            judged = _regraded(before.versions, after.versions) if kind is MatchKind.UPGRADED else kind
            if judged is None:
                continue  # another reference of the same number, or no version, is neither newer nor older
            yield _pair(judged, before, after, vanished, new)
            if after not in new:
                del queue[place]


def _pair(kind: MatchKind, before: Signature, after: Signature, vanished: BySignature, new: BySignature) -> SpecMatch:
    """Return a match of the smaller number of specs of `before` and `after`; subtract it from `vanished` and `new`."""
    count = min(vanished[before], new[after])
    for counts, signature in ((vanished, before), (new, after)):
        counts[signature] -= count
        if not counts[signature]:
            del counts[signature]
    return SpecMatch(kind, before, after, count)


def _take_nearest(
    kind: MatchKind, vanished: BySignature, new: BySignature, key: Key, values: Callable[[Signature], tuple[str, ...]]
) -> Iterator[SpecMatch]:
    """Match specs of equal `key`, first those whose `values` differ least; subtract them from `vanished` and `new`."""

    def differing(pair: tuple[Signature, Signature]) -> tuple[object, ...]:
        # The order is the same whichever side is first.
        sides = [values(one) for one in pair]
        return len(set(sides[0]).symmetric_difference(sides[1])), sorted(sides), sorted(one.compiler for one in pair)

    olds_by_key: defaultdict[Hashable, list[Signature]] = defaultdict(list)
    news_by_key: defaultdict[Hashable, list[Signature]] = defaultdict(list)
    for before in vanished if new else ():
        olds_by_key[key(before)].append(before)
    for after in new if olds_by_key else ():
        if (own := key(after)) in olds_by_key:
            news_by_key[own].append(after)
    for own, news in news_by_key.items():
        olds = olds_by_key[own]
        if len(olds) * len(news) > _MANY_PAIRS:
            continue
        for before, after in sorted(product(olds, news), key=differing):
            if vanished[before] and new[after]:
                yield _pair(kind, before, after, vanished, new)


def _take_without_compiler(kind: MatchKind, vanished: BySignature, new: BySignature, key: Key) -> Iterator[SpecMatch]:
    """Match specs with and without a compiler, else of equal `key`; subtract the matches from `vanished` and `new`."""

    def blind(signature: Signature) -> Hashable:
        return key(replace(signature, compiler=NO_COMPILER))

    return _take(
        kind,
        vanished,
        new,
        lambda before: (before.compiler == NO_COMPILER, blind(before)),
        lambda after: (after.compiler != NO_COMPILER, blind(after)),
    )


@lru_cache(maxsize=1024)
def _regraded(before: tuple[str, ...], after: tuple[str, ...]) -> MatchKind | None:
    """Return UPGRADED if the versions rise, DOWNGRADED if they fall, else None (also if a side has no versions)."""
    # Without the reference of a git version, and without its spelling.
    old, new = (sorted([version_key(version)[:3] for version in side], reverse=True) for side in (before, after))
    if old == new or not old or not new:
        return None
    return MatchKind.UPGRADED if new > old else MatchKind.DOWNGRADED


# Whether target, operating system and compiler must be equal: first all of them, last none.
_EQUAL = sorted(product((True, False), repeat=3), key=lambda equal: -sum(equal))


def matched_across(
    gone: Sequence[SignatureCount], new: Sequence[SignatureCount]
) -> tuple[tuple[SignatureCount, ...], tuple[SignatureCount, ...]]:
    """Pair unmatched removed specs (`gone`) with unmatched `new` ones; return both, with their counterparts if any.

    Counterparts share a stack, versions and variants; those with most of target, system and compiler equal come first.
    """
    if not gone or not new:
        return tuple(gone), tuple(new)
    free = _Free(new, {_built(alike.signature): number for number, alike in enumerate(gone)})
    vanished: list[SignatureCount] = []
    partners: defaultdict[int, list[SignatureCount]] = defaultdict(list)
    for alike in gone:
        count = alike.count
        for number, taken in free.take(alike.signature, count):
            count -= taken
            vanished.append(replace(alike, count=taken, counterpart=new[number].signature))
            partners[number].append(replace(new[number], count=taken, counterpart=alike.signature))
        if count:
            vanished.append(replace(alike, count=count))
    added = [
        part
        for number, alike in enumerate(new)
        for part in (*partners[number], *([replace(alike, count=free.left[number])] if free.left[number] else []))
    ]
    return tuple(vanished), tuple(added)


class _Free:
    """The new specs that have no counterpart yet, indexed by the keys that are used to find them."""

    def __init__(self, new: Sequence[SignatureCount], wanted: Mapping[tuple[object, ...], int]) -> None:
        self.left = [alike.count for alike in new]
        self._wanted = wanted  # a number stands for versions and variants, which are long
        self._queues: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number in reversed(range(len(new))):
            signature = new[number].signature
            if (built := wanted.get(_built(signature))) is not None:
                for equal in _EQUAL:
                    for key in _keys(signature, built, equal):
                        self._queues[key].append(number)

    def take(self, signature: Signature, count: int) -> Iterator[tuple[int, int]]:
        """Take up to `count` counterparts of `signature`; yield, for each, its index in `new` and the number taken."""
        built = self._wanted[_built(signature)]
        for differing in range(4):
            keys = [key for equal in _EQUAL if sum(equal) == 3 - differing for key in _keys(signature, built, equal)]
            queues = [self._queues[key] for key in keys if key in self._queues]
            while count and (number := self._first(queues)) is not None:
                taken = min(count, self.left[number])
                self.left[number] -= taken
                count -= taken
                yield number, taken

    def _first(self, queues: Iterable[list[int]]) -> int | None:
        """Return the lowest index in `queues` with specs left, or None; remove indices without specs from `queues`."""
        for queue in queues:
            while queue and not self.left[queue[-1]]:
                queue.pop()
        return min((queue[-1] for queue in queues if queue), default=None)


def _built(signature: Signature) -> tuple[object, ...]:
    return signature.versions, signature.variants


def _keys(signature: Signature, built: int, equal: Iterable[bool]) -> Iterator[tuple[object, ...]]:
    values = (signature.target, signature.os, signature.compiler)
    same = tuple(value if is_equal else None for value, is_equal in zip(values, equal, strict=True))
    return ((stack, built, *same) for stack in signature.stacks)


class Combination(NamedTuple):
    """A version, and the compiler, system and variants of a build of this version: what users of a place may need."""

    version: str  # empty if the spec has none
    compiler: str
    os: str
    platform: str
    variants: tuple[str, ...]


Combinations = Set[Combination]

# The kinds of change if the fields of combinations differ; the version has a verdict instead.
_ATTRIBUTES = (None, Kind.COMPILER, Kind.OS, Kind.OS, Kind.VARIANT)
_version = attrgetter("version")


class PlaceJudgement(Struct, frozen=True):
    """The verdict on a place, its combinations, and its `old` and `new` versions; an unknown version is ""."""

    verdict: Verdict
    before: Combinations
    after: Combinations
    old: Set[str]
    new: Set[str]

    @property
    def lost(self) -> Combinations:
        """The combinations that only the earlier state has."""
        return self.before - self.after

    @property
    def gained(self) -> Combinations:
        """The combinations that only the later state has."""
        return self.after - self.before

    def kinds(self, variants: Iterable[Set[str]]) -> frozenset[Kind]:
        """Return the kinds of change of the place; `variants` is the value of `self.variants`, which is slow to get."""
        kinds = {_KIND_OF_VERDICT[self.verdict]}
        if self.verdict is Verdict.NARROWED and self.gained:
            kinds.add(Kind.WIDENED)
        if self.before and self.after:
            fields = zip(_ATTRIBUTES, zip(*self.before, strict=True), zip(*self.after, strict=True), strict=True)
            kinds |= {kind for kind, had, has in fields if kind and set(had) != set(has)}
            # Another version usually has variants of other names, too.
            if self.verdict not in (Verdict.NARROWED, Verdict.WIDENED) and not any(variants):
                kinds -= {Kind.VARIANT}
        return frozenset(kinds)

    @property
    def variants(self) -> tuple[frozenset[str], frozenset[str]]:
        """The variants that an up- or downgrade lost and gained, only of names that the place has in both states."""
        if self.verdict not in REGRADED:
            return frozenset(), frozenset()
        had, has = (frozenset(map(_variants, side)) for side in (self.before, self.after))
        return _changed_variants(had, has)


_variants = attrgetter("variants")


@lru_cache(maxsize=4096)
def _changed_variants(
    before: Set[tuple[str, ...]], after: Set[tuple[str, ...]]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return variants only in `before` and variants only in `after`, of names that both have."""
    had, has = (frozenset[str]().union(*side) for side in (before, after))
    lost, gained = that_matter(had - has), that_matter(has - had)
    names = set(map(variant_name, had)) & set(map(variant_name, has)) if lost or gained else ()
    return frozenset(v for v in lost if variant_name(v) in names), frozenset(
        v for v in gained if variant_name(v) in names
    )


def combinations_of(signature: Signature, *, is_compiler_unknown: bool) -> list[Combination]:
    """Return a Combination (version, compiler, system, variants) per version; compiler "none" if it is unknown."""
    compiler = NO_COMPILER if is_compiler_unknown else signature.compiler
    rest = (compiler, signature.os, signature.platform, signature.variants)
    return [Combination(version, *rest) for version in signature.versions or ("",)]


def judge_places(
    touched: frozenset[Place], before: Iterable[Signature], after: Iterable[Signature], *, is_compiler_unknown: bool
) -> dict[Place, PlaceJudgement]:
    """Return the verdicts on those `touched` places that changed; ignore compilers if `is_compiler_unknown`."""
    if not touched:
        return {}
    had, has = (_contents(touched, side, is_compiler_unknown=is_compiler_unknown) for side in (before, after))
    judged = ((place, _judge(had.get(place, set()), has.get(place, set()))) for place in sorted(touched))
    return {place: judgement for place, judgement in judged if judgement.verdict is not Verdict.SAME}


_OF_WHOLE_PLACES = (Verdict.LOST, Verdict.GAINED)


def place_changes(judged: Mapping[Place, PlaceJudgement], losses: Mapping[Place, Loss]) -> tuple[PlaceChange, ...]:
    """Return the judged places as values for reports, with sorted versions, and with the losses of lost places."""
    changes = []
    for place, judgement in judged.items():
        variants = judgement.variants
        whole = judgement.before or judgement.after if judgement.verdict in _OF_WHOLE_PLACES else ()
        changes.append(
            PlaceChange(
                stack=place.stack,
                target=place.target,
                before=tuple(sorted_versions(judgement.old - {""})),
                after=tuple(sorted_versions(judgement.new - {""})),
                verdict=judgement.verdict,
                kinds=judgement.kinds(variants) | loss_kinds(losses.get(place)),
                loss=losses.get(place),
                variants=variants,
                machines=frozenset(Machine(one.platform, one.os, place.target) for one in whole),
            )
        )
    return tuple(changes)


def judged_by_places(matches: Iterable[SpecMatch], places: Iterable[PlaceChange]) -> Iterator[SpecMatch]:
    """Yield `matches`; an up- or downgrade becomes a reconfiguration if no place in `places` changed these versions.

    Such specs are only built in another way: every stack that builds them has both versions before and after.
    """
    changed = {one.place: (frozenset(one.before), frozenset(one.after)) for one in places}
    for match in matches:
        if match.kind in (MatchKind.UPGRADED, MatchKind.DOWNGRADED) and match.before.stacks:
            own = (changed[place] for place in match.before.places if place in changed)
            if all(has.issuperset(match.before.versions) and had.issuperset(match.after.versions) for had, has in own):
                match = replace(match, kind=MatchKind.RECONFIGURED)  # noqa: PLW2901
        yield match


def seen_in_stacks(
    matches: Iterable[SpecMatch], gone: Unpaired, new: Unpaired, sees: Callable[[str], bool]
) -> tuple[tuple[SpecMatch, ...], Unpaired, Unpaired]:
    """Return (matches, gone, new), in which specs that differ only in stacks `sees` refuses are matched as rebuilt."""

    def seen(one: Signature) -> Signature:
        return replace(one, stacks=tuple(filter(sees, one.stacks)))

    found, sides = list[SpecMatch](), (BySignature(), BySignature())
    alone: list[tuple[Any, BySignature, Signature]] = [(one, sides[0], one.signature) for one in gone]
    alone += [(one, sides[1], one.signature) for one in new]
    for match in matches:
        if match.kind is MatchKind.MOVED and (match.left or match.entered):
            alone.append((match, sides[match.entered], match.after if match.entered else match.before))
        else:
            is_again = match.kind is MatchKind.MOVED and seen(match.before) == seen(match.after)
            found.append(replace(match, kind=MatchKind.REBUILT) if is_again else match)
    for one, counts, signature in alone:
        counts[signature] += one.count
    found += _take(MatchKind.REBUILT, *sides, seen, seen)
    rest = []
    for one, counts, signature in alone:
        count = min(one.count, counts[signature])
        counts[signature] -= count
        rest.append([replace(one, count=count)] if count else [])
    at, end = len(gone), len(gone) + len(new)
    return (*found, *chain(*rest[end:])), tuple(chain(*rest[:at])), tuple(chain(*rest[at:end]))


def loss_kinds(loss: Loss | None) -> frozenset[Kind]:
    """Return the kind of change for `loss`; empty if it is None, or if readers need not know of the loss."""
    return frozenset({Kind(loss.loss_class)} if loss is not None and loss.is_missed else ())


def _contents(
    touched: frozenset[Place], signatures: Iterable[Signature], *, is_compiler_unknown: bool
) -> Mapping[Place, set[Combination]]:
    # Many specs are built for the same places, so those come together first.
    together: defaultdict[frozenset[Place], list[Signature]] = defaultdict(list)
    for signature in signatures:
        together[signature.places].append(signature)
    contents: defaultdict[Place, set[Combination]] = defaultdict(set)
    for places, alike in together.items():
        if own := touched & places:
            combinations = {c for s in alike for c in combinations_of(s, is_compiler_unknown=is_compiler_unknown)}
            for place in own:
                contents[place] |= combinations
    return contents


def _judge(before: Combinations, after: Combinations) -> PlaceJudgement:
    old, new = set(map(_version, before)), set(map(_version, after))
    verdict = verdict_of(old, new)
    if verdict is Verdict.SAME and before != after:
        verdict = Verdict.WIDENED if before < after else Verdict.NARROWED
    return PlaceJudgement(verdict, before, after, old, new)


def verdict_of(old: Set[str], new: Set[str]) -> Verdict:
    """Return the verdict on a place with the versions `old` and then `new`; SAME if nothing changed."""
    if not old or not new:
        return Verdict.GAINED if new else Verdict.LOST
    before, after = newest(old), newest(new)
    if is_newer(after, before):
        return Verdict.UPGRADED
    if is_newer(before, after):
        return Verdict.DOWNGRADED
    # Only versions that are neither newer nor older remain: another git reference of the same number, or no version.
    return Verdict.RETIRED if old - new - {""} else Verdict.EXTENDED if new - old - {""} else Verdict.SAME


def judge_versions(
    stacks: set[str], before: Iterable[Signature], after: Iterable[Signature]
) -> Iterator[StackVersions]:
    """Yield, for each of `stacks` where versions of the package changed, its versions in both states and a verdict."""
    if not stacks:
        return
    had, has = versions_by_stack(before), versions_by_stack(after)
    for stack in sorted(stacks):
        old, new = had.get(stack, frozenset()), has.get(stack, frozenset())
        if old != new:
            yield StackVersions(stack, tuple(sorted_versions(old)), tuple(sorted_versions(new)), verdict_of(old, new))


def class_of(
    signature: Signature, judged: Mapping[Place, PlaceJudgement], whole: Verdict, *, is_compiler_unknown: bool
) -> SpecClass:
    """Return why a spec has no match, by the `judged` places; `whole` is LOST for removed specs, GAINED for others."""
    is_vanished = whole is Verdict.LOST
    classes = VANISHED_CLASSES if is_vanished else NEW_CLASSES
    no_stack, of_place, of_regraded, of_version, of_combination, of_copies = classes
    if not signature.stacks:
        return no_stack
    judgements = [judged[place] for place in signature.places if place in judged]
    if any(judgement.verdict is whole for judgement in judgements):
        return of_place
    versions = set(signature.versions) - {""}
    moved = [
        one.verdict in REGRADED
        for one in judgements
        if not versions.isdisjoint(one.old - one.new if is_vanished else one.new - one.old)
    ]
    if moved:
        return of_regraded if any(moved) else of_version
    combinations = combinations_of(signature, is_compiler_unknown=is_compiler_unknown)
    contents = (judgement.lost if is_vanished else judgement.gained for judgement in judgements)
    return of_copies if all(own.isdisjoint(combinations) for own in contents) else of_combination


def count_specs(
    matches: Iterable[SpecMatch],
    gone: Sequence[SignatureCount],
    new: Sequence[SignatureCount],
    restacked: Sequence[StackChange] = (),
    *,
    before: int,
    after: int,
    unreferenced: int,
) -> SpecCounts:
    """Return the numbers of specs by kind of match and by class; `before`, `after`, `unreferenced` are only copied."""
    by_kind: Counter[str] = Counter()
    by_class: Counter[str] = Counter()
    entered, left = (sum(getattr(kept, name) for kept in restacked) for name in ("entered", "left"))
    for match in matches:
        if match.entered:
            entered += match.count
        elif match.left:
            left += match.count
        else:
            by_kind[match.kind] += match.count
    for alike in (*gone, *new):
        by_class[alike.spec_class] += alike.count
    gone_specs, new_specs = (sum(alike.count for alike in side) for side in (gone, new))
    added, removed = by_kind.total() + new_specs + entered, by_kind.total() + gone_specs + left
    return SpecCounts(
        before=before,
        after=after,
        added=added,
        removed=removed,
        new=new_specs,
        gone=gone_specs,
        net_added=added - by_kind[MatchKind.REBUILT],
        net_removed=removed - by_kind[MatchKind.REBUILT],
        unreferenced=unreferenced,
        entered=entered,
        left=left,
        **by_kind,
        **by_class,
    )


def kinds_of(change: PackageChange) -> frozenset[Kind]:
    """Return all kinds of change of a package.

    An added or removed package has versions that are added or removed, but no other compilers, systems, targets or
    variants than before.
    """
    kinds = {KIND_OF_MATCH[match.kind] for match in change.matches}
    for name, delta in change.facts.items():
        if change.status is Status.CHANGED or name in ("versions", "stacks"):
            for is_added, values in ((False, delta.removed), (True, delta.added)):
                kinds |= {kind_of_fact(name, is_added=is_added)} if values else set()
    moves: list[SpecMatch | StackChange] = [match for match in change.matches if match.kind is MatchKind.MOVED]
    for moved in (*moves, *change.restacked):
        kinds |= kinds_of_stacks(moved.before, moved.after)
    claims = {
        Kind.PACKAGE_ADDED: change.status is Status.ADDED,
        Kind.PACKAGE_REMOVED: change.status is Status.REMOVED,
        Kind.UNREFERENCED: change.newly_unreferenced,
        Kind.SPEC_ADDED: change.counts.new,
        Kind.SPEC_REMOVED: change.counts.gone,
        Kind.NARROWED: change.counts.dropped,
        Kind.WIDENED: change.counts.new_combination,
    }
    kinds |= {kind for kind, holds in claims.items() if holds}
    of_machines = [loss_kinds(lost.loss) | {Kind.MACHINE_LOST} for lost in change.machines_lost]
    return frozenset(kinds.union(*(place.kinds for place in change.places), *of_machines))


def kinds_of_stacks(before: Signature, after: Signature) -> set[Kind]:
    """Return STACK_ADDED if `after` has stacks that `before` lacks, and STACK_REMOVED if it lacks some of `before`."""
    gained, lost = set(after.stacks).difference(before.stacks), set(before.stacks).difference(after.stacks)
    return {kind for kind, stacks in ((Kind.STACK_ADDED, gained), (Kind.STACK_REMOVED, lost)) if stacks}
