"""The pages with lists of revisions, packages, stacks and tags, and the files of the search index.

Revisions are described in the statements of every other report. The search index consists of scripts that call a
function with data, because a page that is opened from a disk may load scripts but no other files: one file has the
names, versions, stacks and tags, and there is a file of hashes for each first letter.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import asdict

from cachewatch.core import names as tag_names
from cachewatch.core.model import Place
from cachewatch.core.names import safe_name
from cachewatch.core.spack import is_newer, newest, sorted_versions
from cachewatch.extensions.site.page_parts import (
    Figure,
    Happening,
    Link,
    View,
    figures,
    package_link,
    package_row,
    specs_plot,
)
from cachewatch.extensions.site.past import (
    PackageHistory,
    Present,
    Revisions,
    RevisionStory,
    TagHistory,
    Totals,
    file_name,
    page,
    shown,
    tone_of,
)
from cachewatch.extensions.site.reading import SiteContents
from cachewatch.report.text import Block
from cachewatch.report.words import in_places, names, number, stacks_named

_MOST_FACTS = 6
_UP = "../"


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
    """Yield the path and the values of the page of each revision that changed anything."""
    packages = {safe_name(history.package): _UP + page("package", history.package) for history in past.packages}

    def neighbour(n: int) -> Link:
        found = past.revisions[n]
        return Link(found.day or found.commit, _UP + revision_path(found.revision))

    told = [n for n, story in enumerate(stories) if story.facts]
    for place, n in enumerate(told):
        view = {
            "tag": shown(past.tag),
            "commit": past.revisions[n].revision,
            "moment": past.revisions[n],
            "before": past.revisions[n - 1],
            "earlier": neighbour(told[place - 1]) if place else None,
            "later": neighbour(told[place + 1]) if place + 1 < len(told) else None,
            "total": stories[n].total,
            "sections": [_section(section, packages) for section in stories[n].sections],
        }
        yield revision_path(past.revisions[n].revision), view


def _section(section: Block, packages: Mapping[str, str]) -> View:
    """Return the values of a section of a revision's page; `packages` has addresses by displayed name of a package."""
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
    rows = []
    for package, history in sorted(packages_of(catalogue).items()):
        if history is None:
            rows.append(package_row(package, Present(), note="in other tags"))
        else:
            day, note = catalogue.past.revisions[history.changed].day, "" if history.is_there else "gone"
            rows.append(package_row(package, history.present, day=day, note=note))
    return rows


def packages_of(catalogue: SiteContents) -> dict[str, PackageHistory | None]:
    """Return the histories of all packages by name; None for packages that are only in other tags."""
    elsewhere = dict.fromkeys(package for _, packages in catalogue.tags.values() for package in packages)
    return {**elsewhere, **{history.package: history for history in catalogue.past.packages}}


# The letters of a hash in the search index; the first one is in the name of the file.
_LETTERS = 7
_MOST_VERSIONS = 12
_HASH_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def index_file(packages: Sequence[str], catalogue: SiteContents, totals: Totals) -> bytes:
    """Return the script of everything but hashes, which a search loads; `packages` are in the order of numbers."""
    presents = presents_of(catalogue)
    stacks = sorted({*totals.stacks, *(stack for present in presents.values() for stack in present.stacks)})
    targets = sorted({target for present in presents.values() for target in present.targets})
    compilers = sorted({compiler for present in presents.values() for compiler in present.compilers})
    places = tuple({name: n for n, name in enumerate(names)} for names in (stacks, targets, compilers))
    data = {
        "tag": shown(catalogue.past.tag),
        "letters": "".join(sorted({letter for present in presents.values() for letter in _by_letter(present)})),
        "stacks": [_named(stack) for stack in stacks],
        "tags": [_named(tag) for tag in (catalogue.past.tag, *catalogue.tags)],
        "targets": [shown(target, 40) for target in targets],
        "compilers": [shown(compiler, 40) for compiler in compilers],
        "packages": [_facts(package, presents.get(package, Present()), places) for package in packages],
    }
    return b"cachewatch.index(" + _json(data) + b");\n"


