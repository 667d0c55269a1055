"""Formats that people read: both are made from one Report, once all packages are through."""

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

from cachewatch.changesets import Changeset
from cachewatch.model import Kind, PackageChange
from cachewatch.render.colour import Palette
from cachewatch.render.text import render_text
from cachewatch.report import Report
from cachewatch.report.board import Board

Wants = Callable[[Set[Kind]], bool]


class BoardBody:
    """The lines of a report, collected."""

    def __init__(self, most: int, wants: Wants) -> None:
        self._board = make_board(most, wants)

    def add(self, change: PackageChange) -> None:
        """Take the lines of one package."""
        self._board.add(change)

    def take(self) -> Any:
        """Hand over the lines."""
        return self._board.take()


def make_board(most: int, wants: Wants) -> Board:
    """Return a board that keeps `most` lines a section, of the kinds that were asked for."""
    return Board(most, lambda row: wants(row.kinds))


def read_report(changeset: Changeset, most: int, wants: Wants) -> Report:
    """Take all packages of `changeset` and return the report on them."""
    board = make_board(most, wants)
    for body in changeset.bodies():
        board.join(body)
    outcome = changeset.outcome
    return Report(
        before=outcome.before,
        after=outcome.after,
        revisions_between=outcome.revisions_between,
        packages=outcome.packages,
        specs=outcome.tally.specs,
        events=tuple(event for event in outcome.events.events if wants({event.kind})),
        sections=tuple(board.sections(outcome.events.explains)),
        faults=outcome.faults,
    )


def write_text(
    changesets: Iterable[Changeset], *, most: int, wants: Wants, width: int, palette: Palette
) -> Iterator[bytes]:
    """Yield a report on each tag for a terminal."""
    for number, changeset in enumerate(changesets):
        report = read_report(changeset, most, wants)
        lines = render_text(report, width=width, palette=palette)
        yield ("\n\n" if number else "").encode() + "".join(f"{line}\n" for line in lines).encode()


def write_markdown(changesets: Iterable[Changeset], *, most: int, wants: Wants) -> Iterator[bytes]:
    """Yield a report on each tag as Markdown."""
    from cachewatch.render.templates import render  # noqa: PLC0415  Jinja2 is slow to load

    for changeset in changesets:
        report = read_report(changeset, most, wants)
        yield render("changes.md.j2", report=report).encode()
