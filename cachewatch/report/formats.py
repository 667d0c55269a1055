"""Write changesets in the formats of `diff`: text, Markdown, JSON, JSON lines and `--stat`.

Text and Markdown are made from one Report, once all packages are through. JSON is written as packages come, one a
line, with totals behind them. `--stat` has one line a package, like `git diff --stat`, but of specs.
"""

import textwrap
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Explanation
from cachewatch.core.changesets import Changeset, Outcome
from cachewatch.core.model import PackageChange, PackageCounts
from cachewatch.core.names import safe_name
from cachewatch.core.statement_values import Counts, Statement, StatementKind
from cachewatch.core.statements import WantsKinds, of_kinds
from cachewatch.report.causes import attributed, attributed_json, heading_and_causes, markdown_causes
from cachewatch.report.data import (
    SCHEMA,
    encode,
    event_values,
    fault_values,
    machines_lost,
    owners_of,
    package_json,
    side_values,
    statement_values,
    summary_values,
    with_owners,
)
from cachewatch.report.text import Palette, Requested, Shown, render_text, tags_named, tell
from cachewatch.report.values import Report
from cachewatch.report.words import BY_VERSION, Shares, Wants, chosen_lines, fact, nothing, share_of, signed, total


def read_report(changeset: Changeset, asked: Requested) -> Report:
    """Take all packages of `changeset` and return the report on them."""
    facts = {package: found for taken in changeset.collected() for package, found in taken or ()}
    return replace(report_of(changeset.outcome, asked.wants), facts=facts)


def report_of(outcome: Outcome, wants: Wants) -> Report:
    """Return what people read of a comparison of which all packages are through."""
    return Report(
        before=outcome.before,
        after=outcome.after,
        revisions_between=outcome.revisions_between,
        packages=outcome.packages,
        specs=outcome.tally.specs,
        events=tuple(event for event in outcome.events if wants({event.kind})),
        diagnostics=outcome.diagnostics,
        statements=outcome.statements,
        is_part=outcome.tally.selected is not None,
    )


class ToldReport(Struct, frozen=True, kw_only=True):
    """Reports on tags that changed alike, and what is said of all of them."""

    reports: tuple[Report, ...]
    shown: Shown
    causes: Sequence[Explanation] | None = None  # why specs were rebuilt, where that was asked for

    @property
    def name(self) -> str:
        """The tags."""
        return tags_named(self.reports)


def told_reports(changesets: Iterable[Changeset], asked: Requested) -> list[ToldReport]:
    """Take all packages of each changeset; of tags that changed alike, the changes are told once."""
    found: dict[Hashable, ToldReport] = {}
    for number, changeset in enumerate(changesets):
        report = read_report(changeset, asked)
        shown = tell(report, asked)
        causes = None if changeset.explain is None else tuple(changeset.explain())
        # Each has its own warnings and causes.
        key = (shown, report.statements, number if report.diagnostics or causes else None)
        known = found.get(key)
        reports = (*known.reports, report) if known else (report,)
        found[key] = ToldReport(reports=reports, shown=shown, causes=causes)
    return list(found.values())


def write_text(changesets: Iterable[Changeset], *, asked: Requested, width: int, palette: Palette) -> Iterator[bytes]:
    """Yield a report on each tag for a terminal."""
    for number, told in enumerate(told_reports(changesets, asked)):
        lines = render_text(told.reports, told.shown, width=width, palette=palette)
        yield ("\n\n" if number else "").encode() + "".join(f"{line}\n" for line in lines).encode()
        if told.causes is not None:
            yield "".join(f"{line}\n" for line in ("", *heading_and_causes(told.causes))).encode()


def write_markdown(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield a report on each tag as Markdown."""
    from cachewatch.report.templates import render  # noqa: PLC0415  Jinja2 is slow to load

    for told in told_reports(changesets, asked):
        yield render("changes.md.j2", tags=told.name, reports=told.reports, shown=told.shown).encode()
        if told.causes is not None:
            yield render("causes.md.j2", causes=markdown_causes(told.causes)).encode()


_IN_MEMORY = 64 * 2**20  # bytes of JSON


class JsonCollector:
    """Encoded packages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, change: PackageChange) -> None:
        """Encode one package."""
        self._parts.append(package_json(change))

    def take(self) -> list[bytes]:
        """Hand over what was encoded."""
        taken, self._parts = self._parts, []
        return taken


def write_json(changesets: Iterable[Changeset], *, wants: WantsKinds) -> Iterator[bytes]:
    """Yield one JSON object with all changesets, and of their statements and events those of the kinds that are wanted."""
    yield b'{"schema":' + encode(SCHEMA) + b',"changesets":['
    for number, changeset in enumerate(changesets):
        yield b",\n" if number else b"\n"
        yield b'{"before":' + encode(side_values(changeset.before))
        yield b',"after":' + encode(side_values(changeset.after))
        yield b',"packages":['
        separator = b"\n"
        for package in _packages(changeset):
            yield separator + package
            separator = b",\n"
        yield b"]" + _rest(changeset.outcome, wants) + _causes(changeset) + b"}"
    yield b"]}\n"


