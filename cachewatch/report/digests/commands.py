"""The commands of Spack that reports offer: to install a spec, and to do what a digest asks for.

The latter are for a shell in the folder of an environment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from cachewatch.core.advice.verbs_and_reasons import LOCK_FILES, Action, Assessment, Because, Verb
from cachewatch.core.escaping_and_mentions import is_shell_word, safe, safe_name, web_address
from cachewatch.core.kinds_and_specs import grouped
from cachewatch.core.names_and_layouts import is_snapshot, public_mirror
from cachewatch.core.versions_spellings_targets import USUAL_TARGET, runs
from cachewatch.report.digest_and_message_values import Digest, Example
from cachewatch.report.digests import todo
from cachewatch.report.digests.subject import day_of, only_on
from cachewatch.report.words import MOST_NAMES, and_more
from cachewatch.report.words_file import Words

_MOST_REQUIRED = 12
_WIDTH = 70  # of comments between commands, so that mail programs break no line of them
_PLATFORM = "linux"  # where most specs run
_OLD = (Because.ENVIRONMENT_GOING, Because.OLD_BUILDS)  # whose builds are still there
_CONCRETIZE = ["spack -e . concretize --force", "spack -e . install"]


def install_line(package: str, version: str, *, spec_hash: str = "") -> str | None:
    """Return the command to install a version (or one build, `spec_hash`); None if a shell could misread a name."""
    if not all(map(is_shell_word, (package, version, *([spec_hash] if spec_hash else ())))):
        return None
    build = f"/{spec_hash[:7]}" if spec_hash else ""
    return f"spack install --cache-only {package}@{version}{build}"


def install_examples(examples: Iterable[Example], platform: str) -> str | None:
    """Return the command to install `examples` on `platform`; None if a shell could misread a name."""
    specs: dict[str, None] = {}
    for one in examples:
        values = [variant for variant in one.variants if "=" in variant]
        flags = "".join(variant for variant in one.variants if "=" not in variant)
        values += [f"target={target}"] if (target := target_of(one)) else []
        plain = (re.sub("[+~,]", "", variant) for variant in one.variants)
        if not all(map(is_shell_word, (platform, one.package, one.version, target or "any", *plain))):
            return None
        specs[" ".join((f"{one.package}@{one.version}{flags}", *values))] = None
    on = "" if platform == _PLATFORM else f" platform={platform}"  # Linux is usual
    return f"spack install --cache-only {' '.join(specs)}{on}"


def platform_of(example: Example) -> str:
    """Return the platform for an install command: that of the example or, if it has several, Linux."""
    platforms = {machine.platform for machine in example.machines}
    return platforms.pop() if len(platforms) == 1 else _PLATFORM


def target_of(example: Example) -> str:
    """Return the target that an install command must name; "" if usual machines need none, or no target suits all."""
    targets = sorted({one.target for one in example.machines if one.platform == _PLATFORM})
    if any(runs(USUAL_TARGET, one) for one in targets):
        return ""
    return next((one for one in targets if all(runs(other, one) for other in targets)), "")


def blank(name: str) -> str:
    """Return `"${NAME:?}"`: a shell refuses to run a command with this blank until readers set the variable."""
    return f'"${{{name}:?}}"'


def steps(digest: Digest, words: Words) -> tuple[str, list[str]]:
    """Return the key in words.toml of the sentence above commands for an environment, and the lines of these commands.

    There are no lines if a shell could misread a name, or if an earlier digest already asked to re-concretize.
    """
    assessment = digest.assessment
    actions = assessment.actions
    # A wait is for a branch; an environment that pins a snapshot is judged in that.
    is_held = assessment.is_waiting and digest.environment is not None
    moves = [one for one in actions if one.verb is Verb.MOVE and one.tag and not is_held]
    newer = todo.newest_snapshots(digest)
    settled = [
        one
        for one in actions
        if one.verb is Verb.RECONCRETIZE or one.because in todo.CONCRETIZED or one.is_migration
        if not todo.is_of_moving(one, digest)
    ]
    copies = [one for one in actions if one.verb is Verb.COPY or one.is_copy]
    is_due = assessment.is_wait_over or any(not one.since for one in settled)
    has_gone = todo.went(digest)
    is_asked = bool(is_due or copies or newer or assessment.lifted or digest.environment or has_gone)
    # Readers without an environment who pin a snapshot may have others that follow a branch.
    is_apart = bool(moves) and digest.environment is None
    moved = () if is_apart else moves
    is_asked = bool(moved) or (has_gone and bool(assessment.required)) or (bool(settled) and is_asked)
    concretizes = is_asked and not assessment.is_waiting
    required = _required(assessment)
    shell = [*(one.tag for one in moves), *(tag for _, tag in newer), *(name for name, _ in assessment.lifted)]
    specs = (spec.removesuffix(":") for spec in (*required, *(one.spec for one in assessment.gone)))
    shell += [word for spec in specs for word in re.split("[@,]", spec)]
    is_left = has_gone and any(one.home for one in assessment.gone)  # in a snapshot
    keeping = todo.keeping_of(digest) if is_left or (concretizes and assessment.required) else {}
    is_said = copies or moves or newer or assessment.lifted or keeping or (concretizes and (required or is_due))
    if not is_said or not all(map(is_shell_word, shell)):
        return "steps", []
    tags = [*(one.tag for one in moves), *(tag for _, tag in newer), *keeping]
    urls = {tag: f"URL{n or ''}" for n, tag in enumerate(dict.fromkeys(tags))}
    is_best = any(pin.best and pin.is_gone for pin in digest.pinned)  # which may be removed soon, too
    own = _lifted(digest, words)
    for tag, names in keeping.items():
        if tag not in {one.tag for one in moved}:
            named = and_more(list(dict.fromkeys(spec.partition("@")[0] for spec in names)), words)
            key = "kept_if" if digest.environment is None else "kept_there"
            own += _comment(words.say("todo", key, len(names), tag=tag, names=named))
            own.append(_add_mirror(digest, "", tag, urls))
    if not assessment.is_waiting:
        own += _requirements(required if concretizes or copies else {}, digest, words)
    is_copied = bool(copies or keeping) or (is_best and bool(moved))
    own += _concretizing(settled, digest, words, is_copied=is_copied) if concretizes else ()
    own += ["spack -e . install"] if not assessment.is_waiting and (concretizes or is_copied) else []
    own += _copying(words) if is_copied else ()
    moving: list[str] = []
    for one in moves:
        moving += _comment(words.text("todo", "old_mirror"))
        moving += [_add_mirror(digest, one.source, one.tag, urls), f"spack -e . mirror remove {one.name}"]
    lines = _for_older(newer, digest, urls, words)
    if is_apart:
        lines += _either([*moving, *_CONCRETIZE, *(_copying(words) if is_best else ())], moves, words, is_whole=True)
    # Nor do commands for a branch concern a snapshot that readers pin.
    is_choice = bool(own) and bool(newer or is_apart)
    if is_choice or (own and digest.pinned and not moved and digest.environment is None):
        branches = (*(one.tag for one in (*settled, *copies)), *(tag.report.tag for tag in digest.tags))
        branch = next((tag for tag in branches if not is_snapshot(tag)), "")
        lines += _comment(words.say("todo", "if_tag", tag=safe(branch)))
    lines += _either([*moving, *own], moved, words) if moved else _block(own, words)
    return "steps_of_one" if is_choice or _staying(moves) else "steps", [*_blanks(lines, urls, words), *lines]


def _staying(moves: Iterable[Action]) -> list[str]:
    """Return the snapshots that readers may keep, because `moves` to other snapshots are optional."""
    return [one.name for one in moves if one.because in (Because.SNAPSHOT, Because.PIN_ENDING)]


def _either(commands: Sequence[str], moves: Sequence[Action], words: Words, *, is_whole: bool = False) -> list[str]:
    """Return a block of `commands`; if `moves` are optional, add a second block, to stay and copy builds instead.

    Unless `is_whole`, readers are told to leave out commands of the first block that are not for them.
    """
    moving = _block(commands, words, is_whole=is_whole)
    staying = _staying(moves)
    if not staying:
        return moving
    return [
        *_comment(words.say("todo", "either", tag=moves[0].tag)),
        *moving,
        *_comment(words.say("todo", "or", tag=staying[0])),
        *_block(["spack -e . install", *_copying(words)], words, is_whole=True),
    ]


def _copying(words: Words) -> list[str]:
    """Return the commands with which readers copy what is installed to a mirror of their own."""
    return [
        *_comment(words.text("todo", "copy_all")),
        f"spack -e . mirror add --unsigned own {blank('OWN')}",
        "spack -e . buildcache push --update-index own",
    ]


def _blanks(lines: Sequence[str], urls: Mapping[str, str], words: Words) -> Iterator[str]:
    """Yield a line `NAME=  # hint` for each shell variable in `lines`; `urls` has a variable for each tag's URL."""
    hints = {name: words.say("todo.blanks", "URL", tag=tag) for tag, name in urls.items()}
    hints |= {name: words.text("todo.blanks", name) for name in ("OLD_NAME", "OWN")}
    yield from (f"{name}=  # {hint}" for name, hint in hints.items() if any(blank(name) in line for line in lines))


