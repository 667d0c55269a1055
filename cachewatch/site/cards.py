"""What comes first on the first page: what is new, what is unusual, and which versions are new."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import median

from cachewatch.core import tag_names
from cachewatch.history import Totals, lost_by
from cachewatch.render.statement_phrases import names, number
from cachewatch.site.page_names import shown
from cachewatch.site.page_values import Card, CardLine, Link
from cachewatch.site.read_history import Catalogue
from cachewatch.site.revision_stories import NewVersion, Tone
from cachewatch.site.revisions import revision_path
from cachewatch.site.shared_phrases import Times, calendar_day, package_link, stack_in_sentence

_MOST_LINES = 5
_MOST_VERSIONS = 8
_FEW_SPECS = 10  # stacks that never had more come and go
_LATELY = timedelta(days=28)
_WEEK = timedelta(days=7)
_MANY_UNREFERENCED = 0.1  # of all specs


def cards(catalogue: Catalogue, totals: Totals, times: Times) -> tuple[Card, ...]:
    """Return the cards: what is unusual first, unless nothing is; then the news."""
    unusual = unusual_card(catalogue, totals, times)
    latest, versions = latest_card(catalogue, times), versions_card(catalogue, times)
    return (unusual, latest, versions) if unusual.lines else (latest, unusual, versions)


def latest_card(catalogue: Catalogue, times: Times) -> Card:
    """Say what the newest revision did that changed anything in this tag."""
    stories = catalogue.stories
    number_of = next((n for n in range(len(stories) - 1, 0, -1) if stories[n].facts), 0)
    facts = stories[number_of].facts
    lines = [CardLine(fact.text, tone=fact.tone.value) for fact in facts[:_MOST_LINES]]
    if len(facts) > _MOST_LINES:
        lines.append(CardLine(f"and {len(facts) - _MOST_LINES} more"))
    is_latest = number_of == len(stories) - 1
    return Card(
        title="Latest revision" if is_latest else f"Latest change, {calendar_day(times.times[number_of])}",
        lines=tuple(lines),
        nothing="Nothing has changed since the first revision.",
        onward=Link("All of this revision", revision_path(catalogue.past.revisions[number_of][0]))
        if number_of
        else None,
    )


def unusual_card(catalogue: Catalogue, totals: Totals, times: Times) -> Card:
    """Say what is not as it was: by change, not by size."""
    fallen = _fallen(totals)
    lines = [
        *_stacks(fallen, totals, times),
        *_removed(catalogue, times),
        *_lost(catalogue, fallen, times),
        *_unreferenced(catalogue, totals),
    ]
    shown_lines = lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        shown_lines.append(CardLine(f"and {len(lines) - _MOST_LINES} more"))
    return Card(
        title=f"Unusual {_on_the_day(times)}",
        lines=tuple(shown_lines),
        nothing="Nothing: every stack has about what it had, and no package was lost in four weeks.",
    )


def _fallen(totals: Totals) -> Mapping[str, int]:
    """Return the stacks that have less than half of what they had most of the time, with how much that was."""
    found = {}
    for stack, counts in totals.stacks.items():
        usual = round(median([count for count in counts if count] or [0]))
        if usual >= _FEW_SPECS and 2 * counts[-1] < usual:
            found[stack] = usual
    return found


def _stacks(fallen: Mapping[str, int], totals: Totals, times: Times) -> Iterator[CardLine]:
    for stack, usual in sorted(fallen.items()):
        counts = totals.stacks[stack]
        since = max(n for n, count in enumerate(counts) if 2 * count >= usual) + 1
        now = f"has {counts[-1]:,} of {usual:,} specs" if counts[-1] else f"has none of its {usual:,} specs"
        yield CardLine(f"{now} since {calendar_day(times.times[since])}", stack_in_sentence(stack, ""), "attention")


def _removed(catalogue: Catalogue, times: Times) -> Iterator[CardLine]:
    for history in catalogue.past.packages:
        if not history.is_there and history.steps and _is_lately(times, history.steps[-1].revision):
            day = calendar_day(times.times[history.steps[-1].revision])
            yield CardLine(f"was removed on {day}", package_link(history.package, ""), "attention")


def _lost(catalogue: Catalogue, fallen: Container[str], times: Times) -> Iterator[CardLine]:
    """Yield the packages that a stack lost lately and has not got back, by stack, unless nearly all of it went."""
    lost: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for history in catalogue.past.packages:
        if history.is_there:
            for stack, revision in lost_by(history).items():
                if stack not in fallen and _is_lately(times, revision):
                    lost[stack, revision].append(history.package)
    for (stack, revision), packages in sorted(lost.items(), key=lambda item: (-len(item[1]), item[0])):
        text = f"has no build of {names(packages)} since {calendar_day(times.times[revision])}"
        yield CardLine(text, stack_in_sentence(stack, ""), "attention")


def _is_lately(times: Times, revision: int) -> bool:
    then, now = times.times[revision], times.times[-1]
    return then is None or now is None or now - then <= _LATELY


def _unreferenced(catalogue: Catalogue, totals: Totals) -> Iterator[CardLine]:
    count, specs = totals.unreferenced[-1], totals.specs[-1]
    if tag_names.is_mutable(catalogue.past.tag) and count > _MANY_UNREFERENCED * max(1, specs):
        yield CardLine(f"{count:,} of {number(specs, 'spec')} are in no stack any more and go at the next prune")


def versions_card(catalogue: Catalogue, times: Times) -> Card:
    """Name the packages that were upgraded or are new in the last seven days."""
    found = _of_last_week(catalogue, times)
    lines = [_version_line(one) for one in found[:_MOST_VERSIONS]]
    if len(found) > _MOST_VERSIONS:
        lines.append(CardLine(f"and {len(found) - _MOST_VERSIONS:,} more"))
    return Card(
        title=f"New versions {_in_the_week(times)}",
        lines=tuple(lines),
        nothing="No package has a new version.",
        onward=Link("All revisions", "revisions.html"),
    )


def _of_last_week(catalogue: Catalogue, times: Times) -> Sequence[NewVersion]:
    newest = times.times[-1]
    found: dict[str, NewVersion] = {}
    for story, time in zip(catalogue.stories, times.times, strict=True):
        if newest is None or time is None or newest - time < _WEEK:
            for one in story.versions:
                first = found.pop(one.package, one)
                found[one.package] = NewVersion(one.package, first.before, one.after, one.where)
    return list(reversed(found.values()))


def _on_the_day(times: Times) -> str:
    """Name the day of the newest revision: a page may be read long after it."""
    return f"on {calendar_day(times.times[-1])}" if times.times[-1] else "now"


def _in_the_week(times: Times) -> str:
    return f"in the week to {calendar_day(times.times[-1])}" if times.times[-1] else "in the last week"


def _version_line(one: NewVersion) -> CardLine:
    after = shown(one.after, 40)
    text = f"{shown(one.before, 40)} -> {after} {one.where}" if one.before else f"{after}, new package"
    return CardLine(text.rstrip(), package_link(one.package, ""), Tone.NEWS.value)
