"""Causes of rebuilds, for people and for programs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cachewatch.core.causes import Attributed, Cause, Causes, Explanation, GraphNode, LockChange, Value, What, attribute
from cachewatch.core.names import safe
from cachewatch.report.data import encode
from cachewatch.report.words import number

SCHEMA = "cachewatch.why/1"
SHORT = 7  # characters of a hash

_MOST_NAMES = 6
MOST_CAUSES = 20

# What several packages may have in common.
_SHARED = frozenset({What.COMPILER, What.OS, What.TARGET, What.NAMESPACE, What.EXTERNAL})
_WORDS = {
    What.VERSION: "{name} {before} -> {after}",
    What.RECIPE: "the recipe of {name} changed",
    What.DEPENDENCY_ADDED: "{name} depends on {after} now",
    What.DEPENDENCY_REMOVED: "{name} no longer depends on {before}",
    What.DEPENDENCY_CHANGED: "{name} uses a dependency in another way: {before} -> {after}",
    What.NOT_DESCRIBED: "{name} differs, and the recorded graph does not describe it",
    What.SPACK: "nothing that is recorded differs: another version of Spack wrote it",
    What.TOO_MANY: "more than 1,000 causes: they are not told apart",
    What.NOT_RECORDED: "not recorded: these revisions have no dependency graph; `cachewatch record` keeps it from now on",
    What.SPLICE: "the dependencies of {name} were replaced after it was built (spliced)",
}
_OTHERWISE_WRITTEN = "another version of Spack wrote it"


def cause_json(cause: Cause) -> dict[str, Any]:
    """Return a cause as JSON has it."""
    values = {"package": cause.package or None, "what": cause.what, "before": cause.before, "after": cause.after}
    return values | ({"languages": cause.languages} if cause.what is What.COMPILER else {})


def causes_json(causes: Causes) -> list[dict[str, Any]]:
    """Return causes, each with the path from the asked spec down to what differs."""
    return [cause_json(cause) | {"path": causes[cause]} for cause in sorted(causes, key=lambda one: one.sort_key)]


def spec_json(node: GraphNode) -> dict[str, Any]:
    """Return a spec as JSON has it."""
    return {
        "hash": node.hash,
        "name": node.name,
        "version": node.version,
        "compiler": node.compiler,
        "os": node.os,
        "target": node.target,
        "variants": node.variants,
    }


def explained_json(package: str, found: Sequence[Explanation], *, is_recorded: bool) -> bytes:
    """Return why specs of one package were rebuilt; a single one without a list around it."""
    answers = [_explanation_json(one) for one in found]
    if len(answers) == 1:
        return _encoded({"recorded": is_recorded, **answers[0]})
    return _encoded({"recorded": is_recorded, "package": package, "specs": answers})


def _explanation_json(one: Explanation) -> dict[str, Any]:
    predecessor = None
    if one.predecessor is not None:
        predecessor = spec_json(one.predecessor) | {"beside": one.is_beside, "paired": one.is_paired}
    return {"spec": spec_json(one.spec), "predecessor": predecessor, "causes": causes_json(one.paths)}


def night_json(found: Sequence[Explanation], *, is_recorded: bool) -> bytes:
    """Return the causes of all these specs."""
    return _encoded({"recorded": is_recorded, "causes": attributed_json(attributed(found))})


def lock_json(change: LockChange) -> bytes:
    """Return why two lock files differ."""
    return _encoded(
        {
            "recorded": True,
            "causes": attributed_json(attributed(change.explained)),
            "specs": [_explanation_json(one) | {"root": one.spec.hash in change.roots} for one in change.explained],
            "added": [spec_json(node) for node in change.added],
            "removed": [spec_json(node) for node in change.removed],
        }
    )


def attributed_json(found: Sequence[Attributed]) -> list[dict[str, Any]]:
    """Return causes with the specs that have them; `attributed` counts each spec once."""
    return [
        cause_json(one.cause) | {"specs": len(one.hashes), "attributed": len(one.attributed), "hashes": one.hashes}
        for one in found
    ]


def attributed(found: Sequence[Explanation]) -> Sequence[Attributed]:
    """Return the causes of rebuilt specs; each spec is counted under one of them."""
    return attribute({one.spec.hash: one.causes for one in found if one.causes})


def _encoded(values: dict[str, Any]) -> bytes:
    return encode({"schema": SCHEMA, **values}) + b"\n"


def heading_and_causes(found: Sequence[Explanation]) -> Iterator[str]:
    """Yield a section of a report: why specs were rebuilt."""
    yield "WHY"
    if found:
        yield from attributed_lines(
            found, "with another hash than the older specs that share most dependencies with them"
        )
    else:
        yield "  no specs were rebuilt"


def markdown_causes(found: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Return the causes as the template takes them: what, how many specs, of which packages."""
    return [
        {"count": count, "cause": in_words(group[0].cause, _names_of(group)), "packages": packages}
        for count, group, packages in _grouped(found)
    ]


