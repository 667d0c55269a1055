"""Derive the actions that readers should take from changes, and from those that earlier digests asked for."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from cachewatch.core.advice.environment_coverage import Need
from cachewatch.core.advice.verbs_and_reasons import (
    LASTING,
    LOCK_FILES,
    PLACED,
    Action,
    Because,
    ComparedTag,
    EnvironmentState,
    Fact,
    Known,
    Pinned,
    Rank,
    Verb,
)
from cachewatch.core.kinds_and_specs import MISSED, LossClass, Outside, Place
from cachewatch.core.names_and_layouts import is_snapshot
from cachewatch.core.statement_kinds import (
    LOSSES,
    Line,
    OwnedLoss,
    Statement,
    StatementKind,
    lacking,
    lost_packages,
    name_of,
    packages_of,
    removed_packages,
)
from cachewatch.core.versions_spellings_targets import is_newer, newest, version_key

# What readers should do about binaries of an environment, by cause.
ENVIRONMENT = {
    Because.ENVIRONMENT_GONE: Verb.BUILD,
    Because.ENVIRONMENT_LAST: Verb.COPY,
    Because.ENVIRONMENT_LAST_OTHER: Verb.COPY,
    Because.ENVIRONMENT_OTHER: Verb.RECONCRETIZE,
    Because.ENVIRONMENT_EQUAL: Verb.RECONCRETIZE,
    Because.ENVIRONMENT_GOING: Verb.RECONCRETIZE,
}
_MOST_PLACES = 3  # at most so many machines or stacks are named
TASKS = (*LASTING, *LOCK_FILES)
# Statements on builds that others replaced: first those that count even if they are not reported.
_QUIET = (
    StatementKind.RETIRED,
    StatementKind.NARROWED,
    StatementKind.RECONFIGURED,
    StatementKind.MOVED,
    StatementKind.REBUILT,
    StatementKind.SURPLUS,
    StatementKind.EXTENDED,
)
_BY_OLD_VERSION = (StatementKind.UPGRADED, StatementKind.RETIRED)
_REPLACED = (*_QUIET, *LOSSES, StatementKind.STACK_REMOVED, StatementKind.STACK_MERGED)  # the tag has the package still


def still_to_do(task: Action, known: Known, tags: Iterable[ComparedTag] = ()) -> Action:
    """Return the open action `task` without settled packages, whose builds are back or can no longer be copied.

    `known` says what is left of the builds. If only some machines or stacks have a package again, the returned action
    names the others. An action about lock files gets the versions that upgrades in `tags` replaced, and another cause
    if old builds were pruned.
    """
    if task.because in LOCK_FILES:
        for tag in (one for one in tags if (one.source, one.tag) == (task.source, task.tag)):
            is_pruned = any(one.kind is StatementKind.PRUNE for one in tag.statements)
            if task.because is Because.OLD_BUILDS and is_pruned:  # until then, Spack may have reused them
                task = replace(task, because=Because.PRUNED_BUILDS, name=tag.day, since="")
            old = [one for one, _ in replaced_versions(tag.tag, tag.statements, is_wait_over=known.was_waiting)]
            outdated = dict(task.outdated) | dict.fromkeys(tag.outdated, tag.day)
            task = replace(task, others=tuple(dict.fromkeys((*task.others, *old))), outdated=tuple(outdated.items()))
        return task
    needs, back = _open_and_back(task, known)
    ended = {need.package for need in task.needs} - {need.package for need in needs}
    is_renamed = bool(task.machine) and not {*needs} <= {*task.needs}
    task = replace(task.only([name for name in task.names if name not in ended]), needs=needs)
    if (task.because in PLACED or task.is_copy) and needs and (back or is_renamed):
        return _about(task, needs, back)
    return task


def _about(task: Action, needs: Collection[Need], others: Collection[Need]) -> Action:
    """Return `task` for the builds `needs` alone; it names machines or stacks so that no build in `others` is meant."""
    is_fall = all(need.stack for need in needs)  # these stacks had become older before they lost it
    because = Because.DOWNGRADED if is_fall else Because.PRUNED if task.is_everywhere else task.because
    return replace(task, because=because, needs=tuple(needs), machine=_places(needs, others), is_everywhere=False)


def _open_and_back(task: Action, known: Known) -> tuple[tuple[Need, ...], tuple[Need, ...]]:
    """Return two groups of builds of `task`: those still needed, and those in places where none is needed any more.

    Builds of the first group that are in renamed stacks get the new names of these stacks.
    """
    standing = {need: known.left.get((task.source, task.tag, need)) for need in task.needs}  # None if it is unchanged
    now = {need: need if found is None else found.need for need, found in standing.items()}
    lost = (LossClass.GOING,) if task.is_copy else (LossClass.GOING, LossClass.GONE)
    needs = dict.fromkeys(now[need] for need, found in standing.items() if found is None or found.loss_class in lost)
    open_places = {one.place for one in needs}
    return tuple(needs), tuple(need for need in task.needs if now[need].place not in open_places)


def _places(needs: Collection[Need], others: Collection[Need] = ()) -> str:
    """Return the machines or stacks of the builds `needs` in words that apply to none of the builds `others`."""
    stacks, targets = {one.stack for one in others}, {one.target for one in others if not one.stack}
    whole = {one.target for one in needs if not one.stack}
    named = {one for one in needs if not one.stack and (one.platform not in ("", "linux") or one.target in targets)}
    # The one system of all is named with all targets.
    named |= {one for one in needs if named and len({each.os for each in needs}) == 1}
    return machines_named(
        ("", f"{one.stack} ({one.target})" if one.stack in stacks else one.stack)
        if one.stack
        else (one.os if one in named else "", one.target)
        for one in needs
        if not (one.stack and one.target in whole)
    )


def lifted(actions: Iterable[Action], known: Known) -> tuple[tuple[str, str], ...]:
    """Return the packages that readers were asked to require, copy or build (see `known`) and no longer need to.

    A package is paired with the machines or stacks that have it again, in words, if one of `actions`, the present
    actions, still asks for it elsewhere; otherwise with "".
    """
    asked = {name for one in (*known.tasks, *known.quiet) if one.is_requirement or one.is_copy for name in one.names}
    asked |= {name for _, verb, name in known.since if verb is Verb.BUILD}
    needed = [one for one in actions if one.is_requirement or one.is_copy or one.verb in (Verb.BUILD, Verb.COPY)]
    still = {name for one in needed for name in one.names}
    back = {(name, "") for name in asked - still}
    for one in (task for task in known.tasks if task.is_requirement):
        needs, is_back = _open_and_back(one, known)
        where = _places(is_back, needs)
        back |= {(name, where) for name in one.names if where and name in still}
    return tuple(sorted(back))


def replaced_versions(
    tag: str, statements: Collection[Statement], *, is_wait_over: bool
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield old versions (`hdf5 1.14.5`) that upgraded or pruned places of `tag` do not have any more.

    Each comes with the stacks of these places, or with no stacks if no others have the package. Versions of a package
    that was lost and is back are left out, unless readers had to wait until now (`is_wait_over`).
    """
    for one in statements:
        for line in one.lines if one.kind in _BY_OLD_VERSION else ():
            story, is_gone = line.story, line.counts.vanished
            old = story.replaced if one.kind is StatementKind.UPGRADED else story.before if is_gone else ()
            if is_wait_over or not was_lost(line, tag, statements):
                gone = old if is_gone else set(old) - story.still_there
                where = line.vanished_from if is_gone else line.left
                where = frozenset() if len(where) == story.of_stacks else where
                yield from ((f"{line.package} {version}", where) for version in old if version in gone)


