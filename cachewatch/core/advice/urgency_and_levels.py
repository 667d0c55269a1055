"""Decide what readers should do and why, before a digest is put into words.

Subject, body, colours, JSON and headers of mail all show these decisions. The rules are in docs/laws.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from cachewatch.core.advice.actions import (
    ENVIRONMENT,
    dated,
    divided,
    environment_actions,
    joined,
    lifted,
    not_asked_yet,
    pin_actions,
    pruned_as_announced,
    still_to_do,
    things_to_look_after,
    waits_for,
    while_waiting,
    with_asked,
    without_asked_again,
)
from cachewatch.core.advice.environment_coverage import CoverageChange, Need, Resolution
from cachewatch.core.advice.verbs_and_reasons import (
    Action,
    Alternative,
    AssessedLoss,
    Assessment,
    Because,
    ComparedTag,
    EnvironmentState,
    Fact,
    Home,
    Known,
    Level,
    Pinned,
    Rank,
    Requirement,
    Verb,
    key_of,
)
from cachewatch.core.kinds_and_specs import LOSS_ORDER, MISSED, Kind, LossClass
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import LOSSES, OF_REBUILDS, OF_VALUES, Severity, Statement, StatementKind
from cachewatch.core.versions_spellings_targets import version_key

_REMOVED = (StatementKind.TAG_REMOVED, StatementKind.PACKAGE_REMOVED)
_RANKS = {
    StatementKind.SUSPICIOUS: Rank.SUSPICION,
    **dict.fromkeys(_REMOVED, Rank.GONE),
    **dict.fromkeys((StatementKind.STACK_REMOVED, *LOSSES), Rank.HARMLESS),  # unless their losses are worse
    StatementKind.STACK_MERGED: Rank.MERGED,
    StatementKind.DOWNGRADED: Rank.DOWNGRADED,
    **dict.fromkeys(OF_VALUES, Rank.VALUES),
    StatementKind.RETURNED: Rank.RETURNED,
    StatementKind.REBUILD_WAVE: Rank.WAVE,
    StatementKind.UPGRADED: Rank.UPGRADED,
    **dict.fromkeys((StatementKind.TAG_ADDED, StatementKind.STACK_ADDED, StatementKind.PACKAGE_ADDED), Rank.ADDED),
    StatementKind.TURNOVER: Rank.TURNOVER,
    StatementKind.PRUNE: Rank.PRUNE,
    StatementKind.PRUNED: Rank.PRUNE,
    StatementKind.SURPLUS: Rank.PRUNE,
    StatementKind.EXTRA_COPY: Rank.PRUNE,
    StatementKind.REBUILT: Rank.PRUNE,
}
_VERBS, _CAUSES = list(Verb), list(Because)
_ABSENT = (LossClass.GONE, LossClass.OTHER)
_NOTICED = (StatementKind.NO_LONGER, StatementKind.TURNOVER, StatementKind.UNREFERENCED)


def assess(
    tags: Sequence[ComparedTag],
    *,
    environment: CoverageChange | None = None,
    pins: Sequence[Pinned] = (),
    known: Known | None = None,
    alternative: Alternative | None = None,
    is_unknown: bool = False,
) -> Assessment:
    """Decide what readers should do about the changes in `tags`, whose statements do not include silenced ones.

    `environment` has the changes for the watched environment (None: none is watched), `pins` the snapshots to which
    readers are pinned, `known` the facts of earlier digests, `alternative` the snapshot that is best for the
    environment. `is_unknown`: the changes in some source are unknown.
    """
    known = known or Known()
    compared = {(tag.source, tag.base): tag.statements for tag in tags}
    pins = [
        replace(pin, statements=compared.get((pin.source, pin.tag))) if pin.statements is None else pin for pin in pins
    ]
    suspicious = {
        (tag.source, tag.tag): statement.packages
        for tag in tags
        for statement in tag.statements
        if statement.kind is StatementKind.SUSPICIOUS and (tag.source, tag.tag) not in known.confirmed
    }
    waiting = frozenset(package for found in (*suspicious.values(), *known.waiting.values()) for package in found)
    own = None if environment is None else state_of(environment, known.met, waiting)
    waits = list(waits_for(suspicious, known))
    gone_pins = [pin for pin in pins if pin.is_gone]
    facts = [
        *(Fact(rank=Rank.PIN_GONE, kind="pin-gone", pin=pin) for pin in gone_pins),
        *([Fact(rank=Rank.ENVIRONMENT, kind="environment")] if own and own.is_news and not waits else ()),
        *_facts(tags, known, pins, has_environment=own is not None),
    ]
    facts.sort(key=lambda one: (one.rank, -LOSS_ORDER.index(one.worst) if one.worst else 0))
    places = {(one.source, one.tag) for one in waits}
    # Packages that may be missing because publishing failed are neither settled nor pruned, whatever is selected.
    absent = {key for key, found in known.left.items() if key[:2] in places and found.loss_class in _ABSENT}
    known = replace(known, left={key: found for key, found in known.left.items() if key not in absent})
    missing = {*waiting, *(need.package for *_, need in absent)}
    tasks = [one for task in known.tasks if (one := still_to_do(task, known, tags)).names or not task.names]
    quiet = [one for task in known.quiet if (one := still_to_do(task, known)).names]
    pruned = list(pruned_as_announced(tags, known))
    actions = [*environment_actions(own, tags, is_new=False), *pin_actions(pins), *pruned]
    pinned = {(pin.source, pin.tag) for pin in pins}
    # What compares a pinned snapshot with another one, `pin_actions` already reports.
    others = [one for one in facts if not one.tags or any((tag.source, tag.base) not in pinned for tag in one.tags)]
    looks = things_to_look_after(others, has_environment=own is not None)
    asked_before = [*tasks, *(replace(one, because=Because.GONE, tag="") for one in pruned)]
    actions += not_asked_yet((part for one in looks for part in divided(one, tags)), asked_before)
    actions = [each for action in actions for each in dated(action, known)]
    actions = [with_asked(one, tasks) for one in actions]
    # Who is to require a package need not be asked to keep it, unless what went now is older than that.
    required = [one for one in tasks if one.is_requirement]
    actions = [one for one in actions if one.is_requirement or not any(task.settles(one) for task in required)]
    actions += environment_actions(own, tags, is_new=True)  # not dated, because these became worse now
    tasks = [without_asked_again(task, actions) for task in tasks]
    tasks, before = (
        [task for task in found if not any(one.covers(task) for one in actions)] for found in (tasks, known.tasks)
    )
    actions += joined(tasks, before)
    actions, paused = while_waiting(actions, places, missing) if waits else (actions, [])
    actions = sorted([*waits, *actions], key=_order)
    is_notice = (
        is_unknown
        or any(tag.is_incomplete for tag in tags)
        or any(pin.is_ending for pin in pins)
        or any(one.because is Because.PRUNED and not one.since for one in actions)
    )
    return Assessment(
        actions=tuple(actions),
        paused=tuple(paused),
        quiet=tuple(quiet),
        level=Level.ALARM if waits else _level(facts, own, is_notice=is_notice),
        facts=tuple(facts),
        losses=tuple(
            AssessedLoss(tag=tag, statement=statement, lost=lost)
            for tag in tags
            for statement in tag.statements
            for lost in statement.losses
            if lost.loss is not None
        ),
        environment=own,
        alternative=alternative if own is not None and any(map(own.for_cause, ENVIRONMENT)) else None,
        is_wait_over=not waits and known.was_waiting,
        required=_with_homes(_required(actions, own), known.kept),
        to_copy=_with_homes(_to_copy(actions, own), known.kept),
        gone=_with_homes(_gone(actions if own is None else (), known.kept), known.kept),
        lifted=lifted((*actions, *paused, *quiet), known),
    )


# The kinds that can be urgent: losses of every kind, and suspicious ones.
CAN_BE_URGENT = frozenset(
    {
        Kind.GONE,
        Kind.PLACE_LOST,
        Kind.STACK_LOST,
        Kind.STACK_REMOVED,
        Kind.PACKAGE_REMOVED,
        Kind.TAG_REMOVED,
        Kind.SUSPICIOUS,
    }
)


def is_urgent(statement: Statement, tag: str) -> bool:
    """Tell whether `statement` about the tag named `tag` is urgent; losses of a snapshot never are."""
    if statement.kind is StatementKind.SUSPICIOUS:
        return True
    if statement.kind is StatementKind.PACKAGE_REMOVED and not statement.name:
        return False  # it has been missing for long
    return (Kind.GONE in statement.kinds or statement.kind in _REMOVED) and not is_snapshot(tag)


_Needed = Iterator[tuple[Requirement, Iterable[Need]]]  # each with builds; it may come again with more


def _required(actions: Iterable[Action], own: EnvironmentState | None) -> _Needed:
    """Yield versions to require, each with its lost builds: of the environment `own` or, if None, of `actions`."""
    for each in own.of(LossClass.GONE) if own is not None else ():
        yield Requirement(spec=f"{each.need.package}@{each.need.version}{':' if each.suggestion else ''}"), [each.need]
    for action in actions:
        yield from _by_version(action) if own is None and action.is_requirement else ()


def _to_copy(actions: Iterable[Action], own: EnvironmentState | None) -> _Needed:
    """Yield versions to require so that their last builds can be copied, each with these builds.

    First come those that `actions` ask to copy, then those of the environment `own`.
    """
    for one in actions:
        yield from _by_version(one) if one.is_copy else ()
    for each in own.for_cause(Because.ENVIRONMENT_LAST_OTHER) if own is not None else ():
        yield Requirement(spec=f"{each.need.package}@{each.need.version}"), [each.need]


def _gone(actions: Iterable[Action], kept: Collection[Need]) -> _Needed:
    """Yield the versions that are gone from some places, each with the builds that were lost.

    If snapshots have only some of these (`kept`), only versions of which they have all builds are yielded.
    """
    for one in actions:
        is_gone = LossClass.GONE in (one.because, one.worst) and not (one.is_requirement or is_snapshot(one.tag))
        # A snapshot is sought for a version: that its builds have a selected compiler, nobody knows.
        for asked, needs in _by_version(one) if is_gone and not (one.outside and one.outside.compilers) else ():
            lacking = {need.version for need in needs if need not in kept}
            versions = asked.spec.partition("@")[2].split(",")
            there = [version for version in versions if version not in lacking] or versions
            spec = f"{asked.package}@{','.join(there)}"
            yield replace(asked, spec=spec), [need for need in needs if need.version in there]


def _by_version(action: Action) -> _Needed:
    end = ":" if action.because is Because.DOWNGRADED else ""
    for version in action.versions:
        asked = Requirement(spec=f"{version}{end}", machine=action.machine)
        yield asked, action.only([asked.package]).needs


def _with_homes(found: _Needed, kept: Mapping[Need, Home]) -> tuple[Requirement, ...]:
    """Return the versions in `found`, each with a snapshot if, by `kept`, snapshots still have all of its builds.

    A version "or newer" (`openmpi@5.8.0:`) with a snapshot becomes the oldest version that these snapshots have.
    """
    needed: dict[Requirement, list[Need]] = {}
    for asked, needs in found:
        needed.setdefault(asked, []).extend(needs)
    return tuple(_with_home(asked, needs, kept) for asked, needs in needed.items())


def _with_home(asked: Requirement, needs: Sequence[Need], kept: Mapping[Need, Home]) -> Requirement:
    homes = [kept[need] for need in needs if need in kept]
    if not homes or len(homes) < len(needs):
        return asked
    oldest = min((home.version for home in homes), key=version_key)
    spec = f"{asked.package}@{oldest}:" if asked.spec.endswith(":") else asked.spec
    return replace(asked, spec=spec, home=min(home.tag for home in homes))


def _order(action: Action) -> tuple[object, ...]:
    """Return a key that sorts actions by verb; of one verb, new ones first, then those to copy; then by cause, day."""
    is_open = action.verb is Verb.LOOK and bool(action.since)
    cause = _CAUSES.index(action.because)
    return (_VERBS.index(action.verb), is_open, not action.is_copy, cause, action.since)


def _facts(tags: Sequence[ComparedTag], known: Known, pins: list[Pinned], *, has_environment: bool) -> Iterator[Fact]:
    """Yield facts on `tags`; statements on several tags in the same words become one fact.

    News on `pins` are left out, because these have their own actions; if `has_environment`, turnover is left out, too.
    """
    of_pins = {(StatementKind.TAG_REMOVED if pin.is_gone else StatementKind.TAG_ADDED, pin.tag) for pin in pins}
    same: dict[object, tuple[Statement, list[ComparedTag]]] = {}
    for tag in tags:
        if tag.base:
            yield Fact(rank=Rank.SNAPSHOT, kind="snapshot", tags=(tag,), worst=_worst(tag.statements))
        for one in tag.statements:
            if tag.base and one.kind is StatementKind.TAG_ADDED and one.name == tag.tag:
                continue
            if (one.kind, one.name) in of_pins:
                continue
            if has_environment and one.kind is StatementKind.TURNOVER:
                continue  # its binaries are reported one by one
            same.setdefault((told_alike(one), bool(tag.base)), (one, []))[1].append(tag)
    for one, found in same.values():
        rank = _rank(one, found, known, has_environment=has_environment)
        kind = str(one.kind)
        if one.kind is StatementKind.PACKAGE_REMOVED and not one.name:
            kind = "missing"  # for long
        elif one.kind is StatementKind.TAG_ADDED and one.name != found[0].tag:
            kind = "snapshot-named"  # another new snapshot than the one that is compared
        yield Fact(rank=rank, kind=kind, statement=one, worst=one.worst, tags=tuple(found))


def told_alike(one: Statement) -> tuple[object, ...]:
    """Return a key that is equal for statements on different tags if reports put these into the same words."""
    is_counted = one.kind in OF_REBUILDS or one.kind.severity is Severity.ROUTINE  # their sentences count binaries
    return one.kind, one.name, one.before, one.after, one.packages, is_counted and one.counts


def _rank(statement: Statement, tags: Sequence[ComparedTag], known: Known, *, has_environment: bool) -> Rank:
    """Return the rank of `statement`, which is on all of `tags`, by its kind and worst loss.

    If `has_environment`, losses without equal builds have the last rank: their binaries are reported one by one.
    """
    rank = _RANKS.get(statement.kind, Rank.REST)
    returned = (one for tag in tags for one in tag.statements if one.kind is StatementKind.RETURNED)
    back = {package for one in returned for package in one.packages}
    if rank in (Rank.VALUES, Rank.REST) and statement.packages and back.issuperset(statement.packages):
        return Rank.WAVE if rank is Rank.VALUES else Rank.HARMLESS  # it says what is different about what is back
    if statement.kind is StatementKind.SUSPICIOUS:
        return Rank.GONE if all((tag.source, tag.tag) in known.confirmed for tag in tags) else rank
    of_snapshot = {StatementKind.TAG_REMOVED: Rank.PRUNE, StatementKind.TAG_ADDED: Rank.SNAPSHOT}
    if statement.kind in of_snapshot:  # the deletion of an old snapshot is routine
        return of_snapshot[statement.kind] if is_snapshot(statement.name) else rank
    if has_environment:
        is_loss = rank in (Rank.GONE, Rank.HARMLESS, Rank.DOWNGRADED)
        return Rank.REST if is_loss and statement.worst not in (LossClass.KEPT, LossClass.EQUAL) else rank
    if statement.worst in MISSED:
        rank = min(rank, Rank.GONE if statement.worst is LossClass.GONE else Rank.MISSED)
    # A package that a new snapshot lacks is no alarm.
    return max(rank, Rank.MISSED) if tags[0].base else rank


def _worst(statements: Iterable[Statement]) -> LossClass | None:
    found = [one.worst for one in statements if one.worst is not None]
    found += [LossClass.GONE for one in statements if one.kind is StatementKind.PACKAGE_REMOVED]
    return max(found, key=LOSS_ORDER.index, default=None)


def state_of(change: CoverageChange, met: frozenset[str], waiting: frozenset[str]) -> EnvironmentState:
    """Return what the cache has of each binary in `change`; `met` has the hashes of binaries that it ever had.

    Missing binaries of the packages in `waiting` are left out, because publishing may have failed.
    """
    was_met = {key_of(one) for one in change.before.needs if one.is_met}
    ever_there = was_met | met | {key_of(one) for one in (*change.newly_lost, *change.newly_going)}
    by_class: dict[LossClass, list[Resolution]] = {}
    not_here = []
    for covered in change.after.needs:
        if not covered.is_met and covered.need.package in waiting:
            continue
        if covered.is_met or key_of(covered) in ever_there:
            by_class.setdefault(covered.loss_class, []).append(covered)
        else:
            not_here.append(covered)
    gone = {key_of(one) for one in change.before.needs if one.loss_class is LossClass.GONE}
    worse = (one for one in by_class.get(LossClass.GONE, ()) if key_of(one) not in gone)  # they had a newer version
    became = (*change.removed, *change.newly_lost, *change.newly_going, *worse)
    new = frozenset(key_of(one) for one in became if one.is_met or one.need.package not in waiting)
    return EnvironmentState(
        change=change,
        by_class={name: tuple(found) for name, found in by_class.items()},
        new=new,
        again=(new & met) - was_met,
        not_here=tuple(not_here),
    )


def _level(facts: Sequence[Fact], own: EnvironmentState | None, *, is_notice: bool) -> Level:
    worse = {one for one in MISSED if own is not None and own.of(one, is_new=True)}
    alarming = {Rank.SUSPICION, Rank.PIN_GONE, *([Rank.GONE] if own is None else [])}
    if LossClass.GONE in worse or any(one.rank in alarming for one in facts):
        return Level.ALARM
    is_noticed = worse or is_notice or any(_is_noticed(one, has_environment=own is not None) for one in facts)
    return Level.NOTICE if is_noticed else Level.CALM


def _is_noticed(fact: Fact, *, has_environment: bool) -> bool:
    is_loss = fact.rank is Rank.MISSED or (fact.rank is Rank.SNAPSHOT and fact.worst in MISSED)
    if is_loss or fact.kind == StatementKind.DOWNGRADED:
        return not has_environment
    if fact.kind == StatementKind.REBUILD_WAVE and fact.statement is not None:
        return fact.statement.counts.beside > 0
    return fact.kind in _NOTICED
