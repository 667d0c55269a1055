"""The pages with lists of revisions, packages, stacks and tags, and the files of the search index."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import asdict

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.versions_spellings_targets import sorted_versions
from cachewatch.extensions.site.package_histories import (
    PackageHistory,
    Present,
    RevisionStory,
    TagHistory,
    Totals,
    file_name,
    page,
    shown,
    tone_of,
)
from cachewatch.extensions.site.page_parts_and_plots import Link, View, cut, figures, happening, package_row, specs_plot
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.diff_blocks_and_colours import Block
from cachewatch.report.words import number

_MOST_FACTS = 6
_UP = "../"
_LETTERS = 7  # of a hash in the search index; the first one is in the name of the file
_HASH_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def revision_path(commit: str) -> str:
    """Return the path of the page about a revision, relative to the site."""
    return page("revision", commit[:12])


def revision_list(past: TagHistory, stories: Sequence[RevisionStory], totals: Totals) -> list[View]:
    """Return a row with the changes of each revision, newest first."""
    return [
        {
            "moment": past.revisions[n],
            "address": revision_path(past.revisions[n].revision) if stories[n].facts else "",
            "facts": stories[n].facts[:_MOST_FACTS],
            "more": max(0, len(stories[n].facts) - _MOST_FACTS),
            "size": number(totals.specs[n], "spec"),
        }
        for n in range(len(stories) - 1, 0, -1)
    ]


def revision_pages(past: TagHistory, stories: Sequence[RevisionStory]) -> Iterator[tuple[str, View]]:
    """Yield path and values of the page of each revision that changed anything."""
    packages = {safe_name(history.package): _UP + page("package", history.package) for history in past.packages}

    def neighbour(n: int) -> Link:
        found = past.revisions[n]
        return Link(found.day or found.commit, _UP + revision_path(found.revision))

    numbers = [n for n, story in enumerate(stories) if story.facts]
    for place, n in enumerate(numbers):
        view = {
            "tag": shown(past.tag),
            "commit": past.revisions[n].revision,
            "moment": past.revisions[n],
            "before": past.revisions[n - 1],
            "earlier": neighbour(numbers[place - 1]) if place else None,
            "later": neighbour(numbers[place + 1]) if place + 1 < len(numbers) else None,
            "total": stories[n].total,
            "sections": [_section(section, packages) for section in stories[n].sections],
        }
        yield revision_path(past.revisions[n].revision), view


def _section(section: Block, packages: Mapping[str, str]) -> View:
    """Return the values of a section of a revision's page; `packages` maps displayed names to addresses."""
    named, _, more = section.named.partition(" and ")
    linked = {} if section.is_by_place else packages
    return asdict(section) | {
        "tone": tone_of(section.kind, section.severity),
        "named": [Link(shown(name), packages.get(name, "")) for name in (named.split(", ") if named else ())],
        "more_named": f"and {more}" if more else "",
        "rows": [(Link(shown(e.name), linked.get(e.name, "")), e.fact, e.specs, e.where) for e in section.entries],
    }


def package_rows(catalogue: SiteContents) -> list[View]:
    """Return a row for each package that was ever in any tag, by name."""
    return [
        package_row(package, Present(), note="in other tags")
        if history is None
        else package_row(
            package,
            history.present,
            day=catalogue.past.revisions[history.changed].day,
            note="" if history.is_there else "gone",
        )
        for package, history in sorted(packages_of(catalogue).items())
    ]


def packages_of(catalogue: SiteContents) -> dict[str, PackageHistory | None]:
    """Return the histories of all packages by name; None for packages that are only in other tags."""
    elsewhere = dict.fromkeys(package for _, packages in catalogue.tags.values() for package in packages)
    return {**elsewhere, **{history.package: history for history in catalogue.past.packages}}


def index_file(packages: Sequence[str], catalogue: SiteContents, totals: Totals) -> bytes:
    """Return the script with all searchable data but hashes; it numbers `packages` in this order."""
    presents = presents_of(catalogue)

    def numbered(names: Iterable[str]) -> Mapping[str, int]:
        return {name: n for n, name in enumerate(sorted(set(names)))}

    stacks = numbered([*totals.stacks, *(stack for present in presents.values() for stack in present.stacks)])
    targets = numbered(target for present in presents.values() for target in present.targets)
    compilers = numbered(compiler for present in presents.values() for compiler in present.compilers)
    rows = []
    for package in packages:
        present = presents.get(package, Present())
        versions = sorted_versions(present.versions)[::-1][:12]
        rows.append(
            (
                _named(package),
                " ".join(shown(version, 40).replace(" ", "") for version in versions),
                sorted(stacks[stack] for stack in present.stacks),
                sorted(targets[target] for target in present.targets),
                sorted(compilers[compiler] for compiler in present.compilers),
            )
        )
    data = {
        "tag": shown(catalogue.past.tag),
        "letters": "".join(sorted({letter for present in presents.values() for letter in _by_letter(present)})),
        "stacks": [_named(stack) for stack in stacks],
        "tags": [_named(tag) for tag in (catalogue.past.tag, *catalogue.tags)],
        "targets": [shown(target, 40) for target in targets],
        "compilers": [shown(compiler, 40) for compiler in compilers],
        "packages": rows,
    }
    # A script that calls a function with data, because a page that is opened from a disk may load nothing else.
    return b"cachewatch.index(" + _json(data) + b");\n"


