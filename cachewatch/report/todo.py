"""What readers are to do, as sentences and as commands in their order: the lead of every digest.

The words stand below `[todo]` in templates/words.toml; what is to be done is decided by the assessment (core/advice).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from cachewatch.core.advice.actions import ENVIRONMENT
from cachewatch.core.advice.coverage import Nearest, Resolution
from cachewatch.core.advice.values import Action, Assessment, Because, Verb, key_of
from cachewatch.core.model import LossClass
from cachewatch.core.names import safe, safe_name
from cachewatch.core.spack import falls, is_plain
from cachewatch.core.statement_values import StatementKind, lost_packages
from cachewatch.report.environments import binaries_said
from cachewatch.report.first_screen import lines_of
from cachewatch.report.headline import day_of
from cachewatch.report.values import Digest
from cachewatch.report.words import MOST_NAMES, and_more, change_of_values
from cachewatch.report.words_file import Words

_MOST_REQUIRED = 10
# What re-concretizing settles, beside what is said of an environment.
_CONCRETIZED = (Because.ENVIRONMENT_LAST_OTHER, Because.OTHER, Because.OLD_BUILDS, Because.TURNOVER)


def todo(digest: Digest, words: Words) -> list[str]:
    """Return what this digest is the first to ask for, worst first; what is said where there is nothing else."""
    found = digest.assessment
    said = list(dict.fromkeys(_sentence(group, digest, words) for group in _by_command(found.due)))
    newest = _newest_snapshots(digest)
    if said and found.alternative and any(one.because in ENVIRONMENT for one in found.due):
        other = found.alternative
        said.append(words.say("todo", "alternative", tag=safe(other.tag), has=f"{other.has:,}", of=f"{other.of:,}"))
    if found.is_waiting:
        first = found.actions[0]
        said += [words.say("todo", "older_snapshot", tag=newest)] if newest else []
        if first.since:
            return [_sentence([first], digest, words, "still-"), *said]
        paused = words.text("todo", "paused_open" if found.still_open else "paused")
        return [" ".join((said[0], paused)) if any(one.since for one in found.paused) else said[0], *said[1:]]
    over = words.text("todo", "over_open" if found.still_open else "over") if found.is_wait_over else ""
    if not (said or over) and any(_is_pruned(one, digest) for one in found.still_open):
        over = words.text("todo", "now_due")
    unless = "" if said else _unless(digest, words, "unless_over" if over else "unless")
    if newest and (said or over or unless):
        moves = [words.say("todo", "older_snapshot", tag=newest)]
    else:
        moves = []
        unless = words.say("todo", "unless_snapshot", tag=newest) if newest else unless
    if not said:
        nothing = words.text("todo", "nothing_new" if found.actions else "nothing").rstrip(".")
        said = [unless] if over else [f"{nothing}{unless}."]
    said += moves
    return [" ".join(filter(None, (over, *said[:1]))), *said[1:]]


def _newest_snapshots(digest: Digest) -> str:
    """Name the new snapshots that lack nothing, to which readers of older ones move if they have pinned none."""
    new = [tag for one in digest.assessment.facts if one.kind == "snapshot" for tag in one.tags]
    if digest.pinned or any(lost_packages(tag.statements) for tag in new):
        return ""
    return " or ".join(dict.fromkeys(safe(tag.tag) for tag in new))


def _unless(digest: Digest, words: Words, key: str) -> str:
    """Say for which lock files there is something to do though nothing is to be done in general."""
    if digest.environment is not None:
        return ""
    is_asked = any(one.because in (Because.OLD_BUILDS, Because.TURNOVER) for one in digest.assessment.actions)
    days = () if is_asked else _announced_days(digest)
    cases = [words.say("todo", "unless_before", day=day_of(day)) for day in days]
    if old := _replaced_versions(digest):
        cases.append(words.say("todo", "unless_old", len(old), names=old[0]))
    rebuilt = {
        package
        for tag in digest.tags
        if tag.report.before.tag == tag.report.after.tag
        for one in (*tag.statements, *tag.rest)
        if one.kind is StatementKind.REBUILT
        for package in one.packages
    }
    if rebuilt:
        cases.append(
            words.say(
                "todo", "unless_build_too" if old else "unless_build", packages=and_more(sorted(rebuilt), words, 2)
            )
        )
    return words.say("todo", key, cases=", or ".join(cases), requiring=_requiring(digest, words)) if cases else ""


def _requiring(digest: Digest, words: Words) -> str:
    required = digest.assessment.required
    return words.say("todo", "requiring", names=and_more(required, words)) if required else ""


def _announced_days(digest: Digest) -> list[str]:
    """Return the days on which the old builds were announced that are pruned now."""
    waves = (
        digest.remembered.wave(tag.source, tag.tag)
        for fact in digest.assessment.facts
        if fact.kind == StatementKind.PRUNE
        for tag in fact.tags
    )
    return list(dict.fromkeys(wave.day for wave in waves if wave))[:1]


def _replaced_versions(digest: Digest) -> list[str]:
    """Return the old versions, `hdf5 1.14.5`, of upgrades that no stack of a tag has any more."""
    return [
        f"{safe_name(line.package)} {safe_name(line.story.pairs[-1][0])}"
        for tag in digest.tags
        if tag.report.before.tag == tag.report.after.tag
        for one in tag.statements
        if one.kind is StatementKind.UPGRADED
        for line in one.lines
        if line.story.pairs and not (line.story.stays or line.story.behind)
    ]


def _by_command(actions: Iterable[Action]) -> list[list[Action]]:
    """Put what one command does for an environment together; all else stands alone."""
    groups: dict[object, list[Action]] = {}
    for one in actions:
        is_other = one.because is Because.ENVIRONMENT_LAST_OTHER  # which cannot be copied before it is named
        groups.setdefault((one.verb, is_other) if one.because in ENVIRONMENT else one, []).append(one)
    return list(groups.values())


def advice(digest: Digest, words: Words) -> str:
    """Return the first thing to do, for whoever sees one line."""
    found = _by_command(digest.assessment.actions)
    return _sentence(found[0], digest, words) if found else words.text("todo", "nothing")


def still_open(digest: Digest, words: Words) -> list[str]:
    """Return what earlier digests asked for, with the first day, the oldest first, but for what "To do" repeats."""
    asked = [one for one in digest.assessment.still_open if one.verb is not Verb.WAIT]
    groups = sorted(_by_command(asked), key=lambda group: min(one.since for one in group))
    said: dict[str, list[str]] = {}
    for group in groups:
        said.setdefault(_days(group), []).append(_sentence(group, digest, words, "open-").rstrip("."))
    return [words.say("todo", "since", day=day, what="; ".join(what) + ".") for day, what in said.items()]


def _days(group: Sequence[Action]) -> str:
    """Name the days on which something was asked for; of several, with the number of binaries of each."""
    counts: Counter[str] = Counter()
    for one in group:
        counts[one.since] += one.count
    days = sorted(counts)
    return day_of(days[0]) if len(days) == 1 else ", ".join(f"{day_of(day)} ({counts[day]:,})" for day in days)


def _sentence(group: Sequence[Action], digest: Digest, words: Words, prefix: str = "") -> str:
    """Say what to do, of an environment for all of its binaries at once."""
    if group[0].because not in ENVIRONMENT:
        return _action(group[0], digest, words, prefix)
    parts = []
    is_unknown = False
    copied = {one.subject: day_of(one.since) for one in digest.remembered.actions if one.verb == Verb.COPY}
    for because in dict.fromkeys(one.because for one in group):
        same = [one for one in group if one.because is because]
        count = sum(one.count for one in same)
        own = _resolutions(because, {name for one in same for name in one.names}, digest)
        if because in (Because.ENVIRONMENT_GONE, Because.ENVIRONMENT_OTHER):
            before = digest.environment.before.needs if digest.environment else ()
            is_unknown |= any(one.need.package not in copied for one in own)
            parts.append(binaries_said(own, words, copied, {key_of(one) for one in before if one.is_met}))
            continue
        names = [f"{one.need.package} {one.need.version}".strip() for one in own]
        is_few = count <= MOST_NAMES or because is Because.ENVIRONMENT_GOING
        is_unsure = any(one.lacks_compiler for one in own)
        is_equal = not is_unsure and all(one.left is Nearest.EQUAL for one in own)
        said = "environment-same" if is_unsure and because is Because.ENVIRONMENT_EQUAL else because
        values = {
            "names": and_more(names, words),
            "named": f" ({and_more(list(dict.fromkeys(one.need.package for one in own)), words)})" if is_few else "",
            "compilers": _compilers(own),
            "then": words.text("todo", "then_equal" if is_equal else "then_same"),
        }
        parts.append(words.say("todo", said, count, **values))
    last = Because.ENVIRONMENT_LAST_OTHER
    key = f"{prefix}{'copy-other' if group[0].because is last else group[0].verb}"
    found = digest.assessment
    if key == "open-reconcretize" and (
        steps(found, words) or any(one.verb is Verb.RECONCRETIZE or one.because is last for one in found.due)
    ):
        key = "open-too"
    return words.say(
        "todo",
        key,
        sum(one.count for one in group),
        parts="; ".join(parts),
        other="other " if found.actions[0].verb is Verb.BUILD else "",
        required=and_more(found.required, words),
        unknown=words.text("todo", "unknown") if is_unknown else "",
        requiring=_requiring(digest, words),
        command=_command(digest, words),
    )


def _action(one: Action, digest: Digest, words: Words, prefix: str = "") -> str:
    key = one.because.value
    is_of_snapshot = any(
        (tag.tag, tag.source) == (one.tag, one.source) and tag.base
        for fact in digest.assessment.facts
        for tag in fact.tags
    )
    if one.because is Because.GONE and is_of_snapshot:
        key = "gone-snapshot"
    elif one.because is Because.GONE and one.is_everywhere:
        key = "gone-removed"
    newer = {line.package for line, tag in lines_of(digest, StatementKind.UPGRADED) if tag.report.tag == one.tag}
    if one.because is Because.PIN_GONE and one.names:
        key = "pin-gone-best" if any(pin.best == one.tag for pin in digest.pinned) else "pin-gone-lacks"
    if one.because is Because.STACK_REMOVED and one.worst is not LossClass.GONE:
        key = f"stack-removed-{one.worst}"
    elif one.because is Because.STACK_REMOVED and is_of_snapshot:
        key = "stack-removed-gone-snapshot"
    command = _command(digest, words)
    no_longer = [fact.statement for fact in digest.assessment.facts if fact.kind == StatementKind.NO_LONGER]
    return words.say(
        "todo",
        f"{prefix}{key}" if words.text("todo", f"{prefix}{key}") else key,
        one.count if one.names else 1,
        name=safe_name(one.name),
        tag=safe_name(one.tag),
        day=day_of(one.name),
        since=day_of(one.since),
        names=and_more(one.names, words),
        to=words.say("todo", "to", tag=safe_name(one.tag)) if one.tag else "",
        newest=and_more(one.others, words),
        newer=words.say("todo", "in_newer", len(newer)) if newer else "",
        without=words.say("todo", "without", names=and_more(one.names, words)) if one.names else "",
        others=words.say("todo", "in_another_way", one.count, names=and_more(one.names, words))
        if one.names
        else words.say("todo", "or_to", names=and_more(one.others, words))
        if one.others
        else "",
        for_machines=words.say("todo", "for_machine", machine=safe_name(one.machine)) if one.machine else "",
        versions=and_more(one.versions or one.names, words),
        requiring="" if prefix and not command else _requiring(digest, words),
        gone=words.text("todo", "named_gone") if _is_pruned(one, digest) else "",
        first=_first(one, digest, words),
        command=command,
        again=command if digest.assessment.is_wait_over else "",
        left=words.say("todo", "left", n=len(one.others), of=len(one.others) + one.count) if one.others else "",
        change=", ".join(sorted({change_of_values(each) for each in no_longer if each})),
        mistake=words.text("todo", "mistake") if _is_fall(one, digest) else "",
    )


def _is_pruned(action: Action, digest: Digest) -> bool:
    """Tell whether lock files name builds that are gone since a prune that is told."""
    pruned = {tag for fact in digest.assessment.facts if fact.kind == StatementKind.PRUNE for tag in fact.tags}
    return action.because is Because.TURNOVER and any(
        (tag.tag, tag.source) == (action.tag, action.source) for tag in pruned
    )


def _command(digest: Digest, words: Words) -> str:
    """Return the command that is enough, or nothing where several follow."""
    return "" if steps(digest.assessment, words) else words.text("todo", "command")


def _first(copy: Action, digest: Digest, words: Words) -> str:
    """Say what has to come before a copy: lock files that name builds which are gone cannot be copied."""
    old = (Because.OLD_BUILDS, Because.TURNOVER)
    days = [one.name for one in digest.assessment.actions if one.because in old and one.tag == copy.tag]
    return words.say("todo", "first", day=day_of(days[0])) if days else ""


def _is_fall(action: Action, digest: Digest) -> bool:
    """Tell whether the first number of a version that an action is about became smaller."""
    return any(
        falls(*pair)
        for line, _ in lines_of(digest, StatementKind.DOWNGRADED)
        for pair in line.story.pairs
        if line.package in action.names
    )


def _resolutions(because: Because, names: Collection[str], digest: Digest) -> list[Resolution]:
    own = digest.assessment.environment
    return [each for each in (own.for_cause(because) if own else ()) if each.need.package in names]


def _compilers(found: Iterable[Resolution]) -> str:
    """Name the other compilers of equal builds: ` (24 with gcc@13.3.0)`."""
    start = "compiler "
    others = Counter(text.removeprefix(start) for one in found for text in one.differs if text.startswith(start))
    named = ", ".join(f"{count:,} with {safe(name)}" for name, count in others.most_common(MOST_NAMES))
    return f" ({named})" if named else ""


def steps(found: Assessment, words: Words) -> list[str]:
    """Return the commands for an environment, in their order, where one is not enough; they copy FROM one mirror TO another.

    There are none where names could mean more to a shell.
    """
    required = [one.partition("@")[::2] for one in found.required]
    concretizes = not found.is_waiting and any(
        one.verb is Verb.RECONCRETIZE or one.because in _CONCRETIZED for one in found.actions
    )
    copies = any(one.verb is Verb.COPY or one.is_copy for one in found.actions)
    if not (copies or (required and concretizes)) or not all(is_plain(word) for pair in required for word in pair):
        return []
    older = {version for one in found.actions if one.because is Because.DOWNGRADED for version in one.versions}
    pruned = [one for one in found.actions if one.because is Because.PRUNED and one.machine]
    machines = {version: safe_name(one.machine) for one in pruned for version in one.versions}
    said = []
    for name, version in required[:_MOST_REQUIRED]:
        spec = f"{name}@{version}"
        said += [words.say("todo", "lock_version", name=name)] if spec in older else []
        said += [words.say("todo", "machine_only", name=name, machine=machines[spec])] if spec in machines else []
        said.append(f"spack -e . config add \"packages:{name}:require:'@{version}'\"")
    if len(required) > _MOST_REQUIRED:
        said.append(words.say("todo", "more_required", len(required) - _MOST_REQUIRED))
    return [
        *((*said, "spack -e . concretize --force") if concretizes else ()),
        *(["spack -e . buildcache sync FROM TO"] if copies else ()),
        *(["spack -e . install"] if concretizes else ()),
    ]
