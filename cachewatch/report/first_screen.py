"""The first screen: what readers have to act on, what they should know, and what they may ignore."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from cachewatch.core.model import LossClass
from cachewatch.core.names import safe_name
from cachewatch.core.statement_values import RANKS, Counts, Severity, Statement, StatementKind
from cachewatch.report import words as rebuild_reasons
from cachewatch.report.words import Reason, fact, names, number, place_name, replaced, stack_name

_MOST_ACTS = 5
_MOST_PLACES = 3
_FEW_NAMES = 4
_NEARLY_ALL = 0.8

_OFTEN = "often a failed pipeline: keep what is installed, and look again after the next revision"


def act(statements: Sequence[Statement], base: str = "", own: Sequence[str] = ()) -> list[str]:
    """Return what to do, worst first; nothing where nothing is to be done.

    `base` is the snapshot that a new one is compared with, where one may stay with it; `own`
    is what to do about the reader's own environment.
    """
    by_kind = _by_kind(one for one in statements if not one.is_harmless)
    said = [sentence for kind, say in _ACTS.items() if kind in by_kind for sentence in say(by_kind[kind])]
    more = len(said) - _MOST_ACTS
    if said:
        is_missed = any(one.severity is Severity.ATTENTION for one in statements)
        stay = [f"if you need what is lost, stay on {safe_name(base)}."] if base and is_missed else []
        rest = [f"{number(more, 'more loss', 'more losses')}, listed below."] if more > 0 else []
        return [*own, *said[:_MOST_ACTS], *rest, *stay]
    if own:
        return list(own)
    return [sentence for kind, say in _ADVICE.items() if kind in by_kind for sentence in say(by_kind[kind])][
        :_MOST_ACTS
    ]


def know(statements: Sequence[Statement]) -> str:
    """Count what is news: `1 migration, 3 upgrades, 2 new packages`."""
    counted = Counter(one.kind for one in statements if one.severity is Severity.NEWS)
    packages = {
        kind: len({package for one in statements if one.kind is kind for package in one.packages}) for kind in counted
    }
    said = [
        number(count if kind in _BY_STATEMENT else packages[kind], *_NEWS[kind])
        for kind, count in sorted(counted.items(), key=lambda pair: RANKS[pair[0]])
        if kind in _NEWS
    ]
    return ", ".join(said)


def part_routine(found: Sequence[Statement], packages: frozenset[str]) -> tuple[list[Statement], list[Statement]]:
    """Part what is routine and happened to any of `packages` from all else: it is behind what readers act on."""
    parts: tuple[list[Statement], list[Statement]] = ([], [])
    for one in found:
        is_routine = one.severity is Severity.ROUTINE or one.kind is StatementKind.REBUILD_WAVE
        parts[not is_routine or packages.isdisjoint(one.packages)].append(one)
    return parts


def ignore(statements: Sequence[Statement], rest: Sequence[Statement]) -> str:
    """Say what is routine, asked for or not: rebuilt specs, copies, prunes."""
    routine = [one for one in (*statements, *rest) if one.severity is Severity.ROUTINE]
    wave = [one for one in rest if one.kind is StatementKind.REBUILD_WAVE]
    counts: dict[StatementKind, Counts] = {}
    for one in routine:
        counts[one.kind] = counts.get(one.kind, Counts()) + one.counts
    whole = {one.kind: one.of for one in routine if one.of and one.of > one.counts.total}
    said = [
        _ROUTINE[kind].format(found.specs) + (f" ({whole[kind]:,} in the whole tag)" if kind in whole else "")
        for kind, found in counts.items()
        if kind in _ROUTINE
    ]
    said += [_rebuilt_in_place(one) for one in routine if one.kind is StatementKind.REBUILT]
    said += [f"{number(one.counts.new, 'spec')} rebuilt in place of the old ones{_reasons(one)}" for one in wave]
    others = [
        one for one in rest if one.kind is not StatementKind.REBUILD_WAVE and one.severity is not Severity.ROUTINE
    ]
    hidden = sum((one.counts for one in others), start=Counts())
    if hidden.total:
        said.append(f"{number(hidden.specs, 'spec')} changed in ways that this digest does not list")
    return "; ".join(said)


def reasons(statements: Sequence[Statement], rest: Sequence[Statement]) -> list[Reason]:
    """Return why specs were rebuilt, whether that was asked for or not."""
    return rebuild_reasons.reasons_of(cause for one in (*statements, *rest) for cause in one.causes)


def _rebuilt_in_place(one: Statement) -> str:
    few = f" ({names(one.packages, _FEW_NAMES)})" if len(one.packages) <= _FEW_NAMES else ""
    why = _reasons(one) or ", nothing else about them changed"
    return f"{number(one.counts.specs, 'spec')} rebuilt{few}{why}"


def _reasons(one: Statement) -> str:
    """Say why specs were rebuilt, behind how many: ` because of zlib 1.3 -> 1.3.1`, or a list of shares."""
    told = rebuild_reasons.shares(one)
    reasons = f"{': ' if told[0].isdigit() else ' '}{told}" if told else ""
    note = rebuild_reasons.not_written(one)
    return f"{reasons}; {note}" if note else reasons


def sentence_of_tag(one: Statement, base: str = "") -> str:
    """Say what happened to the whole tag, with those to whom it did not happen.

    `base` is the snapshot that a new one is compared with.
    """
    if base and one.kind is StatementKind.REBUILD_WAVE:
        return f"{rebuilt(one)} since {safe_name(base)}, so pinned hashes differ: {_sizes(one)}{_behind(one)}"
    packages, specs = number(len(one.packages), "package"), number(one.counts.specs, "spec")
    of = f" of the tag's {one.of:,} changes" if one.of and one.of != one.counts.total else ""
    return _SENTENCES[one.kind](one, packages, specs + of)


def _sizes(one: Statement) -> str:
    return f"{number(len(one.packages), 'package')}, {number(one.counts.specs, 'spec')}"


def still_on(one: Statement) -> str:
    """Name the packages to which a migration did not happen."""
    if not one.exceptions:
        return ""
    return f"still on {safe_name(' '.join(one.before))}: {names(one.exceptions, _FEW_NAMES)}"


def _migration(one: Statement, packages: str, specs: str) -> str:
    stacks = names([stack_name(stack) for stack in one.stacks])
    still = still_on(one)
    return f"{replaced(one)}: {packages}, {specs}, in {stacks}{f'; {still}' if still else ''}"


def _wave(one: Statement, packages: str, specs: str) -> str:
    if is_beside(one):
        new = number(one.counts.new, "new spec")
        still = "the old builds are still there and go at the next prune"
        return f"{rebuilt(one)} ({packages}, {new}){_behind(one)}; {still}"
    return f"{rebuilt(one)}, in place of the old builds: {packages}, {specs}{_behind(one)}"


def _behind(one: Statement) -> str:
    """Say why a tag was rebuilt, behind a sentence that ends with numbers."""
    told = (rebuild_reasons.shares(one), rebuild_reasons.not_written(one))
    return "".join(f"; {part}" for part in told if part)


def is_beside(wave: Statement) -> bool:
    """Tell whether the old builds stay beside the new ones."""
    return wave.counts.beside > 0


def rebuilt(wave: Statement) -> str:
    """Say how much was rebuilt."""
    share = len(wave.packages) / max(1, wave.of_packages)
    return "everything was rebuilt" if share >= _NEARLY_ALL else f"{share:.0%} of the packages were rebuilt"


_SENTENCES: Mapping[StatementKind, Callable[[Statement, str, str], str]] = {
    StatementKind.TAG_REMOVED: lambda one, packages, specs: (
        f"tag {safe_name(one.name)} was removed: {packages}, {specs}"
    ),
    StatementKind.TAG_ADDED: lambda one, packages, specs: f"tag {safe_name(one.name)} is new: {packages}, {specs}",
    StatementKind.RETURNED: lambda one, packages, _: f"{packages} of {one.of_packages:,} are back",
    StatementKind.STACK_MERGED: lambda one, packages, _: f"stacks {safe_name(one.name)}: {packages}",
    StatementKind.BESIDE: lambda one, packages, _: f"{safe_name(one.name)}, beside: {packages}",
    StatementKind.NO_LONGER: lambda one, packages, _: f"{packages} no longer with {safe_name(one.name)}",
    StatementKind.TURNOVER: lambda one, *_: (
        f"{one.turnover.gone / one.turnover.before:.0%} of the binaries are gone" if one.turnover else ""
    ),
    StatementKind.SUSPICIOUS: lambda one, *_: f"suspicious: {safe_name(one.name)}; publishing may have failed",
    StatementKind.STACK_REMOVED: lambda one, packages, specs: (
        f"stack {safe_name(one.name)} disappeared: {packages}, {specs}"
    ),
    StatementKind.STACK_ADDED: lambda one, packages, specs: f"stack {safe_name(one.name)} is new: {packages}, {specs}",
    StatementKind.MIGRATION: _migration,
    StatementKind.PRUNE: lambda _, packages, specs: (
        f"a routine prune deleted {specs} of {packages}: copies, older versions and what no stack built"
    ),
    StatementKind.REBUILD_WAVE: _wave,
}


def _suspicious(found: Sequence[Statement]) -> Iterator[str]:
    yield from (f"wait: {safe_name(one.name)}, publishing may have failed." for one in found)


def _stacks_removed(found: Sequence[Statement]) -> Iterator[str]:
    for one in found:
        kept = (
            f" Its {number(one.counts.kept, 'binary', 'binaries')} stay until the next prune."
            if one.counts.kept
            else ""
        )
        yield f"stack {safe_name(one.name)} disappeared ({number(len(one.packages), 'package')}), {_OFTEN}.{kept}"


def _pins(found: Sequence[Statement]) -> Iterator[str]:
    for one in found:
        old, new = safe_name(" ".join(one.before)), safe_name(" ".join(one.after))
        left = f"only {names(one.exceptions, _FEW_NAMES)} still" if one.exceptions else "no package any more"
        verb = "have" if len(one.exceptions) > 1 else "has"
        yield f"no package is lost. If you pin {old}, move to {new}: {left} {verb} {old}."


def _waves(found: Sequence[Statement]) -> Iterator[str]:
    if any(is_beside(one) for one in found):
        yield "the next prune deletes the old builds: mirror those that you pin by hash, or re-concretize before it."
    else:
        yield "nothing is lost: re-concretize if you pin hashes, for all of these are new."


def _packages_removed(found: Sequence[Statement]) -> Iterator[str]:
    listed = names([one.name for one in found], _FEW_NAMES)
    yield f"{listed} {'has' if len(found) == 1 else 'have'} no binaries any more: Spack builds from source."


def _downgraded(found: Sequence[Statement]) -> Iterator[str]:
    for one in found:
        yield f"{safe_name(one.name)} went back ({fact(one.lines[0])}): re-concretize, or stay on an earlier snapshot."


def _places_lost(found: Sequence[Statement]) -> Iterator[str]:
    for one in found[:_MOST_PLACES]:
        for remains, words in _REMAINS.items():
            if packages := one.with_class(remains):
                yield words.format(
                    place=place_name(one.name),
                    names=names(packages, _FEW_NAMES),
                    its="its binaries" if len(packages) == 1 else "their binaries",
                )
    if len(found) > _MOST_PLACES:
        yield f"{number(len(found) - _MOST_PLACES, 'more place')} lost packages, listed below."


# What to do about what a place lost, by what is still there; the worst first.
_REMAINS = {
    LossClass.GONE: "in {place}, {names} must be built from source.",
    LossClass.GOING: "no stack builds {names} of {place} any more: {its} stay until the next prune.",
    LossClass.OTHER: "{place} no longer builds {names}; another version or build is there: re-concretize to get it.",
}


_ACTS: Mapping[StatementKind, Callable[[Sequence[Statement]], Iterator[str]]] = {
    StatementKind.SUSPICIOUS: _suspicious,
    StatementKind.TAG_REMOVED: lambda found: (
        f"tag {safe_name(one.name)} was removed: use another one." for one in found
    ),
    StatementKind.STACK_REMOVED: _stacks_removed,
    StatementKind.PACKAGE_REMOVED: _packages_removed,
    StatementKind.DOWNGRADED: _downgraded,
    StatementKind.PLACE_LOST: _places_lost,
}

# What may be back, as what it would be told as new.
_JOINED = {
    StatementKind.TAG_ADDED: "tag",
    StatementKind.STACK_ADDED: "stack",
    StatementKind.PACKAGE_ADDED: "package",
}

# What to do where nothing is lost.
_ADVICE: Mapping[StatementKind, Callable[[Sequence[Statement]], Iterator[str]]] = {
    StatementKind.REBUILD_WAVE: _waves,
    StatementKind.MIGRATION: _pins,
}

_BY_STATEMENT = (
    StatementKind.TAG_ADDED,
    StatementKind.STACK_ADDED,
    StatementKind.MIGRATION,
    StatementKind.REBUILD_WAVE,
)
_NEWS: Mapping[StatementKind, tuple[str, str]] = {
    StatementKind.TAG_ADDED: ("new tag", "new tags"),
    StatementKind.STACK_ADDED: ("new stack", "new stacks"),
    StatementKind.MIGRATION: ("migration", "migrations"),
    StatementKind.REBUILD_WAVE: ("rebuild of everything", "rebuilds of everything"),
    StatementKind.PACKAGE_ADDED: ("new package", "new packages"),
    StatementKind.UPGRADED: ("upgrade", "upgrades"),
    StatementKind.PLACE_LOST: (
        "package in fewer places (same binaries)",
        "packages in fewer places (same binaries)",
    ),
    StatementKind.PLACE_GAINED: ("package in more places", "packages in more places"),
    StatementKind.RETIRED: ("package with older versions retired", "packages with older versions retired"),
    StatementKind.EXTENDED: ("package with older versions added", "packages with older versions added"),
    StatementKind.NARROWED: ("package with fewer configurations", "packages with fewer configurations"),
    StatementKind.WIDENED: ("package with more configurations", "packages with more configurations"),
    StatementKind.RECONFIGURED: ("package built in another way", "packages built in another way"),
    StatementKind.MOVED: ("package moved between stacks", "packages moved between stacks"),
    StatementKind.UNREFERENCED: (
        "package with builds that the next prune deletes",
        "packages with builds that the next prune deletes",
    ),
}
_ROUTINE = {
    StatementKind.PRUNE: "a routine prune of {:,} old builds",
    StatementKind.PRUNED: "{:,} specs pruned that no stack built",
    StatementKind.SURPLUS: "{:,} fewer copies of the same build",
    StatementKind.EXTRA_COPY: "{:,} more copies of the same build",
}


def _by_kind(statements: Iterable[Statement]) -> Mapping[StatementKind, list[Statement]]:
    found: dict[StatementKind, list[Statement]] = {}
    for one in statements:
        found.setdefault(one.kind, []).append(one)
    return found
