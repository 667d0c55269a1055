"""The first page: the figures of a tag, and what happened last."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from cachewatch.core import tag_names
from cachewatch.history import Lag, Totals, lags_of
from cachewatch.render.statement_phrases import number
from cachewatch.site import plots
from cachewatch.site.archive import ArchivedDigest
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import Curve, DigestRow, IndexPage, LagRow, Link, Plot
from cachewatch.site.plots import Tick
from cachewatch.site.read_history import Catalogue
from cachewatch.site.revisions import happenings
from cachewatch.site.shared_phrases import KINDS, Times, curve, days, figures, stack_link, table

_MOST_ON_INDEX = 6
# The axis of all revisions ends with the newest; what it brought takes a little room to be seen.
_PAST = 0.96


def index_page(catalogue: Catalogue, totals: Totals, times: Times, digests: Sequence[ArchivedDigest]) -> IndexPage:
    """Return the figures of the tag, and what happened last."""
    past = catalogue.past
    happened = happenings(past, totals, times, most_named=6)
    lags, ticks = lag_rows(lags_of(past))
    return IndexPage(
        tag=shown(past.tag),
        lead=_lead(times),
        unreferenced=_unreferenced(totals.unreferenced[-1]) if tag_names.is_mutable(past.tag) else "",
        figures=figures(
            package=totals.packages[-1],
            spec=totals.specs[-1],
            stack=sum(1 for counts in totals.stacks.values() if counts[-1]),
            tag=len(catalogue.tags) + 1,
        ),
        digests=tuple(
            DigestRow(
                Link(shown(digest.title, 160), page("digest", digest.key)),
                shown(digest.subscription),
                shown(digest.period),
                digest.created.date().isoformat(),
            )
            for digest in digests
        ),
        feeds=tuple(
            Link(shown(name), feed) for name, feed in sorted({(d.subscription, d.feed) for d in digests if d.feed})
        ),
        churn=churn_plot(totals, times),
        stacks=stacks_plot(totals, times),
        lags=lags,
        lag_ticks=ticks,
        happenings=happened[:_MOST_ON_INDEX],
        more_happenings=max(0, len(happened) - _MOST_ON_INDEX),
    )


def _lead(times: Times) -> str:
    first, last = times.moments[0].day, times.moments[-1].day
    if len(times.moments) == 1:
        return f"One revision, of {last}."
    return f"{number(len(times.moments), 'revision')} from {first} to {last}."


def _unreferenced(count: int) -> str:
    if not count:
        return ""
    verb, it = ("is", "it") if count == 1 else ("are", "them")
    return f"{number(count, 'spec')} {verb} unreferenced: no stack builds {it} any more, and the next prune takes {it}."


def churn_plot(totals: Totals, times: Times) -> Plot | None:
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
        note=f"at most {top:,}",
        tone=kind,
        about=KINDS[kind],
    )


def stacks_plot(totals: Totals, times: Times) -> Plot | None:
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
            title=f"{shown(stack)}: {number(len(by_stack[stack]), 'version')}, half of them within {days(middle)} "
            f"of the first stack, nine tenths within {days(until)}",
        )
        for stack, (middle, until) in sorted(spread.items(), key=lambda item: (item[1], item[0]))
    ]
    return tuple(rows), tuple(Tick(100.0 * n / 4, days(top * n / 4) if n else "0") for n in range(0, 5, 2))


def _nine_tenths(found: Sequence[float]) -> float:
    return quantiles(found, n=10, method="inclusive")[8] if len(found) > 1 else found[0]