def hash_files(packages: Sequence[str], catalogue: SiteContents) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of a script for each first letter of hashes; it lists hashes by number of package."""
    presents = presents_of(catalogue)
    by_letter: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for place, package in enumerate(packages):
        for letter, hashes in _by_letter(presents.get(package, Present())).items():
            by_letter[letter][place] = "".join(sorted(hashes))
    for letter, by_number in sorted(by_letter.items()):
        yield f"assets/hashes-{letter}.js", b'cachewatch.hashes("%s",' % letter.encode() + _json(by_number) + b");\n"


def presents_of(catalogue: SiteContents) -> dict[str, Present]:
    """Return the current specs of each package in the tag whose history is shown."""
    return {history.package: history.present for history in catalogue.past.packages if history.is_there}


def _by_letter(present: Present) -> Mapping[str, list[str]]:
    hashes: defaultdict[str, list[str]] = defaultdict(list)
    for build in present.builds:
        for spec_hash in build.hashes:
            short = spec_hash[:_LETTERS].lower()
            if len(short) == _LETTERS and _HASH_LETTERS.issuperset(short):
                hashes[short[0]].append(short[1:])
    return hashes


def _named(name: str) -> str | list[str]:
    """Return a name; with the file name of its page if that is different."""
    return name if file_name(name) == name else [shown(name), file_name(name)]


def _json(data: object) -> bytes:
    # Without "<", no data can look like markup in a script.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").encode()


def stack_pages(past: TagHistory, totals: Totals) -> Iterator[tuple[str, View]]:
    """Yield each stack that ever existed with the values of its page."""
    members: defaultdict[str, dict[str, Present]] = defaultdict(dict)
    # Versions of packages that each revision added to a stack, and those that it removed.
    events: defaultdict[str, defaultdict[int, tuple[list[Link], list[Link]]]] = defaultdict(
        lambda: defaultdict(lambda: ([], []))
    )
    for history in past.packages:
        for stack in history.present.stacks:
            copies = tuple(found for found in history.present.copies if found.stack == stack)
            members[stack][history.package] = Present(specs=sum(found.count for found in copies), copies=copies)
        address = _UP + page("package", history.package)
        for step in history.steps:
            for place, side in enumerate(() if step.is_baseline else (step.added, step.removed)):
                for stack, version in side:
                    link = Link(f"{shown(history.package)} {shown(version, 24)}", address)
                    events[stack][step.revision][place].append(link)
    for stack, specs in sorted(totals.stacks.items()):
        # Like a package's, its axis ends with the last change.
        changes = [n for n in range(len(specs)) if n == 0 or specs[n] != specs[n - 1]]
        happened = [
            happening(past.revisions[revision], specs[revision], *sides)
            for revision, sides in sorted(events[stack].items(), reverse=True)
        ]
        own = members[stack]
        targets = sorted({target for present in own.values() for target in present.targets})
        lead = f"It builds for {', '.join(shown(t, 40) for t in targets[:6])}{', ...' if len(targets) > 6 else ''}."
        view = {
            "name": shown(stack),
            "tag": shown(past.tag),
            "lead": lead if own else "It has no specs now.",
            "figures": figures(package=len(own), spec=specs[-1], target=len(targets)),
            "plot": specs_plot([specs[n] for n in changes], changes, past.revisions),
            **cut("happenings", happened, 40),
            "packages": [package_row(package, present, up=_UP) for package, present in sorted(own.items())],
            "feed": f"{file_name(stack)}.atom",
        }
        yield stack, view


def tag_rows(catalogue: SiteContents) -> list[View]:
    """Return a row for each tag, in the order of the catalogue, with the changes from its predecessor."""
    all_tags = _by_tag(catalogue)
    return [
        {
            "name": Link(shown(tag), page("tag", tag)),
            "packages": len(all_tags[tag]),
            "specs": sum(present.specs for present in all_tags[tag].values()),
            "facts": catalogue.moves[tag].story.facts[:_MOST_FACTS] if tag in catalogue.moves else (),
        }
        for tag in tag_names.in_order(all_tags)
    ]


def tag_pages(catalogue: SiteContents) -> Iterator[tuple[str, View]]:
    """Yield each tag with the values of its page: its packages, and what changed since the tag before it."""
    all_tags, commit = _by_tag(catalogue), catalogue.past.revisions[-1].commit
    links = {safe_name(package): _UP + page("package", package) for package in packages_of(catalogue)}
    for tag, packages in all_tags.items():
        specs = sum(present.specs for present in packages.values())
        stacks = {stack for present in packages.values() for stack in present.stacks}
        view: View = {
            "name": shown(tag),
            "figures": figures(package=len(packages), spec=specs, stack=len(stacks)),
            "packages": [package_row(package, present, up=_UP) for package, present in sorted(packages.items())],
            "before": None,
        }
        if move := catalogue.moves.get(tag):
            view["before"] = Link(shown(move.before), _UP + page("tag", move.before))
            view["total"] = move.story.total
            view["sections"] = [_section(section, links) for section in move.story.sections]
            view["command"] = f"cachewatch diff {commit}:{move.before} {commit}:{tag}"
        yield tag, view


def _by_tag(catalogue: SiteContents) -> dict[str, Mapping[str, Present]]:
    others = {tag: packages for tag, (_, packages) in catalogue.tags.items()}
    return {catalogue.past.tag: presents_of(catalogue), **others}
