"""Find compilers, operating systems, targets and variants that replaced others in many packages of a stack.

In a stack, a package replaced A by B if it had A and not B before, and has B and not A now. It has B beside A if it
still has A, which may be another value for each package. It no longer has A if it keeps other builds only. If at least
five packages of a stack did the same, and four fifths of those that had A, one statement reports it for all stacks.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, product
from typing import NamedTuple

from msgspec import Struct, field

from cachewatch.core.kinds_and_specs import Kind, MatchKind, PackageChange, Signature, Status, versions_by_stack
from cachewatch.core.statement_kinds import Attribute, StatementKind
from cachewatch.core.versions_spellings_targets import NO_COMPILER, that_matter

# With fewer packages than this, each has a statement of its own.
FEW_PACKAGES = 5
_SHARE = 0.8  # of the packages of a stack that had the old value
_MOST = 100  # changes of one comparison, and pairs of an old and a new value of a package in a stack


# The kinds of values of a stack, in the order of `_Held`.
_KINDS = (Kind.COMPILER, Kind.OS, Kind.TARGET, Kind.VARIANT)

# The compilers, operating systems, targets and variants of a package in one stack.
_Held = tuple[frozenset[str], ...]


class Step(NamedTuple):
    """One change of an attribute of a package in a stack: a value that is gone, a value that is new, or both."""

    kind: StatementKind
    before: Attribute | None
    after: Attribute | None


class PackageValues(Struct, frozen=True):
    """The values (compilers, systems, targets, variants) that one package had, lost and gained, by stack."""

    had: Mapping[str, _Held] = {}  # in the earlier state
    gone: Mapping[str, frozenset[Attribute]] = {}  # that the stack no longer has
    new: Mapping[str, frozenset[Attribute]] = {}  # that it did not have before
    kept: tuple[Signature, ...] = ()  # the earlier specs, if none of their values changed


def held_by(signature: Signature | None, by_stack: Mapping[str, frozenset[Attribute]]) -> frozenset[Attribute]:
    """Return the values of `signature` (none for None) that `by_stack` lists for one of the stacks of `signature`."""
    if signature is None or not by_stack:
        return frozenset()
    own = ((signature.compiler,), (signature.os,), (signature.target,), signature.variants)
    texts = dict(zip(_KINDS, own, strict=True))
    values = frozenset[Attribute]().union(*[by_stack[stack] for stack in signature.stacks if stack in by_stack])
    return frozenset([value for value in values if value.text in texts[value.kind]])


def values_of(change: PackageChange) -> PackageValues:
    """Return the compilers, systems, targets and variants that a package had, lost and gained in `change`, by stack."""
    if change.status is not Status.CHANGED:
        return PackageValues()
    is_touched = change.gone or change.new or change.restacked
    if not is_touched and all(match.kind in _SAME_VALUES for match in change.matches):
        return PackageValues(kept=tuple(change.specs_before.counts))
    versions = [versions_by_stack(side.counts) for side in (change.specs_before, change.specs_after)]
    kept = {stack: versions[0][stack] & versions[1][stack] for stack in versions[0].keys() & versions[1].keys()}
    had, has = (_by_stack(side.counts, kept) for side in (change.specs_before, change.specs_after))
    changed = [stack for stack in kept if had[stack] != has[stack]]
    return PackageValues(
        had,
        {stack: _differing(had[stack], has[stack]) for stack in changed},
        {stack: _differing(has[stack], had[stack]) for stack in changed},
    )


# Specs matched in these ways differ only in hash or version.
_SAME_VALUES = (MatchKind.REBUILT, MatchKind.UPGRADED, MatchKind.DOWNGRADED)


def _by_stack(signatures: Iterable[Signature], kept: Mapping[str, Set[str]] | None = None) -> Mapping[str, _Held]:
    """Return values by stack; `kept` (None: all) has, by stack to read, the versions whose variants count."""
    members: defaultdict[str, list[tuple[str, str, str, tuple[str, ...]]]] = defaultdict(list)
    for one in signatures:
        for stack in one.stacks if kept is None else kept.keys() & one.stacks:
            is_kept = kept is None or not one.versions or not kept[stack].isdisjoint(one.versions)
            members[stack].append((one.compiler, one.os, one.target, one.variants if is_kept else ()))
    columns = {stack: list(map(frozenset, zip(*own, strict=True))) for stack, own in members.items()}
    return {stack: (*values, frozenset(chain.from_iterable(lists))) for stack, (*values, lists) in columns.items()}


def _differing(own: _Held, other: _Held) -> frozenset[Attribute]:
    """Return the values that only `own` has. An attribute of which `own` or `other` has an unknown value is ignored."""
    return frozenset(
        Attribute(kind, text)
        for kind, mine, theirs in zip(_KINDS, own, other, strict=True)
        if "" not in mine | theirs and (NO_COMPILER in mine) == (NO_COMPILER in theirs)
        for text in (that_matter(mine - theirs) if kind is Kind.VARIANT else mine - theirs)
    )


def _steps(gone: Set[Attribute], new: Set[Attribute]) -> Iterator[Step]:
    left, added = _by_name(gone), _by_name(new)
    for name in left.keys() | added.keys():
        if name not in added:
            yield from (Step(StatementKind.NO_LONGER, before, None) for before in left[name])
        elif name not in left:
            yield from (Step(StatementKind.BESIDE, None, after) for after in added[name])
        # with so many values, it is unclear which replaced which
        elif len(left[name]) * len(added[name]) <= _MOST:
            yield from (Step(StatementKind.MIGRATION, *pair) for pair in product(left[name], added[name]))


def _by_name(values: Iterable[Attribute]) -> Mapping[tuple[Kind, str], Sequence[Attribute]]:
    attributes: defaultdict[tuple[Kind, str], list[Attribute]] = defaultdict(list)
    for value in values:
        attributes[value.kind, value.name].append(value)
    return attributes


class ValueChange(Struct, frozen=True, kw_only=True):
    """A change of compilers, systems, targets or variants that several packages have in common."""

    kind: StatementKind
    before: tuple[Attribute, ...]
    after: tuple[Attribute, ...]
    packages: frozenset[str]
    stacks: frozenset[str]
    exceptions: tuple[tuple[str, str], ...] = ()  # packages that still have the old values, each with a stack
    elsewhere: frozenset[tuple[str, str]] = frozenset()  # its packages that had the old values in other stacks

    @property
    def name(self) -> str:
        """A name that is unique among the changes of one tag."""
        sides = (" ".join(value.text for value in side) for side in (self.before, self.after))
        return " -> ".join(filter(None, sides))

    def explains(self, package: str, stacks: Set[str], gone: Set[Attribute], new: Set[Attribute]) -> bool:
        """Tell whether this change explains that `package` lost the values `gone` or gained `new` in `stacks`."""
        return (
            package in self.packages
            and not stacks.isdisjoint(self.stacks)
            and not (gone.isdisjoint(self.before) and new.isdisjoint(self.after))
        )


# For each kind of value, the packages of a stack that have it.
_Packages = tuple[defaultdict[str, list[str]], ...]


def _no_packages() -> _Packages:
    return tuple(defaultdict(list) for _ in _KINDS)


class TagValues(Struct):
    """The compilers, systems, targets and variants that changed packages of a tag had, and how these changed."""

    steps: defaultdict[Step, defaultdict[str, list[str]]] = field(  # packages by stack
        default_factory=lambda: defaultdict(partial(defaultdict, list))
    )
    had: defaultdict[str, _Packages] = field(default_factory=lambda: defaultdict(_no_packages))  # by stack, before

    def add(self, package: str, values: PackageValues, stacks: Set[str] | None = None) -> None:
        """Add the values of one changed package: those in `stacks`, or in all stacks for None."""
        for stack, gone in values.gone.items():
            if stacks is None or stack in stacks:
                for step in _steps(gone, values.new[stack]):
                    self.steps[step][stack].append(package)
        had = values.had or _by_stack(values.kept)
        self._add_before(package, had if stacks is None else {stack: had[stack] for stack in stacks & had.keys()})

    def _add_before(self, package: str, by_stack: Mapping[str, _Held]) -> None:
        for stack, held in by_stack.items():
            for packages, texts in zip(self.had[stack], held, strict=True):
                for text in texts:
                    packages[text].append(package)

    def join(self, other: "TagValues") -> None:
        """Add the values of other packages."""
        for step, stacks in other.steps.items():
            for stack, own in stacks.items():
                self.steps[step][stack] += own
        for stack, held in other.had.items():
            for packages, theirs in zip(self.had[stack], held, strict=True):
                for text, names in theirs.items():
                    packages[text] += names

    def widespread(self, unchanged: Callable[[], Mapping[str, Collection[Signature]]]) -> tuple[ValueChange, ...]:
        """Return up to 100 changes of values that are widespread in the tag, changes in most packages first.

        A change is widespread if, in a stack, at least five packages have it, and four fifths of the packages with the
        old value. `unchanged` reads the documents that did not change; their packages count as still having the old
        value.
        """
        taken = {step: stacks for step, stacks in self.steps.items() if max(map(len, stacks.values())) >= FEW_PACKAGES}
        if not taken:
            return ()
        same = TagValues()
        for package, signatures in unchanged().items():
            same._add_before(package, _by_stack(signatures))

        def had(stack: str, value: Attribute) -> list[str]:
            number = _KINDS.index(value.kind)
            own = (side.had[stack][number] for side in (self, same) if stack in side.had)
            return [name for packages in own for name in packages.get(value.text, ())]

        def taking(step: Step, stack: str) -> Mapping[Attribute, Set[str]]:
            """Return, by old value, the packages in `stack` whose value changed as `step` says."""
            own = set(self.steps[step][stack])
            if step.before:
                return {step.before: own}
            values = [
                Attribute(kind, text) for kind, texts in zip(_KINDS, self.had[stack], strict=True) for text in texts
            ]
            return {v: own.intersection(had(stack, v)) for v in values if step.after and v.name == step.after.name}

        alike: dict[tuple[StatementKind, frozenset[str], frozenset[str]], list[tuple[Set[Attribute], Step]]] = {}
        for step, stacks in taken.items():
            found, before = {stack: taking(step, stack) for stack in stacks}, frozenset[Attribute]()
            for stack, packages in found.items():
                most = [value for value, own in packages.items() if len(own) >= _SHARE * len(had(stack, value))]
                if len(_union(packages, most)) >= FEW_PACKAGES:
                    before = before.union(most)
            joined = {stack: own for stack, packages in found.items() if (own := _union(packages, before))}
            if before:
                key = step.kind, frozenset[str]().union(*joined.values()), frozenset(joined)
                alike.setdefault(key, []).append((before, step))
        changes = [
            ValueChange(
                kind=kind,
                before=tuple(sorted(before)),
                after=tuple(sorted({step.after for _, step in steps if step.after is not None})),
                packages=names,
                stacks=stacks,
                exceptions=() if kind is StatementKind.BESIDE else _exceptions(stacks, before, self.steps, had),
                elsewhere=frozenset(
                    (package, stack)
                    for stack, value in product(self.had.keys() - stacks, before)
                    for package in names.intersection(had(stack, value))
                ),
            )
            for (kind, names, stacks), steps in alike.items()
            for before in [frozenset[Attribute]().union(*[values for values, _ in steps])]
        ]
        return tuple(sorted(changes, key=lambda one: (-len(one.packages), one.name))[:_MOST])


def _union(packages: Mapping[Attribute, Set[str]], values: Iterable[Attribute]) -> frozenset[str]:
    return frozenset[str]().union(*[packages[value] for value in values if value in packages])


def _exceptions(
    stacks: Set[str],
    before: Set[Attribute],
    taken: Mapping[Step, Mapping[str, Iterable[str]]],
    had: Callable[[str, Attribute], Iterable[str]],
) -> tuple[tuple[str, str], ...]:
    """Return sorted (package, stack) for each package that still has one of the values `before` in one of `stacks`.

    `had` returns the packages of a stack that had a value; `taken` has those that changed it, by step and stack.
    """
    left = {
        (stack, step.before, package)
        for step, by_stack in taken.items()
        if step.before in before
        for stack in by_stack.keys() & stacks
        for package in by_stack[stack]
    }
    still = {
        (package, stack)
        for stack, value in product(stacks, before)
        for package in had(stack, value)
        if (stack, value, package) not in left
    }
    return tuple(sorted(still))
