"""Make parts that several kinds of pages share: links, figures, rows, and plots, whose positions are in percent.

The values of a page are a mapping (`View`), which only its template reads. `shown` has made texts from documents safe.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any

from msgspec import Struct

from cachewatch.core.statement_kinds import StatementKind
from cachewatch.core.versions_spellings_targets import sorted_versions
from cachewatch.extensions.site.package_histories import DatedRevision, Present, Revisions, RevisionStory, page, shown
from cachewatch.report.words import number, stack_name
from cachewatch.report.words_file import words

View = dict[str, Any]

_MOST_TICKS = 4
_LAST_TICK = 84.0  # percent; a label beyond it would touch the one at the end
_STEPS = (1, 2, 7, 14)  # days; beyond that, months
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_NARROWEST, _WIDEST = 0.4, 3.0
PAST = 0.86  # the part of the width of a plot that shows the time up to the last change


class Clock(Struct, frozen=True):
    """A time axis: the position of each revision on it, in percent of the width, and its ticks with labels."""

    places: tuple[float, ...]
    ticks: tuple[View, ...] = ()


def clock(revisions: Revisions, *, past: float = 1) -> Clock:
    """Return the time axis of `revisions`; the last one is at `past` (0 to 1) of the width; the rest stays empty."""
    times = (one.time.timestamp() if one.time else 0.0 for one in revisions)
    # A missing time, or one that is too early, is replaced by the one before.
    seconds = list(accumulate(times, max, initial=0.0))[1:]
    known = [s for s in seconds if s > 0] or [0.0]
    first, last = known[0], known[-1]
    if last <= first:
        return Clock(tuple(round(past * 100 * n / max(1, len(revisions) - 1), 2) for n in range(len(revisions))))

    def at(second: float) -> float:
        return round(past * max(0.0, 100 * (second - first) / (last - first)), 2)

    ticks: list[View] = [{"at": at(day.timestamp()), "label": label} for day, label in _ticks(first, last)]
    if past < 1:
        ticks = [*(tick for tick in ticks if tick["at"] <= _LAST_TICK), {"at": 100, "label": "latest"}]
    return Clock(tuple(map(at, seconds)), tuple(ticks))


def _ticks(first_second: float, last_second: float) -> Iterable[tuple[datetime, str]]:
    """Return days between two times and their labels, as ticks: every so many days, or first days of months."""
    first, last = (datetime.fromtimestamp(second, UTC) for second in (first_second, last_second))
    days = (last_second - first_second) / 86400
    step = next((s for s in _STEPS if days / s <= _MOST_TICKS), None)
    if step is not None:
        day = first.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        found = (day + timedelta(days=n) for n in range(0, int(days) + 1, step))
        return [(d, f"{d.day} {d:%b}") for d in found if d <= last]
    months = next((m for m in _MONTHS if days / 30 / m <= _MOST_TICKS), _MONTHS[-1])
    start = first.year * 12 + first.month  # the month after the first
    starts = (datetime(m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in range(start, start + int(days / 28) + 2))
    return [(d, f"{d:%b %Y}") for d in starts if d <= last and (d.month - 1) % min(months, 12) == 0]


def bars(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return an SVG path with a bar for each of `values` but 0, at its place in percent; `top` is the full height."""
    width = min(_WIDEST, max(_NARROWEST, 70 / max(1, len(places))))
    path = ""
    for place, value in zip(places, values, strict=True):
        if value:
            left = max(0.0, min(100 - width, place - width / 2))
            height = max(4.0, 100 * value / max(1, top))
            path += f"M{left:.2f} 100v-{height:.1f}h{width:.2f}v{height:.1f}z"
    return path


class Link(Struct, frozen=True):
    """A text and the address to which it links; if the address is "", the text is no link."""

    text: str
    address: str = ""


def happening(moment: DatedRevision, specs: int, added: Sequence[Link], removed: Sequence[Link], **more: Any) -> View:
    """Return a row on revision `moment`: the `specs` after it, what it `added` and `removed`, and values `more`."""
    sides = cut("added", added, 40) | cut("removed", removed, 40)
    return {"moment": moment, "specs": f"{specs:,}", "counts": (), "note": "", **sides, **more}


def cut(name: str, items: Sequence[object], most: int) -> View:
    """Return a mapping: up to `most` of `items` under `name`, and the number of the others under `more_NAME`."""
    return {name: items[:most], f"more_{name}": max(0, len(items) - most)}


def days(count: float) -> str:
    """Return a number of days in words: 3 days, 1.5 days, or `at once` for less than 0.1."""
    if count < 0.1:
        return "at once"
    text = f"{count:.0f}" if count >= 10 or abs(count - round(count)) < 0.05 else f"{count:.1f}"
    return f"{text} day{'' if text == '1' else 's'}"


