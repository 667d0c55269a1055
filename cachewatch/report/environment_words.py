"""Describe what a cache has of an environment, and what changed for it: as sentences, JSON and plain data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cachewatch.core.advice.environment_coverage import Coverage, Nearest, Resolution
from cachewatch.core.advice.verbs_and_reasons import Assessment, Because, EnvironmentState, cause_of, key_of
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.kinds_and_specs import LossClass
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.core.versions_spellings_targets import falls
from cachewatch.report.diff_blocks_and_colours import Palette
from cachewatch.report.json_and_safe_csv import encode, picked
from cachewatch.report.rebuild_cause_words import causes_json, reasons_in_words
from cachewatch.report.words import MOST_NAMES, NEARLY_ALL, and_more, first_of, number
from cachewatch.report.words_file import Words

SCHEMA = "cachewatch.coverage/3"

# The meaning and colour of each class, from good to bad.
MEANINGS = {
    LossClass.KEPT: ("in the cache, by its hash", "green"),
    LossClass.EQUAL: ("an equal build with another hash, compiler or target", "yellow"),
    LossClass.GOING: ("built by no stack: it may be pruned at any time", "yellow"),
    LossClass.OTHER: ("other variants, or a newer version", "yellow"),
    LossClass.GONE: ("nothing that these machines run, or only older versions", "red"),
}
_ABSTRACT = "It names no hashes, so only versions and `target=` were looked up; a spack.lock gives a sure answer."
_BY_VERSION = "a build of such a version is in the cache"
_LEFT = {
    Nearest.EQUAL: "a second copy is left",
    Nearest.SIMILAR: "another build is left",
    Nearest.NONE: "it needs a source build",
}
_MOST_NAMED = 5


def render_coverage(coverage: Coverage, against: str, palette: Palette) -> Iterator[str]:
    """Yield lines of text on `coverage`; `against` describes the cache that the environment was compared with."""
    environment = coverage.environment
    externals = f" and {number(environment.externals, 'external')}" if environment.externals else ""
    yield f"{safe(environment.name)}: {number(len(environment.needs), 'spec')}{externals}, against {safe(against)}"
    meanings = dict(MEANINGS)
    if environment.needs and not environment.hashes:
        yield _ABSTRACT
        meanings[LossClass.KEPT] = (_BY_VERSION, "green")
    yield ""
    width = max(len(meaning) for meaning, _ in meanings.values())
    total = len(coverage.needs)
    for name, (meaning, colour) in meanings.items():
        count = len(coverage.of_class(name))
        share = f"{count / total:4.0%}" if total else ""
        yield palette.paint(f"{name.value:<5}  {meaning:<{width}}  {count:>6,}  {share}", colour if count else "")
    for name, (meaning, colour) in meanings.items():
        if name is not LossClass.KEPT and (listed := coverage.of_class(name)):
            yield ""
            yield palette.paint(f"{name.value}: {meaning} ({len(listed):,})", colour)
            longest = max(len(_name(covered)) for covered in listed)
            for covered in sorted(listed, key=lambda covered: not covered.need.is_root):
                yield f"  {_name(covered):<{longest}}  {safe(remark(covered))}".rstrip()


def coverage_json(coverage: Coverage, against: str) -> bytes:
    """Return `coverage` as one JSON object; `against` describes the cache that the environment was compared with."""
    environment = coverage.environment
    values = {
        "schema": SCHEMA,
        "environment": environment.name,
        "against": against,
        "counts": {
            "specs": len(environment.needs),
            "externals": environment.externals,
            **{name.value: len(coverage.of_class(name)) for name in MEANINGS},
        },
        "specs": [
            {
                **picked(covered.need, "package", "version", "hash", "platform", "os", "target"),
                "hash": covered.need.hash or None,
                "root": covered.need.is_root,
                "class": covered.loss_class.value,
                "other_builds": covered.others,
                "differs": covered.differs,
                "other_versions": covered.versions,
                "elsewhere": covered.elsewhere,
                "causes": causes_json(dict(covered.causes)),
            }
            for covered in coverage.needs
        ],
    }
    return encode(values) + b"\n"


def remark(covered: Resolution) -> str:
    """Return what there is in place of the binary of `covered`, now and after a prune; "" if it is there and stays."""
    parts = []
    if covered.nearest is Nearest.NONE:
        parts += [f"the newest there is {_newest(covered)}"] if covered.suggestion else []
        parts += [f"this version only for {first_of(covered.elsewhere, _MOST_NAMED)}"] if covered.elsewhere else []
        parts = parts or ["there is none"]
    elif covered.nearest is not Nearest.SAME:
        more = f" and {len(covered.others) - 1:,} more" if len(covered.others) > 1 else ""
        differs = f", with {', '.join(covered.differs)}" if covered.differs else ""
        reasons = first_of(reasons_in_words(cause for cause, _ in covered.causes), rest=" and {} more reasons")
        parts = [f"there is /{covered.others[0][:7]}{more}{differs} {reasons}".rstrip()]
    if covered.after_prune is not None:
        parts.append(f"after a prune {_LEFT[covered.after_prune]}")
    return "; ".join(parts)


def _newest(covered: Resolution) -> str:
    """Return the newest version for `covered`, and needed variants that it lacks: `3.10.0 without backend=jax`."""
    return covered.suggestion + (f" without {first_of(covered.without)}" if covered.without else "")


def named(listed: Sequence[Resolution]) -> str:
    """Return, as text, the first binaries of `listed`, with machine and class of loss, and the number of the others."""
    shown = []
    for one in listed:
        machine = safe("-".join(filter(None, (one.need.platform, one.need.os, one.need.target))))
        shown.append(f"{_name(one)}{f' for {machine}' if machine else ''} is {one.loss_class}")
    return first_of(shown, _MOST_NAMED, ", {:,} more")


def _name(covered: Resolution) -> str:
    need = covered.need
    version = f"@{need.version}" if need.version else ""
    which = f"/{need.hash[:7]}" if need.hash else f" target={need.target}" if need.target else ""
    return safe(f"{need.package}{version}{which}{' (root)' if need.is_root else ''}")


Data = dict[str, Any]
# Makes text from outside harmless.
Clean = Callable[[str], str]

_MOST_BINARIES = 4


def headlines_of(assessment: Assessment, words: Words) -> Sequence[str]:
    """Return wordings, for a mail's subject, of what changed for an environment, longest first; () if nothing did."""
    own = assessment.environment
    if own is None or not own.is_news:
        return ()
    change = own.change
    total = len(change.after.needs)
    new = {one: own.of(one, is_new=True) for one in LossClass}
    counts: dict[str, Any] = {one.value: f"{len(each):,}" for one, each in new.items()}
    counts["all"] = f"{total:,}"
    hashes = change.after.environment.hashes
    counts["binaries"] = number(total, "binary", "binaries") if hashes else number(total, "spec")
    gone, other = new[LossClass.GONE], new[LossClass.OTHER]
    equal, going = new[LossClass.EQUAL], new[LossClass.GOING]
    if gone:
        kept = {one.home for one in assessment.required}
        key, tag = ("gone_kept" if len(kept) == 1 and "" not in kept else "gone"), safe("".join(kept))
        some = _some(own, (LossClass.GONE,), counts, words, "_packages" if key == "gone_kept" else "")
        others = sum(map(len, new.values())) - len(gone)
        rest = words.say("environment", "rest", others) if others else words.text("environment", "build")
        names = list(dict.fromkeys(f"{safe(one.need.package)} {safe(one.need.version)}" for one in gone))
        named: list[str] = []
        if key == "gone_kept" and len(names) <= MOST_NAMES:
            now = len(own.of(LossClass.GONE))
            said = "named_more" if now > len(gone) else "named"
            said = words.say("environment", said, names=", ".join(names), total=f"{now:,}")
            named = words.forms("environment", "gone_named", len(names), gone=said, tag=tag)
        return [*named, *words.forms("environment", key, len(gone), rest=rest, some=some, tag=tag)]
    classes: tuple[LossClass, ...] = (LossClass.OTHER, LossClass.EQUAL, LossClass.GOING)
    whole: list[str] = []
    missed = [*other, *equal, *going]
    if other and all(key_of(one) in own.again for one in missed):
        now = sum(len(own.of(one)) for one in classes)
        share = words.say("environment", "share_all" if now == total else "share", total=f"{now:,}", **counts)
        return words.forms("environment", "still", now, share=share, changes=_changes(own, words))
    if other:
        key, n = "several" if len(missed) > len(other) else "other", len(missed)
    elif equal:
        is_unsure = any(one.lacks_compiler for one in equal)
        key, n = "same" if is_unsure else "equal", len(equal)
        if n >= NEARLY_ALL * total:
            how = "_pruned" if any(one.kind == StatementKind.PRUNE for one in assessment.facts) else ""
            whole = words.forms("environment", f"{'every' if n == total else 'nearly'}{how}", n, **counts)[is_unsure:]
    elif going:
        keys = {Because.ENVIRONMENT_LAST: "last", Because.ENVIRONMENT_LAST_OTHER: "last_other"}
        found = {keys.get(cause_of(one) or Because.GOING, "going") for one in going}
        key, n, classes = found.pop() if len(found) == 1 else "going", len(going), (LossClass.GOING,)
    else:
        key, n = ("came", len(change.added)) if change.added else ("restored", len(change.restored))
    tag = next((one.tag for one in assessment.actions if one.because is Because.ENVIRONMENT_LAST_OTHER), "")
    counts["tag"] = safe(tag)
    counts["names"] = and_more([f"{one.need.package} {one.need.version}" for one in going], words)
    return [*whole, *words.forms("environment", key, n, some=_some(own, classes, counts, words), **counts)]