def outdated_packages(
    tag: str,
    statements: Collection[Statement],
    hidden: Iterable[Statement],
    silenced: Collection[str],
    *,
    is_wait_over: bool,
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield packages, each with stacks, whose builds in lock files may be gone and that `replaced_versions` leaves out.

    The worst losses of a statement are left out, because they have actions of their own. `hidden` are statements that
    are not reported; in these, packages in `silenced` do not count. `is_wait_over`: see `replaced_versions`.
    """
    returned = [one for one in statements if one.kind is StatementKind.RETURNED and not is_wait_over]
    quiet = ((one, silenced) for one in hidden if one.kind in (*_QUIET, StatementKind.UPGRADED))
    for one, without in (*((one, None) for one in statements), *quiet):
        is_hidden_upgrade = one.kind is StatementKind.UPGRADED and without is not None
        is_upgrade = one.kind is StatementKind.UPGRADED and not is_hidden_upgrade
        # What no stack builds any more is to be kept, too, whatever is worse.
        is_all = one.kind is StatementKind.SUSPICIOUS
        told = [each for each in MISSED if is_all or each in (one.worst, LossClass.GOING)]
        # Of older versions that went with a missed one, equal builds may be left.
        losses = ((lost.package, (lost.loss, *lost.loss.older)) for lost in one.losses if lost.loss)
        missed = {*(without or ()), *(name for name, own in losses if all(each.loss_class in told for each in own))}
        for line in one.lines:
            # Upgrades are reported with their old versions instead, if no build of these is left where it was.
            is_partly = is_upgrade and (line.story.is_thinned or not line.story.replaced)
            is_named = one.kind is StatementKind.RETIRED and without is None and all(line.story.before)
            is_replaced = (line.story.kind in _REPLACED and not is_named) or is_partly or is_hidden_upgrade
            is_named |= is_upgrade and bool(line.counts.vanished or {*line.story.replaced} - line.story.still_there)
            is_left = line.counts.without_stack > line.counts.never_built and not (is_upgrade and is_named)
            is_outdated = is_left or (line.counts.vanished and is_replaced)
            unchanged = [each for each in returned if line.package not in each.exceptions]
            if is_outdated and line.package not in missed and not was_lost(line, tag, unchanged):
                yield line.package, line.vanished_from | (line.left if is_left else frozenset())


def was_lost(line: Line, tag: str, statements: Iterable[Statement]) -> bool:
    """Tell whether the package of `line` was reported as lost and is back now, as one of `statements` on `tag` says."""
    places = {name_of(place) for place in line.story.places}
    for one in statements:
        if one.kind is StatementKind.RETURNED and line.package in one.packages:
            stack, _, values = one.name.partition(" (")  # of a place or machine, whose target is last
            here = f"{stack} ({values.removesuffix(')').rpartition(', ')[2]})"
            if stack in ("", line.package, tag) or (line.stacks <= {stack} and (not values or places <= {here})):
                return True
    return False


def with_asked(action: Action, tasks: Iterable[Action]) -> Action:
    """Return `action` with more builds: those of the open actions `tasks` for which `action` asks, too.

    Only actions about lost or older packages get more. After a downgrade, the newest of these versions is required.
    """
    asked = [need for one in tasks if action.because in PLACED for need in _again(one, [action])]
    if action.because is not Because.DOWNGRADED:
        return replace(action, needs=tuple(dict.fromkeys((*action.needs, *asked))))

    def machine(need: Need) -> tuple[str, ...]:
        return need.package, *need.place[1:]

    versions = ({one.version for one in asked if machine(one) == machine(need)} for need in action.needs)
    needs = [
        replace(need, version=newest({need.version, *had})) for need, had in zip(action.needs, versions, strict=True)
    ]
    own = set(map(machine, needs))
    return replace(action, needs=(*needs, *(one for one in asked if machine(one) not in own)))


def _again(task: Action, actions: Iterable[Action]) -> list[Need]:
    """Return those builds of the open action `task` for which one of `actions` asks, too."""
    alike = [one for one in actions if one.source == task.source and one.tag == task.tag]
    return [need for need in task.needs if any(one.covers(replace(task, needs=(need,))) for one in alike)]


def without_asked_again(task: Action, actions: Collection[Action]) -> Action:
    """Return the open action `task` without builds for which `actions` ask, too; unchanged if none would be left."""
    again = _again(task, actions)
    needs = [need for need in task.needs if need not in again]
    return _about(task, needs, again) if again and needs else task


def pruned_as_announced(tags: Iterable[ComparedTag], known: Known) -> Iterator[Action]:
    """Yield actions on builds that readers were asked to copy and that, by `known`, were pruned: none as new is left.

    Left out are packages that stacks built until now and that `tags` report as removed, which was not announced.
    """
    removed = {
        (tag.source, tag.tag, lost.package)
        for tag in tags
        for one in tag.statements
        for lost in (one.losses if one.kind is StatementKind.PACKAGE_REMOVED else ())
    }
    for copied in joined(task for task in (*known.tasks, *known.quiet) if task.is_copy):
        left = still_to_do(copied, known)
        standing = {need: known.left.get((copied.source, copied.tag, need)) for need in copied.needs}
        pruned = tuple(
            need
            for need, found in standing.items()
            if found and found.loss_class is LossClass.GONE
            if (copied.source, copied.tag, need.package) not in removed
        )
        if pruned:
            action = replace(copied, because=Because.PRUNED, name=copied.since, others=left.names, since="")
            action = action.only({need.package for need in pruned})
            yield replace(action, needs=pruned, machine=_places(pruned))


def not_asked_yet(looks: Iterable[Action], tasks: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions `looks`, without packages that `tasks` name for the same cause in another tag."""
    tag_of = {(one.because, one.source, name): one.tag for one in tasks for name in one.names}
    for look in looks:
        kept = look.because is Because.GONE and is_snapshot(look.tag)  # reported for each snapshot
        names = [n for n in look.names if kept or tag_of.get((look.because, look.source, n), look.tag) == look.tag]
        if names or not look.names:
            yield look.only(names) if len(names) < len(look.names) else look


def joined(tasks: Iterable[Action], asked: Iterable[Action] = ()) -> Iterator[Action]:
    """Yield `tasks`, of which those that differ only in packages are joined into one.

    `asked` are the actions as they were before; packages that only these still have become `others` of a joined action.
    """

    def apart(one: Action) -> Action:
        return replace(one.only(()), others=() if one.because in LASTING else one.others)

    groups: dict[Action, list[Action]] = {}
    for one in tasks:
        groups.setdefault(apart(one), []).append(one)
    before: dict[Action, set[str]] = {}
    for one in asked:
        before.setdefault(apart(one), set()).update(one.names)
    for key, group in groups.items():
        names = tuple(sorted(name for one in group for name in one.names))
        # What need not be required any longer is told by itself.
        is_said = key.because in LASTING and not (key.is_copy or key.is_requirement)
        others = tuple(sorted(before.get(key, set()).difference(names))) if is_said else key.others
        needs = tuple(need for one in group for need in one.needs)
        yield replace(key, names=names, needs=needs, others=others, count=len(names))


def waits_for(suspicious: Mapping[tuple[str, str], tuple[str, ...]], known: Known) -> Iterator[Action]:
    """Yield an action to wait for each tag with a suspicious loss, be it new (`suspicious`) or earlier (`known`)."""
    for (source, tag), names in (dict(known.waiting) | dict(suspicious)).items():
        wait = Action(verb=Verb.WAIT, because=Because.SUSPICIOUS, source=source, tag=tag, names=names, count=len(names))
        since = known.since.get((source, Verb.WAIT, wait.subjects[0]), "")
        if (source, tag) in suspicious:
            yield wait
        elif since:
            yield replace(wait, since=since)


def while_waiting(
    actions: Iterable[Action], places: Collection[tuple[str, str]], missing: Collection[str]
) -> tuple[list[Action], list[Action]]:
    """Return the actions that readers can do now, and those that must wait until the tags in `places` are complete.

    `places` are pairs of source and tag. Builds that may be pruned must be copied now, except packages in `missing`.
    """
    now: list[Action] = []
    later: list[Action] = []
    for action in actions:
        if action.is_copy:
            there, lacking = (
                action.only([n for n in action.names if (n in missing) is is_missing]) for is_missing in (False, True)
            )
            now += [there] if there.names else []
            later += [lacking] if lacking.names else []
        # Whoever installs or re-concretizes misses what may be missing only for a while.
        elif action.because in ENVIRONMENT:
            (now if action.because is Because.ENVIRONMENT_LAST else later).append(action)
        else:
            can_wait = action.because in (*TASKS, Because.OTHER) and (action.source, action.tag) in places
            (later if can_wait else now).append(action)
    return now, later


def environment_actions(own: EnvironmentState | None, tags: Sequence[ComparedTag], *, is_new: bool) -> Iterator[Action]:
    """Yield actions on binaries of `own` that the cache lost: those newly worse if `is_new`, else only the others."""
    if own is None:
        return
    source, tag = (tags[0].source, tags[0].tag) if len(tags) == 1 else ("", "")
    for because, verb in ENVIRONMENT.items():
        if binaries := own.for_cause(because, is_new=is_new):
            names = tuple(dict.fromkeys(one.need.package for one in binaries))
            yield Action(verb=verb, because=because, source=source, tag=tag, names=names, count=len(binaries))


def pin_actions(pins: Iterable[Pinned]) -> Iterator[Action]:
    """Yield the actions about pinned snapshots: stay with a snapshot, or move to another one."""
    for pin in pins:
        is_compared = pin.newest and (pin.move is not None or pin.statements is not None)
        if not (pin.is_gone or is_compared):
            continue
        lost, older = lost_by_moving(pin)
        names = lost or older
        action = Action(verb=Verb.MOVE, because=Because.SNAPSHOT, source=pin.source, tag=pin.newest, name=pin.tag)
        if pin.is_gone or pin.is_ending:
            names = lost
            because = Because.PIN_GONE if pin.is_gone else Because.PIN_ENDING
            action = replace(action, because=because, others=pin.others if pin.is_gone else ())
            if pin.best:
                action = replace(action, tag=pin.best, others=(pin.newest,))
        elif lost:
            action = replace(action, verb=Verb.STAY, because=Because.SNAPSHOT_LACKS, tag=pin.tag, name=pin.newest)
        yield replace(action, names=names, count=len(names))


def lost_by_moving(pin: Pinned) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return packages of `pin` that the newest snapshot lacks, and those of which it has other builds or versions."""
    if pin.move is not None:
        removed = pin.move.removed
        gone, other = (
            tuple(dict.fromkeys(one.need.package for one in removed if one.loss_class is wanted))
            for wanted in (LossClass.GONE, LossClass.OTHER)
        )
        return gone, other
    statements = pin.statements or ()
    gone = lost_packages(statements)
    older = {package for one in statements if one.kind is StatementKind.DOWNGRADED for package in one.packages}
    return gone, tuple(sorted({*lacking(statements, LossClass.OTHER), *older}.difference(gone)))


def things_to_look_after(facts: Sequence[Fact], *, has_environment: bool) -> Iterator[Action]:
    """Yield actions that follow from `facts`; with `has_environment`, only on removed tags and confirmed losses."""
    groups: dict[tuple[Because, str, str, str, LossClass | None], list[tuple[Fact, Sequence[str]]]] = {}
    for fact in facts:
        statement, because = fact.statement, _because(fact)
        if statement is None or because is None or fact.rank in (Rank.SUSPICION, Rank.PRUNE):
            continue
        if has_environment and because not in (Because.CONFIRMED, Because.TAG_REMOVED):
            continue
        tag = fact.tags[0]
        if because is Because.DOWNGRADED and tag.base:
            because = Because.GONE  # who moves there has it in an older version only
        moved = _moved_to(statement) if because is Because.GONE and not tag.base else ""
        name = statement.name if because in (Because.STACK_REMOVED, Because.TAG_REMOVED) else moved
        name = tag.day if because in LOCK_FILES else name
        worst = fact.worst if because is Because.STACK_REMOVED else None
        # What one branch lost, another may have; new snapshots replace each other.
        branch = "" if tag.base else tag.tag
        fallen = {one.package for one in statement.losses if one.fell_from} if because is Because.GONE else ()
        # A renamed stack or a migration also moved packages; readers keep only what it lost.
        packages = (because.value == fact.worst and packages_of(statement.losses, fact.worst)) or fact.packages
        older = Because.GONE if tag.base else Because.DOWNGRADED
        for reason, of, own in (
            (because, name, [one for one in packages if one not in fallen]),
            (older, "", [one for one in packages if one in fallen]),
        ):
            if own or reason is because:
                groups.setdefault((reason, tag.source, of, branch, worst), []).append((fact, own))
    for (because, source, name, _, worst), group in groups.items():
        statements = [one.statement for one, _ in group if one.statement]
        names = tuple(dict.fromkeys(package for _, own in group for package in own))
        if worst is not None:
            gone = {package for one in facts if one.kind == "package-removed" for package in one.packages}
            lost = packages_of(statements[0].losses, worst)
            names = tuple(package for package in lost if package not in gone) or lost
        tag = group[0][0].tags[0]
        removed = removed_packages(tag.statements)
        machine = ""
        if removed.isdisjoint(names):  # another statement may be about other machines of the same packages
            machine = _machine(names, worst or because, statements if worst else tag.statements)
        needs = tuple(needs_of(because, worst, names, statements)) if because in LASTING else ()
        look = Action(verb=Verb.LOOK, because=because, source=source, tag=tag.tag, name=name, worst=worst, needs=needs)
        is_everywhere = removed >= set(names)
        yield replace(look, names=names, count=len(names), machine=machine, is_everywhere=is_everywhere)


def _moved_to(statement: Statement) -> str:
    """Return, in words, the systems or targets to which a migration moved lost packages; "" if there are none."""
    is_migration = statement.kind is StatementKind.MIGRATION
    gone = [lost for lost in statement.losses if lost.loss and lost.loss.loss_class is LossClass.GONE and is_migration]
    now = {on for lost in gone for on, _ in lost.moved_to if on.partition(" (")[0] in statement.after}
    return " or ".join(sorted(now))


def needs_of(
    because: Because, worst: LossClass | None, names: Collection[str], statements: Iterable[Statement]
) -> Iterator[Need]:
    """Yield the builds of packages in `names` that were lost with class `worst` (None: the class of `because`).

    For DOWNGRADED, yield the builds that became older. For GONE, packages without known builds get version "".
    """
    needs: dict[Need, None] = {}
    is_fall = because is Because.DOWNGRADED
    for statement in statements:
        for line in statement.lines if is_fall and statement.kind is StatementKind.DOWNGRADED else ():
            needs |= _older_in(line.package, _fell_from(line), line.story.systems)
        for lost in statement.losses:
            name, older, loss = lost.package, lost.fell_from, lost.loss
            if loss is None or name not in names:
                continue
            if older and is_fall:
                systems = {(spec.signature.platform, spec.signature.os, lost.place) for spec in loss.builds}
                needs |= _older_in(name, older, systems or {("", "", lost.place)})
            elif not older and loss.loss_class == (worst or because):
                needs |= dict.fromkeys(
                    Need(
                        package=name,
                        version=newest(spec.signature.versions or {""}),
                        hash=spec.hash,
                        platform=spec.signature.platform,
                        os=spec.signature.os,
                        target=lost.place.target,
                        variants=spec.signature.variants,
                    )
                    for one in (loss, *loss.older)
                    for spec in one.builds
                    if one.loss_class is loss.loss_class
                )
    yield from needs
    if because is Because.GONE:
        known = {need.package for need in needs}
        yield from (Need(package=name, version="") for name in names if name not in known)


def _older_in(package: str, version: str, systems: Iterable[tuple[str, str, Place]]) -> dict[Need, None]:
    """Return needs for `version` of `package`, one for each (platform, system, place) in `systems`, as dict keys."""
    return dict.fromkeys(
        Need(package=package, version=version, platform=on, os=os, target=place.target, stack=place.stack)
        for on, os, place in sorted(systems)
    )


def _fell_from(line: Line) -> str:
    """Return the lowest version before a downgrade that is higher than all versions after it; "" if there is none."""
    left = newest({after for _, after in line.story.pairs} or {""})
    newer = (before for before, _ in line.story.pairs if before and (is_newer(before, left) or not left))
    return min(newer, key=version_key, default="")


def _machine(names: Collection[str], worst: LossClass | Because, statements: Iterable[Statement]) -> str:
    """Return, in words, the machines where `names` were lost with class `worst`; "" if they differ by package."""
    machines: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    own = (lost for one in statements for lost in one.losses if lost.loss and lost.loss.loss_class == worst)
    lost_ones = [lost for lost in own if lost.package in names]
    for lost in lost_ones:
        machines[lost.package].add(_machine_of(lost))
    alike = set(map(frozenset, machines.values()))
    return machines_named(alike.pop()) if len(alike) == 1 and not all(lost.is_of_removed for lost in lost_ones) else ""


def _machine_of(lost: OwnedLoss) -> tuple[str, str]:
    return ", ".join((lost.machine.os,) if lost.machine else lost.systems), lost.place.target


def machines_named(machines: Iterable[tuple[str, str]]) -> str:
    """Return operating systems and targets in words: `rhel8, zen4`, `aarch64 and rhel8 (x86_64_v3, zen4) and 2 more`.

    `machines` are pairs: an operating system or "", and a target or stack.
    """
    every = set(machines)
    whole = {target for system, target in every if not system}  # of all systems
    found = sorted(one for one in every if not one[0] or one[1] not in whole)
    targets: dict[str, list[str]] = {}
    for system, target in found[:_MOST_PLACES]:
        targets.setdefault(system, []).append(target)
    named = [
        f"{system} ({', '.join(own)})" if system and len(found) > 1 else ", ".join(filter(None, (system, *own)))
        for system, own in targets.items()
    ]
    more = [f"{len(found) - _MOST_PLACES} more"] if len(found) > _MOST_PLACES else []
    return " and ".join((*named, *more))


def divided(look: Action, tags: Iterable[ComparedTag]) -> Iterator[Action]:
    """Yield the action `look`; if it is about lost or older packages, a part for each group of machines or stacks."""
    if look.because not in (Because.GONE, Because.DOWNGRADED):
        yield look
        return
    statements = [one for tag in tags if (tag.source, tag.tag) == (look.source, look.tag) for one in tag.statements]
    removed = removed_packages(statements)
    known = {one.partition("@")[0] for one in look.versions}  # the others nobody can require
    parts: dict[tuple[bool, str, Outside | None], list[str]] = {}
    for name in look.names:
        named = "" if name in removed else machines_named(_where(look.because, name, statements))
        there = {lost.outside for lost in _gone(name, statements)} if look.because is Because.GONE else {None}
        parts.setdefault((name in removed & known, named, there.pop() if len(there) == 1 else None), []).append(name)
    for (is_removed, named, outside), names in parts.items():
        yield replace(look.only(names), machine=named, is_everywhere=is_removed, outside=outside)


def _gone(package: str, statements: Iterable[Statement]) -> Iterator[OwnedLoss]:
    """Yield places and machines that lost `package` and for which nothing as new as their lost version is left."""
    own = (lost for one in statements for lost in one.losses if lost.package == package and not lost.fell_from)
    yield from (lost for lost in own if lost.loss and lost.loss.loss_class is LossClass.GONE)


def _where(because: Because, package: str, statements: Iterable[Statement]) -> Iterator[tuple[str, str]]:
    """Yield (system, target) of machines that lost `package`, for GONE; else ("", stack) where it became older."""
    if because is Because.GONE:
        yield from map(_machine_of, _gone(package, statements))
        return
    for one in statements:
        fallen = (lost.place for lost in one.losses if lost.package == package and lost.fell_from)
        yield from (("", place.stack) for place in fallen)
        for line in one.lines if one.kind is StatementKind.DOWNGRADED else ():
            places = {name_of(place) if line.story.targets else place.stack for place in line.story.places}
            if line.package == package and (line.story.targets or line.story.is_elsewhere):
                yield from (("", place) for place in places)


# Reasons that depend only on the kind of statement: those that come before losses, and those that come after them.
_FIRST_REASONS = {
    StatementKind.SUSPICIOUS: Because.CONFIRMED,
    StatementKind.TAG_REMOVED: Because.TAG_REMOVED,
    StatementKind.PACKAGE_REMOVED: Because.GONE,
}
_LAST_REASONS = {
    StatementKind.DOWNGRADED: Because.DOWNGRADED,
    StatementKind.NO_LONGER: Because.NO_LONGER,
    StatementKind.REBUILD_WAVE: Because.OLD_BUILDS,
}


def _because(fact: Fact) -> Because | None:
    one = fact.statement
    if one is None or one.kind in _FIRST_REASONS:
        return _FIRST_REASONS[one.kind] if one else None
    if fact.worst in MISSED and fact.worst is not None:
        is_of_stack = one.kind is StatementKind.STACK_REMOVED
        return Because.STACK_REMOVED if is_of_stack else Because(fact.worst.value)
    is_wave = one.kind is StatementKind.REBUILD_WAVE
    # Of a new snapshot, the earlier one still has the binaries that lock files name.
    if (is_wave and not one.counts.beside) or ((is_wave or one.turnover) and any(tag.base for tag in fact.tags)):
        return None
    if one.turnover:  # who moves to another system re-concretizes anyway, who has a removed stack keeps it
        told = (each for each in fact.tags[0].statements if _moved_to(each) or each.kind is StatementKind.STACK_REMOVED)
        return Because.TURNOVER if sum(each.counts.vanished for each in told) < one.turnover.gone else None
    # What came into a selection from newer versions became older in no place.
    is_fall = one.kind is not StatementKind.DOWNGRADED or any(line.story.systems for line in one.lines)
    return _LAST_REASONS.get(one.kind) if is_fall else None


def dated(action: Action, known: Known) -> Iterator[Action]:
    """Yield `action` in parts, one for each day when (by `known`) it was first asked for; whole if its verb is LOOK."""
    if action.verb is Verb.LOOK:
        yield action  # nobody can see whether readers did it
        return
    days: dict[str, list[str]] = {}
    for subject in action.subjects:
        days.setdefault(known.since.get((action.source, action.verb, subject), ""), []).append(subject)
    for day, names in sorted(days.items()):
        part = replace(action, names=tuple(names), count=len(names)) if len(days) > 1 else action
        yield replace(part, since=day)
