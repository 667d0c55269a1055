"""The first page: the latest changes, unusual events, new versions, and figures and plots of the tag."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import NamedTuple

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.extensions.site import page_parts_and_plots as parts
from cachewatch.extensions.site.list_pages_and_search_index import revision_path
from cachewatch.extensions.site.package_histories import (
    ATTENTION,
    KINDS,
    NEWS,
    NewVersion,
    Revisions,
    RevisionStory,
    TagHistory,
    Totals,
    lost_by,
    page,
    shown,
)
from cachewatch.extensions.site.page_parts_and_plots import Link, View
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.words import names, number, stacks_named

_FEW_SPECS = 10  # smaller stacks often come and go
_LATELY = timedelta(days=28)
_MANY_UNREFERENCED = 0.1  # of all specs
# The axis of all revisions ends with the newest, whose changes need a little room to be seen.
_PAST = 0.96


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
        [CardLine(fact.text, tone=fact.tone) for fact in stories[n].facts],
        most=5,
        nothing="Nothing has changed since the first revision.",
        onward=Link("All of this revision", revision_path(revisions[n].revision)) if n else None,
    )


def unusual_card(catalogue: SiteContents, totals: Totals) -> View:
    """Return the card of stacks and packages that changed in an unusual way."""
    newest = catalogue.past.revisions[-1]
    # It names the day of the newest revision: a page may be read long after it.
    title = f"Unusual on {newest.calendar_day}" if newest.time else "Unusual now"
    nothing = "Nothing: every stack has about what it had, and no package lost in the last four weeks is still missing."
    return _card(title, list(_unusual(catalogue.past, totals)), most=5, nothing=nothing)


def _fallen(totals: Totals) -> Mapping[str, tuple[str, int]]:
    """Return the stacks with less than half of their usual number of specs (the median), in words and since when."""
    fallen = {}
    for stack, counts in sorted(totals.stacks.items()):
        usual = round(median([count for count in counts if count] or [0]))
        if usual >= _FEW_SPECS and 2 * counts[-1] < usual:
            since = max(n for n, count in enumerate(counts) if 2 * count >= usual) + 1
            has = f"has {counts[-1]:,} of" if counts[-1] else "has none of its"
            fallen[stack] = f"{has} {usual:,} specs", since
    return fallen


def _unusual(past: TagHistory, totals: Totals) -> Iterator[CardLine]:
    """Yield lines for stacks that lost most specs, removed packages, packages that stacks lost, and unreferenced specs."""
    days = [revision.calendar_day for revision in past.revisions]

    def of_stack(stack: str, text: str, revision: int) -> CardLine:
        link = Link(parts.stack_text(stack), page("stack", stack))
        return CardLine(f"{text} since {days[revision]}", link, ATTENTION)

    fallen = _fallen(totals)
    for stack, (text, since) in fallen.items():
        yield of_stack(stack, text, since)
    now = past.revisions[-1].time
    lately = {n for n, each in enumerate(past.revisions) if not each.time or not now or now - each.time <= _LATELY}
    lost: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for history in past.packages:
        last = history.steps[-1].revision if history.steps else -1
        if history.is_there:
            for stack, revision in lost_by(history).items():
                if stack not in fallen and revision in lately:
                    lost[stack, revision].append(history.package)
        elif last in lately:
            yield CardLine(f"was removed on {days[last]}", parts.package_link(history.package, ""), ATTENTION)
    for (stack, revision), packages in sorted(lost.items(), key=lambda item: (-len(item[1]), item[0])):
        yield of_stack(stack, f"has no build of {names(packages)}", revision)
    count, specs = totals.unreferenced[-1], totals.specs[-1]
    if tag_names.is_mutable(past.tag) and count > _MANY_UNREFERENCED * max(1, specs):
        yield CardLine(f"{count:,} of {number(specs, 'spec')} are in no stack any more and may be pruned at any time")


def versions_card(catalogue: SiteContents) -> View:
    """Return the card of versions and packages that are new in the last seven days, the newest first."""
    revisions, newest = catalogue.past.revisions, catalogue.past.revisions[-1]
    firsts: defaultdict[str, defaultdict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for package, stay in ((one.package, stay) for one in catalogue.past.packages for stay in one.stays):
        if stay.is_first and stay.is_dated:
            firsts[stay.since.revision][package, stay.version].append(stay.stack)
    versions: dict[tuple[str, str], NewVersion] = {}  # by package, and by version where that is no upgrade
    for story, revision in zip(catalogue.stories, revisions, strict=True):
        if newest.time is None or revision.time is None or newest.time - revision.time < timedelta(days=7):
            for one in story.versions:
                first = versions.pop((one.package, ""), one)
                versions[one.package, ""] = NewVersion(one.package, first.before, one.after, one.where)
            told = {(one.package, version) for one in story.versions for version in one.after.split(", ")}
            for key in sorted(firsts[revision.revision].keys() - told):
                versions[key] = NewVersion(key[0], "", key[1], f"in {stacks_named(firsts[revision.revision][key])}")
    # When packages that came back had been removed; a removal that ends a history is a later one.
    removed = {one.package: step.revision for one in catalogue.past.packages for step in one.steps[:-1] if step.is_gone}
    lines = []
    for (package, version), new in reversed(versions.items()):
        back = package in removed and f"back after it was removed on {revisions[removed[package]].calendar_day}"
        after = shown(new.after, 40)
        came = f"{shown(new.before, 40)} -> " if new.before else ""
        text = f"{came}{after} {new.where}" if came or version else f"{after}, {back or 'new package'}"
        lines.append(CardLine(text.rstrip(), parts.package_link(new.package, ""), NEWS))
    title = f"New versions in the {f'week to {newest.calendar_day}' if newest.time else 'last week'}"
    onward = Link("All revisions", "revisions.html")
    return _card(title, lines, most=8, nothing="No package has a new version.", onward=onward)


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
        "figures": parts.figures(
            package=totals.packages[-1],
            spec=totals.specs[-1],
            stack=sum(1 for counts in totals.stacks.values() if counts[-1]),
            tag=len(catalogue.tags) + 1,
        ),
        "churn": churn_plot(totals, revisions, catalogue.stories),
        "stacks": stacks_plot(totals, revisions, catalogue.stories),
    }


def churn_plot(totals: Totals, revisions: Revisions, stories: Sequence[RevisionStory]) -> View | None:
    """Return a plot of the changes of specs by kind, each with its own scale."""
    if len(revisions) < 2:
        return None
    where = parts.clock(revisions, past=_PAST)
    churn = {kind: totals.churn[kind] for kind in KINDS if any(totals.churn.get(kind, ()))}
    curves = []
    for kind, numbers in churn.items():
        top, total = max(numbers), sum(numbers)
        peak = revisions[numbers.index(top)].day
        curves.append(
            {
                "name": Link(kind),
                "title": f"{kind}: {number(total, 'spec')} in all, at most {top:,} in one revision, on {peak}",
                "bars": parts.bars(where.places, numbers, top),
                "value": f"{total:,}",
                "note": "",
                "tone": kind,
                "about": KINDS[kind],
                "top": f"{top:,}",
            }
        )
    return parts.plot_of(where, revisions, curves, churn, parts.marks_of(stories, where.places, revisions))


def stacks_plot(totals: Totals, revisions: Revisions, stories: Sequence[RevisionStory]) -> View | None:
    """Return a plot of the number of specs in all stacks together and in each, the largest first."""
    where = parts.clock(revisions, past=_PAST)
    ordered = sorted(totals.stacks, key=lambda stack: (-totals.stacks[stack][-1], stack))
    if not ordered:
        return None
    curves = [
        parts.curve(Link("all together"), totals.specs, where.places, revisions),
        *(parts.curve(parts.stack_link(s, ""), totals.stacks[s], where.places, revisions) for s in ordered),
    ]
    columns = {"all together": totals.specs, **{shown(stack, 40): totals.stacks[stack] for stack in ordered}}
    return parts.plot_of(where, revisions, curves, columns, parts.marks_of(stories, where.places, revisions))
