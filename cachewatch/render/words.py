"""The sentences that every kind of report shares, so that a terminal, a page and a mail agree."""

from datetime import datetime

from cachewatch.model import Event, Kind, PackageCounts, SpecCounts
from cachewatch.report import Report, SectionReport
from cachewatch.safetext import safe

_EVENTS = {
    Kind.TAG_ADDED: "new tag {name}: {packages}, {specs}",
    Kind.TAG_REMOVED: "tag {name} is gone: {packages}, {specs}",
    Kind.STACK_REMOVED: "stack {name} is gone from the tag, often a failed pipeline: {packages}, {specs}",
    Kind.STACK_ADDED: "stack {name} joined the tag: {packages}, {specs}",
    Kind.COMPILER: "compiler {name} everywhere: {packages}, {specs}",
    Kind.OS: "operating system {name} everywhere: {packages}, {specs}",
    Kind.TARGET: "target {name} everywhere: {packages}, {specs}",
    Kind.PRUNE: "a prune removed {name}, of which others are left: {packages}, {specs}",
    Kind.SUSPICIOUS: "suspicious: {name}; check that the catalogue was published whole",
}


def number(count: int, noun: str, plural: str = "") -> str:
    """Return `count` with its noun: 1 spec, 1,204 specs."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def event_sentence(event: Event) -> str:
    """Say what happened to the whole tag, and what it explains."""
    return _EVENTS[event.kind].format(
        name=safe(event.name),
        packages=number(event.packages, "package"),
        specs=number(event.specs, "spec"),
    )


def section_heading(section: SectionReport) -> str:
    """Name a section with its total, of which events may have told a part."""
    if not section.specs and not section.explained_specs:
        return section.section.value
    total = number(section.specs + section.explained_specs, "spec")
    if section.explained_specs:
        total += f", {section.explained_specs:,} of them told above"
    return f"{section.section.value}  {total}"


def remainder(section: SectionReport) -> str:
    """Say what is left out of a section."""
    parts = [f"{section.hidden_specs:,} more specs"] if section.hidden_specs else []
    parts += [f"{section.hidden_lines:,} more lines"] if section.hidden_lines else []
    return f"... and {' and '.join(parts)} (--all)" if parts else ""


def span(report: Report) -> str:
    """Say how far the two states are apart: 3 revisions, 2 days; empty if that is unknown."""
    parts = []
    if report.revisions_between is not None and report.before.revision != report.after.revision:
        parts.append(number(report.revisions_between, "revision"))
    if report.before.time and report.after.time and report.before.time != report.after.time:
        apart = datetime.fromisoformat(report.after.time) - datetime.fromisoformat(report.before.time)
        seconds = apart.total_seconds()
        parts.append(f"{how_long(abs(seconds))} {'later' if seconds > 0 else 'earlier'}")
    return ", ".join(parts)


def how_long(seconds: float) -> str:
    """Say how long that is, in the unit that a person would use: 5 days, 3 hours, 20 minutes."""
    if seconds >= 36 * 3600:
        return number(round(seconds / 86400), "day")
    if seconds >= 90 * 60:
        return number(round(seconds / 3600), "hour")
    return number(max(1, round(seconds / 60)), "minute")


def nothing(report: Report) -> str:
    """Say that there is nothing to say."""
    counts = report.packages
    if counts.changed or counts.added or counts.removed:
        return f"Nothing of what was asked for: {package_totals(counts)}; {spec_totals(report.specs)}"
    seen = " in what could be compared" if report.losses else ""
    return f"No differences{seen} of {number(max(counts.before, counts.after), 'package')}."


def package_totals(counts: PackageCounts) -> str:
    """Count the packages: 4 of 1,256 packages changed, 1 new, 1 gone, 2 only rebuilt."""
    parts = [f"{counts.changed:,} of {number(max(counts.before, counts.after), 'package')} changed"]
    parts += [f"{counts.rebuilt_only:,} of them only rebuilt"] if counts.rebuilt_only else []
    parts += [f"{counts.added:,} new"] if counts.added else []
    parts += [f"{counts.removed:,} gone"] if counts.removed else []
    return ", ".join(parts)


def spec_totals(counts: SpecCounts) -> str:
    """Prove the totals: 214 -> 104 specs: +24 = 16 rebuilt + 1 upgraded + 7 new; -134 = ..."""
    rungs = ("rebuilt", "moved", "upgraded", "downgraded", "recompiled", "reconfigured")
    paired = [f"{getattr(counts, rung):,} {rung}" for rung in rungs if getattr(counts, rung)]
    came = paired + ([f"{counts.new:,} new"] if counts.new or not paired else [])
    went = paired + ([f"{counts.gone:,} gone"] if counts.gone or not paired else [])
    return (
        f"{counts.before:,} -> {number(counts.after, 'spec')}: "
        f"+{counts.added:,} ({' + '.join(came)}), -{counts.removed:,} ({' + '.join(went)})"
    )
