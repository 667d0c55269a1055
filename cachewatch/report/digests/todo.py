"""Put into words what readers should do, the beginning of every digest; core/advice decides what that is."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from cachewatch.core.advice.actions import ENVIRONMENT, replaced_versions
from cachewatch.core.advice.environment_coverage import Nearest, Resolution
from cachewatch.core.advice.verbs_and_reasons import (
    LASTING,
    LOCK_FILES,
    PINNED,
    Action,
    Because,
    ComparedTag,
    Requirement,
    Verb,
    key_of,
)
from cachewatch.core.escaping_and_mentions import is_shell_word, safe, safe_name
from cachewatch.core.kinds_and_specs import LossClass, grouped
from cachewatch.core.names_and_layouts import is_snapshot, series
from cachewatch.core.statement_kinds import StatementKind, lost_packages
from cachewatch.core.versions_spellings_targets import NO_COMPILER, falls, sorted_versions
from cachewatch.report.digest_and_message_values import Digest, TagDigest, newest_day
from cachewatch.report.digests.body_and_table import lacked, lines_of, tag_name
from cachewatch.report.digests.subject import day_of, is_rebuilt_again, lifted_names
from cachewatch.report.environment_words import binaries_said
from cachewatch.report.words import MOST_NAMES, and_more, change_of_values, listed, names, outside, stacks_named
from cachewatch.report.words_file import Words

_MOST_OPEN = 25  # names that no table lists
_MOST_ASKED = 12  # names by which readers know whether they are concerned
_GONE = (
    Because.ENVIRONMENT_GONE,
    Because.GONE,
    Because.DOWNGRADED,
    Because.PRUNED,
)  # causes for which other snapshots may still have the build
CONCRETIZED = (Because.ENVIRONMENT_LAST_OTHER, Because.OTHER, *LOCK_FILES)


def todo(digest: Digest, words: Words) -> list[str]:
    """Return, as sentences, the actions that this digest is the first to ask for, or that there is nothing to do."""
    advice = digest.assessment
    lines = _due(digest, words)
    lifted = _lifted(digest, words)
    if advice.is_waiting:
        first = advice.actions[0]
        if first.since:
            return [_sentence([first], digest, words, "still-"), *lines, *lifted]
        waited = {one.tag for one in advice.actions if one.verb is Verb.WAIT}
        in_tag = words.say("todo", "in_tag", tag=safe(min(waited))) if len(waited) == 1 else ""
        is_open = any(one.verb is not Verb.MOVE for one in advice.still_open)
        paused = words.say("todo", "paused_open" if is_open else "paused", in_tag=in_tag)
        lines[0] += f" {paused}" if any(one.since for one in advice.paused) else ""
        lines[0] += words.text("todo", "paused_apart") if advice.still_open and not is_open else ""
        return [*lines, *lifted]
    over = words.text("todo", "over_open" if advice.still_open else "over") if advice.is_wait_over else ""
    if not (lines or over) and any(one.verb is Verb.MOVE for one in advice.still_open):
        over = words.text("todo", "now_due")
    has_lock_files = any(one.because in LOCK_FILES for one in advice.actions)  # these say it
    key = "unless_too" if lines else "unless_over" if over else "unless"
    unless = "" if lines and has_lock_files else _unless(digest, words, key)
    is_alone = not (lines or over or unless)
    moves, removed = _moves(digest, words)
    if is_alone and removed:
        unless, moves = removed, moves[1:]
    narrowed = _narrowed(digest, words)
    if lines:
        lines += [f"{unless} {narrowed}".strip()] if unless or narrowed else []
    elif not (is_alone and (moves or lifted)):
        new = "nothing_more" if unless else "nothing_new"
        of_lock_files = "_urgent" if unless and unless != removed else ""
        nothing = words.text(
            "todo", ("nothing_else" if lifted else new if advice.actions else "nothing") + of_lock_files
        )
        nothing = f"{nothing.rstrip('.')}{unless}. {narrowed}".rstrip()
        lines = [unless] * bool(unless) if over else [nothing]
    is_asked = bool(advice.due or unless or lifted) and not any(one.verb in PINNED for one in advice.due)
    pins = [pin.tag for pin in digest.pinned if not pin.is_gone] if is_asked else []
    unaffected = [words.say("todo", "pin_unaffected", name=safe(name)) for name in pins]
    return [*filter(None, (over,)), *lifted, *lines, *moves, *unaffected]


def _narrowed(digest: Digest, words: Words) -> str:
    """Return a sentence on configurations of packages that stacks no longer build; "" if there are none."""
    found = (one for tag in _same_tags(digest) for one in (*tag.statements, *tag.rest) if not digest.environment)
    lines = (line for one in found if one.kind is StatementKind.NARROWED for line in one.lines if line.story.after)
    silenced = {name for tag in digest.tags for name in tag.silenced}
    names = set[str]()
    for line in lines:
        if line.package not in silenced:
            spec = " ".join((safe_name(line.package), and_more(line.story.before, words))).rstrip()
            for key, is_left in (("narrowed", False), ("narrowed_here", True)):
                if own := [one for one in line.story.after if (one in line.story.remaining) is is_left]:
                    values = " or ".join(and_more(own, words).split(", "))
                    names.add(words.say("todo", key, spec=spec, values=values, stacks=stacks_named(line.stacks)))
    return words.say("todo", "but_narrowed", len(names), names=listed(sorted(names), words)) if names else ""


def _due(digest: Digest, words: Words) -> list[str]:
    """Return sentences on actions that this digest is the first to ask for, and on where gone builds still are."""
    advice = digest.assessment
    has_pin = any(one.verb in PINNED for one in advice.due)
    lines = []
    for group in _by_command(one for one in advice.due if not is_of_moving(one, digest)):
        # A sentence on lock files names its branch, unless it begins with what else is to be done.
        is_named = group[0].because not in LOCK_FILES or advice.required or has_pin
        branch = _branch(group[0], digest, words) if is_named else ""
        lines.append(_of_branch(branch, _sentence(group, digest, words), digest, words))
    lines = list(dict.fromkeys(lines))
    again = "again_required" if advice.required else "again"
    if is_rebuilt_again(digest):
        required = _asked(advice.required, words)
        lines.append(words.say("todo", again, day=_last_day(digest), required=required))
    if lines and advice.alternative and any(one.because in ENVIRONMENT for one in advice.due):
        other = advice.alternative
        lines.append(words.say("todo", "alternative", tag=safe(other.tag), has=f"{other.has:,}", of=f"{other.of:,}"))
    keeping = keeping_of(digest) if went(digest) else {}
    # What is still to be copied from the branch is asked for below.
    still = {one.spec.removesuffix(":") for one in advice.required}
    open_ones = {name for one in advice.still_open if one.is_copy for name in one.names}
    asked = {name for one in advice.due for name in one.names}
    for tag, specs in keeping.items():
        names = [spec for spec in specs if spec in still or spec.partition("@")[0] not in open_ones]
        names.sort(key=lambda spec: spec.partition("@")[0] not in asked)
        names = one_for_each(names)
        said = words.say("todo", "kept", len(names), tag=tag, branch=series(tag), names=and_more(names, words))
        lines += [_of_branch(series(tag) or tag, said, digest, words)] if names else []
    lines[1:1] = [] if keeping else _kept_too(digest, words)
    built = [one.spec.removesuffix(":") for one in advice.required if not one.home] if keeping else []
    built = list(dict.fromkeys(built))
    lines += [words.say("todo", "built", len(built), names=and_more(built, words))] if built else []
    return lines


def _lifted(digest: Digest, words: Words) -> list[str]:
    """Return one sentence on requirements of earlier digests that are needed no longer; [] if there are none."""
    names = lifted_names(digest, words)
    said = words.say("todo", "lifted", len(names), names=listed(names, words))
    branches = {tag_name(digest, tag.source, tag.report.tag, words) for tag in _same_tags(digest)}
    return [_of_branch(min(branches) if len(branches) == 1 else "", said, digest, words)] if names else []


def _of_branch(branch: str, said: str, digest: Digest, words: Words) -> str:
    """Return the sentence `said`, with `branch` named before it if readers pin a snapshot and `branch` is not ""."""
    return words.say("todo", "about", tag=branch, said=said) if branch and digest.pinned else said


def _moves(digest: Digest, words: Words) -> tuple[list[str], str]:
    """Return sentences on where users of older snapshots should move, and a clause on removed snapshots, or "".

    The clause limits a sentence that says that there is nothing to do.
    """
    new = newest_snapshots(digest)
    gone = (one for one in digest.assessment.due if one.because is Because.GONE or one.worst is LossClass.GONE)
    told = {found.base for one in gone if (found := _lacking(one, digest))}
    removed = {name: left for name, left in _removed_snapshots(digest).items() if name not in told}
    left = [] if new else sorted(filter(None, {*removed.values()}))
    lacking = [one.tag for one in filter(lacks, new_snapshots(digest))]
    fuller = fuller_snapshots(digest)
    values = {
        "tag": " or ".join(map(safe, left or [tag for _, tag in new])) or words.text("todo", "newer_one"),
        "names": and_more([*removed], words),
        "or_to": words.say("todo", "or_fuller" if fuller else "or_lacks", fuller=and_more(fuller, words))
        if lacking
        else "",
        "gone": words.say("todo", "snapshots_gone", len(removed), names=and_more([*removed], words)) if removed else "",
    }
    key = "older_snapshot" if new and not lacking else "withdrawn_snapshot" if left else "removed_snapshot"
    moves = [words.say("todo", key, len(removed), **values)] if removed or (new and not lacking) else []
    for one in (fact.statement for fact in digest.assessment.facts if fact.kind == StatementKind.STACK_MERGED):
        if one and not any(map(digest.stacks, one.after)):
            old, names = (", ".join(map(safe_name, found)) for found in (one.before, one.after))
            moves.append(words.say("todo", "unselected", name=old, names=names))
    return moves, words.say("todo", f"unless_{key}", len(removed), **values) if removed and not new else ""


def went(digest: Digest) -> bool:
    """Tell whether this digest is the first to say what readers should do about removed versions."""
    gone = (one for one in digest.assessment.due if one.because in _GONE or one.worst is LossClass.GONE)
    return any(_lacking(one, digest) is None for one in gone)


def keeping_of(digest: Digest) -> dict[str, list[str]]:
    """Return, by snapshot, specs in it of builds that are gone elsewhere or to be copied; {} if readers should wait."""
    own, found = digest.assessment, dict[str, dict[str, None]]()
    for one in (*own.required, *own.to_copy, *own.gone):
        if one.home and is_shell_word(one.home) and not own.is_waiting:
            found.setdefault(one.home, {})[one.spec.removesuffix(":")] = None
    return {tag: [*specs] for tag, specs in found.items()}


def one_for_each(specs: Iterable[str]) -> list[str]:
    """Return one spec for each package in `specs`, with all versions: `tau@2.4,2.5` for `tau@2.4` and `tau@2.4,2.5`."""
    found: dict[str, dict[str, None]] = {}
    for spec in specs:
        package, _, versions = spec.partition("@")
        found.setdefault(package, {}).update(dict.fromkeys(versions.split(",")))
    return [f"{package}@{','.join(sorted_versions(versions))}" for package, versions in found.items()]


def _kept_too(digest: Digest, words: Words) -> list[str]:
    """Return sentences on snapshots that also have the builds that this digest is the first to ask readers to copy."""
    asked = {name for one in digest.assessment.due if one.verb is Verb.COPY or one.is_copy for name in one.names}
    to_copy = {one.spec for one in digest.assessment.to_copy if one.package in asked}
    said = []
    for tag, specs in keeping_of(digest).items():
        names = [spec for spec in specs if spec in to_copy]
        key = "kept_too" if len(names) == len(to_copy) else "kept_part"
        said += [words.say("todo", key, len(names), tag=tag, names=and_more(names, words))] if names else []
    return said


def new_snapshots(digest: Digest) -> list[ComparedTag]:
    """Return the new snapshots of a digest, each compared with the snapshot before."""
    return [tag for one in digest.assessment.facts if one.kind == "snapshot" for tag in one.tags]


def lacks(tag: ComparedTag) -> bool:
    """Tell whether the new snapshot `tag` lacks packages of the snapshot before."""
    return bool(lost_packages(tag.statements))


def _removed_snapshots(digest: Digest) -> dict[str, str]:
    """Return, by removed snapshot, a snapshot to move to, or ""; {} if readers pin a snapshot or should wait."""
    found = (one.statement for one in digest.assessment.facts if one.kind == StatementKind.TAG_REMOVED)
    names = {one.name: "".join(one.after) for one in found if one and is_snapshot(one.name)}
    return {} if digest.pinned or digest.assessment.is_waiting else names


def newest_snapshots(digest: Digest) -> list[tuple[str, str]]:
    """Return pairs of source and snapshot to which readers without a pin should move from older snapshots.

    These are the new snapshots. If one of them lacks something and no older snapshot was removed, there are none.
    """
    new, removed = new_snapshots(digest), _removed_snapshots(digest)
    if digest.pinned or digest.assessment.is_waiting or (not removed and any(map(lacks, new))):
        return []
    return list(dict.fromkeys((tag.source, tag.tag) for tag in new))


def fuller_snapshots(digest: Digest) -> list[str]:
    """Return the snapshots before new ones that have what the new ones lack, unless they were removed."""
    removed = _removed_snapshots(digest)
    return [tag.base for tag in filter(lacks, new_snapshots(digest)) if tag.base not in removed]


def is_of_moving(action: Action, digest: Digest) -> bool:
    """Tell whether `action` only asks for what moving to a new snapshot requires anyway."""
    return action.because is Because.OTHER and action.tag in {tag for _, tag in newest_snapshots(digest)}


def _unless(digest: Digest, words: Words, key: str) -> str:
    """Return the exception to "nothing to do" for some lock files, worded by the text `key`; "" if there is none."""
    cases = cases_of(digest, words) if digest.environment is None else ()
    if not cases or key == "unless_over":
        return words.say("todo", key, cases=", or ".join(cases)) if cases else ""
    old, rebuilt = _old_and_rebuilt(digest)
    below = words.text("todo", "unless_below")
    named = [_in_stacks(old, words) if len(old) <= MOST_NAMES + 1 else below] if old else []
    named += [words.say("todo", "unless_builds", packages=_in_stacks(rebuilt, words))] if rebuilt else []
    tags = {safe(tag.report.tag) for tag in _same_tags(digest)}
    return words.say(
        "todo",
        key,
        against=words.say("todo", "unless_against", tag=min(tags)) if len(tags) == 1 else "",
        day=_last_day(digest),
        named=f" ({'; '.join(named)})" if named else "",
    )


def cases_of(digest: Digest, words: Words) -> list[str]:
    """Return descriptions of the lock files that need an action, by what these contain or when they were made."""
    cases = []
    if not any(one.because in LOCK_FILES for one in digest.assessment.actions):
        prunes = [fact for fact in digest.assessment.facts if fact.kind == StatementKind.PRUNE]
        waves = (digest.remembered.wave(tag.source, tag.tag) for fact in prunes for tag in fact.tags)
        # The first day on which digests announced the old builds that are pruned now.
        cases += [words.say("todo", "unless_before", day=day_of(wave.day)) for wave in waves if wave][:1]
    old, rebuilt = _old_and_rebuilt(digest)
    if old:
        tags = {safe(tag.report.tag) for tag in _same_tags(digest)}
        from_tag = words.say("todo", "from_tag", tag=min(tags)) if len(tags) == 1 else ""
        case = "unless_old" if len(old) == 1 else "unless_olds"
        cases.append(words.say("todo", case, names=_in_stacks(old, words), from_tag=from_tag))
    if rebuilt:
        case = "unless_build_too" if old else "unless_build"
        cases.append(words.say("todo", case, packages=_in_stacks(rebuilt, words, 2), day=_last_day(digest)))
    return cases


def _same_tags(digest: Digest) -> list[TagDigest]:
    """Return the tags that are compared with an earlier revision of themselves, except removed ones."""
    return [
        tag
        for tag in digest.tags
        if tag.report.before.tag == tag.report.after.tag
        and not any(
            one.kind is StatementKind.TAG_REMOVED and one.name == tag.report.after.tag for one in tag.statements
        )
    ]


def _old_and_rebuilt(digest: Digest) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Return the stacks by replaced version (`zlib 3.3.1`), and the stacks by package with outdated builds.

    The set of stacks is empty if no other stacks have the package.
    """
    own, is_wait_over = _same_tags(digest), digest.assessment.is_wait_over
    packages = grouped(one for tag in own for one in tag.outdated(is_wait_over=is_wait_over))
    replaced = (replaced_versions(tag.report.tag, tag.statements, is_wait_over=is_wait_over) for tag in own)
    versions = grouped(chain.from_iterable(replaced))
    for version in list(versions):
        # The name of a rebuilt package says more than an old version of it.
        if (package := version.rpartition(" ")[0]) in packages:
            packages[package] += versions.pop(version)
    # Of several tags, stacks are named only if the package changed in the same ones.
    is_one = len(own) == 1
    old, rebuilt = (
        {
            name: frozenset().union(*stacks) if all(stacks) and (is_one or len({*stacks}) == 1) else frozenset()
            for name, stacks in found.items()
        }
        for found in (versions, packages)
    )
    return old, dict(sorted(rebuilt.items()))


