"""Formats that people read: each is made from one Report, once all packages are through."""

from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.causes import Explanation
from cachewatch.core.changesets import Changeset, Outcome
from cachewatch.render.causes import heading_and_causes, markdown_causes
from cachewatch.render.colour import Palette
from cachewatch.render.compared_revisions import tags_named
from cachewatch.render.diff_totals import Wants
from cachewatch.render.report_blocks import tell
from cachewatch.render.text import render_text
from cachewatch.render.text_blocks import Requested, Shown
from cachewatch.report.changes import Report


def read_report(changeset: Changeset, asked: Requested) -> Report:
    """Take all packages of `changeset` and return the report on them."""
    facts = {package: found for taken in changeset.collected() for package, found in taken or ()}
    return replace(report_of(changeset.outcome, asked.wants), facts=facts)


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


class ToldReport(Struct, frozen=True, kw_only=True):
    """Reports on tags that changed alike, and what is said of all of them."""

    reports: tuple[Report, ...]
    shown: Shown
    causes: Sequence[Explanation] | None = None  # why specs were rebuilt, where that was asked for

    @property
    def name(self) -> str:
        """The tags."""
        return tags_named(self.reports)


def told_reports(changesets: Iterable[Changeset], asked: Requested) -> list[ToldReport]:
    """Take all packages of each changeset; of tags that changed alike, the changes are told once."""
    found: dict[Hashable, ToldReport] = {}
    for number, changeset in enumerate(changesets):
        report = read_report(changeset, asked)
        shown = tell(report, asked)
        causes = None if changeset.explain is None else tuple(changeset.explain())
        # Each has its own warnings and causes.
        key = (shown, report.statements, number if report.diagnostics or causes else None)
        known = found.get(key)
        reports = (*known.reports, report) if known else (report,)
        found[key] = ToldReport(reports=reports, shown=shown, causes=causes)
    return list(found.values())


def write_text(changesets: Iterable[Changeset], *, asked: Requested, width: int, palette: Palette) -> Iterator[bytes]:
    """Yield a report on each tag for a terminal."""
    for number, told in enumerate(told_reports(changesets, asked)):
        lines = render_text(told.reports, told.shown, width=width, palette=palette)
        yield ("\n\n" if number else "").encode() + "".join(f"{line}\n" for line in lines).encode()
        if told.causes is not None:
            yield "".join(f"{line}\n" for line in ("", *heading_and_causes(told.causes))).encode()


def write_markdown(changesets: Iterable[Changeset], *, asked: Requested) -> Iterator[bytes]:
    """Yield a report on each tag as Markdown."""
    from cachewatch.render.templates import render  # noqa: PLC0415  Jinja2 is slow to load

    for told in told_reports(changesets, asked):
        yield render("changes.md.j2", tags=told.name, reports=told.reports, shown=told.shown).encode()
        if told.causes is not None:
            yield render("causes.md.j2", causes=markdown_causes(told.causes)).encode()
