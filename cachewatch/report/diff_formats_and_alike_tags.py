"""Write changesets as `diff` shows them on a terminal, as text or with `--stat`, when all packages are compared."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.changesets import Changeset, Report
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.graphs_and_attribution import Explanation
from cachewatch.core.kinds_and_specs import Delta, PackageChange, PackageCounts
from cachewatch.core.statement_kinds import Counts, Severity, Statement, StatementKind
from cachewatch.core.statements import BY_VERSION, Wants
from cachewatch.report.dates_and_totals import chosen_lines, heading, nothing, signed, tags_named, total
from cachewatch.report.diff_blocks_and_colours import Block, Palette, Requested, blocks_of, colour_of, fitted
from cachewatch.report.rebuild_cause_words import attributed_lines
from cachewatch.report.words import fact, number
from cachewatch.report.words_file import words


def changed_facts(change: PackageChange) -> tuple[str, Mapping[str, Delta]] | None:
    """Return the package, and by attribute (versions, stacks, ...) what it gained and lost; None if that is nothing."""
    return (change.package, change.facts) if any(change.facts.values()) else None


def read_report(changeset: Changeset, asked: Requested) -> Report:
    """Return the report of `changeset` with the events that `asked` wants and the changed facts of each package."""
    facts = {package: found for taken in changeset.collected() for package, found in taken or ()}
    return replace(changeset.report.about(asked.wants), facts=facts)


class ReportGroup(Struct, frozen=True, kw_only=True):
    """The reports on tags that changed alike, and the blocks that describe all of them."""

    reports: tuple[Report, ...]
    blocks: tuple[Block, ...]
    total: str  # the sentence with the sums, or that there is nothing to show
    causes: Sequence[Explanation] | None = None  # why specs were rebuilt, where that was asked for

    @property
    def name(self) -> str:
        """The names of the tags."""
        return tags_named(self.reports)


def grouped_reports(changesets: Iterable[Changeset], asked: Requested) -> list[ReportGroup]:
    """Consume all changesets and return their reports in groups; tags that changed alike share one group."""
    groups: dict[object, ReportGroup] = {}
    for changeset in changesets:
        report = read_report(changeset, asked)
        causes = None if changeset.explain is None else tuple(changeset.explain())
        blocks, sums = blocks_of(report, asked)
        # A tag with warnings or with causes of rebuilds stands alone.
        said = len(groups) if report.diagnostics or causes else (blocks, sums, report.statements)
        alike = groups[said].reports if said in groups else ()
        groups[said] = ReportGroup(reports=(*alike, report), blocks=blocks, total=sums, causes=causes)
    return list(groups.values())


def write_text(changesets: Iterable[Changeset], *, asked: Requested, width: int, palette: Palette) -> Iterator[bytes]:
    """Yield what `asked` selects as text for a terminal of `width` columns; tags that changed alike share a report."""
    for place, group in enumerate(grouped_reports(changesets, asked)):
        yield b"\n\n" if place else b""
        yield _encoded(_render_text(group, width=width, palette=palette))
        if group.causes is not None:
            lines = attributed_lines(group.causes, _HASHES_DIFFER) if group.causes else ["  no specs were rebuilt"]
            lines = palette.changes(lines, (cause for one in group.causes for cause in one.causes))
            yield _encoded(fitted(["", palette.paint("WHY", "bold"), *lines], max(width, _NARROWEST)))


_HASHES_DIFFER = "with another hash than the older specs that share most dependencies with them"
_NARROWEST = 60
_WIDEST = (32, 34, 34)  # names, facts and numbers of specs that others are aligned with
_INDENT = "  "
_CONTINUATION = " " * 6
_REPLACED = re.compile(r"(\S+) -> ([^\s,]+)(.*)", re.DOTALL)


def _render_text(group: ReportGroup, *, width: int, palette: Palette) -> Iterator[str]:
    """Yield the lines of reports on tags that changed alike; no line is wider than `width`, unless a word is."""
    width = max(width, _NARROWEST)
    report, *others = group.reports
    if others:
        yield from _wrapped(f"{group.name}: the same changes", width, rest=_INDENT)
    indent = _INDENT if others else ""
    for one in group.reports:
        sides, revisions = heading(one)
        is_short = len(indent) + len(sides) + 2 + len(revisions) <= width
        for line in (f"{sides}  {revisions}".rstrip(),) if is_short else (sides, f"{_INDENT}{revisions}"):
            yield from _wrapped(line, width, first=indent, rest=indent + _INDENT)
    yield ""
    for block in group.blocks:
        yield from _block_lines(block, width, palette)
        yield ""
    if report.losses:
        said = f"{number(report.losses, 'document')} could not be compared, or not wholly; see the warnings."
        yield from _wrapped(said, width, rest=_INDENT)
    yield from _wrapped(group.total, width, rest=_INDENT)


def _wrapped(text: str, width: int, *, first: str = "", rest: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def _block_lines(block: Block, width: int, palette: Palette) -> Iterator[str]:
    title = block.title.upper()
    painted = palette.paint(palette.paint(title, "bold"), "red" if block.severity is Severity.ATTENTION else "")
    text = "  ".join(filter(None, (title, block.name, block.total)))
    if len(text) <= width:
        yield text.replace(title, painted, 1)
    else:
        lines = _wrapped(f"{title}  {block.name}".strip(), width, rest=_INDENT)
        yield from (line.replace(title, painted, 1) for line in lines)
        yield from _wrapped(block.total, width, first=_INDENT, rest=_INDENT)
    for note in block.notes:
        yield from _wrapped(note, width, first=_INDENT, rest=_INDENT * 2)
    if block.named:
        yield from _wrapped(block.named, width, first=_INDENT, rest=_INDENT)
    if block.entries:
        yield from _aligned(block, width, palette)
    if block.more:
        yield f"{_INDENT}{block.more}"


def _aligned(block: Block, width: int, palette: Palette) -> Iterator[str]:
    """Yield the entries of a block in columns; what `width` has no room for goes on lines below."""
    columns = [(entry.name, entry.fact, entry.specs) for entry in block.entries]
    name, fact, specs = (
        max((len(text) for text in column if len(text) <= most), default=0)
        for column, most in zip(zip(*columns, strict=True), _WIDEST, strict=True)
    )
    for entry in block.entries:
        start, end = f"{_INDENT}{entry.name:<{name}}", f"{entry.specs:<{specs}}"
        middle = f"  {entry.fact:<{fact}}  " if fact or entry.fact else "  "
        length = len(start + middle + end)
        below = ""
        if length > width:
            line, below = start, "  ".join(filter(None, (entry.fact, entry.specs, entry.where)))
        else:
            colour = "" if entry.is_harmless else colour_of(block.kind)
            line = f"{start}{middle.replace(entry.fact, _painted(entry.fact, colour, palette), 1)}{end}"
            if length + 2 + len(entry.where) <= width:
                line = f"{line}  {entry.where}"
            else:
                below = entry.where
        yield line.rstrip()
        yield from _wrapped(below, width, first=_CONTINUATION, rest=_CONTINUATION)


def _painted(fact: str, colour: str, palette: Palette) -> str:
    match = _REPLACED.fullmatch(fact)
    return f"{palette.change(match[1], match[2])}{match[3]}" if match else palette.paint(fact, colour)


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


_WIDTH = 80  # of sentences, where nobody reads them on a terminal
_Row = tuple[str, int, int]  # a package, and its specs before and after


def stat_of(change: PackageChange) -> _Row:
    """Return the name of the package, and its numbers of specs before and after."""
    return change.package, change.counts.before, change.counts.after


def write_stat(changesets: Iterable[Changeset], wants: Wants, width: int | None, palette: Palette) -> Iterator[bytes]:
    """Yield a line per package of a tag and a total, on what `wants` accepts; tags that changed alike share them."""
    groups: dict[tuple[str, tuple[_Row, ...], PackageCounts, tuple[Statement, ...]], list[Report]] = {}
    for changeset in changesets:
        packages = tuple(numbers for body in changeset.collected() for numbers in body)
        report = changeset.report.about(wants)
        # Each tag that is compared with another one is named with that.
        sides = heading(report)[0] if report.before.tag not in (None, "", report.after.tag) else ""
        groups.setdefault((sides, packages, report.packages, report.statements), []).append(report)
    for (sides, packages, *_), reports in groups.items():
        report = reports[0]
        if sides or report.after.tag:
            yield _encoded(fitted([sides or tags_named(reports)], width))
        yield _encoded(fitted((f" {line}" for line in _lines(packages, report.statements, wants, palette)), width))
        last = total(report, wants) if packages or report.statements else nothing(report)
        yield _encoded(_wrapped(last, width or _WIDTH, first=" ", rest="   "))


def _lines(packages: Sequence[_Row], statements: Iterable[Statement], wants: Wants, palette: Palette) -> Iterator[str]:
    colours: dict[tuple[str, str], str] = {}
    shares: defaultdict[str, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
    versions: defaultdict[str, list[str]] = defaultdict(list)
    for statement in statements:
        colour = "" if statement.is_harmless else colour_of(statement.kind, statement.severity)
        for line in chosen_lines(statement, wants):
            share = words().text(statement.kind, "share")
            shares[line.package][share] += line.counts
            colours[line.package, share] = colours.get((line.package, share)) or colour
            if statement.kind in BY_VERSION:
                stacks = {place.stack for place in line.story.places}
                is_part = not line.story.stays and any(stack not in stacks for stack, _ in line.story.behind)
                is_part |= statement.kind is StatementKind.DOWNGRADED and len(stacks) < line.story.of_stacks
                of_stacks = words().say("other", "of_stacks", len(stacks), of=line.story.of_stacks) if is_part else ""
                versions[line.package].append(_painted(fact(line), colour, palette) + of_stacks)
    width = max((len(safe_name(name)) for name, _, _ in packages), default=0)
    for name, before, after in packages:
        counted = [
            palette.paint(f"{signed(counts)} {share}", colours[name, share])
            for share, counts in shares[name].items()
            if counts.total
        ]
        said = "; ".join(filter(None, (", ".join(counted), *versions[name])))
        yield f"{safe_name(name):<{min(width, 32)}} | {before:>5,} -> {after:<5,}  {said}".rstrip()
