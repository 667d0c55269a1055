"""Describe the causes of rebuilds, for people and for programs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from cachewatch.core.escaping_and_mentions import safe, safe_name
from cachewatch.core.graphs_and_attribution import WEAKEST, Cause, Causes, Explanation, GraphNode, LockChange, What
from cachewatch.core.statement_kinds import CauseCount, Statement, StatementKind
from cachewatch.core.versions_spellings_targets import NO_COMPILER
from cachewatch.report.json_and_safe_csv import attributed, attributed_json, cause_json, encode, picked
from cachewatch.report.words import first_of, names, number
from cachewatch.report.words_file import Words, words

SCHEMA = "cachewatch.why/1"
SHORT = 7  # characters of a hash
MOST_CAUSES = 20

_T = TypeVar("_T")
_MOST_LISTED = 6
_MOST_REASONS = 3
# Causes that several packages may have in common.
_SHARED = frozenset({What.COMPILER, What.OS, What.TARGET, What.NAMESPACE, What.EXTERNAL})


def _alike(items: Iterable[_T], cause_of: Callable[[_T], Cause]) -> list[list[_T]]:
    """Group `items` with equal causes (`cause_of`); two packages share only causes such as compilers and targets."""
    groups: defaultdict[tuple[What, str, str, str], list[_T]] = defaultdict(list)
    for item in items:
        cause = cause_of(item)
        package = "" if cause.what in _SHARED else cause.package
        groups[cause.what, package, _text(cause.before), _text(cause.after)].append(item)
    return list(groups.values())


def in_words(causes: Sequence[Cause]) -> str:
    """Return one text for `causes`, the same change in one or several packages: `gcc (c, cxx) 13.2.0 -> 14.2.0`."""
    compiled = {f"{one.package} ({', '.join(one.languages)})" if one.languages else one.package for one in causes}
    return _said("said", causes[0], first_few(sorted(map(safe, compiled))), len(compiled), words())


def because(causes: Sequence[Cause], own: Words | None = None) -> str:
    """Return equal causes as the reason of a rebuild, `because of zlib 1.3 -> 1.3.1`; `own`: texts (None: built-in)."""
    packages = sorted({cause.package for cause in causes})
    return _said("because", causes[0], names(packages), len(packages), own or words())


def _said(key: str, cause: Cause, name: str, n: int, own: Words) -> str:
    before, after = _text(cause.before), _text(cause.after)
    return own.say(f"cause.{cause.what}", key, n, what=cause.what, name=name, before=before, after=after)


def change_in_words(cause: Cause) -> str:
    """Return the old and the new value of a cause as text, `1.3 -> 1.3.1`; `not given` for a missing value."""
    return f"{_text(cause.before)} -> {_text(cause.after)}"


def change_of(cause: Cause) -> str:
    """Return what a cause changed, without the name of its package: `1.3 -> 1.3.1` for a version, or `recipe`."""
    is_version = cause.what in (What.VERSION, What.COMPILER)
    return change_in_words(cause) if is_version else safe_name(cause.what.value.replace("-", " "))


def _text(value: str | Sequence[str]) -> str:
    return safe_name(value if isinstance(value, str) else " ".join(value)) or "not given"


def first_few(texts: Iterable[str]) -> str:
    """Return the first six of `texts`, which are escaped already, as one text, and the number of the others."""
    return first_of(list(texts), _MOST_LISTED)


class Reason(Struct, frozen=True):
    """One or several equal changes, and how many specs were rebuilt because of them."""

    words: str
    causes: tuple[Cause, ...]
    specs: int
    packages: tuple[str, ...]  # that were rebuilt


def reasons_of(counted: Iterable[CauseCount], own: Words | None = None) -> list[Reason]:
    """Return reasons, most specs first; equal changes of several packages are one. `own`: texts (None: built-in)."""
    reasons = []
    for group in _alike(counted, lambda one: one.cause):
        causes = tuple(one.cause for one in group)
        packages = tuple(sorted({package for one in group for package in one.packages}))
        reasons.append(Reason(because(causes, own), causes, sum(one.specs for one in group), packages))
    return sorted(reasons, key=lambda one: -one.specs)


def reasons_in_words(causes: Iterable[Cause]) -> list[str]:
    """Return the causes of one spec in words; equal changes of several packages are one reason."""
    ordered = sorted(causes, key=lambda cause: (cause.package, cause.what))
    return [because(group) for group in sorted(_alike(ordered, lambda cause: cause), key=len, reverse=True)]


def reasons(statement: Statement, own: Words) -> str:
    """Return why specs were rebuilt, `1,405 because of openssl 3.4.0 -> 3.4.1, 17 for other reasons`; "" if unknown."""
    all_reasons = reasons_of(statement.causes, own)
    shown = all_reasons[:_MOST_REASONS]
    others = statement.counts.new - sum(one.specs for one in shown)
    if len(all_reasons) == 1 and others <= 0:
        return all_reasons[0].words
    rest = [f"{others:,} for other reasons"] if all_reasons and others > 0 else []
    return ", ".join([*(f"{one.specs:,} {one.words}" for one in shown), *rest])


def reason_lines(statement: Statement, most: int) -> list[str]:
    """Return lines on the first `most` reasons, on the other specs, and if compilers are written now, or no longer."""
    shown = reasons_of(statement.causes)[:most]
    lines = [f"{number(one.specs, 'spec')} {one.words}: {names(one.packages)}" for one in shown]
    rest = statement.counts.new - sum(one.specs for one in shown)
    if shown and rest > 0:
        lines.append(f"{number(rest, 'spec')} for other reasons")
    stories = [line.story for line in statement.lines if line.story.kind is StatementKind.REBUILT]
    if any(story.after == (NO_COMPILER,) for story in stories):
        lines.append("compilers are no longer written")
    elif any(story.before == (NO_COMPILER,) for story in stories):
        lines.append("compilers are written now")
    return lines


def cause_rows(explained: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Return causes as rows for templates, most specs first; a count is 0 if all specs are counted for other causes."""
    package_of = {one.spec.hash: one.spec.name for one in explained}
    rows = [
        {
            "count": sum(len(one.attributed) for one in group),
            "cause": in_words([one.cause for one in group]),
            "packages": sorted({safe(package_of[h]) for one in group for h in one.attributed or one.hashes}),
        }
        for group in _alike(attributed(explained), lambda one: one.cause)
    ]
    return sorted(rows, key=lambda one: -one["count"])


