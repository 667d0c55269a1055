"""The facts of statements in words, the same on a terminal, on a page and in a mail."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial

from cachewatch.core.model import Place
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.statements import Line, Remains, Statement, StatementKind
from cachewatch.core.statements.values import Stay
from cachewatch.core.untrusted_text import safe_name

# How many stacks and the like are named in one place.
MOST_NAMES = 3

# How a section of each kind is called. Kinds that are told in one sentence have none.
HEADINGS = {
    StatementKind.PACKAGE_REMOVED: "Packages removed",
    StatementKind.PACKAGE_ADDED: "New packages",
    StatementKind.DOWNGRADED: "Downgraded",
    StatementKind.UPGRADED: "Upgraded",
    StatementKind.PLACE_LOST: "No build any more",
    StatementKind.PLACE_GAINED: "Built in more places",
    StatementKind.RETIRED: "Older versions retired",
    StatementKind.EXTENDED: "Older versions added",
    StatementKind.NARROWED: "Fewer configurations",
    StatementKind.WIDENED: "More configurations",
    StatementKind.RECONFIGURED: "Built in another way",
    StatementKind.MOVED: "Moved between stacks",
    StatementKind.UNREFERENCED: "Built by no stack any more",
    StatementKind.PRUNED: "Pruned",
    StatementKind.SURPLUS: "Fewer copies",
    StatementKind.EXTRA_COPY: "More copies",
    StatementKind.REBUILT: "Rebuilt",
}

# What becomes of the specs of a statement, for sums: "+96: 64 rebuilt, 15 in upgrades".
SHARES = {
    StatementKind.TAG_REMOVED: "with the tag",
    StatementKind.TAG_ADDED: "with the tag",
    StatementKind.STACK_REMOVED: "in stacks that left",
    StatementKind.STACK_ADDED: "in stacks that joined",
    StatementKind.MIGRATION: "migrated",
    StatementKind.PRUNE: "pruned",
    StatementKind.REBUILD_WAVE: "rebuilt",
    StatementKind.PACKAGE_REMOVED: "in removed packages",
    StatementKind.PACKAGE_ADDED: "in new packages",
    StatementKind.DOWNGRADED: "in downgrades",
    StatementKind.UPGRADED: "in upgrades",
    StatementKind.PLACE_LOST: "in lost builds",
    StatementKind.PLACE_GAINED: "in new places",
    StatementKind.RETIRED: "of older versions",
    StatementKind.EXTENDED: "of older versions",
    StatementKind.NARROWED: "of other configurations",
    StatementKind.WIDENED: "of other configurations",
    StatementKind.RECONFIGURED: "built in another way",
    StatementKind.MOVED: "moved",
    StatementKind.UNREFERENCED: "of no stack",
    StatementKind.PRUNED: "pruned",
    StatementKind.SURPLUS: "in fewer copies",
    StatementKind.EXTRA_COPY: "in more copies",
    StatementKind.REBUILT: "rebuilt",
}


# What is still there of what a place lost.
_STILL = {
    Remains.UNTIL_PRUNE: "the binaries stay until the next prune",
    Remains.ANOTHER: "another stack has a build of the same version",
    Remains.SAME: "the same binaries are still in the cache",
}
_LONGEST_NAME = 60
_USUAL_VERSION = 12  # characters
_CACHE = "cache"  # the stack of a build cache that names none


def number(count: int, noun: str, plural: str = "") -> str:
    """Return `count` with its noun: 1 spec, 1,204 specs."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


# What says which versions took the place of which.
BY_VERSION = (StatementKind.UPGRADED, StatementKind.DOWNGRADED)
# These name compilers, systems or variants beside versions.
_CONFIGURATIONS = (StatementKind.NARROWED, StatementKind.WIDENED, StatementKind.RECONFIGURED)

# What happened to a package, by what was there before and what is there now.
_FACTS: Mapping[StatementKind, Callable[[str, str], str]] = {
    StatementKind.PACKAGE_REMOVED: lambda before, _: f"removed, had {before}" if before else "removed",
    StatementKind.PACKAGE_ADDED: lambda _, after: after or "without specs",
    StatementKind.PRUNED: lambda before, _: f"{before} removed" if before else "",
    StatementKind.RETIRED: lambda before, after: f"{before} removed" + (f", {after} added" if after else ""),
    StatementKind.EXTENDED: lambda _, after: f"{after} added",
    StatementKind.NARROWED: lambda before, after: (
        f"{before} no longer with {after}" if after else f"{before} in fewer combinations"
    ),
    StatementKind.WIDENED: lambda before, after: (
        f"{after} now also with {before}" if before else f"{after} in more combinations"
    ),
    StatementKind.RECONFIGURED: lambda before, after: f"{before or 'default'} -> {after or 'default'}",
    StatementKind.REBUILT: lambda *_: "",
    StatementKind.UNREFERENCED: lambda before, _: f"{before} goes at the next prune".strip(),
}


def fact(line: Line, most: int = MOST_NAMES) -> str:
    """Say what happened to the package of one line: `1.14.5 -> 1.14.6`, `left radiuss`.

    Up to `most` stacks are named, and about as many versions.
    """
    story = line.story
    if story.kind in BY_VERSION:
        return " ".join(filter(None, (replacement(line, most), staying(line, most))))
    if story.is_system:
        return (
            f"no longer for {' '.join(map(safe_name, story.before))}, now for {' '.join(map(safe_name, story.after))}"
        )
    listed = _listed if story.kind in _CONFIGURATIONS else partial(_versions, most=most)
    before, after = listed(story.before), listed(story.after)
    if story.kind is StatementKind.MOVED:
        return f"{before} {_moved(line, most)}".strip()
    said = _FACTS.get(story.kind)
    return said(before, after) if said else before or after