def _some(
    own: EnvironmentState, classes: Sequence[LossClass], counts: Mapping[str, str], words: Words, of: str = ""
) -> str:
    """Return how many binaries newly have a loss in `classes` and, if others had one before, the total.

    The text is `some` or `some_more` of words.toml, then `of` (such as `_packages`); `counts` fills placeholders.
    """
    new, now = (sum(len(own.of(one, is_new=lately)) for one in classes) for lately in (True, None))
    if len(classes) > 1:  # some may have changed from one class to another
        new -= sum(key_of(one) in own.again for each in classes for one in own.of(each, is_new=True))
    is_all = now == len(own.change.after.needs)
    total = words.text("environment", "all") if is_all else f"{now:,}"
    return words.say("environment", f"{'some_more' if now > new else 'some'}{of}", new, total=total, **counts)


def _changes(own: EnvironmentState, words: Words) -> str:
    """Return two binaries of which only another version is left now, `openmpi 5.7.3 -> 5.8.0`, and how many more."""
    found = [one for one in own.of(LossClass.OTHER, is_new=True) if one.suggestion]
    said = [f"{safe(one.need.package)} {safe(one.need.version)} -> {safe(one.suggestion)}" for one in found[:2]]
    more = [words.say("other", "more", len(found) - 2)] if len(found) > 2 else []
    return ", ".join((*said, *more))


