"""The words that all reports share: facts of statements, counts that add up, elapsed times, and causes of rebuilds."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import partial

from msgspec import Struct

from cachewatch.core.assessment import packages_of
from cachewatch.core.causes import Cause, Value, What
from cachewatch.core.changesets import Report
from cachewatch.core.model import Kind, Loss, LossClass, Place
from cachewatch.core.names import safe_name
from cachewatch.core.spack import NO_COMPILER
from cachewatch.core.statement_values import RANKS, CauseCount, Counts, Line, Statement, StatementKind, Stay
from cachewatch.core.statements import Wants
from cachewatch.report.words_file import Words, words

# How many stacks and the like are named in one place.
MOST_NAMES = 3

_LONGEST_NAME = 60
_USUAL_VERSION = 12  # characters
_CACHE = "cache"  # the stack of a build cache that names none


def number(count: int, noun: str, plural: str = "") -> str:
    """Return `count` with its noun: 1 spec, 1,204 specs."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


# What says which versions took the place of which.
BY_VERSION = (StatementKind.UPGRADED, StatementKind.DOWNGRADED)
# What is about compilers, systems or variants of many packages.
VALUES = (StatementKind.MIGRATION, StatementKind.BESIDE, StatementKind.NO_LONGER)
# These name compilers, systems or variants beside versions.
_CONFIGURATIONS = (StatementKind.NARROWED, StatementKind.WIDENED, StatementKind.RECONFIGURED)


def heading_of(kind: StatementKind) -> str:
    """Return how a section of statements of this kind is called; those that are told in one sentence have none."""
    return words().text(kind, "heading")


def share_of(kind: StatementKind) -> str:
    """Return what became of the specs of a statement, for sums: "+96: 64 rebuilt, 15 in upgrades"."""
    return words().text(kind, "share")


def fact(line: Line, most: int = MOST_NAMES) -> str:
    """Say what happened to the package of one line: `1.14.5 -> 1.14.6`, `fewer in radiuss`.

    Up to `most` stacks are named, and about as many versions.
    """
    story = line.story
    if story.kind in BY_VERSION:
        told = " ".join(filter(None, (replacement(line, most), staying(line, most))))
        return ", ".join(filter(None, (told, *_beside(line, most), _moves(line, most) if line.is_move else "")))
    if story.is_system:
        old, new = (" ".join(map(safe_name, side)) for side in (story.before, story.after))
        versions = _versions(story.versions, most)
        fewer = "no longer" if set(story.before).isdisjoint(story.remaining) else "fewer"
        more = "now" if set(story.after).isdisjoint(story.remaining) else "more"
        return f"{versions} {fewer} for {old}, {more} for {new}".strip()
    listed = _compilers_listed if story.kind in _CONFIGURATIONS else partial(_versions, most=most)
    before, after = listed(story.before), listed(story.after)
    if story.kind is StatementKind.MOVED:
        return f"{before} {_moves(line, most)}".strip()
    if story.kind is StatementKind.RECONFIGURED:
        before, after = before or "default", after or "default"
    new = _versions(story.versions, most)
    values = {"new" if story.versions == story.after else "some": new, "also": "also" if story.remaining else ""}
    told = next(iter(words().forms(story.kind, "fact", len(story.versions), before=before, after=after, **values)), "")
    if story.kind is StatementKind.UNREFERENCED and before and set(story.before) <= set(story.remaining):
        told = words().say(story.kind, "others_stay", before=before)
    if story.kind is StatementKind.RECONFIGURED and story.remaining:
        told += f" ({_compilers_listed(story.remaining)} {'stays' if len(story.remaining) == 1 else 'stay'})"
    return ", ".join(
        filter(None, (told, _moves(line, most) if line.is_move and story.kind is not StatementKind.PLACE_LOST else ""))
    )


def replacement(line: Line, most: int = MOST_NAMES) -> str:
    """Name the versions of an upgrade or a downgrade: `0.3.1 -> 0.4.0`."""
    story = line.story
    pairs = story.pairs or ((_versions(story.before, most), _versions(story.after, most)),)
    return ", ".join(f"{safe_name(old) or 'no version'} -> {safe_name(new) or 'no version'}" for old, new in pairs)


