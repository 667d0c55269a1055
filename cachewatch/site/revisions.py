"""The list of revisions, and the page of each: what it did, in the statements of every other report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cachewatch.core.untrusted_text import safe_name
from cachewatch.history import TagHistory, Totals
from cachewatch.render.statement_phrases import number
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import Link, RevisionPage, RevisionRow, RevisionSection
from cachewatch.site.revision_stories import Section, Story
from cachewatch.site.shared_phrases import Times

_MOST_FACTS = 6
_UP = "../"

# Addresses by name as statements have it.
Addresses = Mapping[str, str]


def revision_path(commit: str) -> str:
    """Return the path of the page about a revision."""
    return page("revision", commit[:12])


def revision_list(past: TagHistory, stories: Sequence[Story], totals: Totals, times: Times) -> tuple[RevisionRow, ...]:
    """Tell what each revision did, the newest first."""
    return tuple(
        RevisionRow(
            moment=times.moments[n],
            address=revision_path(past.revisions[n][0]) if stories[n].facts else "",
            facts=stories[n].facts[:_MOST_FACTS],
            more=max(0, len(stories[n].facts) - _MOST_FACTS),
            size=number(totals.specs[n], "spec"),
        )
        for n in range(len(stories) - 1, 0, -1)
    )


def revision_pages(past: TagHistory, stories: Sequence[Story], times: Times) -> Iterator[tuple[str, RevisionPage]]:
    """Yield the path and the page of each revision that did anything."""
    told = [n for n, story in enumerate(stories) if story.facts]
    packages = {safe_name(history.package): _UP + page("package", history.package) for history in past.packages}
    for place, n in enumerate(told):
        story = stories[n]
        yield (
            revision_path(past.revisions[n][0]),
            RevisionPage(
                tag=shown(past.tag),
                commit=past.revisions[n][0],
                moment=times.moments[n],
                before=times.moments[n - 1],
                earlier=_neighbour(past, times, told[place - 1]) if place else None,
                later=_neighbour(past, times, told[place + 1]) if place + 1 < len(told) else None,
                acts=story.acts,
                news=story.news,
                total=story.total,
                sections=tuple(_section(section, packages) for section in story.sections),
            ),
        )


def _neighbour(past: TagHistory, times: Times, n: int) -> Link:
    return Link(times.moments[n].day or times.moments[n].commit, _UP + revision_path(past.revisions[n][0]))


def _section(section: Section, packages: Addresses) -> RevisionSection:
    named, _, more = section.named.partition(" and ")
    return RevisionSection(
        tone=section.tone.value,
        title=section.title,
        name=section.name,
        total=section.total,
        notes=section.notes,
        named=tuple(_links(named.split(", ") if named else (), packages)),
        more_named=f"and {more}" if more else "",
        rows=tuple(
            (_link(entry.name, {} if section.is_by_place else packages), entry.fact, entry.specs, entry.where)
            for entry in section.entries
        ),
        more=section.more,
    )


def _links(names: Iterable[str], packages: Addresses) -> Iterator[Link]:
    return (_link(name, packages) for name in names)


def _link(name: str, packages: Addresses) -> Link:
    return Link(shown(name), packages.get(name, ""))


def named(found: Iterable[tuple[str, str]], up: str) -> Iterable[Link]:
    """Return links to packages that name a version of each."""
    for package, version in found:
        yield Link(f"{shown(package)} {shown(version, 24)}", up + page("package", package))
