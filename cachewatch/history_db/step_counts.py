"""How many specs a version added, removed and rebuilt, by the laws of the comparison (docs/laws.md)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from cachewatch.core.compare import compare
from cachewatch.core.compare.normalizing import reused_hashes
from cachewatch.core.model import CompilerForm, Document, MatchKind, Signature, Specs
from cachewatch.core.package_facts import facts_of
from cachewatch.core.versions import version_identity
from cachewatch.history_db.indexed_document import Step, Tally

BySpec = Mapping[str, Signature]
Counts = Mapping[Signature, int]
# The specs of a document, and how it writes compilers.
Side = tuple[BySpec, CompilerForm]


class Difference(Struct, frozen=True):
    """The specs that a version removed and added, and those that it has with another signature, by hash.

    A hash that names another spec now is among those removed and those added.
    """

    went: BySpec
    came: BySpec
    changed: Mapping[str, tuple[Signature, Signature]]  # in other stacks, or written differently

    def __bool__(self) -> bool:
        return bool(self.went or self.came or self.changed)


def difference(before: BySpec, after: BySpec) -> Difference:
    """Return what leads from the specs of one version to those of the next."""
    kept = before.keys() & after.keys()
    # Documents that are read together share their signatures, so most are one object.
    differing = [one for one in kept if before[one] is not after[one] and before[one] != after[one]]
    kept -= reused_hashes(before, after, differing)
    return Difference(
        {one: signature for one, signature in before.items() if one not in kept},
        {one: signature for one, signature in after.items() if one not in kept},
        {one: (before[one], after[one]) for one in differing if one in kept},
    )


def count_step(
    package: str, revision: int, found: Difference, before: Side, after: Side, *, is_compiler_unknown: bool
) -> tuple[Step | None, list[Tally]]:
    """Return what `found` is in numbers; no step if it neither added nor removed specs."""
    went, came = _counted(found.went.values()), _counted(found.came.values())
    if is_compiler_unknown or _is_written_variously(went.keys() | came.keys()):
        rebuilt = _compared(package, before, after)
    else:
        rebuilt = {signature: min(count, came[signature]) for signature, count in went.items() if signature in came}
    step = Step(revision, len(found.came), len(found.went), sum(rebuilt.values()), is_compiler_unknown)
    tallies = list(_tallies(revision, found, went, came, rebuilt))
    return step if step.added or step.removed else None, tallies


def _counted(signatures: Iterable[Signature]) -> Counts:
    """Count `signatures`; there are a few, for which a Counter takes several times as long."""
    counts: dict[Signature, int] = {}
    for signature in signatures:
        counts[signature] = counts.get(signature, 0) + 1
    return counts


def _is_written_variously(signatures: Iterable[Signature]) -> bool:
    """Tell whether two versions are equal for Spack and written differently (1.2, 1-2)."""
    versions = {version for signature in signatures for version in signature.versions}
    return len(versions) > 1 and len({version_identity(version) for version in versions}) < len(versions)


def _compared(package: str, before: Side, after: Side) -> Counts:
    """Return the rebuilt specs as the whole comparison finds them."""
    change = compare(package, _document(package, *before), _document(package, *after))
    rebuilt: Counter[Signature] = Counter()
    for match in change.matches if change else ():
        if match.kind is MatchKind.REBUILT:
            rebuilt[match.before] += match.count
    return rebuilt


def _document(package: str, specs: BySpec, form: CompilerForm) -> Document:
    held = Specs.of(specs)
    return Document(package=package, tag="", specs=held, facts=facts_of(held.counts), compiler_form=form)


def _tallies(revision: int, found: Difference, went: Counts, came: Counts, rebuilt: Counts) -> Iterator[Tally]:
    """Yield the counts by set of stacks; the empty set stands for specs that no stack builds."""
    by_stacks: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for place, counts in enumerate((came, went, rebuilt)):
        for signature, count in counts.items():
            by_stacks[signature.stacks][place] += count
    for before, after in found.changed.values():
        for place, (some, others) in enumerate(((after.stacks, before.stacks), (before.stacks, after.stacks))):
            joined = tuple(stack for stack in some if stack not in others)
            if joined or (not some and others):
                by_stacks[joined][place] += 1
    for stacks, (added, removed, same) in sorted(by_stacks.items()):
        yield Tally(stacks, revision, added, removed, same)