def _beside(line: Line, most: int) -> Iterator[str]:
    """Name the versions that came or went beside the newest ones: `1.3.0 added`."""
    story = line.story
    for place, (versions, said) in enumerate(((story.before, "removed"), (story.after, "added"))):
        newest = {pair[place] for pair in story.pairs} or versions
        if others := [version for version in versions if version not in newest]:
            yield f"{_versions(others, most)} {said}"


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
    # Stacks that are not behind and were not upgraded had the version before: they are no part of what was.
    if (
        story.kind is StatementKind.UPGRADED
        and story.of_stacks > 1
        and (story.behind or len(stacks) == story.of_stacks)
    ):
        told = _of_stacks(stacks, story.of_stacks, most)
        return f"{told}; not yet in {names(story.behind, most)}" if story.behind else told
    if story.kind is StatementKind.MOVED:
        return ""
    if story.kind in BY_VERSION:
        return f"in {stacks_named(stacks, most)}"
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
    targets = sorted({place.target or "no target" for place in places})
    stacks = f"in {stacks_named({place.stack for place in places}, most)}"
    if len(targets) < most:
        return f"{stacks} on {names(targets, len(targets))}"
    return f"{stacks} on {len(targets)} targets"


def names(words: Sequence[str], most: int = MOST_NAMES) -> str:
    """Name the first of `words`, and count the rest."""
    told = [safe_name(word)[:_LONGEST_NAME] for word in words[:most]]
    rest = len(words) - len(told)
    return ", ".join(told) + (f" and {rest:,} more" if rest else "")


def change_of_values(one: Statement) -> str:
    """Say what took the place of what, or came beside it: `gcc 11.4.0 -> 13.3.0`, `gcc 13.3.0 beside 11.4.0`, `+mpi`."""
    before, after = " ".join(map(_value, one.before)), " ".join(map(_value, one.after))
    if one.kind is StatementKind.NO_LONGER:
        return safe_name(before)
    if one.kind is StatementKind.STACK_MERGED:
        return f"{', '.join(map(stack_name, one.before))} -> {', '.join(map(stack_name, one.after))}"
    old, _, older = before.partition(" ")
    new, _, newer = after.partition(" ")
    is_same = old == new and len(one.before) == len(one.after) == 1 and bool(older and newer)
    if one.kind is StatementKind.BESIDE:
        return safe_name(f"{after} beside {older if is_same else before}")
    return safe_name(f"{before} -> {newer if is_same else after}")


def _value(text: str) -> str:
    """Name a compiler with its version as people do; other values are as they are."""
    name, at, version = text.partition("@")
    return f"{name} {version}" if at and name and version else text


def _moves(line: Line, most: int) -> str:
    """Name the stacks that the specs left and joined: `fewer in e4s, now in radiuss`, but for the places of the line."""
    told = set() if line.story.kind is StatementKind.MOVED else {place.stack for place in line.story.places}
    found = (
        ("no longer in", line.left - line.staying),
        ("fewer in", line.left & line.staying),
        ("now in", line.joined - line.staying),
        ("more in", line.joined & line.staying),
    )
    return ", ".join(f"{said} {stacks_named(stacks - told, most)}" for said, stacks in found if stacks - told)


def reason_of(loss: Loss, own: Words | None = None) -> str:
    """Say what the tag has of what a place or a machine lost: `the same binary stays, e4s builds it`."""
    key = loss.loss_class.value
    if loss.loss_class is LossClass.OTHER and not loss.there:
        key = "other_variants"
    elif loss.loss_class is LossClass.GONE and loss.there:
        key = "gone_older"
    elif loss.loss_class is LossClass.EQUAL and loss.compiler:
        key = "equal_compiler"
    return (own or words()).say(
        "losses",
        key,
        len(loss.stacks),
        version=safe_name(loss.version) or "no version",
        there=safe_name(loss.there),
        stacks=stacks_named(loss.stacks),
        compiler=safe_name(loss.compiler),
        variants=" ".join(map(safe_name, loss.variants)) or "fewer variants",
    )


def and_more(found: Sequence[str], own: Words, most: int = MOST_NAMES) -> str:
    """Name the first of several, and count the rest: `umpire, raja, chai, 7 more`."""
    told = ", ".join(safe_name(one)[:_LONGEST_NAME] for one in found[:most])
    return f"{told}, {own.say('other', 'more', len(found) - most)}" if len(found) > most else told


def fates(one: Statement, own: Words) -> str:
    """Say what is there of the packages that a stack or a value had: `; 50 of its 60 packages have equal builds in e4s`."""
    said: list[str] = []
    for loss_class in LossClass:
        found = packages_of(one.losses, loss_class)
        if found and (one.kind is not StatementKind.STACK_MERGED or loss_class is not LossClass.KEPT):
            is_part = len(found) < len(one.packages) and one.kind not in VALUES
            of = f" of its {number(len(one.packages), 'package')}" if is_part else f" package{'s'[: len(found) > 1]}"
            where = Counter(
                stack
                for lost in one.losses
                if lost.loss and lost.loss.loss_class is loss_class
                for stack in lost.loss.stacks
            )
            stacks = ", ".join(map(stack_name, sorted(where))) if 0 < len(where) <= 2 else "other stacks"
            said.append(own.say("fates", loss_class, len(found), of="" if said else of, stacks=stacks))
    whom = f" for {safe_name(' '.join(one.before))}" if one.kind in VALUES else ""
    return f"; {', '.join(said)}{whom}" if said else ""