def _in_stacks(found: Mapping[str, Collection[str]], words: Words, most: int = 1) -> str:
    """Return the names in `found` with their stacks; if there are many names, the first `most` names without stacks."""
    if len(found) > MOST_NAMES + 1:
        return and_more([*found], words, most)
    said = []
    for stacks, own in grouped((stacks, name) for name, stacks in found.items()).items():
        named, where = (" and ".join(text.split(", ")) for text in (names(own, len(own)), stacks_named(stacks, 2)))
        said.append(words.say("todo", "in_stacks", names=named, stacks=where) if stacks else names(own, len(own)))
    return ", ".join(sorted(said, key=lambda text: " in " not in text))


def _last_day(digest: Digest) -> str:
    """Return the day of the newest revision, 13 September, with its time if the revision before has the same day."""
    return day_of(max(newest_day(tag.report) for tag in digest.tags))


def _asked(found: Iterable[Requirement], words: Words) -> str:
    """Return, in words, the specs of the requirements `found`, each once."""
    return _specs_said(dict.fromkeys(one.spec for one in found), words)


def _specs_said(specs: Iterable[str], words: Words) -> str:
    """Return versions to require in words: `openmpi@5.8.0 or newer`, `tau@2.4 or @2.5 (the version that you use)`."""
    said = []
    for spec in specs:
        first, *others = (names([one]) for one in spec.removesuffix(":").split(","))
        more = [words.say("other", "more", len(others) + 1 - MOST_NAMES)] if len(others) >= MOST_NAMES else []
        versions = " or ".join((first, *(f"@{version}" for version in others[: MOST_NAMES - 1]), *more))
        key = "or_newer" if spec[-1] == ":" else "own_version"
        said.append(words.say("todo", key, spec=versions) if others or spec[-1] == ":" else first)
    return listed(said, words)