def attributed_lines(explained: Sequence[Explanation], what: str) -> Iterator[str]:
    """Yield the number of rebuilt specs, followed by `what`, and then each cause with its number of specs."""
    yield f"{number(len(explained), 'spec')} {what}:"
    groups = cause_rows(explained)
    for one in groups[:MOST_CAUSES]:
        yield f"  {format(one['count'], ',') if one['count'] else 'also':>6}  {one['cause']}"
        yield f"          {first_few(one['packages'])}"
    if others := [one["count"] for one in groups[MOST_CAUSES:] if one["count"]]:
        yield f"  {sum(others):>6,}  for {number(len(others), 'other reason')} (--format json has all)"


def short(node: GraphNode) -> str:
    """Return the short name of a spec: hdf5@1.14.6/m5ebs4r."""
    return safe(f"{node.name}@{node.version}/{node.hash[:SHORT]}")


def cause_lines(causes: Causes) -> Iterator[str]:
    """Yield each cause in words, and the shortest path of dependencies to the cause: `cw-torch <- hdf5 <- zlib`."""
    for cause, path in causes_in_words(causes):
        yield cause
        if path:
            yield f"    {safe(' <- '.join(path))}"


def causes_in_words(causes: Causes) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each cause in words, and the shortest path to it; () if it is in the spec itself or in several packages."""
    groups = _alike(sorted(causes, key=lambda one: one.sort_key), lambda one: one)
    for group in groups:
        path = causes[group[0]] if len(group) == 1 else ()
        is_rest = group[0] in WEAKEST and len(groups) > 1
        said = words().text(f"cause.{group[0].what}", "beside") if is_rest else in_words(group)
        yield said, path if len(path) > 1 else ()


def causes_json(causes: Causes) -> list[dict[str, Any]]:
    """Return causes as data for JSON, each with the path of dependencies from the explained spec to the cause."""
    return [cause_json(cause) | {"path": causes[cause]} for cause in sorted(causes, key=lambda one: one.sort_key)]


def _node_json(node: GraphNode) -> dict[str, Any]:
    return picked(node, "hash", "name", "version", "compiler", "os", "target", "variants")


def explained_json(package: str, found: Sequence[Explanation], *, is_recorded: bool) -> bytes:
    """Return as JSON why specs of `package` were rebuilt, and `is_recorded`: whether dependency graphs exist."""
    answers = [_explanation_json(one) for one in found]
    if len(answers) == 1:
        return _encoded({"recorded": is_recorded, **answers[0]})
    return _encoded({"recorded": is_recorded, "package": package, "specs": answers})


def _explanation_json(one: Explanation) -> dict[str, Any]:
    predecessor = None
    if one.predecessor is not None:
        predecessor = _node_json(one.predecessor) | {"beside": one.is_beside, "paired": one.is_paired}
    return {"spec": _node_json(one.spec), "predecessor": predecessor, "causes": causes_json(one.paths)}


def night_json(found: Sequence[Explanation], *, is_recorded: bool) -> bytes:
    """Return as JSON the causes of all rebuilt specs in `found`, and `is_recorded`: whether dependency graphs exist."""
    return _encoded({"recorded": is_recorded, "causes": attributed_json(found)})


def lock_json(change: LockChange) -> bytes:
    """Return as JSON why two lock files differ, and which specs were added and removed."""
    return _encoded(
        {
            "recorded": True,
            "causes": attributed_json(change.explained),
            "specs": [_explanation_json(one) | {"root": one.spec.hash in change.roots} for one in change.explained],
            "added": list(map(_node_json, change.added)),
            "removed": list(map(_node_json, change.removed)),
        }
    )


def _encoded(values: dict[str, Any]) -> bytes:
    return encode({"schema": SCHEMA, **values}) + b"\n"
