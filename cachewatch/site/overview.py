"""The first page: what is new, what is wrong, and the figures of a tag."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from cachewatch.history import Lag, Totals, lags_of
from cachewatch.render.statement_phrases import number
from cachewatch.site import plots
from cachewatch.site.cards import cards
from cachewatch.site.page_names import shown
from cachewatch.site.page_values import Curve, IndexPage, LagRow, Link, Plot
from cachewatch.site.plots import Tick
from cachewatch.site.read_history import Catalogue
from cachewatch.site.revision_stories import Story
from cachewatch.site.shared_phrases import KINDS, Times, calendar_day, curve, days, figures, marks_of, stack_link, table

# The axis of all revisions ends with the newest; what it brought takes a little room to be seen.
_PAST = 0.96


def index_page(catalogue: Catalogue, totals: Totals, times: Times) -> IndexPage:
    """Return the figures of the tag, and what happened last."""
    past = catalogue.past
    lags, ticks = lag_rows(lags_of(past))
    newest = times.times[-1]
    return IndexPage(
        tag=shown(past.tag),
        day=calendar_day(newest),
        published=newest.isoformat() if newest else "",
        lead=_lead(times),
        cards=cards(catalogue, totals, times),
        figures=figures(
            package=totals.packages[-1],
            spec=totals.specs[-1],
            stack=sum(1 for counts in totals.stacks.values() if counts[-1]),
            tag=len(catalogue.tags) + 1,
        ),
        churn=churn_plot(totals, times, catalogue.stories),
        stacks=stacks_plot(totals, times, catalogue.stories),
        lags=lags,
        lag_ticks=ticks,
    )


def _lead(times: Times) -> str:
    first, last = times.moments[0].calendar_day, times.moments[-1].calendar_day
    if len(times.moments) == 1:
        return f"One revision, of {last}."
    return f"{number(len(times.moments), 'revision')} from {first} to {last}."


def churn_plot(totals: Totals, times: Times, stories: Sequence[Story]) -> Plot | None:
    """Plot what became of specs, kind by kind, each on a scale of its own."""
    if len(times.moments) < 2:
        return None
    where = plots.clock(times.times, past=_PAST)
    kinds = [kind for kind in KINDS if any(totals.churn.get(kind, ()))]
    return Plot(
        curves=tuple(_churn(kind, totals.churn[kind], where.places, times) for kind in kinds),
        ticks=where.ticks,
        first=times.moments[0],
        last=times.moments[-1],
        columns=("date", "revision", *kinds),
        rows=table(times.moments, [totals.churn[kind] for kind in kinds]),
        marks=marks_of(stories, where.places, times),
    )


def _churn(kind: str, numbers: Sequence[int], places: Sequence[float], times: Times) -> Curve:
    top = max(numbers)
    peak = times.moments[numbers.index(top)].day
    return Curve(
        name=Link(kind),
        title=f"{kind}: {number(sum(numbers), 'spec')} in all, at most {top:,} in one revision, on {peak}",
        line="",
        area="",
        bars=plots.bars(places, numbers, top),
        value=f"{sum(numbers):,}",
        note="",
        tone=kind,
        about=KINDS[kind],
        top=f"{top:,}",
    )


def stacks_plot(totals: Totals, times: Times, stories: Sequence[Story]) -> Plot | None:
    """Plot the specs of all stacks together and of each, the largest first."""
    where = plots.clock(times.times, past=_PAST)
    ordered = sorted(totals.stacks, key=lambda stack: (-totals.stacks[stack][-1], stack))
    if not ordered:
        return None
    return Plot(
        curves=(
            curve(Link("all together"), totals.specs, where.places, times.moments),
            *(curve(stack_link(s, ""), totals.stacks[s], where.places, times.moments) for s in ordered),
        ),
        ticks=where.ticks,
        first=times.moments[0],
        last=times.moments[-1],
        columns=("date", "revision", "all together", *(shown(stack, 40) for stack in ordered)),
        rows=table(times.moments, [totals.specs, *(totals.stacks[stack] for stack in ordered)]),
        marks=marks_of(stories, where.places, times),
    )


def lag_rows(lags: Iterable[Lag]) -> tuple[tuple[LagRow, ...], tuple[Tick, ...]]:
    """Sum up how late versions come to each stack, and return the axis as well."""
    by_stack: defaultdict[str, list[float]] = defaultdict(list)
    for lag in lags:
        by_stack[lag.stack].append(lag.days)
    spread = {stack: (median(found), _nine_tenths(found)) for stack, found in by_stack.items()}
    top = max((until for _, until in spread.values()), default=0.0) or 1.0
    rows = [
        LagRow(
            stack=stack_link(stack, ""),
            arrivals=len(by_stack[stack]),
            median=days(middle),
            most=days(until),
            at=round(100 * middle / top, 2),
            until=round(100 * until / top, 2),
            title=f"{shown(stack)}: {number(len(by_stack[stack]), 'version')}; after the first stack had them: half of them "
            f"{_within(middle)}, nine tenths {_within(until)}",
        )
        for stack, (middle, until) in sorted(spread.items(), key=lambda item: (item[1], item[0]))
    ]
    return tuple(rows), tuple(Tick(100.0 * n / 4, days(top * n / 4) if n else "0") for n in range(0, 5, 2))


def _within(count: float) -> str:
    return f"within {days(count)}" if days(count)[0].isdigit() else days(count)


def _nine_tenths(found: Sequence[float]) -> float:
    return quantiles(found, n=10, method="inclusive")[8] if len(found) > 1 else found[0]
