"""The sentences that every kind of report shares, so that a terminal, a page and a mail agree."""

from datetime import datetime

from cachewatch.model import Event, Kind
from cachewatch.report import Report
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
