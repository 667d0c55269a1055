"""How far two states are apart, in words that every kind of report shares."""

from datetime import datetime

from cachewatch.render.statement_phrases import number
from cachewatch.report.changes import Report


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
    """Say how long that is, in the unit that a person would use: 5 days, 3 hours, 20 minutes, 7 seconds."""
    if seconds >= 36 * 3600:
        return number(round(seconds / 86400), "day")
    if abs(seconds - 86400) < 1800:
        return number(1, "day")
    if seconds >= 90 * 60:
        return number(round(seconds / 3600), "hour")
    if seconds >= 90:
        return number(round(seconds / 60), "minute")
    return number(max(1, round(seconds)), "second")