def _by_command(actions: Iterable[Action]) -> list[list[Action]]:
    """Return actions in groups: those on an environment by their command, every other action alone."""
    groups: dict[object, list[Action]] = {}
    for one in actions:
        is_other = one.because is Because.ENVIRONMENT_LAST_OTHER  # which cannot be copied before it is named
        groups.setdefault((one.verb, is_other) if one.because in ENVIRONMENT else one, []).append(one)
    return list(groups.values())


def advice(digest: Digest, words: Words) -> str:
    """Return the first action, or that there is nothing to do, as a sentence; for channels that show one line."""
    found = _by_command(one for one in digest.assessment.actions if not is_of_moving(one, digest))
    return _sentence(found[0], digest, words, most=MOST_NAMES) if found else todo(digest, words)[0]


def still_open(digest: Digest, words: Words) -> list[str]:
    """Return sentences on actions of earlier digests, with the days: oldest first, but those on lock files last."""

    def order(group: Sequence[Action]) -> tuple[bool, str]:
        is_last = group[0].because in CONCRETIZED or group[0].verb is Verb.RECONCRETIZE
        return is_last, min(one.since for one in group)

    groups_said: dict[tuple[str, str], list[str]] = {}
    asked = (one for one in digest.assessment.still_open if one.verb is not Verb.WAIT)
    for group in sorted(_by_command(asked), key=order):
        _, since = order(group)
        is_later = any(one.since > since for one in group)
        day = words.say("todo", "later", day=day_of(since)) if is_later else day_of(since)
        about = words.text("todo", "your_pin") if group[0].verb in PINNED else _branch(group[0], digest, words)
        day = words.say("todo", "since_about", day=day, tag=about) if about else day
        what = _sentence(group, digest, words, "open-").rstrip(".")
        # What has several sentences stands alone.
        groups_said.setdefault((day, what if ". " in what else ""), []).append(what)
    return [words.say("todo", "since", day=day, what="; ".join(what) + ".") for (day, _), what in groups_said.items()]


