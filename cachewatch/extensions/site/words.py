"""Words and plots that several kinds of pages share."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from cachewatch.core.spack import sorted_versions
from cachewatch.core.statement_values import severity_of
from cachewatch.extensions.site import values as plots
from cachewatch.extensions.site.past import TagHistory
from cachewatch.extensions.site.stories import RevisionStory, page, shown
from cachewatch.extensions.site.values import Curve, DatedRevision, Figure, Link, Plot, PlotMark
from cachewatch.report.wording import words
from cachewatch.report.words import number, stack_name

# The kinds in the order of the page, with the words that say what they mean.
KINDS = {
    "new": "came, and replaced nothing",
    "gone": "went, and nothing took their place",
    "upgraded": "replaced an older version",
    "downgraded": "replaced a newer version",
    "recompiled": "the same, by another compiler",
    "reconfigured": "the same, with other variants",
    "moved": "the same, in other stacks",
    "rebuilt": "the same, built again",
}
_MOST_ROWS = 60
# How much of the width of a plot is for the time up to the last change.
PAST = 0.86


class Times:
    """The revisions of a past, as pages name them."""

    def __init__(self, past: TagHistory) -> None:
        self.times = [time for _, time in past.revisions]
        self.moments = [dated_revision(commit, time) for commit, time in past.revisions]

    def days_between(self, first: int, last: int) -> float | None:
        """Return how many days lie between two revisions, or None where a commit has no date."""
        began, ended = self.times[first], self.times[last]
        return None if began is None or ended is None else max(0.0, (ended - began).total_seconds() / 86400)


def dated_revision(commit: str, time: datetime | None) -> DatedRevision:
    """Return a revision as pages name it."""
    return DatedRevision(_day(time), commit[:10], calendar_day(time))


def _day(time: datetime | None) -> str:
    return "" if time is None else time.date().isoformat()


def calendar_day(time: datetime | None) -> str:
    """Return a day as people write it: 20 Nov 2026."""
    return f"{time.day} {time:%b %Y}" if time else "no date"


def days(count: float) -> str:
    """Return a number of days: 3 days, 1.5 days, the same day."""
    if count < 0.1:
        return "at once"
    text = f"{count:.0f}" if count >= 10 or abs(count - round(count)) < 0.05 else f"{count:.1f}"
    return f"{text} day{'' if text == '1' else 's'}"


def figures(**counts: int) -> tuple[Figure, ...]:
    """Return numbers with the nouns that they count: `spec=2` is 2 specs."""
    return tuple(Figure(f"{count:,}", noun if count == 1 else f"{noun}s") for noun, count in counts.items())


def counts_of(step_counts: Mapping[str, int]) -> tuple[Figure, ...]:
    """Return the kinds that happened, in the order of KINDS."""
    return tuple(Figure(f"{step_counts[kind]:,}", kind) for kind in KINDS if step_counts.get(kind))


def package_link(package: str, up: str) -> Link:
    """Return the link to the page of a package."""
    return Link(shown(package), up + page("package", package))


def stack_link(stack: str, up: str) -> Link:
    """Return the link to the page of a stack; specs that no stack builds have none."""
    return Link(shown(stack), up + page("stack", stack)) if stack else Link("no stack")


def stack_text(stack: str) -> str:
    """Return the name of a stack in a sentence."""
    return shown(stack_name(stack), 40)


def stack_in_sentence(stack: str, up: str) -> Link:
    """Return the link to the page of a stack, with its name as a sentence has it."""
    return Link(stack_text(stack), up + page("stack", stack))


def newest_versions(versions: frozenset[str], most: int = 2) -> tuple[str, int]:
    """Return the newest versions in a line, and how many more there are."""
    ordered = sorted_versions(versions)[::-1]
    return ", ".join(shown(version, 24) for version in ordered[:most]), max(0, len(ordered) - most)


def line_plot(name: str, numbers: Sequence[int], revisions: Sequence[int], times: Times) -> Plot | None:
    """Plot one number over the revisions `revisions`; of one revision there is nothing to plot."""
    if len(revisions) < 2:
        return None
    where = plots.clock([times.times[number] for number in revisions], past=PAST)
    moments = [times.moments[number] for number in revisions]
    return Plot(
        curves=(curve(Link(name), numbers, where.places, moments),),
        ticks=where.ticks,
        first=moments[0],
        last=moments[-1],
        columns=("date", "revision", name),
        rows=table(moments, [numbers]),
    )


def curve(name: Link, numbers: Sequence[int], places: Sequence[float], moments: Sequence[DatedRevision]) -> Curve:
    """Draw a number that holds from one revision to the next."""
    top, low = max(numbers), min(numbers)
    change = numbers[-1] - numbers[0]
    peak = moments[numbers.index(top)].day
    return Curve(
        name=name,
        title=f"{name.text}: {number(numbers[0], 'spec')} on {moments[0].day}, {numbers[-1]:,} on {moments[-1].day}; "
        f"at least {low:,}, at most {top:,} (on {peak})",
        line=plots.steps(places, numbers, top),
        area=plots.area(places, numbers, top),
        bars="",
        value=f"{numbers[-1]:,}",
        note=signed(change),
        tone="more" if change > 0 else "fewer" if change < 0 else "",
        top=f"{top:,}",
    )


_MOST_MARKS = 12


def marks_of(stories: Sequence[RevisionStory], places: Sequence[float], times: Times) -> tuple[PlotMark, ...]:
    """Return what happened to the whole tag, where it is on the axis; of very much, the newest."""
    found = []
    for story, place, moment in zip(stories, places, times.moments, strict=True):
        for mark in story.marks:
            letter, word = words().text(mark.kind, "letter"), words().text(mark.kind, "mark")
            tone = severity_of(mark.kind).value
            found.append(
                PlotMark(place, tone, letter, f"{word} {shown(mark.name)}".strip() + f", {moment.calendar_day}")
            )
    return tuple(found[-_MOST_MARKS:])


def signed(number: int) -> str:
    """Return a change with its sign."""
    return f"+{number:,}" if number > 0 else f"\N{MINUS SIGN}{-number:,}" if number else "\N{PLUS-MINUS SIGN}0"


def table(moments: Sequence[DatedRevision], columns: Sequence[Sequence[int]]) -> tuple[tuple[str, ...], ...]:
    """Return plotted numbers as rows, the newest first, and of very many the newest."""
    rows = [
        (moment.day, moment.commit, *(f"{column[number]:,}" for column in columns))
        for number, moment in enumerate(moments)
    ]
    return tuple(rows[::-1][:_MOST_ROWS])