def stack_name(stack: str) -> str:
    """Name a stack so that it cannot be taken for something else: that of a recorded build cache is called `cache`."""
    return "stack cache" if stack == _CACHE else safe_name(stack)[:_LONGEST_NAME]


def place_name(one: Statement) -> str:
    """Name a lost place, `e4s (x86_64_v3)`, likewise; with its operating system if that is not Linux."""
    stack, _, machine = one.name.rpartition(" (")
    systems = sorted({system for lost in one.losses for system in lost.systems})
    return f"{stack_name(stack)} ({', '.join(map(safe_name, (*systems, machine)))}"


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


def _compilers_listed(words: Sequence[str]) -> str:
    return ", ".join("no compiler" if word == NO_COMPILER else safe_name(word) for word in words)


_MOST_SHARES = 6
# Kept specs of these are built by no stack any more.
_UNBUILT = (StatementKind.REBUILD_WAVE, StatementKind.UNREFERENCED, StatementKind.STACK_REMOVED)


def accounting(statements: Iterable[Statement]) -> str:
    """Return `+96: 64 rebuilt, 15 in upgrades; -79: 64 rebuilt, 15 in upgrades`; empty where nothing changed."""
    statements = sorted((one for one in statements if one.counts.total), key=lambda one: RANKS[one.kind])
    parts = [
        _side("+", _with_kept((share_of(one.kind), one.counts.new, one.counts.entered) for one in statements)),
        _side("-", _with_kept((share_of(one.kind), one.counts.vanished, one.counts.left) for one in statements)),
    ]
    kept = [(one.counts.stayed, one.kind in _UNBUILT) for one in statements]
    old = sum(count for count, is_old in kept if is_old)
    moved = sum(count for count, is_old in kept if not is_old)
    parts.append(f"{number(old, 'old build')} that may be pruned at any time" if old else "")
    parts.append(f"{number(moved, 'build')} kept, now in other stacks" if moved else "")
    return "; ".join(filter(None, parts))


def _with_kept(shares: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, int]]:
    """Yield how many specs of each share came (or went), and how many kept ones came into the selection (or left it)."""
    for name, count, kept in shares:
        if count:
            yield name, count
        if kept:
            yield f"kept {name}", kept


def _side(sign: str, shares: Iterable[tuple[str, int]]) -> str:
    counts: dict[str, int] = {}
    for share, count in shares:
        counts[share] = counts.get(share, 0) + count
    told = sorted(((count, share) for share, count in counts.items()), reverse=True)
    if not told:
        return ""
    listed = [f"{count:,} {share}" for count, share in told[:_MOST_SHARES]]
    rest = sum(count for count, _ in told[_MOST_SHARES:])
    return f"{sign}{sum(counts.values()):,}: {', '.join([*listed, *([f'{rest:,} others'] if rest else [])])}"


def span(report: Report) -> str:
    """Say how far the two states are apart: 3 revisions, 2 days; empty if that is unknown."""
    parts = []
    if report.revisions_between is not None and report.before.revision != report.after.revision:
        parts.append(number(report.revisions_between, "revision"))
    if report.before.time and report.after.time and report.before.time != report.after.time:
        apart = datetime.fromisoformat(report.after.time) - datetime.fromisoformat(report.before.time)
        seconds = apart.total_seconds()
        parts.append(f"{how_long(abs(seconds))} {'later' if seconds > 0 else 'earlier'}")
    return ", ".join(parts)


def how_long(seconds: float) -> str:
    """Say how long that is, in the unit that a person would use: 5 days, 3 hours, 20 minutes, 7 seconds."""
    if seconds >= 36 * 3600:
        return number(int(seconds / 86400), "day")
    if abs(seconds - 86400) < 1800:
        return number(1, "day")
    if seconds >= 90 * 60:
        return number(round(seconds / 3600), "hour")
    if seconds >= 90:
        return number(round(seconds / 60), "minute")
    return number(max(1, round(seconds)), "second")


Shares = Mapping[str, Counts]