def _branch(action: Action, digest: Digest, words: Words) -> str:
    """Return the branch of `action`, to name it to readers who pin a snapshot; "" if it need not be named."""
    is_other = action.because in ENVIRONMENT or action.verb in (*PINNED, Verb.WAIT) or is_snapshot(action.tag)
    return "" if is_other or not digest.pinned else tag_name(digest, action.source, action.tag, words)


def _sentence(group: Sequence[Action], digest: Digest, words: Words, prefix: str = "", most: int = _MOST_ASKED) -> str:
    """Return one sentence on the actions `group`, with `most` names; its key in words.toml begins with `prefix`."""
    if group[0].because not in ENVIRONMENT:
        return _action(group[0], digest, words, prefix, most)
    assessment, parts = digest.assessment, list[str]()
    is_unknown = False
    found_own: list[Resolution] = []
    copied = {one.subject: day_of(one.since) for one in digest.remembered.actions if one.verb == Verb.COPY}
    for because in dict.fromkeys(one.because for one in group):
        same = [one for one in group if one.because is because]
        packages = {name for one in same for name in one.names}
        binaries = assessment.environment.for_cause(because) if assessment.environment else ()
        own = [each for each in binaries if each.need.package in packages]
        if because in (Because.ENVIRONMENT_GONE, Because.ENVIRONMENT_OTHER):
            before = digest.environment.before.needs if digest.environment is not None else ()
            found_own += own if because is Because.ENVIRONMENT_GONE else ()
            is_unknown |= any(one.need.package not in copied for one in own)
            parts.append(binaries_said(own, words, copied, {key_of(one): one for one in before}))
            # Of a spack.yaml, which has no hashes: `concretize` would choose the same versions again.
            is_other = because is Because.ENVIRONMENT_OTHER
            pinned = [one.need.package for one in own if is_other and not one.need.hash]
            parts += [words.say("todo", "pinned", len(pinned), names=and_more(pinned, words))] if pinned else []
            continue
        parts.append(_others_there(because, own, sum(one.count for one in same), group[0].tag, words))
    fallen = [one.need.package for one in found_own if falls(one.need.version, one.suggestion)]
    last = Because.ENVIRONMENT_LAST_OTHER
    key = f"{prefix}{'copy-other' if group[0].because is last else group[0].verb}"
    has_more = assessment.required or any(one.verb in (Verb.RECONCRETIZE, Verb.COPY) for one in assessment.due)
    if key == "open-reconcretize" and has_more:
        key = "open-too"
    is_asked = any(one.because is Because.ENVIRONMENT_GONE for one in assessment.due)
    if key == "reconcretize" and assessment.required and not is_asked:
        key = "reconcretize-required"
    earlier = () if is_asked else assessment.required
    is_repeated = any(one.verb is Verb.RECONCRETIZE for one in assessment.still_open) and any(
        one.kind in (StatementKind.PRUNE, StatementKind.TURNOVER)
        for tag in _same_tags(digest)
        for one in (*tag.statements, *tag.rest)
    )
    return words.say(
        "todo",
        key,
        sum(one.count for one in group),
        parts="; ".join(parts),
        other="other " if assessment.actions[0].verb is Verb.BUILD else "",
        lately=words.text("todo", "lately") if is_repeated else "",
        required=_asked(assessment.required, words),
        to_copy=_asked(assessment.to_copy, words),
        all_required=_asked((*earlier, *assessment.to_copy), words),
        all=f"{len(digest.environment.after.needs):,}" if digest.environment is not None else "",
        unknown=words.text("todo", "unknown") if is_unknown else "",
        act=words.say("todo", "act", names=and_more(fallen, words)) if fallen else "",
    )


