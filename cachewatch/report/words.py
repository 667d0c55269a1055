"""Phrases that all reports share: names, numbers, and what statements and their lines say."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import chain
from operator import attrgetter

from msgspec.structs import replace

from cachewatch.core.changesets import Report
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.kinds_and_specs import Kind, Loss, LossClass, Outside, Place
from cachewatch.core.statement_kinds import (
    LOSSES,
    OF_VALUES,
    Effect,
    Line,
    OwnedLoss,
    Statement,
    StatementKind,
    Story,
    packages_of,
)
from cachewatch.core.statements import BY_VERSION, divided
from cachewatch.core.versions_spellings_targets import NO_COMPILER, is_newer, sorted_versions
from cachewatch.report.words_file import Words, words

# How many stacks and the like are named in one place.
MOST_NAMES = 3
FEW_NAMES = 5  # packages
NEARLY_ALL = 0.9  # of several packages, hashes or binaries

_LONGEST_NAME = 60
_USUAL_VERSION = 12  # characters

# These name compilers, systems or variants beside versions.
_CONFIGURATIONS = (StatementKind.NARROWED, StatementKind.WIDENED, StatementKind.RECONFIGURED)
# These name the versions of their specs as before or after; specs without a version are named, too.
_BEFORE = (*LOSSES, StatementKind.NARROWED, StatementKind.SURPLUS, StatementKind.MOVED, StatementKind.UNREFERENCED)
_COPIES = (StatementKind.SURPLUS, StatementKind.EXTRA_COPY)
_AFTER = (StatementKind.PLACE_GAINED, StatementKind.WIDENED, StatementKind.EXTRA_COPY)
NO_VERSION = "(no version)"


def number(count: int, noun: str, plural: str = "") -> str:
    """Return `count` with its noun: 1 spec, 1,204 specs; if `plural` is "", the plural is `noun` with an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def first_of(texts: Sequence[str], most: int = MOST_NAMES, rest: str = " and {:,} more", *, by: str = ", ") -> str:
    """Return the first `most` texts, joined by `by`; `rest` counts the others, but one single other text is shown."""
    left = len(texts) - most
    return by.join(texts) if left <= 1 else by.join(texts[:most]) + rest.format(left)  # "1 more" is as long