def signed(counts: Counts) -> str:
    """Return how many specs came, went, and stayed with changed stacks: `+12 -3, 1 spec kept`."""
    changed = " ".join(f"{sign}{count:,}" for sign, count in (("+", counts.new), ("-", counts.vanished)) if count)
    return ", ".join(filter(None, (changed, f"{number(counts.kept, 'spec')} kept" if counts.kept else "")))


def chosen_lines(statement: Statement, wants: Wants) -> tuple[Line, ...]:
    """Return the lines of the kinds that somebody wants; all of them if only the statement is of such a kind."""
    lines = tuple(line for line in statement.lines if wants(line.kinds))
    return lines or (statement.lines if wants(statement.kinds) else ())


def total(report: Report, wants: Wants) -> str:
    """Add up what somebody wants: `2 of 5 packages changed; their specs: ...`.

    Where only some kinds of change are wanted, the sum is that of their lines.
    """
    lines = [(share_of(one.kind), line) for one in report.statements for line in chosen_lines(one, wants)]
    told = _shares(shares_of(lines))
    if not wants(frozenset()):
        packages = len({line.package for _, line in lines})
        counts = report.packages
        whole = number(counts.before + counts.added, "package")
        return f"{packages:,} of {whole} with changes of these kinds{f' ({told})' if told else ''}"
    whose = "their specs in your selection" if report.is_part else "their specs"
    specs = report.specs
    counted = _packages(report, [line for _, line in lines])
    return f"{counted}; {whose}: {specs.before:,} -> {specs.after:,}{f' ({told})' if told else ''}"


def nothing(report: Report) -> str:
    """Say that there is nothing to say."""
    counts = report.packages
    if report.statements or (not report.is_part and (counts.changed or counts.added or counts.removed)):
        return "Nothing of what was asked for."
    seen = " in what could be compared" if report.losses else ""
    selected = " in your selection" if report.is_part else ""
    same = " All documents have the same contents." if report.is_same and not report.losses else ""
    return f"No differences{selected}{seen} of {number(max(counts.before, counts.after), 'package')}.{same}"