def replacement(line: Line, most: int = MOST_NAMES) -> str:
    """Name the versions of an upgrade or a downgrade: `0.3.1 -> 0.4.0`."""
    before, after = (_versions(side, most) or "no version" for side in (line.story.before, line.story.after))
    return f"{before} -> {after}"


def staying(line: Line, most: int = MOST_NAMES) -> str:
    """Say of an upgrade that its old version stays, of a downgrade that its new one was there: `(0.3.1 stays)`."""
    story = line.story
    if not story.stays:
        return ""
    is_upgrade = story.kind is StatementKind.UPGRADED
    version = safe_name((story.before if is_upgrade else story.after)[-1])
    scope = "" if story.stays >= story.places else f" in {_stacks(story.stays, most)}"
    return f"({version} {'stays' if is_upgrade else 'was there'}{scope})"


def where(line: Line, most: int = MOST_NAMES) -> str:
    """Say where it happened: `in 7 of 9 stacks; not yet in e4s-cray`, `in e4s, radiuss on aarch64`.

    Up to `most` stacks are named.
    """
    story = line.story
    stacks = {place.stack for place in story.places}
    if story.kind is StatementKind.UPGRADED and story.of_stacks > 1:
        told = _of_stacks(stacks, story.of_stacks, most)
        return f"{told}; not yet in {names(story.behind, most)}" if story.behind else told
    if story.kind is StatementKind.MOVED:
        return ""
    if story.places:
        return in_places(story.places, most)
    return f"in {stacks_named(line.stacks, most)}" if line.stacks else ""


def there_since(line: Line) -> str:
    """Say since when what was removed had been there; empty where that is not known."""
    if line.stay is None:
        return ""
    return f"was there since {line.stay.day}{' or before' if line.stay.or_before else _lasted(line.stay)}"


def _lasted(stay: Stay) -> str:
    days = int(stay.days or 0)
    if not days:
        return ""
    return f", {'at least ' if stay.is_least else ''}{number(days, 'day')}"


def _of_stacks(stacks: Set[str], of_stacks: int, most: int) -> str:
    if len(stacks) == 1 or MOST_NAMES < most >= len(stacks):
        return f"in {stacks_named(stacks, most)} ({len(stacks)} of {number(of_stacks, 'stack')})"
    return f"in {len(stacks)} of {of_stacks} stacks"


def in_places(places: Iterable[Place], most: int = MOST_NAMES) -> str:
    """Name places: `in e4s, radiuss on aarch64`; targets only where there are few."""
    places = set(places)
    if not places:
        return ""
    targets = sorted({place.target for place in places})
    stacks = f"in {stacks_named({place.stack for place in places}, most)}"
    if len(targets) < most:
        return f"{stacks} on {names(targets, len(targets))}"
    return f"{stacks} on {len(targets)} targets"


def names(words: Sequence[str], most: int = MOST_NAMES) -> str:
    """Name the first of `words`, and count the rest."""
    told = [safe_name(word)[:_LONGEST_NAME] for word in words[:most]]
    rest = len(words) - len(told)
    return ", ".join(told) + (f" and {rest:,} more" if rest else "")


def replaced(statement: Statement) -> str:
    """Say what took the place of what in a migration: `gcc 11.4.0 -> 13.3.0`."""
    before, after = statement.before, statement.after
    if len(before) == len(after) == 1:
        (old,), (new,) = before, after
        name, at, version = old.partition("@")
        other, _, newer = new.partition("@")
        if at and name == other:
            return safe_name(f"{name} {version} -> {newer}")
    return safe_name(f"{' '.join(before)} -> {' '.join(after)}")


def _moved(line: Line, most: int) -> str:
    parts = [f"joined {stacks_named(line.joined, most)}"] if line.joined else []
    parts += [f"left {stacks_named(line.left, most)}"] if line.left else []
    return ", ".join(parts)


def remaining(one: Statement, packages: Sequence[str] | None = None) -> str:
    """Say what is still there of the packages that a place lost, or of those chosen; empty where nothing is."""
    chosen = set(one.packages if packages is None else packages)
    said = []
    for remains, words in _STILL.items():
        if found := [package for package in one.with_remains(remains) if package in chosen]:
            said.append(words if len(found) == len(chosen) else f"{names(found)}: {words}")
    return "; ".join(said)


def stack_name(stack: str) -> str:
    """Name a stack so that it cannot be taken for something else: that of a recorded build cache is called `cache`."""
    return "stack cache" if stack == _CACHE else safe_name(stack)[:_LONGEST_NAME]


def place_name(name: str) -> str:
    """Name a lost place, `e4s (x86_64_v3)`, likewise."""
    return f"stack {safe_name(name)}" if name.startswith(f"{_CACHE} (") else safe_name(name)


def stacks_named(stacks: Iterable[str], most: int = MOST_NAMES) -> str:
    """Name stacks, more than `most` only by their number."""
    found = sorted(stacks)
    return ", ".join(map(stack_name, found)) if len(found) <= most else f"{len(found)} stacks"


def _stacks(places: Iterable[Place], most: int) -> str:
    return stacks_named({place.stack for place in places}, most)


def _versions(words: Sequence[str], most: int) -> str:
    """Name versions, oldest first: as many of the newest as fit into a line, and the number of the others."""
    told: list[str] = []
    room = most * _USUAL_VERSION
    for version in map(safe_name, reversed(words)):
        room -= len(f"{version}, ")
        if told and room < 0:
            break
        told.append(version)
    rest = len(words) - len(told)
    return ", ".join(reversed(told)) + (f" and {rest:,} more" if rest else "")


def _listed(words: Sequence[str]) -> str:
    return ", ".join("no compiler" if word == NO_COMPILER else safe_name(word) for word in words)