def names(found: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return up to `most` of the untrusted names `found`, escaped and shortened, and the number of the others."""
    return first_of(_cut(found, most), most)


def and_more(texts: Sequence[str], own: Words, most: int = MOST_NAMES) -> str:
    """Return up to `most` untrusted names, escaped and shortened, and how many more, by `own`: `raja, 7 more`."""
    return listed(_cut(texts, most), own, most)


def _cut(texts: Sequence[str], most: int) -> list[str]:
    """Return `texts`, of which the first `most` and one more are escaped and shortened; the others are never shown."""
    return [*(safe_name(text)[:_LONGEST_NAME] for text in texts[: most + 1]), *texts[most + 1 :]]


def listed(texts: Sequence[str], own: Words, most: int = MOST_NAMES) -> str:
    """Return up to `most` of `texts` (escaped already), and the number of others, worded by `own`: `umpire, 7 more`."""
    left = len(texts) - most
    return ", ".join(texts if left <= 1 else (*texts[:most], own.say("other", "more", left)))


def stack_name(stack: str) -> str:
    """Return the name of a stack for display: `stack cache` for the stack `cache` of a recorded build cache."""
    return "stack cache" if stack == "cache" else safe_name(stack)[:_LONGEST_NAME]


def place_name(statement: Statement) -> str:
    """Return the name of the lost place that `statement` is about, `e4s (zen4)`; systems are named unless Linux."""
    stack, _, machine = statement.name.rpartition(" (")
    systems = sorted({system for lost in statement.losses for system in lost.systems})
    return f"{stack_name(stack)} ({', '.join(map(safe_name, (*systems, machine)))}"


def stacks_named(stacks: Iterable[str], most: int = MOST_NAMES) -> str:
    """Return the names of stacks, or just their number if there are more than `most`."""
    found = sorted(stacks)
    return ", ".join(map(stack_name, found)) if len(found) <= most else f"{len(found)} stacks"


def places_named(places: Iterable[Place], most: int = MOST_NAMES) -> str:
    """Return places in words, `e4s on zen4; hep, radiuss on aarch64`; many stacks or targets are only counted."""
    by_stack: dict[str, tuple[str, ...]] = {}
    for stack, target in sorted(set(places)):
        by_stack[stack] = (*by_stack.get(stack, ()), target or "no target")
    if len(by_stack) > most:  # they are only counted
        by_stack = dict.fromkeys(by_stack, tuple(sorted({target for own in by_stack.values() for target in own})))
    said = []
    for targets in dict.fromkeys(by_stack.values()):
        on = names(targets, len(targets)) if len(targets) < most else f"{len(targets)} targets"
        said.append(f"{stacks_named([one for one in by_stack if by_stack[one] == targets], most)} on {on}")
    return "; ".join(said)


def fact(line: Line, most: int = MOST_NAMES) -> str:
    """Return what happened to the package of `line`, `1.14.5 -> 1.14.6`; names at most `most` stacks."""
    story = line.story
    moved = moves(line, most) if line.is_move else ""
    if story.kind in BY_VERSION:
        only = f"only with {names(story.only_with, most)}" if story.only_with else ""
        stays = staying(line, most, without=_removed(story))
        change = " ".join(filter(None, (replacement(line, most), only, stays)))
        having = [value for value in line.values if value not in story.only_with]
        now = f"now {'partly ' if line.is_partly else ''}with {names(having, most)}" if having else ""
        without = _without(line, most)
        said = ", ".join(filter(None, (change, *_beside(line, most), moved, now)))
        return f"{said} ({without})" if without else said
    if story.is_system:
        old, new = (" ".join(map(safe_name, side)) for side in (story.before, story.after))
        fewer = "no longer" if set(story.before).isdisjoint(story.remaining) else "fewer"
        more = "now" if set(story.after).isdisjoint(story.remaining) else "more"
        return f"{_versions(story.versions, most)} {fewer} for {old}, {more} for {new}".strip()
    named = _compilers if story.kind in _CONFIGURATIONS else partial(_versions, most=most)
    before, after = named(story.before), named(story.after)
    if story.kind in _BEFORE:
        before = before or NO_VERSION
    elif story.kind in _AFTER:
        after = after or NO_VERSION
    if story.kind is StatementKind.MOVED:
        return f"{before} {moves(line, most)}".strip()
    if story.kind is StatementKind.RECONFIGURED:
        before, after = (value or words().text(story.kind, "missing") for value in (before, after))
    new = _versions(story.versions, most)
    without = f" with {names(story.only_with, most)}" if story.only_with else ""
    left = {
        "there": f"{_versions(story.remaining, most)}{without}",
        "none": "no version" if story.after == ("",) else "",
    }
    values = {"new" if story.versions == story.after else "some": new, "also": "also" if story.remaining else ""}
    values |= left if story.kind in (StatementKind.RETIRED, StatementKind.EXTENDED) else {}
    # No build of the version has these values any more, in whatever place.
    values |= {"anywhere": "" if set(story.after) & set(story.remaining) else "anywhere"}
    key = "even" if story.kind in _COPIES and line.even >= line.stacks else "fact"
    text = next(iter(words().forms(story.kind, key, len(story.versions), before=before, after=after, **values)), "")
    if story.kind is StatementKind.PLACE_GAINED and before:
        was = words().say("outside", "was", len(story.before), values=before)
        text = f"{text}; {words().say('outside', 'said', there=was)}"
    if story.kind is StatementKind.UNREFERENCED and before and set(story.before) <= set(story.remaining):
        text = words().say(story.kind, "others_stay", before=before)
    if story.kind is StatementKind.RECONFIGURED and story.remaining:
        keeping = {place.stack for _, place in story.stays}
        is_in_all = not keeping or line.stacks <= keeping
        whose = f" for {new}" if new else "" if is_in_all else f" in {stacks_named(keeping, most)}"
        text += f" ({_compilers(story.remaining)} {'stays' if len(story.remaining) == 1 else 'stay'}{whose})"
    return ", ".join(filter(None, (text, moved if story.kind is not StatementKind.PLACE_LOST else "")))


def replacement(line: Line, most: int = MOST_NAMES) -> str:
    """Return the versions of an up- or downgrade, `0.3.1 -> 0.4.0`, and its targets if only some are downgraded."""
    story = line.story
    pairs = story.pairs or ((_versions(story.before, most), _versions(story.after, most)),)
    on = names(story.targets) if len(story.targets) <= MOST_NAMES else f"{len(story.targets)} targets"
    return ", ".join(f"{safe_name(old)} -> {safe_name(new)}" for old, new in pairs) + (f" on {on}" if on else "")


def _removed(story: Story) -> list[str]:
    """Return old versions that `replacement` does not name and that stay in none of the places of `story`."""
    named = {*({old for old, _ in story.pairs} or story.before)}
    named |= {version for version, place in story.stays if place in story.places}
    return [version for version in story.before if version not in named]


def _beside(line: Line, most: int) -> Iterator[str]:
    """Yield texts: on what `_removed` returns, and where it stays; on added versions, except the newest."""
    story = line.story
    if removed := _removed(story):
        stays = staying(line, most, without=[version for version in story.before if version not in removed])
        yield f"{_versions(removed, most)} removed {stays}".rstrip()
    newest = {new for _, new in story.pairs} or story.after
    added = [version for version in story.after if version not in newest]
    if story.kind is StatementKind.UPGRADED:  # older ones are not part of it
        added = [version for version in added if any(is_newer(version, old) for old in story.before)]
    if added:
        yield f"{_versions(added, most)} added"


def _without(line: Line, most: int) -> str:
    """Return what variants an up- or downgrade lost, `no longer with +mpi in e4s`, or ""; `most` limits the names."""
    stacks = {place.stack for place in line.story.places}
    wheres = dict.fromkeys(own for _, own in line.without)
    parts = [
        names([value for value, own in line.without if own == where], most)
        + ("" if where >= stacks else f" in {stacks_named(where, most)}")
        for where in wheres
    ]
    return f"no longer with {', '.join(parts)}" if parts else ""


def staying(line: Line, most: int = MOST_NAMES, *, without: Collection[str] = (), says_removed: bool = False) -> str:
    """Return where old versions stay after an upgrade, `(0.3.1 stays)`, or where a downgrade's new ones were, or "".

    Versions in `without` are left out. If `says_removed`, other versions that are gone from the tag are named, too.
    """
    story, parts = line.story, []
    verb = "stays" if story.kind is StatementKind.UPGRADED else "was there"
    upgraded = {place.stack for place in story.places}
    behind = [(stack, has) for stack, has in story.behind if stack not in upgraded]
    # Where none is in `stays`, those that are behind say it alone.
    old = {has for _, has in behind if story.stays and has in story.before}
    for version in sorted_versions((old | {version for version, _ in story.stays}).difference(without)):
        own, outside = ({place for there, place in some if there == version} for some in (story.stays, story.outside))
        places = own - outside
        stacks = {place.stack for place in places} | {stack for stack, has in behind if has == version}
        selected = "selected " if {place.stack for place in outside} - stacks else ""
        end = ""
        if not stacks:
            places, stacks, selected, end = own, {place.stack for place in own}, "", " outside of the filter"
        other = "other " if not end and stacks.isdisjoint(upgraded) else ""
        counted = number(len(stacks), f"{other}{selected}stack")
        named = stacks_named(stacks, most) if stacks <= {place.stack for place in places & story.places} else counted
        parts.append(f"{safe_name(version)} {verb}" + ("" if places >= story.places else f" in {named}") + end)
    gone = [version for version in _removed(story) if version not in story.still_there]
    if says_removed and gone and verb == "stays":
        parts.append(f"{_versions(gone, most)} removed")
    return f"({', '.join(parts)})" if parts else ""


def where(line: Line, most: int = MOST_NAMES) -> str:
    """Return where a change happened, `in 7 of 9 stacks; not yet in e4s-cray (1.2.1)`, and where old builds are now."""
    parts = [_where(line, most)]
    if line.story.kind in (*BY_VERSION, StatementKind.RETIRED):
        going = line.counts.without_stack
        told = {place.stack for story in (line.story, *line.others) for place in story.places}
        keeping = line.stacks - line.left - line.joined - told
        is_kept = keeping and line.counts.kept
        parts += [words().say("stacks", "keeping", names=stacks_named(keeping, most))] if is_kept else []
        parts += [words().say("stacks", "going", going)] if going else []
    return "; ".join(filter(None, parts))


def in_column(where: str) -> str:
    """Return `where`, a result of the function `where`, without "in" or "from", for a column of places."""
    return where.removeprefix("in ").removeprefix("from ")


def _where(line: Line, most: int) -> str:
    story = line.story
    stacks = {place.stack for place in story.places}
    others = "; ".join(
        f"{fact(replace(line, story=one, is_move=False), most)} in {stacks_named({p.stack for p in one.places}, most)}"
        for one in line.others
    )
    # Stacks that are not behind and were not upgraded had the version before: they are no part of what was.
    is_counted = story.of_stacks > 1 and (story.behind or len(stacks) == story.of_stacks)
    if story.kind is StatementKind.UPGRADED and is_counted:
        text = f"in {len(stacks)} of {story.of_stacks} stacks"
        if len(stacks) <= (1 if len(stacks) == story.of_stacks else 2) or MOST_NAMES < most >= len(stacks):
            text = f"in {stacks_named(stacks, most)} ({len(stacks)} of {number(story.of_stacks, 'stack')})"
        upgraded = [f"{stack} to {has}" for stack, has in story.behind if stack in stacks]
        behind = [(stack, has) for stack, has in story.behind if stack not in stacks]
        is_old = len(story.before) == 1 and all(has in story.before for _, has in behind)
        named = names([stack if is_old else f"{stack} ({has})" for stack, has in behind], most)
        newest = {new for _, new in story.pairs}.difference(has for _, has in story.behind)
        if upgraded and len(newest) == 1:  # which some of them have, and others do not
            upgraded.insert(0, f"{stacks_named(stacks.difference(dict(story.behind)), most)} to {newest.pop()}")
        parts = (names(upgraded, most) if upgraded else "", f"not yet in {named}" if behind else "", others)
        return "; ".join(filter(None, (text, *parts)))
    if story.kind is StatementKind.MOVED:
        return ""
    if story.kind in BY_VERSION:
        return "; ".join(filter(None, (f"in {stacks_named(stacks, most)}" if stacks else "", others)))
    if story.places:
        said = f"{'from' if story.kind is StatementKind.RETIRED else 'in'} {places_named(story.places, most)}"
        if story.kind is StatementKind.PLACE_GAINED and story.remaining:
            said += f" ({names(story.remaining)})"
        return said
    left = "no longer " if story.kind is StatementKind.UNREFERENCED and line.stacks <= line.left else ""
    return f"{left}in {stacks_named(line.stacks, most)}" if line.stacks else ""


def retired(lines: Iterable[Line], own: Words, most: int = MOST_NAMES, stacks: int = MOST_NAMES) -> str:
    """Return up to `most` old versions that a prune removed, `zlib 1.2 from e4s`, with at most `stacks` stacks each."""
    found = []
    for story, package in ((line.story, safe_name(line.package)) for line in lines):
        if story.kind is StatementKind.RETIRED:
            version = _versions(story.before, MOST_NAMES) or NO_VERSION
            named = stacks_named({place.stack for place in story.places}, stacks)
            found.append(own.say("prune", "version", package=package, version=version, stacks=named))
    more = [own.say("other", "more", len(found) - most)] if len(found) > most else []
    return "; ".join((*found[:most], *more))


def moves(line: Line, most: int) -> str:
    """Return stacks that specs left or joined and `where` does not name: `some no longer in e4s, now in hep`."""
    told = set() if line.story.kind is StatementKind.MOVED else {place.stack for place in line.story.places}
    left, joined = line.left - told - line.even, line.joined - told - line.even
    stacks_by_word = {
        "no longer in": left - line.staying,
        "some no longer in": left & line.staying,
        "now in": joined - line.staying,
        "some now in": joined & line.staying,
        "no longer shared with": line.left & line.even - told,
        "now shared with": line.joined & line.even - told,
    }
    return ", ".join(f"{said} {stacks_named(stacks, most)}" for said, stacks in stacks_by_word.items() if stacks)


def _versions(versions: Sequence[str], most: int) -> str:
    """Return the newest of `versions` (sorted) that fit in the length of `most` usual ones, and count the others."""
    shown: list[str] = []
    room = most * _USUAL_VERSION
    for version in map(safe_name, reversed(versions)):
        room -= len(f"{version}, ")
        if shown and room < 0:
            break
        shown.append(version)
    rest = len(versions) - len(shown)
    return ", ".join(reversed(shown)) + (f" and {rest:,} more" if rest else "")


def _compilers(values: Sequence[str]) -> str:
    return ", ".join("no compiler" if value == NO_COMPILER else safe_name(value) for value in values)


def other_values(one: Statement, own: Words, noun: tuple[str, str], most: int = MOST_NAMES) -> str:
    """Return up to `most` changes in `one.effects`: `gcc 13 -> 14 for 4 specs of zlib`; `noun`: singular and plural."""
    return first_of([other_value(each, own, noun, most) for each in one.effects if each.attribute], most, by="; ")


def other_value(effect: Effect, own: Words, noun: tuple[str, str] = ("spec", "specs"), most: int = MOST_NAMES) -> str:
    """Return `effect` in words: `gcc 13 -> 14 for 4 specs of zlib`; `noun`: singular, plural; `most`: packages."""
    key = {StatementKind.BESIDE: "newly", StatementKind.NO_LONGER: "without"}.get(effect.kind, "")
    values = safe_name(" ".join(map(_value, effect.before or effect.after)))
    change = own.say("migration", key, values=values) if key else change_of_values(effect)
    specs = number(effect.specs, *noun)
    return own.say("migration", "other", change=change, specs=specs, names=names(effect.packages, most))


def change_of_values(statement: Statement | Effect) -> str:
    """Return how values changed: `gcc 11.4.0 -> 13.3.0`, `gcc 13.3.0 beside 11.4.0`; if one is gone, only the value."""
    before, after = " ".join(map(_value, statement.before)), " ".join(map(_value, statement.after))
    if statement.kind is StatementKind.NO_LONGER:
        return safe_name(before)
    if statement.kind is StatementKind.STACK_MERGED:
        return f"{', '.join(map(stack_name, statement.before))} -> {', '.join(map(stack_name, statement.after))}"
    old, _, older = before.partition(" ")
    new, _, newer = after.partition(" ")
    is_same = old == new and len(statement.before) == len(statement.after) == 1 and bool(older and newer)
    if statement.kind is StatementKind.BESIDE:
        others = words().text(statement.kind, "others") if len(statement.before) > len(statement.after) else before
        return safe_name(f"{after} beside {older if is_same else others}")
    return safe_name(f"{before} -> {newer if is_same else after}")


def _value(text: str) -> str:
    """Return a compiler as `gcc 13.3.0`, and any other value unchanged."""
    name, at, version = text.partition("@")
    return f"{name} {version}" if at and name and version else text


def old_values(one: Statement) -> str:
    """Return the old values of a statement about changed values; of compilers, only the versions."""
    return safe_name(" ".join(value.partition("@")[2] or value for value in one.before))


def entry_of(statement: Statement) -> str:
    """Return the entry of `statement` in words.toml: its kind, with `.renamed` or `.split` for one replaced stack."""
    if statement.kind is not StatementKind.STACK_MERGED or len(statement.before) > 1:
        return statement.kind
    return f"{statement.kind}.{'renamed' if len(statement.after) == 1 else 'split'}"


def name_of(statement: Statement) -> str:
    """Return what a statement is about: a name, changed values, or what percentage of the earlier hashes is gone."""
    if statement.turnover:
        selected = words().text("fates", "selected") if statement.turnover.is_part else ""
        return f"{statement.turnover.gone / max(1, statement.turnover.before):.0%} of the earlier hashes{selected}"
    if statement.kind is StatementKind.STACK_MERGED:
        old, new = (", ".join(map(stack_name, side)) for side in (statement.before, statement.after))
        return words().say(entry_of(statement), "name", len(statement.before), old=old, new=new)
    return change_of_values(statement) if statement.kind in OF_VALUES else safe_name(statement.name)


def reason_of(loss: Loss, own: Words, versions: Sequence[str] = ()) -> str:
    """Return, in the words `own`, what the tag still has after `loss`; name `versions`, if any, as the lost versions."""
    key = loss.loss_class.value
    if loss.loss_class is LossClass.OTHER and not loss.there:
        key = "other_variants"
    elif loss.loss_class is LossClass.GONE and (loss.has_copies or loss.there):
        key = "gone_copies" if loss.has_copies else "gone_older"
    elif loss.loss_class is LossClass.EQUAL and loss.compiler:
        key = "equal_compiler"
    versions = versions or (loss.version,)
    return own.say(
        "losses",
        key,
        len(versions if loss.loss_class is LossClass.OTHER else loss.stacks),
        version=", ".join(safe_name(one) or "no version" for one in versions),
        there=safe_name(loss.there),
        stacks=stacks_named(loss.stacks),
        any_stack=" or ".join(stacks_named(loss.stacks).split(", ")),
        where=f"in {stacks_named(loss.stacks)}" if loss.stacks else "there",
        for_target=f" for {safe_name(loss.target)}" if loss.target else "",
        compiler=safe_name(loss.compiler),
        variants=" ".join(map(safe_name, loss.variants)) or "fewer variants",
    )


def reasons_of_versions(losses: Iterable[Loss], own: Words) -> str:
    """Return what the tag has of each lost version, `of 1.2.2: ...; of 1.2.1: ...`, or one text if all are alike."""
    # Losses, maybe of several places, that differ only in where builds are left are told together.
    left: dict[Loss, tuple[set[str], set[str]]] = {}
    for one in losses:
        key = replace(one, stacks=(), target=one.target and "some", older=(), builds=())
        stacks, targets = left.setdefault(key, (set(), set()))
        stacks.update(one.stacks)
        targets.add(one.target)
    by_version: dict[str, list[Loss]] = {}
    for one, (stacks, targets) in left.items():
        there = replace(one, version="", stacks=tuple(sorted(stacks)), target=", ".join(sorted(targets)))
        by_version.setdefault(one.version, []).append(there)
    alike: dict[tuple[str, ...], tuple[list[Loss], list[str]]] = {}
    for version, found in by_version.items():
        alike.setdefault(tuple(reason_of(one, own) for one in found), (found, []))[1].append(version)
    said = []
    for found, those in alike.values():
        versions = sorted_versions(those)
        reasons = [*filter(None, dict.fromkeys(reason_of(one, own, versions) for one in found))]
        if not reasons and (len(alike) > 1 or found[0].loss_class is LossClass.GOING):
            reasons = [own.text("losses", f"{found[0].loss_class}_alone")]
        reason = first_of(reasons, MOST_NAMES, "; {} more reasons", by="; ")
        named = ", ".join(map(safe_name, versions))
        said.append(own.say("losses", "of_version", version=named, reason=reason) if len(alike) > 1 else reason)
    return "; ".join(said)


def outside(there: Outside | None, own: Words) -> str:
    """Return what a place still has outside of the filter, `1.1 is there (outside ...)`; "" if `there` is None."""
    said = there_outside(there, own)
    return own.say("outside", "said", there=said) if said else ""


def there_outside(there: Outside | None, own: Words) -> str:
    """Return the unselected builds of a place that lost all selected builds, `1.1 is there`; "" for None."""
    if there is None:
        return ""
    versions = (there.version,) if there.version else ()
    named = {"version": versions, "compilers": there.compilers, "oses": there.oses, "targets": there.targets}
    parts = (own.say("outside", key, values=", ".join(map(safe_name, named[key]))) for key in named if named[key])
    return " ".join(parts)


def moved_to(lost: OwnedLoss, packages: Collection[str]) -> str:
    """Return where the package of `lost` is now, `; now 1.3 on zen4`, or ""; no version for several `packages`."""
    by_version: dict[str, list[str]] = {}
    for on, versions in lost.moved_to:
        is_same = len(packages) > 1 or set(lost.versions) <= set(versions)
        named = "" if is_same else f" {_versions(versions, MOST_NAMES) or NO_VERSION}"
        by_version.setdefault(named, []).append(on)
    said = sorted(by_version.items())
    return "".join(f"{';' if version else ','} now{version} on {names(found)}" for version, found in said)


def fates(one: Statement, own: Words, *, is_of_environment: bool = False) -> str:
    """Return what is left of packages that lost a stack or value; `is_of_environment`: all are from a lock file."""
    parts, for_target = list[str](), ""
    stacks_lost = {lost.place.stack for lost in one.losses}
    new = {*one.after} if one.kind is StatementKind.STACK_MERGED else set[str]()  # equal builds there are not named
    found = ((lost, lost.loss) for lost in one.losses if lost.loss)
    told = [lost for lost, loss in found if loss.loss_class is not LossClass.EQUAL or new.isdisjoint(loss.stacks)]
    for loss_class in LossClass:
        packages = packages_of(told, loss_class)
        if not packages or (one.kind is StatementKind.STACK_MERGED and loss_class is LossClass.KEPT):
            continue
        of = " package" + "s" * (len(packages) > 1)
        if len(packages) < len(one.packages) and one.kind not in OF_VALUES:
            key = "in_lock_file" if is_of_environment else "selected"
            chosen = "" if one.of in (None, len(one.packages)) else own.text("fates", key)
            of = f" of its {number(len(one.packages), 'package')}{chosen}"
        own_losses = [(lost.package, lost.loss) for lost in told if lost.loss and lost.loss.loss_class is loss_class]
        stacks = sorted({stack for _, loss in own_losses for stack in loss.stacks})
        many = number(len(stacks), "stack") if not stacks_lost.isdisjoint(stacks) else "other stacks"
        between = ", " if all(set(stacks) <= set(loss.stacks) for _, loss in own_losses) else " or "
        named = between.join(map(stack_name, stacks)) if 0 < len(stacks) <= 2 else many
        targets = {loss.target for _, loss in own_losses}
        for_target = "" if "" in targets else own.say("fates", "for_target", targets=names(sorted(targets)))
        changed = {package: loss.compiler for package, loss in own_losses if loss.compiler and package in packages}
        key, compilers = "in_some" if len(changed) < len(packages) else "in_all", names(sorted({*changed.values()}))
        other = own.say("fates", key, len(changed), compilers=compilers) if changed else ""
        values = {"of": "" if parts else of, "stacks": named, "with_compiler": other, "for_target": for_target}
        text = own.say("fates", loss_class, len(packages), **values)
        if loss_class is LossClass.GONE and one.kind not in OF_VALUES:
            whole = {lost.package for lost in one.losses if lost.is_of_removed}
            text += only_for(one.losses, {*packages} - whole, own, is_part=not whole.isdisjoint(packages))
        parts.append(text)
    is_unsaid = one.kind in OF_VALUES and not for_target
    whom = own.say("snapshot", "for_all", machines=_machines(one.losses, own)) if is_unsaid else ""
    return f"; {', '.join(parts)}{whom}" if parts else ""


def _machines(losses: Iterable[OwnedLoss], own: Words) -> str:
    found = {one.machine_name: one for one in losses}
    if len(found) == 1:
        return safe_name(next(iter(found)))
    systems, targets = ({*map(attrgetter(name), found.values())} for name in ("machine_systems", "place.target"))
    if () in systems or len(systems) > 2:
        return own.text("snapshot", "several")
    on = names(sorted(targets)) if len(targets) <= 2 else number(len(targets), "target")
    return f"{names(sorted({*chain.from_iterable(systems)}))} on {on}"


def only_for(
    losses: Iterable[OwnedLoss], packages: Set[str], own: Words, *, is_part: bool, is_short: bool = False
) -> str:
    """Return, in words, the only machines for which `packages` are gone; "" if there are no packages.

    If `is_part`, other packages are gone, too, so the number of `packages` is given: ` (11 only for zen4)`. If
    `is_short`, no machine is named.
    """
    if not packages:
        return ""
    lost = (one for one in losses if one.loss and one.loss.loss_class is LossClass.GONE and one.package in packages)
    machines = own.text("snapshot", "several") if is_short else _machines(lost, own)
    return own.say("snapshot", "for_some" if is_part else "for_all", len(packages), machines=machines)


def unbuilt(statement: Statement, own: Words) -> str:
    """Return how many specs of a removed or renamed stack no stack builds now; "" if none, or if `fates` says that."""
    is_of_stack = statement.kind in (StatementKind.STACK_REMOVED, StatementKind.STACK_MERGED)
    count = statement.counts.without_stack if is_of_stack and statement.worst is not LossClass.GOING else 0
    return own.say("stacks", "unbuilt", count) if count else ""


def occurrences(statements: Iterable[Statement], wants: Callable[[Kind], bool]) -> str:
    """Return the changes that `wants` accepts, in a line: of the tag, of packages (one place of each), lost places."""
    of_tag, packages, places = [], dict[str, set[Place]](), []
    for statement in statements:
        if not any(map(wants, statement.kinds)):
            continue
        # Kinds that are reported in one sentence have no heading.
        if not words().text(statement.kind, "heading") and (
            statement.kind is not StatementKind.PRUNE or wants(Kind.PRUNE)
        ):
            own_values = [one for one in statement.effects if one.attribute and wants(one.attribute)]
            title = f"{words().text(entry_of(statement), 'title').lower()} {name_of(statement)}".strip()
            if not own_values or any(map(wants, statement.kinds.difference(one.attribute for one in own_values))):
                of_tag.append(title)
            of_tag += (other_value(one, words()) for one in own_values)
        elif statement.kind in LOSSES and statement.name:
            concerned = sorted(line.package for line in statement.lines if any(map(wants, line.kinds)))
            losses = (lost for lost in statement.losses if lost.package in concerned)
            place = f"{names(concerned)} in {place_name(statement)}"
            # Which selected versions it lost, and which other one it has.
            told = {(lost.versions, lost.outside.version if lost.outside else "") for lost in losses}
            gone, there = told.pop() if len(told) == 1 else ((), "")
            if there:
                listed = ", ".join(map(safe_name, gone))
                said = words().say("outside", "instead", len(gone), gone=listed, version=safe_name(there))
                place = f"{place}: {said}"
            places.append(place)
        else:
            parts = (divided(line, lambda part: any(map(wants, part.kinds)))[0] for line in statement.lines)
            for line in filter(None, parts):
                own = (loss.place for loss in statement.losses if loss.package == line.package)
                others = {place for one in line.others if wants(Kind(one.kind)) for place in one.places}
                if wants(Kind.VARIANT) and not wants(Kind(line.story.kind)):
                    others |= {place for side in line.story.variants for _, place in side}
                stacks = {s for items, _ in line.members if any(map(wants, items.kinds)) for s in items.stacks}
                is_everywhere = not line.members or wants(Kind(line.story.kind))
                changed = {place for place in line.story.places if is_everywhere or place.stack in stacks}
                packages.setdefault(line.package, set()).update(others or changed or own)
    somewhere = []
    for package, lost in packages.items():
        first = min(lost, default=None)
        where = f" in {stack_name(first.stack)} ({safe_name(first.target) or 'no target'})" if first else ""
        more = f" and {number(len(lost) - 1, 'more place')}" if len(lost) > 1 else ""
        somewhere.append(f"{safe_name(package)}{where}{more}")
    named = [first_of(found, FEW_NAMES, ", {:,} more") for found in (of_tag, somewhere)]
    return "; ".join(filter(None, [*named, first_of(places, FEW_NAMES, "; {:,} more", by="; ")]))


def tag_event(report: Report, kinds: Collection[Kind] = tuple(Kind)) -> str:
    """Return the words for a new or removed tag, `new tag develop-2025-06-01`; "" if not one of `kinds`."""
    event = report.tag_event
    if event is None or event.kind not in kinds:
        return ""
    return words().forms(event.kind, "subject", name=safe_name(event.name))[0]
