"""The first page: the latest changes, unusual events, new versions, and figures and plots of the tag."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import NamedTuple

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.extensions.site.list_pages_and_search_index import revision_path
from cachewatch.extensions.site.package_histories import (
    NewVersion,
    Revisions,
    RevisionStory,
    TagHistory,
    Tone,
    Totals,
    lost_by,
    shown,
)
from cachewatch.extensions.site.page_parts_and_plots import (
    KINDS,
    Curve,
    Link,
    Plot,
    View,
    bars,
    clock,
    curve,
    figures,
    marks_of,
    package_link,
    plot_of,
    stack_in_sentence,
    stack_link,
)
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.words import names, number

_MOST_LINES = 5
_MOST_VERSIONS = 8
_FEW_SPECS = 10  # smaller stacks often come and go
_LATELY = timedelta(days=28)
_WEEK = timedelta(days=7)
_MANY_UNREFERENCED = 0.1  # of all specs


class CardLine(NamedTuple):
    """One line of a card: a text after an optional link."""

    text: str
    link: Link | None = None
    tone: str = ""


def _card(title: str, lines: Sequence[CardLine], most: int, nothing: str, onward: Link | None = None) -> View:
    """Return a card with at most `most` lines, or with the text `nothing`; `onward` links to more."""
    more = [CardLine(f"and {len(lines) - most:,} more")] if len(lines) > most else []
    return {"title": title, "lines": [*lines[:most], *more], "nothing": nothing, "onward": onward}


def cards(catalogue: SiteContents, totals: Totals) -> tuple[View, ...]:
    """Return the three cards of the first page; unusual events come first if there are any."""
    unusual = unusual_card(catalogue, totals)
    latest, versions = latest_card(catalogue), versions_card(catalogue)
    return (unusual, latest, versions) if unusual["lines"] else (latest, unusual, versions)


def latest_card(catalogue: SiteContents) -> View:
    """Return the card with the newest revision that changed anything in this tag."""
    stories, revisions = catalogue.stories, catalogue.past.revisions
    n = next((n for n in range(len(stories) - 1, 0, -1) if stories[n].facts), 0)
    return _card(
        "Latest revision" if n == len(stories) - 1 else f"Latest change, {revisions[n].calendar_day}",
        [CardLine(fact.text, tone=fact.tone.value) for fact in stories[n].facts],
        _MOST_LINES,
        "Nothing has changed since the first revision.",
        Link("All of this revision", revision_path(revisions[n].revision)) if n else None,
    )


def unusual_card(catalogue: SiteContents, totals: Totals) -> View:
    """Return the card of stacks and packages that changed in an unusual way."""
    fallen, revisions = _fallen(totals), catalogue.past.revisions
    lines = [
        *_stacks(fallen, totals, revisions),
        *_removed(catalogue.past),
        *_lost(catalogue.past, fallen),
        *_unreferenced(catalogue, totals),
    ]
    # It names the day of the newest revision: a page may be read long after it.
    title = f"Unusual on {revisions[-1].calendar_day}" if revisions[-1].time else "Unusual now"
    nothing = "Nothing: every stack has about what it had, and no package was lost in four weeks."
    return _card(title, lines, _MOST_LINES, nothing)


def _fallen(totals: Totals) -> Mapping[str, int]:
    """Return the stacks with less than half of their usual number of specs, and that number (the median)."""
    fallen = {}
    for stack, counts in totals.stacks.items():
        usual = round(median([count for count in counts if count] or [0]))
        if usual >= _FEW_SPECS and 2 * counts[-1] < usual:
            fallen[stack] = usual
    return fallen


def _stacks(fallen: Mapping[str, int], totals: Totals, revisions: Revisions) -> Iterator[CardLine]:
    for stack, usual in sorted(fallen.items()):
        counts = totals.stacks[stack]
        since = max(n for n, count in enumerate(counts) if 2 * count >= usual) + 1
        now = f"has {counts[-1]:,} of {usual:,} specs" if counts[-1] else f"has none of its {usual:,} specs"
        yield CardLine(f"{now} since {revisions[since].calendar_day}", stack_in_sentence(stack, ""), "attention")


def _removed(past: TagHistory) -> Iterator[CardLine]:
    for history in past.packages:
        if not history.is_there and history.steps and _is_lately(past.revisions, history.steps[-1].revision):
            day = past.revisions[history.steps[-1].revision].calendar_day
            yield CardLine(f"was removed on {day}", package_link(history.package, ""), "attention")


def _lost(past: TagHistory, fallen: Container[str]) -> Iterator[CardLine]:
    """Yield a line for each stack that recently lost packages for good, except for stacks in `fallen`."""
    lost: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for history in past.packages:
        if history.is_there:
            for stack, revision in lost_by(history).items():
                if stack not in fallen and _is_lately(past.revisions, revision):
                    lost[stack, revision].append(history.package)
    for (stack, revision), packages in sorted(lost.items(), key=lambda item: (-len(item[1]), item[0])):
        text = f"has no build of {names(packages)} since {past.revisions[revision].calendar_day}"
        yield CardLine(text, stack_in_sentence(stack, ""), "attention")


def _is_lately(revisions: Revisions, revision: int) -> bool:
    then, now = revisions[revision].time, revisions[-1].time
    return then is None or now is None or now - then <= _LATELY


def _unreferenced(catalogue: SiteContents, totals: Totals) -> Iterator[CardLine]:
    count, specs = totals.unreferenced[-1], totals.specs[-1]
    if tag_names.is_mutable(catalogue.past.tag) and count > _MANY_UNREFERENCED * max(1, specs):
        yield CardLine(f"{count:,} of {number(specs, 'spec')} are in no stack any more and may be pruned at any time")


def versions_card(catalogue: SiteContents) -> View:
    """Return the card of packages that were upgraded or are new in the last seven days."""
    lines: list[CardLine] = []
    newest = catalogue.past.revisions[-1]
    for new in _of_last_week(catalogue):
        after = shown(new.after, 40)
        text = f"{shown(new.before, 40)} -> {after} {new.where}" if new.before else f"{after}, new package"
        lines.append(CardLine(text.rstrip(), package_link(new.package, ""), Tone.NEWS.value))
    title = f"New versions in the {f'week to {newest.calendar_day}' if newest.time else 'last week'}"
    return _card(title, lines, _MOST_VERSIONS, "No package has a new version.", Link("All revisions", "revisions.html"))


def _of_last_week(catalogue: SiteContents) -> Sequence[NewVersion]:
    newest = catalogue.past.revisions[-1].time
    versions: dict[str, NewVersion] = {}
    for story, revision in zip(catalogue.stories, catalogue.past.revisions, strict=True):
        if newest is None or revision.time is None or newest - revision.time < _WEEK:
            for one in story.versions:
                first = versions.pop(one.package, one)
                versions[one.package] = NewVersion(one.package, first.before, one.after, one.where)
    return list(reversed(versions.values()))


# The axis of all revisions ends with the newest, whose changes need a little room to be seen.
_PAST = 0.96


def index_page(catalogue: SiteContents, totals: Totals) -> View:
    """Return the values of the first page."""
    past, revisions = catalogue.past, catalogue.past.revisions
    first, last, newest = revisions[0].calendar_day, revisions[-1].calendar_day, revisions[-1].time
    several = f"{number(len(revisions), 'revision')} from {first} to {last}."
    return {
        "tag": shown(past.tag),
        "day": last,
        "published": newest.isoformat() if newest else "",
        "lead": several if len(revisions) > 1 else f"One revision, of {last}.",
        "cards": cards(catalogue, totals),
        "figures": figures(
            package=totals.packages[-1],
            spec=totals.specs[-1],
            stack=sum(1 for counts in totals.stacks.values() if counts[-1]),
            tag=len(catalogue.tags) + 1,
        ),
        "churn": churn_plot(totals, revisions, catalogue.stories),
        "stacks": stacks_plot(totals, revisions, catalogue.stories),
    }


def churn_plot(totals: Totals, revisions: Revisions, stories: Sequence[RevisionStory]) -> Plot | None:
    """Return a plot of the changes of specs by kind, each with its own scale."""
    if len(revisions) < 2:
        return None
    where = clock(revisions, past=_PAST)
    churn = {kind: totals.churn[kind] for kind in KINDS if any(totals.churn.get(kind, ()))}
    curves = []
    for kind, numbers in churn.items():
        top = max(numbers)
        peak = revisions[numbers.index(top)].day
        curves.append(
            Curve(
                name=Link(kind),
                title=f"{kind}: {number(sum(numbers), 'spec')} in all, at most {top:,} in one revision, on {peak}",
                bars=bars(where.places, numbers, top),
                value=f"{sum(numbers):,}",
                tone=kind,
                about=KINDS[kind],
                top=f"{top:,}",
            )
        )
    return plot_of(where, revisions, curves, churn, marks_of(stories, where.places, revisions))


def stacks_plot(totals: Totals, revisions: Revisions, stories: Sequence[RevisionStory]) -> Plot | None:
    """Return a plot of the number of specs in all stacks together and in each, the largest first."""
    where = clock(revisions, past=_PAST)
    ordered = sorted(totals.stacks, key=lambda stack: (-totals.stacks[stack][-1], stack))
    if not ordered:
        return None
    curves = [
        curve(Link("all together"), totals.specs, where.places, revisions),
        *(curve(stack_link(s, ""), totals.stacks[s], where.places, revisions) for s in ordered),
    ]
    columns = {"all together": totals.specs, **{shown(stack, 40): totals.stacks[stack] for stack in ordered}}
    return plot_of(where, revisions, curves, columns, marks_of(stories, where.places, revisions))