def binaries_said(
    binaries: Sequence[Resolution], words: Words, copied: Mapping[str, str], before: Mapping[str, Resolution]
) -> str:
    """Return what became of the first `binaries`, `py-torch 2.8.0 is gone, 2.9.0 is there`, and count the others.

    `copied`: by package, when readers were asked to copy it. `before`: by `key_of`, the binary at the last digest.
    """
    shown, more = binaries[:_MOST_BINARIES], len(binaries) - _MOST_BINARIES
    said = [_binary_said(one, words, copied.get(one.need.package, ""), before.get(key_of(one))) for one in shown]
    return "; ".join([*said, words.say("other", "more", more)] if more > 0 else said)


def _binary_said(covered: Resolution, words: Words, day: str, before: Resolution | None) -> str:
    key = covered.loss_class.value
    newer = before.suggestion if before and before.has_newer and before.suggestion not in covered.versions else ""
    is_announced = covered.loss_class is LossClass.GONE and bool(day)
    machine = covered.need.target
    if machine and any(one.endswith(f"-{machine}") for one in covered.elsewhere):  # for another system
        machine = f"{covered.need.os}, {machine}"
    if is_announced:
        key = "gone_announced"
    elif covered.loss_class is LossClass.GONE and covered.suggestion:
        key = "gone_fell" if newer else "gone_older"
    elif covered.loss_class is LossClass.OTHER and not covered.suggestion:
        key = "other_build"
    return words.say(
        "binaries",
        key,
        package=safe(covered.need.package),
        version=safe(covered.need.version),
        day=day,
        newer=safe(newer),
        copy=words.text("binaries", "copy") if before and before.is_met else "",
        there=safe(_newest(covered)),
        differs=f"with {safe(', '.join(covered.differs))}" if covered.differs else "",
        without=words.say("binaries", "without", variants=safe(" ".join(covered.without))) if covered.without else "",
        for_target=f" for {safe(machine)}" if (covered.elsewhere or is_announced) and machine else "",
        mistake=words.text("todo", "mistake") if falls(covered.need.version, covered.suggestion) else "",
    )


def coverage_data(own: EnvironmentState, most: int, clean: Clean) -> Data:
    """Return the changes for an environment as plain data, in lists of at most `most` rows; `clean` makes text safe."""
    change = own.change
    return {
        "name": clean(change.after.environment.name),
        "binaries": len(change.after.needs),
        "externals": change.after.environment.externals,
        "before": change.before.met,
        "after": change.after.met,
        "removed": len(change.removed),
        "came": len(change.added),
        "now": {one.value: len(own.of(one)) for one in LossClass} | {"not_here": len(own.not_here)},
        **{one.value: _listed(own.of(one), most, clean) for one in reversed(LossClass) if one is not LossClass.KEPT},
    }


def _listed(listed: tuple[Resolution, ...], most: int, clean: Clean) -> Data:
    rows = [
        {
            "package": clean(covered.need.package),
            "version": clean(covered.need.version),
            "hash": clean(covered.need.hash),
            "is_root": covered.need.is_root,
            "class": covered.loss_class.value,
            "other_builds": len(covered.others),
            "differs": list(map(clean, covered.differs)),
            "versions": list(map(clean, covered.versions[-_MOST_NAMED:])),
            "suggestion": clean(covered.suggestion),
            "elsewhere": list(map(clean, covered.elsewhere[:_MOST_NAMED])),
            "remark": clean(remark(covered)),
        }
        for covered in listed[:most]
    ]
    return {"count": len(listed), "rows": rows, "more": len(listed) - len(rows)}