def _lifted(digest: Digest, words: Words) -> list[str]:
    """Return the commands that remove requirements which earlier digests asked for and which are no longer needed."""
    lines: list[str] = []
    for machine, names in grouped((machine, name) for name, machine in digest.assessment.lifted).items():
        lines += _comment(words.say("todo", "if_required", only_for=only_on(machine, words)))
        lines += (f"spack -e . config remove packages:{name}:require" for name in names)
    return lines


def _concretizing(settled: Sequence[Action], digest: Digest, words: Words, *, is_copied: bool) -> list[str]:
    """Return the command to re-concretize, below comments on which lock files need it for the actions `settled`.

    If `is_copied` and only some lock files need it, a comment says that the commands that follow are for all readers.
    """
    condition = _if_lock(settled, digest, words)
    is_reused = any(one.because in _OLD for one in digest.assessment.actions)
    return [
        *_comment(condition),
        *(_comment(words.text("todo", "from_source")) if digest.assessment.required else ()),
        *(_comment(words.text("todo", "reused")) if is_reused else ()),
        "spack -e . concretize --force",
        *(_comment(words.text("todo", "everybody")) if condition and is_copied else ()),
    ]


def _for_older(newer: Iterable[tuple[str, str]], digest: Digest, urls: Mapping[str, str], words: Words) -> list[str]:
    """Return commands to move from an older snapshot to one of `newer` (source, tag); `urls`: see `_add_mirror`."""
    lines: list[str] = []
    for source, tag in newer:
        fuller = todo.fuller_snapshots(digest)
        put = words.say("todo", "or_put", fuller=and_more(fuller, words)) if fuller else ""
        lines += _comment(words.say("todo", "if_older", tag=tag, or_put=put))
        move = [_add_mirror(digest, source, tag, urls), f"spack -e . mirror remove {blank('OLD_NAME')}"]
        lines += _block([*move, *_CONCRETIZE], words)
    return lines


