"""Formats that people read: each is made from one Report, once all packages are through."""

from collections.abc import Iterable, Iterator

from cachewatch.core.changesets import Changeset, Outcome
from cachewatch.render.causes import heading_and_causes, markdown_causes
from cachewatch.render.colour import Palette
from cachewatch.render.diff_totals import Wants
from cachewatch.render.report_blocks import tell
from cachewatch.render.text import render_text
from cachewatch.render.text_blocks import Requested
from cachewatch.report.changes import Report


def read_report(changeset: Changeset, asked: Requested) -> Report:
    """Take all packages of `changeset` and return the report on them."""
    for _ in changeset.collected():
        pass
    return report_of(changeset.outcome, asked.wants)


def report_of(outcome: Outcome, wants: Wants) -> Report:
    """Return what people read of a comparison of which all packages are through."""
    return Report(
        before=outcome.before,
        after=outcome.after,
        revisions_between=outcome.revisions_between,
        packages=outcome.packages,
        specs=outcome.tally.specs,
        events=tuple(event for event in outcome.events if wants({event.kind})),
        diagnostics=outcome.diagnostics,
        statements=outcome.statements,
        is_part=outcome.tally.selected is not None,
    )


def write_text(changesets: Iterable[Changeset], *, asked: Requested, width: int, palette: Palette) -> Iterator[bytes]:
    """Yield a report on each tag for a terminal."""
    for number, changeset in enumerate(changesets):
        report = read_report(changeset, asked)
        lines = render_text(report, tell(report, asked), width=width, palette=palette)
        yield ("\n\n" if number else "").encode() + "".join(f"{line}\n" for line in lines).encode()
        if changeset.explain is not None:
            yield "".join(f"{line}\n" for line in ("", *heading_and_causes(changeset.explain()))).encode()


def write_markdown(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield a report on each tag as Markdown."""
    from cachewatch.render.templates import render  # noqa: PLC0415  Jinja2 is slow to load

    for changeset in changesets:
        report = read_report(changeset, asked)
        yield render("changes.md.j2", report=report, shown=tell(report, asked)).encode()
        if changeset.explain is not None:
            yield render("causes.md.j2", causes=markdown_causes(changeset.explain())).encode()