def _others_there(because: Because, own: Sequence[Resolution], count: int, tag: str, words: Words) -> str:
    """Return a clause on `count` other builds in `tag` in place of the binaries `own`; `because` selects its words."""
    is_few = count <= MOST_NAMES or because is Because.ENVIRONMENT_GOING
    is_unsure = any(one.lacks_compiler for one in own)
    is_same = all(one.left is Nearest.EQUAL for one in own)
    # When they are pruned, the lock file alone says what they were built with.
    is_equal = is_same and not any(one.need.compiler in ("", NO_COMPILER) for one in own)
    return words.say(
        "todo",
        "environment-same" if is_unsure and because is Because.ENVIRONMENT_EQUAL else because,
        count,
        names=and_more([f"{one.need.package} {one.need.version}".strip() for one in own], words),
        named=f" ({and_more(list(dict.fromkeys(one.need.package for one in own)), words)})" if is_few else "",
        compilers=_compilers(own),
        in_tag=words.say("todo", "in_tag", tag=safe(tag)) if tag else "",
        then=words.text("todo", "then_equal" if is_equal else "then_same" if is_same else "then_other"),
    )


def _action(action: Action, digest: Digest, words: Words, prefix: str, most: int) -> str:
    assessment, key = digest.assessment, action.because.value
    of_tag = (one for one in assessment.actions if (one.source, one.tag) == (action.source, action.tag))
    moved = [one for one in of_tag if one.is_migration]
    lacking = _lacking(action, digest)
    if lacking is not None and (action.because is Because.GONE or action.worst is LossClass.GONE):
        names = lacked(lacking.statements, words)
        key = "snapshot-gone" if is_snapshot(lacking.base) else "tag-gone"
        key = "snapshot-went" if lacking.base in _removed_snapshots(digest) else key
        return words.say("todo", key, base=safe(lacking.base), tag=safe(action.tag), names=names)
    if action.because is Because.GONE:
        is_outside = action.outside and not prefix and not (action.name and action.outside.oses)
        moved_or_not = "gone-migrated" if action.is_migration else key
        key = "gone-removed" if action.is_everywhere else "gone-outside" if is_outside else moved_or_not
    elif action.because in LOCK_FILES and (prefix or (moved and action.because is Because.TURNOVER)):
        key = "lock-files" if prefix else "turnover-apart"
    newer = {line.package for line, tag in lines_of(digest, StatementKind.UPGRADED) if tag.report.tag == action.tag}
    is_best = any(pin.best == action.tag for pin in digest.pinned)
    if action.because is Because.PIN_GONE and action.names:
        key = "pin-gone-best" if is_best else "pin-gone-lacks"
    elif action.because is Because.PIN_ENDING and is_best:
        key = "pin-ending-best"
    elif action.because is Because.SUSPICIOUS and (digest.pinned or len(digest.tags) > 1) and not prefix:
        key = "suspicious-apart"
    if action.because is Because.STACK_REMOVED and action.worst is not LossClass.GONE:
        key = f"stack-removed-{action.worst}"
    versions: Sequence[str] = action.versions or action.names
    if action.because is Because.DOWNGRADED:  # another version may have to do
        own = [one for one in assessment.required if one.machine == action.machine and one.spec.endswith(":")]
        required = {one.package: one.spec.removesuffix(":") for one in own}
        versions = [required[name] for name in action.names if name in required]
    gone = [
        one.lost for one in assessment.losses if one.loss_class is LossClass.GONE and one.lost.package in action.names
    ]
    has_older = any(lost.loss and lost.loss.there for lost in gone)
    asked = {name for one in assessment.actions if one.is_requirement for name in one.names}
    is_kept = has_older or any(lost.is_of_removed for lost in gone) or not asked.isdisjoint(action.names)
    most = (_MOST_OPEN if prefix else most) if action.is_copy else MOST_NAMES
    no_longer = [fact.statement for fact in assessment.facts if fact.kind == StatementKind.NO_LONGER]
    # What is gone for some machines, and nobody is asked to require.
    missed = (each for each in assessment.due if not (each.is_requirement or is_snapshot(each.tag)))
    is_missed = any(each.because is Because.GONE or each.worst is LossClass.GONE for each in missed)
    # The commands do it, because of what is due or still open.
    is_concretized = not assessment.is_waiting and any(
        one.verb is Verb.RECONCRETIZE or one.because in CONCRETIZED for one in assessment.actions
    )
    lines = [line for line, _ in lines_of(digest, StatementKind.DOWNGRADED) if line.package in action.names]
    is_fall = any(falls(*pair) for line in lines for pair in line.story.pairs)
    names, tag = and_more(action.names, words), tag_name(digest, action.source, action.tag, words)
    for_machines = words.say("todo", "for_machine", machine=safe_name(action.machine)) if action.machine else ""
    for_machines += _in_tag(action, digest, words)
    if action.names:
        others = words.say("todo", "in_another_way", action.count, names=names)
    else:
        others = words.say("todo", "or_to", names=and_more(action.others, words)) if action.others else ""
    still = {*action.others}.difference(action.names)  # of which nothing was pruned
    said = words.say(
        "todo",
        f"{prefix}{key}" if words.text("todo", f"{prefix}{key}") else key,
        action.count if action.names else 1,
        name=safe_name(action.name),
        tag=tag,
        day=day_of(action.name),
        since=day_of(action.since),
        names=and_more(action.names, words, most),
        lost=and_more(
            action.versions if (has_older or prefix) and len(action.versions) == action.count else action.names,
            words,
            most,
        ),
        specs=and_more(action.versions or action.names, words, most),
        moved=words.say("todo", "moved", name=safe_name(action.name)),
        moving=words.say("todo", "moving", name=safe_name(action.name)) if action in moved[-1:] else "",
        apart=words.text("todo", "apart") if moved else "",
        nothing=words.text("todo", "nothing_as_new" if has_older else "no_build"),
        as_new=words.text("todo", "as_new") if has_older else "",
        lacked=lacked(next((pin.statements or () for pin in digest.pinned if pin.best or pin.is_gone), ()), words)
        or names,
        or_with=or_with_old(action, digest, words, start="open" if prefix else "or"),
        there_again=words.say("todo", "there_again", len(action.others), names=and_more(action.others, words))
        if action.because in LASTING and action.others
        else "",
        to=words.say("todo", "to", tag=safe_name(action.tag)) if action.tag else "",
        newest=and_more(action.others, words),
        newer=words.say("todo", "in_newer", len(newer)) if newer else "",
        without=words.say("todo", "without", names=names) if action.names else "",
        others=others,
        concretize=words.text("todo", "concretize") if is_concretized else "",
        or_concretize=words.text("todo", "or_concretize") if action.outside and action.outside.compilers else "",
        outside=outside(action.outside, words),
        for_machines=for_machines,
        # Behind several names, the machine could be read as that of the last one.
        for_several=f",{for_machines}," if for_machines and action.count > 1 else "",
        for_one="" if action.count > 1 else for_machines,
        versions=and_more(versions, words) if key == "pruned" and not prefix else _specs_said(versions, words),
        left=words.say("todo", "left", n=len(still), of=len(still) + action.count, day=day_of(action.name))
        if still
        else "",
        change=", ".join(sorted({change_of_values(each) for each in no_longer if each})),
        mistake=words.text("todo", "mistake") if is_fall else "",
        act=words.say("todo", "act", names=names) if is_fall else "",
        now=words.text("todo", "now_there" if action.machine else "now"),
        built=words.text("todo", "then_built") if is_missed else "",
        unrequired=words.say("todo", "unrequired", action.count) if action.machine and not is_kept else "",
    )
    is_first = prefix or any(one.is_requirement for one in assessment.due) or not assessment.required
    return said if is_first or action.because not in LOCK_FILES else words.say("todo", "require_first", sentence=said)