def attributed_lines(explained: Sequence[Explanation], what: str) -> Iterator[str]:
    """Yield how many specs there are, and the causes by how many of them each accounts for."""
    yield f"{number(len(explained), 'spec')} {what}:"
    found = _grouped(explained)
    for count, group, packages in found[:MOST_CAUSES]:
        yield f"  {count:>6,}  {in_words(group[0].cause, _names_of(group))}"
        yield f"          {listed(packages)}"
    if rest := sum(count for count, _, _ in found[MOST_CAUSES:]):
        yield f"  {rest:>6,}  for {number(len(found) - MOST_CAUSES, 'other reason')} (--format json has all)"


def _grouped(explained: Sequence[Explanation]) -> list[tuple[int, list[Attributed], list[str]]]:
    """Return the causes that changed alike, with the specs counted under them and their packages; most specs first."""
    names = {one.spec.hash: one.spec.name for one in explained}
    groups: defaultdict[tuple[object, ...], list[Attributed]] = defaultdict(list)
    for one in attributed(explained):
        groups[_group(one.cause)].append(one)
    found = [
        (
            sum(len(one.attributed) for one in group),
            group,
            sorted({safe(names[h]) for one in group for h in one.attributed}),
        )
        for group in groups.values()
    ]
    return sorted((one for one in found if one[0]), key=lambda one: -one[0])


def _names_of(group: Sequence[Attributed]) -> str:
    return listed(sorted({_compiled(one.cause) for one in group}))


def short(node: GraphNode) -> str:
    """Name a spec: hdf5@1.14.6/m5ebs4r."""
    return safe(f"{node.name}@{node.version}/{node.hash[:SHORT]}")


def cause_lines(causes: Causes) -> Iterator[str]:
    """Yield each cause in words, with the shortest path to it below."""
    for cause, path in causes_in_words(causes):
        yield cause
        if path:
            yield f"    {path_in_words(path)}"


def causes_in_words(causes: Causes) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each cause in words, with the shortest path to it; what changed alike in several packages is one without a path."""
    alike: defaultdict[tuple[What, Value, Value], list[Cause]] = defaultdict(list)
    for cause in sorted(causes, key=lambda one: one.sort_key):
        alike[_group(cause)].append(cause)
    for group in alike.values():
        if len(group) > 1:
            yield in_words(group[0], listed([_compiled(cause) for cause in group])), ()
        else:
            path = causes[group[0]]
            is_rest = group[0].what is What.SPACK and len(alike) > 1
            yield _OTHERWISE_WRITTEN if is_rest else in_words(group[0]), path if len(path) > 1 else ()


def _group(cause: Cause) -> tuple[What, Value, Value]:
    """Return what tells a line from another; a version, a recipe and an edge are of one package."""
    if cause.what in _SHARED:
        return cause.what, cause.before, cause.after
    return cause.what, cause.package, (_text(cause.before), _text(cause.after))


def path_in_words(path: Sequence[str]) -> str:
    """Say by way of what a cause reaches the spec: cw-torch <- hdf5 <- zlib."""
    return safe(" <- ".join(path))


def in_words(cause: Cause, names: str = "") -> str:
    """Say what differs, in a line; `names` are those of several packages in which it does."""
    before, after = _text(cause.before), _text(cause.after)
    return _WORDS.get(cause.what, "{what} of {name}: {before} -> {after}").format(
        what=cause.what, name=names or _compiled(cause), before=before or "none", after=after or "none"
    )


def change_in_words(cause: Cause) -> str:
    """Say what was there before and what is there now: 1.3 -> 1.3.1."""
    return f"{_text(cause.before) or 'none'} -> {_text(cause.after) or 'none'}"


def _compiled(cause: Cause) -> str:
    languages = f" ({', '.join(cause.languages)})" if cause.languages else ""
    return f"{safe(cause.package)}{languages}"


def _text(value: Value) -> str:
    return safe(value if isinstance(value, str) else " ".join(value))


def listed(names: Iterable[str]) -> str:
    """Return a few names, and how many more there are."""
    all_names = list(names)
    more = f" and {len(all_names) - _MOST_NAMES} more" if len(all_names) > _MOST_NAMES else ""
    return ", ".join(all_names[:_MOST_NAMES]) + more