def shares_of(lines: Iterable[tuple[str, Line]]) -> Shares:
    """Return what became of the specs of some lines, by the name of each share."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    for name, line in lines:
        if line.counts.total:
            found[name] += line.counts
    return found


def _packages(report: Report, lines: Sequence[Line]) -> str:
    counts = report.packages
    new, gone = (
        {line.package for line in lines if kind in line.kinds} for kind in (Kind.PACKAGE_ADDED, Kind.PACKAGE_REMOVED)
    )
    parts = [f"{counts.changed:,} of {number(max(counts.before, counts.after), 'package')} changed"]
    parts += [f"{counts.rebuilt_only:,} of them only rebuilt"] if counts.rebuilt_only else []
    parts += [f"{len(new):,} new"] if new else []
    parts += [f"{len(gone):,} removed"] if gone else []
    return ", ".join(parts)


def _shares(shares: Shares) -> str:
    """Say of every spec that came, went or moved what became of it."""
    came = dict(_with_kept((name, c.new, c.entered) for name, c in shares.items()))
    went = dict(_with_kept((name, c.vanished, c.left) for name, c in shares.items()))
    moved = {name: c.stayed for name, c in shares.items()}
    if came == went:
        parts = (
            [f"+{sum(came.values()):,} -{sum(went.values()):,}: {_counts_listed(came)}"] if any(came.values()) else []
        )
    else:
        parts = [f"+{sum(came.values()):,}: {_counts_listed(came)}"] if any(came.values()) else []
        parts += [f"-{sum(went.values()):,}: {_counts_listed(went)}"] if any(went.values()) else []
    parts += (
        [f"{sum(moved.values()):,} kept with changed stacks: {_counts_listed(moved)}"] if any(moved.values()) else []
    )
    return "; ".join(parts)


def _counts_listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


_MOST_REASONS = 3
_MOST_NAMES = 3
# What several packages may have in common.
_SHARED = frozenset({What.COMPILER, What.OS, What.TARGET, What.NAMESPACE, What.EXTERNAL})
_BECAUSE = {
    What.VERSION: "because of {name} {before} -> {after}",
    What.RECIPE: "because the recipe of {name} changed",
    What.VARIANTS: "because of variants of {name}: {before} -> {after}",
    What.PATCHES: "because of patches of {name}",
    What.COMPILER: "because {name} {is_} compiled by {after} instead of {before}",
    What.DEPENDENCY_ADDED: "because {name} depends on {after} now",
    What.DEPENDENCY_REMOVED: "because {name} no longer depends on {before}",
    What.DEPENDENCY_CHANGED: "because {name} uses {after} in another way",
    What.NOT_DESCRIBED: "because {name} differs, which the index does not describe",
    What.SPLICE: "because dependencies of {name} were replaced after it was built",
    What.SPACK: "by another version of Spack",
    What.TOO_MANY: "for more than 1,000 causes",
    What.NOT_RECORDED: "for reasons that are not recorded",
}
_OTHERWISE = "because of the {what} of {name}: {before} -> {after}"


class Reason(Struct, frozen=True):
    """What changed alike in one or several packages, and how many specs it rebuilt."""

    words: str
    causes: tuple[Cause, ...]
    specs: int
    packages: tuple[str, ...]  # that were rebuilt


def reasons_of(causes: Iterable[CauseCount]) -> list[Reason]:
    """Return causes in words, most specs first; what changed alike in several packages is one."""
    alike: defaultdict[tuple[What, str, Value, Value], list[CauseCount]] = defaultdict(list)
    for one in causes:
        cause = one.cause
        alike[cause.what, "" if cause.what in _SHARED else cause.package, cause.before, cause.after].append(one)
    found = [
        Reason(
            because([one.cause for one in group]),
            tuple(one.cause for one in group),
            sum(one.specs for one in group),
            tuple(sorted({package for one in group for package in one.packages})),
        )
        for group in alike.values()
    ]
    return sorted(found, key=lambda one: -one.specs)


def reasons_in_words(causes: Iterable[Cause]) -> list[str]:
    """Return the causes of one spec in words; what changed alike in several packages is one."""
    return [one.words for one in reasons_of(CauseCount(cause, 1, ()) for cause in sorted(causes, key=_sort_key))]


def _sort_key(cause: Cause) -> tuple[str, ...]:
    return (cause.package, cause.what)


def because(causes: Sequence[Cause]) -> str:
    """Say what happened to one package, or alike to several."""
    first = causes[0]
    packages = sorted({cause.package for cause in causes})
    return _BECAUSE.get(first.what, _OTHERWISE).format(
        what=first.what,
        name=names(packages, _MOST_NAMES),
        is_="is" if len(packages) == 1 else "are",
        before=_text(first.before),
        after=_text(first.after),
    )


def change_of(cause: Cause) -> str:
    """Say what differs beside the name of its package: `1.3 -> 1.3.1`, `recipe`."""
    if cause.what in (What.VERSION, What.COMPILER):
        return f"{_text(cause.before)} -> {_text(cause.after)}"
    return safe_name(cause.what.value.replace("-", " "))


def shares(statement: Statement) -> str:
    """Say for what reasons the specs of a statement were rebuilt; empty where that is not recorded.

    "1,405 because of openssl 3.4.0 -> 3.4.1, 498 because the recipe of python changed, 17 for other reasons".
    """
    reasons = reasons_of(statement.causes)
    if not reasons:
        return ""
    others = statement.counts.new - sum(one.specs for one in reasons[:_MOST_REASONS])
    if len(reasons) == 1 and others <= 0:
        return reasons[0].words
    told = [f"{one.specs:,} {one.words}" for one in reasons[:_MOST_REASONS]]
    return ", ".join([*told, *([f"{others:,} for other reasons"] if others > 0 else [])])


def main_reason(statement: Statement) -> str:
    """Return the reason of at least half of the specs; empty if there is none."""
    for one in reasons_of(statement.causes)[:1]:
        if 2 * one.specs >= statement.counts.new:
            return one.words
    return ""


def lines(statement: Statement, most: int) -> list[str]:
    """Return a line for each of up to `most` reasons, with the packages that it rebuilt."""
    reasons = reasons_of(statement.causes)
    told = [f"{number(one.specs, 'spec')} {one.words}: {names(one.packages, _MOST_NAMES)}" for one in reasons[:most]]
    rest = statement.counts.new - sum(one.specs for one in reasons[:most])
    others = f"{number(rest, 'spec')} for other reasons" if told and rest > 0 else ""
    return list(filter(None, (*told, others, not_written(statement))))


def not_written(statement: Statement) -> str:
    """Say that the compilers of rebuilt specs are written on one side only; empty where they are not."""
    stories = {line.story for line in statement.lines if line.story.kind is StatementKind.REBUILT}
    if any(story.after == (NO_COMPILER,) for story in stories):
        return "compilers are no longer written"
    return "compilers are written now" if any(story.before == (NO_COMPILER,) for story in stories) else ""


def _text(value: Value) -> str:
    return safe_name(value if isinstance(value, str) else " ".join(value)) or "none"
