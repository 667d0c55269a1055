"""Why specs were rebuilt, in a few words: "1,405 because of openssl 3.4.0 -> 3.4.1, 17 for other reasons"."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from cachewatch.core.causes import Cause, Value, What
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.statements import CauseCount, Statement, StatementKind
from cachewatch.core.untrusted_text import safe_name
from cachewatch.render.statement_phrases import names, number

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
