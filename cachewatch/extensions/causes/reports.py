"""The answers of `cachewatch why` and `cachewatch impact` as text, Markdown and JSON."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from cachewatch.core.causes import Cause, Explanation, LockChange, What
from cachewatch.core.model import Side
from cachewatch.core.names import safe
from cachewatch.extensions.causes.graph_walk import Impact
from cachewatch.report.causes import (
    MOST_CAUSES,
    SHORT,
    attributed_lines,
    cause_lines,
    causes_in_words,
    change_in_words,
    listed,
    markdown_causes,
    short,
)
from cachewatch.report.data import encode
from cachewatch.report.templates import render
from cachewatch.report.text import days
from cachewatch.report.words import number

_MOST_SPECS = 20
_MOST_DIFFERENCES = 4


class WhyReport(Struct, frozen=True, kw_only=True):
    """Causes that are counted, specs that are explained one by one, and sentences between and after them."""

    heading: str
    counted: tuple[Explanation, ...] = ()
    are: str = ""  # what the counted specs are: rebuilt
    notes: tuple[str, ...] = ()
    explained: tuple[Explanation, ...] = ()
    more: tuple[str, ...] = ()


def package_report(package: str, before: Side | None, after: Side, found: Sequence[Explanation]) -> WhyReport:
    """Return why specs of one package were rebuilt."""
    if before is None:
        name = safe(package)
        return WhyReport(
            heading=f"{name}: was there in the first recorded revision; there is no predecessor to compare with."
        )
    explained = tuple(one for one in found if one.predecessor is not None)
    more = []
    if len(explained) > _MOST_SPECS:
        more.append(f"... and {len(explained) - _MOST_SPECS:,} more specs (--format json has all)")
    if new := len(found) - len(explained):
        more.append(f"{number(new, 'new spec')}: the package had none before")
    return WhyReport(
        heading=_heading(package, before, after),
        notes=() if found else ("no new specs between these revisions",),
        explained=explained[:_MOST_SPECS],
        more=tuple(more),
    )


def revisions_report(before: Side, after: Side, found: Sequence[Explanation]) -> WhyReport:
    """Return the causes of all rebuilt specs between two revisions."""
    rebuilt = tuple(one for one in found if _is_rebuilt(one))
    names = " ".join((side.revision or "")[:SHORT] for side in (before, after))
    notes = (
        []
        if rebuilt
        else [f"no specs were rebuilt between these revisions; what else changed: cachewatch diff {names}"]
    )
    return WhyReport(
        heading=_heading(after.tag or "", before, after),
        counted=rebuilt,
        are="rebuilt, in place of an older build or beside it",
        notes=(*notes, *_no_rebuilds([one for one in found if not _is_rebuilt(one)])),
    )


def two_report(names: Sequence[str], sides: Sequence[Side], found: Sequence[Explanation]) -> WhyReport:
    """Return the causes for which the specs of the second of two tags or stacks are not those of the first."""
    explained = tuple(one for one in found if one.predecessor is not None)
    others = sorted({safe(one.spec.name) for one in found if one.predecessor is None})
    notes = [] if explained else ["the specs of all packages that both have are equal"]
    if others:
        notes.append(
            f"{number(len(found) - len(explained), 'spec')} of packages that only {safe(names[1])} has: {listed(others)}"
        )
    return WhyReport(
        heading=_heading(" -> ".join(names), *sides),
        counted=explained,
        are=f"of {safe(names[1])} with another hash than the specs of {safe(names[0])} that share most dependencies with them",
        notes=tuple(notes),
    )


def _is_rebuilt(one: Explanation) -> bool:
    return one.is_match and bool(one.causes) and not _own_causes(one)


def _no_rebuilds(others: Sequence[Explanation]) -> Iterator[str]:
    """Say of new specs that are no rebuilds what they are: other versions, for other targets, of new packages."""
    groups: defaultdict[str, list[Explanation]] = defaultdict(list)
    for one in others:
        groups[_difference(one)].append(one)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for difference, found in ordered[:_MOST_DIFFERENCES]:
        names = listed(sorted({safe(one.spec.name) for one in found}))
        yield f"{number(len(found), 'new spec')}, {difference}: {names}"
    if rest := [one for _, found in ordered[_MOST_DIFFERENCES:] for one in found]:
        names = listed(sorted({safe(one.spec.name) for one in rest}))
        yield f"{number(len(rest), 'new spec')}, with other differences: {names}"


def _difference(one: Explanation) -> str:
    if one.predecessor is None:
        return "of packages that were not there before"
    own = _own_causes(one)
    if not own:
        return "without a graph to compare, or in other stacks than any older one"
    told = ", ".join(f"{cause.what} {change_in_words(cause)}" for cause in sorted(own, key=lambda c: c.sort_key))
    return f"with {told}"


def lock_report(change: LockChange, before: str, after: str) -> WhyReport:
    """Return why two lock files differ: root causes first, then each root of the environment."""
    specs = f"{len(change.explained):,} of {number(change.specs, 'spec')} with another hash"
    notes = [
        f"{word}: {listed([safe(f'{node.name}@{node.version}') for node in nodes])}"
        for word, nodes in (("added", change.added), ("removed", change.removed))
        if nodes
    ]
    roots = tuple(one for one in change.explained if one.spec.hash in change.roots)
    return WhyReport(
        heading=f"{safe(before)} -> {safe(after)}: {specs}",
        counted=change.explained,
        are="with another hash",
        notes=tuple(notes),
        explained=roots[:_MOST_SPECS],
    )


def report_lines(report: WhyReport) -> Iterator[str]:
    """Yield a report as lines of text."""
    yield report.heading
    if report.counted:
        yield from attributed_lines(report.counted, report.are)
    yield from report.notes
    for number_of, one in enumerate(report.explained):
        yield ""
        yield f"{short(one.spec)}: {_predecessor(one, is_first=not number_of)}"
        for line in cause_lines(one.paths):
            yield f"  {line}"
    yield from report.more


def report_markdown(report: WhyReport) -> bytes:
    """Return a report as Markdown."""
    explained = [
        {
            "spec": short(one.spec),
            "predecessor": _predecessor(one, is_first=not number_of),
            "causes": [{"cause": cause, "path": list(path)} for cause, path in causes_in_words(one.paths)],
        }
        for number_of, one in enumerate(report.explained)
    ]
    counted = markdown_causes(report.counted)
    return render(
        "causes/why.md.j2",
        heading=report.heading,
        specs=number(len(report.counted), "spec"),
        are=report.are,
        counted=counted[:MOST_CAUSES],
        other_specs=number(sum(one["count"] for one in counted[MOST_CAUSES:]), "spec"),
        others=number(len(counted) - MOST_CAUSES, "other reason") if len(counted) > MOST_CAUSES else "",
        notes=report.notes,
        explained=explained,
        more=report.more,
    ).encode()


def _predecessor(one: Explanation, *, is_first: bool) -> str:
    """Name the older spec that one is compared with; the first time, say which that is."""
    assert one.predecessor is not None
    where = ", which is still there" if one.is_beside else ""
    unlike = "" if one.is_paired else ", for another operating system or target"
    meaning = " (the older spec that shares most dependencies)" if is_first else ""
    return f"nearest predecessor {short(one.predecessor)}{where}{unlike}{meaning}"


def _own_causes(one: Explanation) -> list[Cause]:
    """Return what differs in the spec itself beside its recipe: its version, its compiler; then it is no mere rebuild."""
    return [cause for cause in one.causes if cause.package == one.spec.name and cause.what is not What.RECIPE]


def _heading(name: str, before: Side, after: Side) -> str:
    revisions = f"({(before.revision or '')[:SHORT]} -> {(after.revision or '')[:SHORT]})"
    return "  ".join(filter(None, (safe(name), days(before.time, after.time), revisions)))


SCHEMA = "cachewatch.impact/1"

_NO_STACK = "(no stack)"
_MOST_PACKAGES = 40


def impact_json(asked: str, found: Impact) -> bytes:
    """Return an impact as one object of JSON."""
    values = {
        "schema": SCHEMA,
        "asked": asked,
        "hashes": found.asked,
        "specs": found.specs,
        "of_specs": found.of_specs,
        "stacks": [{"stack": s or None, "specs": n, "packages": p} for s, (n, p) in found.stacks.items()],
        "packages": [{"name": p, "specs": n, "direct": p in found.direct} for p, n in found.packages.items()],
    }
    return encode(values) + b"\n"


def impact_markdown(asked: str, where: str, found: Impact) -> bytes:
    """Return an impact as Markdown."""
    packages = [{"name": p, "specs": f"{n:,}", "direct": p in found.direct} for p, n in found.packages.items()]
    return render(
        "causes/impact.md.j2",
        asked=asked,
        where=where,
        summary=_summary(found),
        stacks=[{"stack": s, "specs": f"{n:,}", "packages": f"{p:,}"} for s, (n, p) in found.stacks.items()],
        packages=packages[:_MOST_PACKAGES],
        more=number(len(packages) - _MOST_PACKAGES, "package") if len(packages) > _MOST_PACKAGES else "",
    ).encode()


def _summary(found: Impact) -> str:
    packages = number(len(found.packages), "package")
    return f"{number(found.specs, 'dependent spec')} of {packages} (of {found.of_specs:,} specs in the tag)"


def impact_lines(asked: str, where: str, found: Impact) -> Iterator[str]:
    """Yield an impact as lines for people."""
    yield f"{safe(asked)} in {safe(where)}: {_summary(found)}"
    if not found.specs:
        return
    yield ""
    width = max(len("stack"), *(len(safe(stack or _NO_STACK)) for stack in found.stacks))
    yield f"{'stack'.ljust(width)}   specs  packages"
    for stack, (specs, count) in found.stacks.items():
        yield f"{safe(stack or _NO_STACK).ljust(width)}  {specs:>6,}  {count:>8,}"
    yield ""
    yield "packages (* depends on it directly)"
    for package, specs in list(found.packages.items())[:_MOST_PACKAGES]:
        mark = " *" if package in found.direct else ""
        yield f"  {specs:>6,}  {safe(package)}{mark}"
    if (rest := len(found.packages) - _MOST_PACKAGES) > 0:
        yield f"  ... and {rest:,} more (--format json has all)"