def write_jsonl(changesets: Iterable[Changeset], *, wants: WantsKinds) -> Iterator[bytes]:
    """Yield one JSON object a line, told apart by `type`: changeset, package, statement, machine-lost, cause, event, warning, summary."""
    for changeset in changesets:
        sides = {"before": side_values(changeset.before), "after": side_values(changeset.after)}
        yield encode({"type": "changeset", "schema": SCHEMA, **sides}) + b"\n"
        yield from (b'{"type":"package",' + package[1:] + b"\n" for package in _packages(changeset))
        outcome = changeset.outcome
        for statement in of_kinds(outcome.statements, wants):
            yield encode({"type": "statement", **statement_values(statement)}) + b"\n"
        for lost in machines_lost(outcome.statements):
            yield encode({"type": "machine-lost", **lost}) + b"\n"
        for cause in attributed_json(attributed(changeset.explain())) if changeset.explain else ():
            yield encode({"type": "cause", **cause}) + b"\n"
        for event in filter(lambda event: wants({event.kind}), outcome.events):
            yield encode({"type": "event", **event_values(event)}) + b"\n"
        for diagnostic in outcome.diagnostics:
            yield encode({"type": "warning", **fault_values(diagnostic)}) + b"\n"
        yield encode({"type": "summary", **summary_values(outcome.packages, outcome.tally.specs)}) + b"\n"


def _packages(changeset: Changeset) -> Iterator[bytes]:
    """Yield the packages with the ids of the statements that explain their places, which are known behind the last."""
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        for parts in changeset.collected():
            file.writelines(part + b"\n" for part in parts)
        file.seek(0)
        statements = changeset.outcome.statements
        owners = owners_of(statements)
        tags = (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED)
        whole = next((one.id for one in statements if one.kind in tags), None)
        yield from (with_owners(line.removesuffix(b"\n"), owners, whole) for line in file)


def _causes(changeset: Changeset) -> bytes:
    if changeset.explain is None:
        return b""
    return b',\n"causes":' + encode(attributed_json(attributed(changeset.explain())))


def _rest(outcome: Outcome, wants: WantsKinds) -> bytes:
    events = encode([event_values(event) for event in outcome.events if wants({event.kind})])
    summary = encode(summary_values(outcome.packages, outcome.tally.specs))
    warnings = encode([fault_values(diagnostic) for diagnostic in outcome.diagnostics])
    statements = encode([statement_values(statement) for statement in of_kinds(outcome.statements, wants)])
    return (
        b',\n"statements":'
        + statements
        + b',\n"machines_lost":'
        + encode(machines_lost(outcome.statements))
        + b',\n"events":'
        + events
        + b',\n"summary":'
        + summary
        + b',\n"warnings":'
        + warnings
    )


_Numbers = tuple[str, int, int]  # a package, and its specs before and after


class StatCollector:
    """Packages with their numbers of specs."""

    def __init__(self) -> None:
        self._packages: list[_Numbers] = []

    def add(self, change: PackageChange) -> None:
        """Take the numbers of one package."""
        self._packages.append((change.package, change.counts.before, change.counts.after))

    def take(self) -> list[_Numbers]:
        """Hand over the numbers."""
        taken, self._packages = self._packages, []
        return taken


def write_stat(changesets: Iterable[Changeset], *, wants: Wants, width: int) -> Iterator[bytes]:
    """Yield a line for each package and the totals of each tag."""
    found: dict[tuple[tuple[_Numbers, ...], PackageCounts, tuple[Statement, ...]], list[Report]] = {}
    for changeset in changesets:
        packages = tuple(numbers for body in changeset.collected() for numbers in body)
        report = report_of(changeset.outcome, wants)
        found.setdefault((packages, report.packages, report.statements), []).append(report)
    for (packages, *_), reports in found.items():
        report = reports[0]
        if report.after.tag:
            yield f"{tags_named(reports)}\n".encode()
        yield "".join(f" {line}\n" for line in _lines(packages, report.statements, wants)).encode()
        last = total(report, wants) if packages or report.statements else nothing(report)
        wrapped = textwrap.wrap(last, width, initial_indent=" ", subsequent_indent="   ", break_on_hyphens=False)
        yield "".join(f"{line}\n" for line in wrapped).encode()


def _lines(packages: Sequence[_Numbers], statements: Iterable[Statement], wants: Wants) -> Iterator[str]:
    shares: defaultdict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for one in statements:
        for line in chosen_lines(one, wants):
            shares[line.package][share_of(one.kind)] += line.counts
            if one.kind in BY_VERSION:
                versions[line.package].append(fact(line))
    width = max((len(safe_name(name)) for name, _, _ in packages), default=0)
    for name, before, after in packages:
        said = "; ".join(filter(None, (_told(shares[name]), *versions[name])))
        yield f"{safe_name(name):<{min(width, 32)}} | {before:>5,} -> {after:<5,}  {said}".rstrip()


def _told(shares: Shares) -> str:
    return ", ".join(f"{signed(counts)} {name}" for name, counts in shares.items() if counts.total)