def _block(commands: Sequence[str], words: Words, *, is_whole: bool = False) -> list[str]:
    """Return lines that make a shell run `commands` up to the first failure, and none if a blank is not filled in.

    Unless the block `is_whole`, a comment tells readers to leave out commands that are not for them.
    """
    runs = [line for line in commands if not line.startswith("#")]
    if len(runs) <= 1 or runs == _CONCRETIZE:
        return [*(line for line in commands if line.startswith("#")), *([" && ".join(runs)] if runs else [])]
    is_choice = len(runs) < len(commands) and not is_whole
    lines = [f"(set -e  # {words.text('todo', 'block' if is_choice else 'stops')}"]
    blanks = dict.fromkeys(one for line in runs for one in re.findall(r'"\$\{\w+:\?\}"', line))
    if blanks and not all(one in runs[0] for one in blanks):
        hint = f"  # {words.say('todo', 'filled', len(blanks))}" if is_choice else ""
        lines.append(f": {' '.join(blanks)}{hint}")
    return [*lines, *commands, ")"]


def _required(assessment: Assessment) -> dict[str, str]:
    """Return the specs to require, such as `tau@2.4,2.5`, each with its machines or stacks in words ("": all).

    Versions of a package for the same users make one spec, because a second requirement would replace the first.
    """
    versions: dict[tuple[str, str], dict[str, None]] = {}
    for one in (*assessment.required, *assessment.to_copy):
        own = dict.fromkeys(one.spec.partition("@")[2].split(","))
        versions.setdefault((one.package, one.machine), {}).update(own)
    machines: dict[str, dict[str, None]] = {}
    for (name, machine), found in versions.items():
        machines.setdefault(f"{name}@{','.join(found)}", {})[machine] = None
    several = {machine for own in machines.values() for machine in own if "," in machine}
    return {
        spec: "" if "" in places else (", " if several.isdisjoint(places) else " or ").join(places)
        for spec, places in machines.items()
    }


