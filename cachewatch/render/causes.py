"""Causes of rebuilds, for people and for programs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cachewatch.core.attribution import Attributed, attribute
from cachewatch.core.causes import Cause, Causes, Explanation, LockChange, Value, What
from cachewatch.core.graph import GraphNode
from cachewatch.core.model import Side
from cachewatch.core.untrusted_text import safe
from cachewatch.render.compared_revisions import days
from cachewatch.render.json_packages import encode
from cachewatch.render.statement_phrases import number

SCHEMA = "cachewatch.why/1"
SHORT = 7  # characters of a hash

_MOST_NAMES = 6
_MOST_SPECS = 20
_MOST_CAUSES = 20

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
    What.NOT_RECORDED: "not recorded: these revisions have no dependency graph; `cachewatch record` keeps it from now on",
    What.SPLICE: "the dependencies of {name} were replaced after it was built (spliced)",
}


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
    return {"spec": spec_json(one.spec), "predecessor": predecessor, "causes": causes_json(one.causes)}


def night_json(found: Sequence[Explanation], *, is_recorded: bool) -> bytes:
    """Return the causes of all rebuilt specs between two revisions."""
    return _encoded(
        {"recorded": is_recorded, "causes": attributed_json(attributed([one for one in found if one.is_match]))}
    )


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


def explained_lines(package: str, before: Side | None, after: Side, found: Sequence[Explanation]) -> Iterator[str]:
    """Yield why specs of one package were rebuilt, as lines for people."""
    if before is None:
        yield f"{safe(package)}: was there in the first recorded revision; there is no predecessor to compare with."
        return
    yield _heading(package, before, after)
    if not found:
        yield "no new specs between these revisions"
    with_predecessor = [one for one in found if one.predecessor is not None]
    for one in with_predecessor[:_MOST_SPECS]:
        yield ""
        yield from _explanation_lines(one)
    if len(with_predecessor) > _MOST_SPECS:
        yield f"... and {len(with_predecessor) - _MOST_SPECS:,} more specs (--format json has all)"
    if new := len(found) - len(with_predecessor):
        yield f"{number(new, 'new spec')}: the package had none before"


def heading_and_causes(found: Sequence[Explanation]) -> Iterator[str]:
    """Yield a section of a report: why specs were rebuilt."""
    yield "WHY"
    if found:
        yield from _attributed_lines(found, "with another hash than their nearest predecessors")
    else:
        yield "  no specs were rebuilt"


def markdown_causes(found: Sequence[Explanation]) -> list[dict[str, object]]:
    """Return the causes as the template takes them: what, how many specs, of which packages."""
    return [
        {"count": count, "cause": in_words(group[0].cause, _names_of(group)), "packages": packages}
        for count, group, packages in _grouped(found)
    ]


def night_lines(before: Side, after: Side, found: Sequence[Explanation]) -> Iterator[str]:
    """Yield the causes of all rebuilt specs between two revisions, as lines for people."""
    yield _heading(after.tag or "", before, after)
    matched = [one for one in found if one.is_match and one.causes]
    rebuilt = [one for one in matched if not _is_changed_itself(one)]
    if rebuilt:
        yield from _attributed_lines(rebuilt, "rebuilt, or built once more beside an older one")
    else:
        yield "no specs were rebuilt between these revisions"
    if own := len(matched) - len(rebuilt):
        names = sorted({safe(one.spec.name) for one in matched if _is_changed_itself(one)})
        yield f"{number(own, 'more new spec')} changed in itself: {_listed(names)}"
    if others := len(found) - len(matched):
        names = sorted({safe(one.spec.name) for one in found if not one.is_match})
        more = f": {_listed(names)}; `cachewatch why PACKAGE` names the nearest older spec" if names else ""
        yield f"{number(others, 'more new spec')} that no older one matches{more}"


def lock_lines(change: LockChange, before: str, after: str) -> Iterator[str]:
    """Yield why two lock files differ, root causes first, as lines for people."""
    yield f"{safe(before)} -> {safe(after)}: {len(change.explained):,} of {number(change.specs, 'spec')} with another hash"
    if change.explained:
        yield from _attributed_lines(change.explained, "with another hash")
    for word, nodes in (("added", change.added), ("removed", change.removed)):
        if nodes:
            yield f"{word}: {_listed([safe(f'{node.name}@{node.version}') for node in nodes])}"
    roots = [one for one in change.explained if one.spec.hash in change.roots]
    for one in roots[:_MOST_SPECS]:
        yield ""
        yield from _explanation_lines(one)


def _attributed_lines(explained: Sequence[Explanation], what: str) -> Iterator[str]:
    yield f"{number(len(explained), 'spec')} {what}:"
    found = _grouped(explained)
    for count, group, packages in found[:_MOST_CAUSES]:
        yield f"  {count:>6,}  {in_words(group[0].cause, _names_of(group))}"
        yield f"          {_listed(packages)}"
    if rest := sum(count for count, _, _ in found[_MOST_CAUSES:]):
        yield f"  {rest:>6,}  for {number(len(found) - _MOST_CAUSES, 'other reason')} (--format json has all)"


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
    return _listed(sorted({_compiled(one.cause) for one in group}))


def _explanation_lines(one: Explanation) -> Iterator[str]:
    if one.predecessor is None:
        return
    where = ", which is still there" if one.is_beside else ""
    unlike = "" if one.is_paired else ", for another operating system or target"
    yield f"{short(one.spec)}: nearest predecessor {short(one.predecessor)}{where}{unlike}"
    for line in cause_lines(one.causes):
        yield f"  {line}"


def _is_changed_itself(one: Explanation) -> bool:
    """Tell whether it has another version, variant or compiler itself, and so is no mere rebuild."""
    return any(cause.package == one.spec.name and cause.what is not What.RECIPE for cause in one.causes)


def _heading(name: str, before: Side, after: Side) -> str:
    revisions = f"({(before.revision or '')[:SHORT]} -> {(after.revision or '')[:SHORT]})"
    return "  ".join(filter(None, (safe(name), days(before.time, after.time), revisions)))


def short(node: GraphNode) -> str:
    """Name a spec: hdf5@1.14.6/m5ebs4r."""
    return safe(f"{node.name}@{node.version}/{node.hash[:SHORT]}")


def cause_lines(causes: Causes) -> Iterator[str]:
    """Yield each cause in words, with the shortest path to it; what changed alike in several packages is one line."""
    alike: defaultdict[tuple[What, Value, Value], list[Cause]] = defaultdict(list)
    for cause in sorted(causes, key=lambda one: one.sort_key):
        alike[_group(cause)].append(cause)
    for group in alike.values():
        if len(group) > 1:
            yield f"{in_words(group[0], _listed([_compiled(cause) for cause in group]))}"
            continue
        yield in_words(group[0])
        if len(causes[group[0]]) > 1:
            yield f"    {path_in_words(causes[group[0]])}"


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


def _compiled(cause: Cause) -> str:
    languages = f" ({', '.join(cause.languages)})" if cause.languages else ""
    return f"{safe(cause.package)}{languages}"


def _text(value: Value) -> str:
    return safe(value if isinstance(value, str) else " ".join(value))


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return ", ".join(listed[:_MOST_NAMES]) + more
