"""The geometry of the plots: where on a scale of 0 to 100 something is drawn.

Shapes are drawn in percent of the width that there is, and words are ordinary text beside
them, so that a plot is as readable on a phone as on paper. docs/site.md says why this is
not left to a library.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

_MOST_TICKS = 4
_LAST_TICK = 84.0  # beyond it a mark would touch the one at the end
_STEPS = (1, 2, 7, 14)  # days; beyond that, months
_MONTHS = (1, 2, 3, 6, 12, 24, 60)
_NARROWEST, _WIDEST = 0.4, 3.0


class Tick(Struct, frozen=True):
    """A mark on an axis."""

    at: float
    label: str


class Clock(Struct, frozen=True):
    """Where each revision is on the axis of time, in percent."""

    places: tuple[float, ...]
    ticks: tuple[Tick, ...]


def clock(times: Sequence[datetime | None], *, past: float = 1) -> Clock:
    """Place revisions in time; clocks that run backwards, or are missing, stand still.

    Less than all of the width may be for the `past`: what the last revision brought is seen
    in what is left, however long it has been there.
    """
    seconds: list[float] = []
    for time in times:
        last = seconds[-1] if seconds else 0.0
        seconds.append(last if time is None else max(last, time.timestamp()))
    known = [s for s in seconds if s > 0] or [0.0]
    first, last = known[0], known[-1]
    if last <= first:
        return Clock(tuple(round(past * 100 * n / max(1, len(times) - 1), 2) for n in range(len(times))), ())
    places = tuple(round(past * max(0.0, 100 * (s - first) / (last - first)), 2) for s in seconds)
    ticks = _ticks(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))
    if past < 1:
        scaled = (Tick(round(past * tick.at, 2), tick.label) for tick in ticks)
        ticks = (*(tick for tick in scaled if tick.at <= _LAST_TICK), Tick(100, "latest"))
    return Clock(places, ticks)


def _ticks(first: datetime, last: datetime) -> tuple[Tick, ...]:
    span = (last - first).total_seconds()

    def at(moment: datetime) -> float:
        return round(100 * (moment - first).total_seconds() / span, 2)

    days = span / 86400
    step = next((s for s in _STEPS if days / s <= _MOST_TICKS), None)
    if step is not None:
        day = first.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        found = [day + timedelta(days=n) for n in range(0, int(days) + 1, step)]
        return tuple(Tick(at(d), f"{d.day} {d:%b}") for d in found if d <= last)
    months = next((m for m in _MONTHS if days / 30 / m <= _MOST_TICKS), _MONTHS[-1])
    start = first.year * 12 + first.month  # the month after the first
    starts = (datetime(m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in range(start, start + int(days / 28) + 2))
    chosen = [d for d in starts if d <= last and (d.month - 1) % min(months, 12) == 0]
    return tuple(Tick(at(d), f"{d:%b %Y}") for d in chosen)


def steps(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of a line that holds each value until the next, and the last; 0 is at the bottom (100)."""
    height = [round(100 - 100 * value / max(1, top), 1) for value in values]
    path = f"M{places[0]:g} {height[0]:g}"
    for (x, y), old in zip(list(zip(places, height, strict=True))[1:], height, strict=False):
        path += f"H{x:g}" + (f"V{y:g}" if y != old else "")
    return path if places[-1] == 100 else f"{path}H100"


def area(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of what lies below that line."""
    return f"{steps(places, values, top)}V100H{places[0]:g}Z"


def bars(places: Sequence[float], values: Sequence[int], top: int) -> str:
    """Return the path of one bar for each value; what is there at all is seen."""
    width = min(_WIDEST, max(_NARROWEST, 70 / max(1, len(places))))
    path = ""
    for place, value in zip(places, values, strict=True):
        if value:
            left = max(0.0, min(100 - width, place - width / 2))
            height = max(4.0, 100 * value / max(1, top))
            path += f"M{left:.2f} 100v-{height:.1f}h{width:.2f}v{height:.1f}z"
    return path
