"""Make a report into blocks, in one order and with one cut for every format.

Whatever a format shows, the counts of its blocks and of what is left out of them are those of
the total line.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec.structs import replace

from cachewatch.core.model import Delta
from cachewatch.core.package_facts import kind_of_fact
from cachewatch.core.spack_spellings import NO_COMPILER
from cachewatch.core.statements import Severity, StatementKind
from cachewatch.core.untrusted_text import safe_name
from cachewatch.render import rebuild_reasons, statement_phrases
from cachewatch.render.diff_totals import chosen_lines, nothing, signed, total
from cachewatch.render.statement_phrases import number
from cachewatch.render.tag_blocks import block_of, name_of
from cachewatch.render.text_blocks import ALL, FEW_NAMES, Block, BlockEntry, Chosen, Requested, Shown, sum_of
from cachewatch.report.changes import Report

_SEVERITIES = tuple(Severity)
_PLAIN = StatementKind.REBUILT
_WAVE = StatementKind.REBUILD_WAVE
# These are about all values of their packages.
_WHOLE_TAG = (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED)
# What one value of each fact is called, in the order in which they are named.
_NOUNS = {
    "versions": "version",
    "compilers": "compiler",
    "oses": "operating system",
    "platforms": "platform",
    "targets": "target",
    "variants": "variant",
    "stacks": "stack",
}
_ENDS = re.compile(r"[ ,;()]+")
_ROUTINE_SHARE = 4  # of the lines of a section, what is routine gets one in so many


def tell(report: Report, asked: Requested) -> Shown:
    """Return what `report` says to somebody who asked for this."""
    chosen = [
        Chosen(one, lines)
        for one in report.statements
        if (lines := chosen_lines(one, asked.wants)) or asked.wants(one.kinds)
    ]
    if asked.names_kinds:
        wanted = frozenset(line.package for one in chosen for line in one.lines)
        chosen = [replace(one, wanted=wanted) for one in chosen]
    blocks = [
        *(block_of(one, report, asked) for one in chosen if one.is_of_tag),
        *_sections(chosen, asked),
        *_rebuilt(report, chosen, asked),
        *_other_values(report, chosen, asked),
    ]
    blocks.sort(key=lambda block: _SEVERITIES.index(block.severity))
    return Shown(blocks=tuple(blocks), total=total(report, asked.wants) if chosen else nothing(report))


def _sections(chosen: Sequence[Chosen], asked: Requested) -> Iterator[Block]:
    for kind in statement_phrases.HEADINGS:
        own = [one for one in chosen if one.statement.kind is kind]
        if own and kind is not _PLAIN:
            yield _section(own, asked)


def _section(own: Sequence[Chosen], asked: Requested) -> Block:
    kind = own[0].statement.kind
    severity = min((one.statement.severity for one in own), key=_SEVERITIES.index)
    entries = [entry for one in own for entry in _entries(one, asked)]
    most = asked.most
    if severity is Severity.ROUTINE and not asked.is_whole and not asked.names_kinds:
        most //= _ROUTINE_SHARE
    counts = sum_of(one.counts for one in own)
    packages = {name for one in own for name in one.packages}
    return Block(
        kind=kind,
        severity=severity,
        title=statement_phrases.HEADINGS[kind],
        total=", ".join(filter(None, (number(len(packages), "package"), signed(counts)))),
        entries=tuple(entries[:most]),
        more=_more(entries[most:]),
        packages=len(packages),
    )


def _more(left_out: Sequence[BlockEntry]) -> str:
    if not left_out:
        return ""
    counts = "" if left_out[0].here else signed(sum_of(entry.counts for entry in left_out))
    return f"... and {len(left_out):,} more{f', {counts}' if counts else ''} (--all)"


def _entries(one: Chosen, asked: Requested) -> Iterator[BlockEntry]:
    statement = one.statement
    if statement.kind is StatementKind.PLACE_LOST and statement.name:
        # Place first: what matters is what is missing there.
        yield BlockEntry(
            name=safe_name(statement.name),
            fact=_lost(one, asked),
            counts=one.counts,
            here=statement.here if len(one.lines) == len(statement.lines) else None,
            where=statement_phrases.remaining(statement, one.packages),
            is_harmless=statement.is_harmless,
        )
        return
    for line in one.lines:
        yield BlockEntry(
            name=safe_name(line.package),
            fact=statement_phrases.fact(line, asked.most_names),
            counts=line.counts,
            where=statement_phrases.where(line, asked.most_names),
        )


def _lost(one: Chosen, asked: Requested) -> str:
    if len(one.packages) == len(one.lines) == 1:
        line = one.lines[0]
        now = f", now in {statement_phrases.stacks_named(line.joined, asked.most_names)}" if line.joined else ""
        return f"{safe_name(line.package)} {statement_phrases.fact(line)}".strip() + now
    return statement_phrases.names(one.packages, ALL if asked.is_whole else FEW_NAMES)


def _rebuilt(report: Report, chosen: Sequence[Chosen], asked: Requested) -> Iterator[Block]:
    """Yield the one number that is said unless only other kinds were asked for, with its packages on request."""
    told = {one.statement.kind for one in chosen}
    found = chosen if asked.names_kinds else [Chosen(one, one.lines) for one in report.statements]
    kinds = {_PLAIN} if _WAVE in told else {_PLAIN, _WAVE}
    hidden = [one for one in found if one.statement.kind in kinds]
    if not hidden:
        return
    lines = [line for one in hidden for line in one.lines]
    packages = {line.package for line in lines}
    specs = sum(line.counts.new for line in lines)
    wanted = [one for one in chosen if one.statement.kind is _PLAIN]
    is_listed = asked.is_whole or asked.names_kinds or asked.names_packages
    listed = _section(wanted, asked) if wanted and is_listed else None
    yield Block(
        kind=_PLAIN,
        severity=Severity.ROUTINE,
        title=statement_phrases.HEADINGS[_PLAIN],
        total=f"{number(specs, 'spec')} of {number(len(packages), 'package')}",
        notes=tuple(note for one in hidden for note in rebuild_reasons.lines(one.statement, FEW_NAMES)),
        entries=listed.entries if listed else (),
        more=listed.more if listed else "",
        packages=len(packages),
    )


def _other_values(report: Report, chosen: Sequence[Chosen], asked: Requested) -> Iterator[Block]:
    """Yield all values that came to a package or went from it and that no line about it names."""
    own = [one for one in chosen if one.statement.kind not in _WHOLE_TAG]
    packages = {package for one in own for package in one.packages}
    told = _told(own, asked)
    entries = [
        BlockEntry(name=safe_name(package), fact=fact)
        for package, facts in report.facts.items()
        if package in packages and (fact := "; ".join(_unnamed(facts, told.get(package, frozenset()), asked)))
    ]
    if entries:
        yield Block(
            kind=StatementKind.RECONFIGURED,
            severity=Severity.ROUTINE,
            title="Also added or removed",
            total=number(len(entries), "package"),
            entries=tuple(entries[: asked.most]),
            more=_more(entries[asked.most :]),
        )


def _told(chosen: Sequence[Chosen], asked: Requested) -> Mapping[str, frozenset[str]]:
    """Return the words that are said of each package."""
    told: defaultdict[str, list[str]] = defaultdict(list)
    for one in chosen:
        if one.is_of_tag:
            said = [name_of(one.statement), *one.statement.before, *one.statement.after]
            for package in one.packages:
                told[package] += said
        elif one.statement.kind is StatementKind.PLACE_LOST:
            for entry in _entries(one, asked):
                for package in one.packages:
                    told[package] += (entry.name, entry.fact)
        elif one.statement.kind is not _PLAIN:
            for line, entry in zip(one.lines, _entries(one, asked), strict=True):
                told[line.package] += (entry.fact, entry.where)
    return {package: frozenset(_ENDS.split(" ".join(said))) for package, said in told.items()}


def _unnamed(facts: Mapping[str, Delta], told: Set[str], asked: Requested) -> Iterator[str]:
    """Say which values came or went that `told` does not name: `compiler gcc@13.2.0 added, gcc@11.4.0 removed`."""
    for name, noun in _NOUNS.items():
        sides = ((facts[name].added, True, "added"), (facts[name].removed, False, "removed"))
        said = [
            f"{', '.join(values)} {word}"
            for side, is_added, word in sides
            if asked.wants({kind_of_fact(name, is_added=is_added)}) and (values := _not_in(told, side))
        ]
        if said:
            yield f"{noun} {', '.join(said)}"


def _not_in(told: Set[str], values: Iterable[str]) -> list[str]:
    return [safe_name(value) for value in values if value not in ("", NO_COMPILER) and safe_name(value) not in told]