def _requirements(specs: Mapping[str, str], digest: Digest, words: Words) -> Iterator[str]:
    """Yield commands that require `specs`, grouped by machines, with comments that say who needs which."""
    ordered = sorted(specs.items(), key=lambda one: bool(one[1]))  # first what is for all
    for machine, own in grouped((machine, spec) for spec, machine in ordered).items():
        on = words.say("todo", "on_machine", machine=safe_name(machine)) if machine else ""
        if digest.environment is None:
            users = own[0].partition("@")[0]
            key = "if_used" if len(own) == 1 else "if_used_several"
            yield from _comment(words.say("todo", key, users=users, on_machine=on))
        if any("," in spec for spec in own[:_MOST_REQUIRED]):
            yield from _comment(words.text("todo", "keep_version"))
        for spec in own[:_MOST_REQUIRED]:
            name, _, version = spec.partition("@")
            yield f"spack -e . config add \"packages:{name}:require:'@{version}'\""
        if len(own) > _MOST_REQUIRED:
            yield from _comment(words.say("todo", "more_required", len(own) - _MOST_REQUIRED))


def _if_lock(settled: Sequence[Action], digest: Digest, words: Words) -> str:
    """Return, in words, which lock files must be re-concretized for the actions `settled`.

    Return "" if all must be, if the text above the commands says which, or if the digest watches an environment.
    """
    asked = [one for one in settled if one.because in LOCK_FILES]
    days = [todo.widened(one, digest) for one in asked]
    is_for_some = bool(digest.assessment.required or digest.assessment.to_copy)
    moved = list(dict.fromkeys(safe_name(one.name) for one in settled if one.is_migration))
    is_said = not (is_for_some or moved) and (not days or any(not one.since for one in settled))
    if is_said or digest.environment is not None:
        return ""
    cases = []
    for one in days[:1]:
        day, tag, with_old = day_of(one.name), safe(one.tag), todo.or_with_old(one, digest, words, MOST_NAMES)
        other = words.text("todo", "other_machine") if moved else ""
        cases.append(words.say("todo", "unless_lock-files", day=day, tag=tag, other=other, or_with=with_old))
    others = [name for one in settled if one.because is Because.OTHER for name in one.names]
    cases += [words.say("todo", "unless_other", names=and_more(others, words))] if others else []
    old = todo.cases_of(digest, words) if days == asked else []
    if not digest.assessment.due:
        cases += old
    elif old and not days:  # the text above names several lists
        cases = [words.text("todo", "unless_above")]
    if digest.assessment.required:
        stays = {name for one in settled if one.is_migration for name in one.names}  # where they are installed
        names = list(dict.fromkeys(one.package for one in digest.assessment.required if one.package not in stays))
        more = [words.say("other", "more", len(names) - MOST_NAMES)] if len(names) > MOST_NAMES else []
        case = words.say("todo", "if_missing", names=" or ".join((*names[:MOST_NAMES], *more)))
        cases += [case] if names else []
    key = "if_lock" if not moved else "if_moved_or_lock" if cases else "if_moved"
    return words.say("todo", key, cases=", or ".join(cases), names=" or ".join(moved))


def _comment(text: str) -> list[str]:
    """Return `text` as lines of comment for a block of commands, wrapped to the width of a mail."""
    return wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _add_mirror(digest: Digest, source: str, tag: str, urls: Mapping[str, str]) -> str:
    """Return the command to add a snapshot as a mirror; for an unknown URL, `urls` has a shell variable by tag."""
    return f"spack -e . mirror add {tag} {mirror_of(digest, source, tag) or blank(urls[tag])}"


def mirror_of(digest: Digest, source: str, tag: str) -> str | None:
    """Return the URL of the mirror from which Spack installs `tag`; None if unknown. `source` "" means any source."""
    for span in digest.spans:
        mirror = span.mirror or public_mirror(span.address)
        if source in ("", span.source) and mirror and is_shell_word(tag):
            return web_address(mirror.replace("{tag}", tag))
    return None