def hash_files(packages: Sequence[str], catalogue: SiteContents) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of a script for each first letter of hashes, with the hashes by number of package."""
    presents = presents_of(catalogue)
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for place, package in enumerate(packages):
        for letter, hashes in _by_letter(presents.get(package, Present())).items():
            found[letter][place] = "".join(sorted(hashes))
    for letter, by_number in sorted(found.items()):
        yield f"assets/hashes-{letter}.js", b'cachewatch.hashes("%s",' % letter.encode() + _json(by_number) + b");\n"


def presents_of(catalogue: SiteContents) -> dict[str, Present]:
    """Return the current specs of each package in the tag whose history is shown."""
    return {history.package: history.present for history in catalogue.past.packages if history.is_there}


def _by_letter(present: Present) -> Mapping[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for build in present.builds:
        for spec_hash in build.hashes:
            short = spec_hash[:_LETTERS].lower()
            if len(short) == _LETTERS and _HASH_LETTERS.issuperset(short):
                found[short[0]].append(short[1:])
    return found


def _named(name: str) -> str | list[str]:
    """Return a name, with the file name of its page if this is different."""
    return name if file_name(name) == name else [shown(name), file_name(name)]


def _facts(package: str, present: Present, places: tuple[Mapping[str, int], ...]) -> list[object]:
    stacks, targets, compilers = places
    versions = sorted_versions(present.versions)[::-1][:_MOST_VERSIONS]
    return [
        _named(package),
        " ".join(shown(version, 40).replace(" ", "") for version in versions),
        sorted(stacks[stack] for stack in present.stacks),
        sorted(targets[target] for target in present.targets),
        sorted(compilers[compiler] for compiler in present.compilers),
    ]


def _json(data: object) -> bytes:
    # Without "<", no data can look like markup in a script.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").encode()


_MOST_NAMED = 40
_MOST_REVISIONS = 40


_Event = tuple[list[Link], list[Link]]  # versions of packages that were added to a stack, and those removed from it


def stack_pages(past: TagHistory, totals: Totals) -> Mapping[str, View]:
    """Return the values of the page of each stack that ever existed, by stack."""
    members: defaultdict[str, dict[str, Present]] = defaultdict(dict)
    events: defaultdict[str, defaultdict[int, _Event]] = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for history in past.packages:
        for stack in history.present.stacks:
            copies = tuple(found for found in history.present.copies if found.stack == stack)
            members[stack][history.package] = Present(specs=sum(found.count for found in copies), copies=copies)
        address = _UP + page("package", history.package)
        for step in history.steps:
            for place, side in enumerate(() if step.is_baseline else (step.came, step.went)):
                for stack, version in side:
                    link = Link(f"{shown(history.package)} {shown(version, 24)}", address)
                    events[stack][step.revision][place].append(link)
    return {
        stack: _stack_page(stack, past.tag, members[stack], events[stack], totals.stacks[stack], past.revisions)
        for stack in sorted(totals.stacks)
    }


def _stack_page(  # noqa: PLR0917
    stack: str,
    tag: str,
    members: Mapping[str, Present],
    events: Mapping[int, _Event],
    specs: Sequence[int],
    revisions: Revisions,
) -> View:
    # Like a package's, its axis ends with the last change.
    changes = [n for n in range(len(specs)) if n == 0 or specs[n] != specs[n - 1]]
    happened = [
        Happening(
            moment=revisions[revision],
            specs=f"{specs[revision]:,}",
            came=tuple(came[:_MOST_NAMED]),
            went=tuple(went[:_MOST_NAMED]),
            more_came=max(0, len(came) - _MOST_NAMED),
            more_went=max(0, len(went) - _MOST_NAMED),
        )
        for revision, (came, went) in sorted(events.items(), reverse=True)
    ]
    targets = sorted({target for present in members.values() for target in present.targets})
    lead = f"It builds for {', '.join(shown(t, 40) for t in targets[:6])}{', ...' if len(targets) > 6 else ''}."
    return {
        "name": shown(stack),
        "tag": shown(tag),
        "lead": lead if members else "It has no specs now.",
        "figures": figures(package=len(members), spec=specs[-1], target=len(targets)),
        "plot": specs_plot([specs[n] for n in changes], changes, revisions),
        "happenings": happened[:_MOST_REVISIONS],
        "more_happenings": max(0, len(happened) - _MOST_REVISIONS),
        "packages": [package_row(package, present, up=_UP) for package, present in sorted(members.items())],
        "feed": f"{file_name(stack)}.atom",
    }


class MoveOutcome(StrEnum):
    """How a package differs in another tag: the first of these that applies."""

    LOST = "lost"  # in a place, i.e. a stack and target
    DOWNGRADED = "downgraded"  # in a place
    UPGRADED = "upgraded"  # in a place
    GAINED = "gained"  # in a place
    CHANGED = "changed"  # only in older versions, compilers or operating systems
    REBUILT = "rebuilt"  # only hashes differ
    SAME = "same"


class PackageOutcome(NamedTuple):
    """How one package differs in another tag."""

    package: str
    outcome: MoveOutcome
    places: tuple[Place, ...] = ()  # with this outcome, sorted; none if only hashes differ
    is_whole: bool = False  # lost or gained in all places
    before: str = ""  # of an up- or downgrade, the newest version in the first of these places
    after: str = ""


def _verdict_of(outcomes: Mapping[MoveOutcome, Sequence[PackageOutcome]]) -> str:
    """Return a sentence on the consequences of moving to the other tag."""
    said = []
    if lost := outcomes[MoveOutcome.LOST]:
        named = [
            one.package if one.is_whole else f"{one.package} in {stacks_named({place.stack for place in one.places})}"
            for one in lost
        ]
        said.append(f"moving would lose {number(len(lost), 'package')} ({names(named)})")
    if older := outcomes[MoveOutcome.DOWNGRADED]:
        said.append(f"{len(older):,} downgraded ({names([found.package for found in older])})")
    is_same = not any(found for outcome, found in outcomes.items() if outcome is not MoveOutcome.SAME)
    return "; ".join(said) or ("nothing changes" if is_same else "every package stays, none is older")


_MOST_ROWS = 60
_EARLIER = 4  # snapshots, about a month
# The outcomes that are listed, worst first, with title and tone.
_LISTED = {
    MoveOutcome.LOST: ("Lost", "attention"),
    MoveOutcome.DOWNGRADED: ("Downgraded", "attention"),
    MoveOutcome.UPGRADED: ("Upgraded", "news"),
    MoveOutcome.GAINED: ("Gained", "news"),
    MoveOutcome.CHANGED: ("With other older versions", "routine"),
}


_REGRADED = (MoveOutcome.UPGRADED, MoveOutcome.DOWNGRADED)


def tag_rows(catalogue: SiteContents, pages: Mapping[str, View]) -> list[View]:
    """Return a row for each tag, in the order of the catalogue, with the changes from its predecessor."""
    all_tags = _by_tag(catalogue)
    before = tag_names.predecessors(all_tags)
    return [
        {
            "name": Link(shown(tag), page("tag", tag)),
            "packages": len(all_tags[tag]),
            "specs": sum(present.specs for present in all_tags[tag].values()),
            "note": _note(pages[tag]) if tag in before else "",
        }
        for tag in tag_names.in_order(all_tags)
    ]


def _note(told: View) -> str:
    counts = [figure for figure in told["moves"][0]["counts"] if figure.label != MoveOutcome.SAME.value]
    return ", ".join(f"{figure.number} {figure.label}" for figure in counts) or "nothing changed"


def tag_pages(catalogue: SiteContents) -> Mapping[str, View]:
    """Return the values of the page of each tag by tag, with the consequences of moving to it and from it."""
    all_tags = _by_tag(catalogue)
    before, told = tag_names.predecessors(all_tags), catalogue.past.tag
    pages: dict[str, View] = {}
    for tag, packages in all_tags.items():
        specs = sum(present.specs for present in packages.values())
        stacks = {stack for present in packages.values() for stack in present.stacks}
        pages[tag] = {
            "name": shown(tag),
            "figures": figures(package=len(packages), spec=specs, stack=len(stacks)),
            "moves": [_move(base, target, tag, all_tags) for base, target in _moves(tag, all_tags, before, told)],
            "packages": [package_row(package, present, up=_UP) for package, present in sorted(packages.items())],
        }
    return pages


def _by_tag(catalogue: SiteContents) -> dict[str, Mapping[str, Present]]:
    others = {tag: packages for tag, (_, packages) in catalogue.tags.items()}
    return {catalogue.past.tag: presents_of(catalogue), **others}


def _moves(tag: str, tags: Collection[str], predecessors: Mapping[str, str], told: str) -> list[tuple[str, str]]:
    """Return the pairs of tags to compare for the page of `tag`.

    These are from its predecessor and from the tag a month before, and on to `told`, the tag whose history is shown.
    """
    if tag == told:
        newest_of = [[t for t in tag_names.in_order(tags) if tag_names.series(t) == own] for own in (told, "v")]
        return [(found[0], tag) for found in newest_of if found]
    older: list[str] = []
    while len(older) < _EARLIER and (before := predecessors.get(older[-1] if older else tag)):
        older.append(before)
    return [*((base, tag) for base in (*older[:1], *older[_EARLIER - 1 :])), (tag, told)]


def _move(base: str, target: str, tag: str, all_tags: Mapping[str, Mapping[str, Present]]) -> View:
    old, new = all_tags[base], all_tags[target]
    outcomes: dict[MoveOutcome, list[PackageOutcome]] = {outcome: [] for outcome in MoveOutcome}
    for package in old.keys() | new.keys():
        found = outcome_between(package, old.get(package), new.get(package))
        outcomes[found.outcome].append(found)
    for some in outcomes.values():
        some.sort(key=lambda one: (not one.is_whole, one.package))
    other, word = (base, "from") if target == tag else (target, "to")
    return {
        "key": f"{word}-{file_name(other)}",
        "word": word,
        "other": Link(shown(other), _UP + page("tag", other)),
        "verdict": _verdict_of(outcomes),
        "counts": [Figure(f"{len(some):,}", outcome.value) for outcome, some in outcomes.items() if some],
        "sections": [
            {
                "title": title,
                "tone": tone,
                "rows": [
                    (package_link(one.package, _UP), _fact(one), "" if one.is_whole else in_places(one.places))
                    for one in outcomes[outcome][:_MOST_ROWS]
                ],
                "more": max(0, len(outcomes[outcome]) - _MOST_ROWS),
            }
            for outcome, (title, tone) in _LISTED.items()
            if outcomes[outcome]
        ],
    }


def _fact(one: PackageOutcome) -> str:
    if one.before or one.after:
        return f"{shown(one.before, 24)} -> {shown(one.after, 24)}"
    if one.outcome is MoveOutcome.LOST:
        return "not there any more" if one.is_whole else "no build any more"
    return "new package" if one.is_whole else "added" if one.outcome is MoveOutcome.GAINED else ""


def outcome_between(package: str, before: Present | None, after: Present | None) -> PackageOutcome:
    """Tell how a package differs between two tags, by its newest version in each place (stack and target)."""
    if before and after and before.identity == after.identity and before.copies == after.copies:
        return PackageOutcome(package, MoveOutcome.SAME)
    had, has = _places(before), _places(after)
    where: defaultdict[MoveOutcome, list[Place]] = defaultdict(list)
    for place in had.keys() | has.keys():
        where[_verdict(had.get(place), has.get(place))].append(place)
    worst = next((outcome for outcome in _LISTED if where[outcome]), MoveOutcome.SAME)
    is_whole = (worst is MoveOutcome.LOST and not has) or (worst is MoveOutcome.GAINED and not had)
    if worst is MoveOutcome.SAME and before != after:
        worst = _without_places(before, after)
    places = tuple(sorted(where[worst]))
    sides = [newest(side[places[0]]) for side in (had, has)] if worst in _REGRADED else []
    return PackageOutcome(package, worst, places, is_whole, *sides)


def _places(present: Present | None) -> Mapping[Place, frozenset[str]]:
    found: defaultdict[Place, set[str]] = defaultdict(set)
    for copies in present.copies if present else ():
        if copies.stack:
            found[Place(copies.stack, copies.target)].add(copies.version)
    return {place: frozenset(versions) for place, versions in found.items()}


def _verdict(before: frozenset[str] | None, after: frozenset[str] | None) -> MoveOutcome:
    if not after or not before:
        return MoveOutcome.GAINED if after else MoveOutcome.LOST
    if before == after:
        return MoveOutcome.SAME
    old, new = newest(before), newest(after)
    if is_newer(new, old):
        return MoveOutcome.UPGRADED
    return MoveOutcome.DOWNGRADED if is_newer(old, new) else MoveOutcome.CHANGED


def _without_places(before: Present | None, after: Present | None) -> MoveOutcome:
    """Tell how a package differs of which no place differs in its versions, or that no stack builds."""
    if before is None or after is None:
        return MoveOutcome.LOST if after is None else MoveOutcome.GAINED
    if (before.compilers, before.oses) != (after.compilers, after.oses):
        return MoveOutcome.CHANGED
    return MoveOutcome.SAME if before.identity == after.identity else MoveOutcome.REBUILT