def _in_tag(action: Action, digest: Digest, words: Words) -> str:
    """Return the branch of `action`, ` in v1.0`; "" for a snapshot, or if all branches lost the same packages."""
    if is_snapshot(action.tag):
        return ""
    branches = [tag for tag in digest.tags if not is_snapshot(tag.report.tag)]
    others = [tag for tag in branches if (tag.source, tag.report.tag) != (action.source, action.tag)]
    missed = [
        {*lost_packages(tag.statements)}.union(
            *(one.packages for one in tag.statements if one.kind is StatementKind.DOWNGRADED)
        )
        for tag in others
    ]
    is_everywhere = all(packages.issuperset(action.names) for packages in missed)
    is_everywhere &= {action.source, *(tag.source for tag in others)} >= digest.sources
    return "" if is_everywhere else words.say("todo", "in_tag", tag=tag_name(digest, action.source, action.tag, words))


def _lacking(action: Action, digest: Digest) -> ComparedTag | None:
    """Return the new snapshot that `action` is about; None if `action` is about another tag."""
    compared = (tag for fact in digest.assessment.facts for tag in fact.tags if tag.base)
    return next((tag for tag in compared if (tag.tag, tag.source) == (action.tag, action.source)), None)


def or_with_old(task: Action, digest: Digest, words: Words, most: int = _MOST_OPEN, start: str = "or") -> str:
    """Return other old packages that lock files of `task` may name, or ""; `start` begins the key in words.toml."""
    if task.because not in LOCK_FILES:
        return ""
    told = () if digest.assessment.due else [*chain(*_old_and_rebuilt(digest))]
    old = [one for one in task.others if one not in told]
    days = {name: day for name, day in task.outdated if name not in told and day > task.name}
    from_tag = words.say("todo", "from_tag", tag=safe_name(task.tag))
    said = words.say("todo", f"{start}_with", names=and_more(old, words, most), from_tag=from_tag) if old else ""
    if days:
        key = f"{start}_before" if len(days) <= most else f"{start}_before_all"
        said += words.say(
            "todo",
            key,
            day=day_of(max(days.values())),
            names=and_more(sorted(days), words, most),
            also=words.text("todo", "or_else" if old else "by_now"),
        )
    return said


def widened(task: Action, digest: Digest) -> Action:
    """Return `task` on lock files before a day; if `digest` outdates all lock files, its day replaces that day."""
    old, rebuilt = _old_and_rebuilt(digest)
    tags = {(tag.source, tag.report.tag) for tag in _same_tags(digest)}
    is_all = rebuilt and not (old or digest.assessment.due) and tags == {(task.source, task.tag)}
    return replace(task, name=max(newest_day(tag.report) for tag in digest.tags)) if is_all else task


def _compilers(binaries: Iterable[Resolution]) -> str:
    """Return compilers, with counts, that other builds have and `binaries` lack: ` (24 with gcc@13.3.0)`, or ""."""
    start = "compiler "
    others = Counter(text.removeprefix(start) for one in binaries for text in one.differs if text.startswith(start))
    named = ", ".join(f"{count:,} with {safe(name)}" for name, count in others.most_common(MOST_NAMES))
    return f" ({named})" if named else ""
