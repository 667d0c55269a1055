"""Figures and tables as the pages of results have them."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.measuring import Figures


def spread(figures: Figures, form: str) -> str:
    """Say the median, and of several rounds the least, the most, and how many."""
    middle, values = form.format(figures.middle), figures.values
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))} to {form.format(max(values))}, {len(values)})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