def figures(**counts: int) -> list[View]:
    """Return counts with their nouns: `spec=2` becomes 2 and "specs"."""
    return [{"number": f"{count:,}", "label": noun if count == 1 else f"{noun}s"} for noun, count in counts.items()]


def package_link(package: str, up: str) -> Link:
    """Return the link to the page of a package; `up` is the relative path to the root of the site."""
    return Link(shown(package), up + page("package", package))


def stack_link(stack: str, up: str) -> Link:
    """Return the link to the page of a stack; for "" (specs that no stack builds), "no stack" without a link."""
    return Link(shown(stack), up + page("stack", stack)) if stack else Link("no stack")


def stack_text(stack: str) -> str:
    """Return the name of a stack for a sentence; if `stack` is "", words for specs that are in no stack."""
    return shown(stack_name(stack), 40)


def plot_of(
    where: Clock,
    moments: Revisions,
    curves: Sequence[View],
    columns: Mapping[str, Sequence[int]],
    stories: Sequence[RevisionStory] = (),
) -> View:
    """Return a plot of `curves` of the revisions `moments`, on their axis `where`, and a table of `columns`.

    `stories` has one for each revision: the newest twelve events in them are marked on the axis. Rows: newest first.
    """
    rows = [
        (moment.day, moment.commit, *(f"{column[number]:,}" for column in columns.values()))
        for number, moment in enumerate(moments)
    ]
    marks = [
        _mark(kind, name, place, moment)
        for story, place, moment in zip(stories, where.places, moments, strict=False)
        for kind, name in story.marks
    ]
    return {
        "curves": curves,
        "ticks": where.ticks,
        "first": moments[0],
        "last": moments[-1],
        "columns": ("date", "revision", *columns),
        "rows": rows[::-1][:60],
        "marks": marks[-12:],
    }


def _mark(kind: StatementKind, name: str, place: float, moment: DatedRevision) -> View:
    said = f"{words().text(kind, 'mark')} {shown(name)}".strip()
    letter, title = words().text(kind, "letter"), f"{said}, {moment.calendar_day}"
    return {"at": place, "tone": kind.severity.value, "letter": letter, "title": title}


def specs_plot(specs: Sequence[int], numbers: Sequence[int], revisions: Revisions) -> View | None:
    """Return a plot of `specs`, counts in the `revisions` with the indexes `numbers`; None for fewer than two."""
    if len(numbers) < 2:
        return None
    moments = [revisions[n] for n in numbers]
    where = clock(moments, past=PAST)
    return plot_of(where, moments, [curve(Link("specs"), specs, where.places, moments)], {"specs": specs})


def curve(name: Link, numbers: Sequence[int], places: Sequence[float], moments: Revisions) -> View:
    """Return a step plot titled `name`; `numbers` are the values and `places` the positions (percent) of `moments`."""
    top, low, change = max(numbers), min(numbers), numbers[-1] - numbers[0]
    peak = moments[numbers.index(top)].day
    sign = "+" if change > 0 else "\N{MINUS SIGN}" if change else "\N{PLUS-MINUS SIGN}"
    heights = [round(100 - 100 * value / max(1, top), 1) for value in numbers]
    line = f"M{places[0]:g} {heights[0]:g}"
    for place, (old, height) in zip(places[1:], pairwise(heights), strict=True):
        line += f"H{place:g}" + (f"V{height:g}" if height != old else "")
    line += "" if places[-1] == 100 else "H100"
    return {
        "name": name,
        "title": f"{name.text}: {number(numbers[0], 'spec')} on {moments[0].day}, {numbers[-1]:,} on {moments[-1].day}; "
        f"at least {low:,}, at most {top:,} (on {peak})",
        "line": line,
        "area": f"{line}V100H{places[0]:g}Z",
        "bars": "",
        "value": f"{numbers[-1]:,}",
        "note": f"{sign}{abs(change):,}",
        "tone": "more" if change > 0 else "fewer" if change < 0 else "",
        "about": "",
        "top": f"{top:,}",
    }


def package_row(package: str, present: Present, *, up: str = "", day: str = "", note: str = "") -> View:
    """Return a row on `package`: its `present` specs, a `day` and a `note`; `up` is the path to the site's root."""
    versions = sorted_versions(present.versions)[::-1]
    return {
        "name": package_link(package, up),
        "versions": ", ".join(shown(version, 24) for version in versions[:2]),
        "more_versions": max(0, len(versions) - 2),
        "specs": present.specs,
        "stacks": len(present.stacks),
        "day": day,
        "note": note,
    }
