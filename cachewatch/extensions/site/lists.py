"""The pages that list: revisions, packages, stacks and tags; and the files of the search index.

A revision is told in the statements of every other report. The search index is scripts that hand over data, because
a page that is opened from a disk may load scripts and nothing else: one file has the names, versions, stacks and tags,
and there is one of hashes for each first letter.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from cachewatch.core import names as tag_names
from cachewatch.core.model import Place
from cachewatch.core.names import safe_name
from cachewatch.core.spack import is_newer, newest, sorted_versions
from cachewatch.extensions.site.past import PackageHistory, Present, TagHistory, Totals
from cachewatch.extensions.site.reading import SiteContents
from cachewatch.extensions.site.stories import RevisionStory, StorySection, file_name, page, shown
from cachewatch.extensions.site.values import (
    Figure,
    Happening,
    Link,
    Move,
    MoveSection,
    PackageRow,
    RevisionPage,
    RevisionRow,
    RevisionSection,
    StackPage,
    TagPage,
    TagRow,
)
from cachewatch.extensions.site.words import Times, figures, line_plot, newest_versions, package_link
from cachewatch.report.words import in_places, names, number, stacks_named

_MOST_FACTS = 6
_UP = "../"

# Addresses by name as statements have it.
Addresses = Mapping[str, str]


def revision_path(commit: str) -> str:
    """Return the path of the page about a revision."""
    return page("revision", commit[:12])


def revision_list(
    past: TagHistory, stories: Sequence[RevisionStory], totals: Totals, times: Times
) -> tuple[RevisionRow, ...]:
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


def revision_pages(
    past: TagHistory, stories: Sequence[RevisionStory], times: Times
) -> Iterator[tuple[str, RevisionPage]]:
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
                total=story.total,
                sections=tuple(_revision_section(section, packages) for section in story.sections),
            ),
        )


def _neighbour(past: TagHistory, times: Times, n: int) -> Link:
    return Link(times.moments[n].day or times.moments[n].commit, _UP + revision_path(past.revisions[n][0]))


def _revision_section(section: StorySection, packages: Addresses) -> RevisionSection:
    named, _, more = section.named.partition(" and ")
    return RevisionSection(
        tone=section.tone.value,
        title=section.title,
        name=section.name,
        total=section.total,
        notes=section.notes,
        named=tuple(_link(name, packages) for name in (named.split(", ") if named else ())),
        more_named=f"and {more}" if more else "",
        rows=tuple(
            (_link(entry.name, {} if section.is_by_place else packages), entry.fact, entry.specs, entry.where)
            for entry in section.entries
        ),
        more=section.more,
    )


def _link(name: str, packages: Addresses) -> Link:
    return Link(shown(name), packages.get(name, ""))


def named(found: Iterable[tuple[str, str]], up: str) -> Iterable[Link]:
    """Return links to packages that name a version of each."""
    for package, version in found:
        yield Link(f"{shown(package)} {shown(version, 24)}", up + page("package", package))


def package_rows(catalogue: SiteContents, times: Times) -> tuple[PackageRow, ...]:
    """List all packages that there ever were, in any tag, by name."""
    histories = _histories(catalogue)
    return tuple(_row(package, histories[package], times) for package in sorted(histories))


def package_names(catalogue: SiteContents) -> list[str]:
    """Return all packages that there ever were, in the order of the list."""
    return sorted(_histories(catalogue))


def _histories(catalogue: SiteContents) -> dict[str, PackageHistory | None]:
    """Return all packages; those that only other tags have, without a history."""
    elsewhere = dict.fromkeys(package for packages in catalogue.tags.values() for package in packages)
    return {**elsewhere, **{history.package: history for history in catalogue.past.packages}}


def _row(package: str, history: PackageHistory | None, times: Times) -> PackageRow:
    if history is None:
        return package_row(package, Present(), note="in other tags")
    day = times.moments[history.changed].day
    return package_row(package, history.present, day=day, note="" if history.is_there else "gone")


def package_row(package: str, present: Present, *, up: str = "", **more: str) -> PackageRow:
    """Return a package as one row of a list."""
    versions, more_versions = newest_versions(present.versions)
    return PackageRow(
        name=package_link(package, up),
        versions=versions,
        more_versions=more_versions,
        specs=present.specs,
        stacks=len(present.stacks),
        targets=", ".join(shown(target, 24) for target in sorted(present.targets)),
        **more,
    )


# Letters of a hash that name a spec well enough; the first one names the file.
_LETTERS = 7
_MOST_VERSIONS = 12
_HASH_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def index_file(packages: Sequence[str], catalogue: SiteContents, totals: Totals) -> bytes:
    """Return the file that is loaded once somebody searches; `packages` are in the order of their numbers."""
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
    """Yield for each first letter the path and the content of the file of its hashes."""
    presents = presents_of(catalogue)
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for place, package in enumerate(packages):
        for letter, hashes in _by_letter(presents.get(package, Present())).items():
            found[letter][place] = "".join(sorted(hashes))
    for letter, by_number in sorted(found.items()):
        yield f"assets/hashes-{letter}.js", b'cachewatch.hashes("%s",' % letter.encode() + _json(by_number) + b");\n"


def presents_of(catalogue: SiteContents) -> dict[str, Present]:
    """Return what there is of each package in the tag that is told."""
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
    """Return a name, with the name of its page where that is another one."""
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
    # "<" is never in a script that somebody might take for markup.
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").encode()


_MOST_NAMED = 40
_MOST_REVISIONS = 40


def stack_pages(past: TagHistory, totals: Totals, times: Times) -> Mapping[str, StackPage]:
    """Tell of every stack that there ever was."""
    members: defaultdict[str, dict[str, Present]] = defaultdict(dict)
    events: defaultdict[str, defaultdict[int, tuple[list[tuple[str, str]], list[tuple[str, str]]]]]
    events = defaultdict(lambda: defaultdict(lambda: ([], [])))
    for history in past.packages:
        for stack in history.present.stacks:
            copies = tuple(found for found in history.present.copies if found.stack == stack)
            members[stack][history.package] = Present(specs=sum(found.count for found in copies), copies=copies)
        for step in history.steps:
            for place, side in enumerate(() if step.is_baseline else (step.came, step.went)):
                for stack, version in side:
                    events[stack][step.revision][place].append((history.package, version))
    return {
        stack: _stack_page(
            stack,
            tag=past.tag,
            members=members[stack],
            events=events[stack],
            specs=totals.stacks[stack],
            times=times,
        )
        for stack in sorted(totals.stacks)
    }


def _stack_page(
    stack: str,
    *,
    tag: str,
    members: Mapping[str, Present],
    events: Mapping[int, tuple[list[tuple[str, str]], list[tuple[str, str]]]],
    specs: Sequence[int],
    times: Times,
) -> StackPage:
    # Like a package's, its axis ends with the last change.
    changes = [n for n in range(len(specs)) if n == 0 or specs[n] != specs[n - 1]]
    happened = [
        Happening(
            moment=times.moments[revision],
            counts=(),
            specs=f"{specs[revision]:,}",
            came=tuple(named(came[:_MOST_NAMED], "../")),
            went=tuple(named(went[:_MOST_NAMED], "../")),
            more_came=max(0, len(came) - _MOST_NAMED),
            more_went=max(0, len(went) - _MOST_NAMED),
        )
        for revision, (came, went) in sorted(events.items(), reverse=True)
    ]
    targets = sorted({target for present in members.values() for target in present.targets})
    lead = f"It builds for {', '.join(shown(t, 40) for t in targets[:6])}{', ...' if len(targets) > 6 else ''}."
    return StackPage(
        name=shown(stack),
        tag=shown(tag),
        lead=lead if members else "It has no specs now.",
        figures=figures(package=len(members), spec=specs[-1], target=len(targets)),
        plot=line_plot("specs", [specs[n] for n in changes], changes, times),
        happenings=tuple(happened[:_MOST_REVISIONS]),
        more_happenings=max(0, len(happened) - _MOST_REVISIONS),
        packages=tuple(package_row(package, present, up="../") for package, present in sorted(members.items())),
        feed=f"{file_name(stack)}.atom",
    )


class MoveOutcome(StrEnum):
    """What a package is in the other snapshot: the first of these that holds."""

    LOST = "lost"  # a place of it is
    DOWNGRADED = "downgraded"  # in a place
    UPGRADED = "upgraded"  # in a place
    GAINED = "gained"  # a place of it is
    CHANGED = "changed"  # its newest versions stay everywhere, but older ones or combinations do not
    REBUILT = "rebuilt"  # only hashes differ
    SAME = "same"


_ORDER = list(MoveOutcome)


class PackageOutcome(Struct, frozen=True, kw_only=True):
    """What one package is in the other snapshot."""

    package: str
    outcome: MoveOutcome
    is_whole: bool = False  # lost or gained in all places, not in some
    before: str = ""  # of up- and downgrades, the newest versions where it happened
    after: str = ""
    places: tuple[Place, ...] = ()  # in which it is so, sorted; none where only hashes differ
    keeps_hashes: bool = True  # whether any of its hashes is in both


class SnapshotMove(Struct, frozen=True, kw_only=True):
    """What moving from `base` to `target` means; both are tags.

    Who stays with a snapshot asks three things: what the other one lacks, what it has in another version, and whether
    the binaries are the same. The last does not follow from the first two: a snapshot that was built anew loses
    nothing, and has other hashes throughout.
    """

    base: str
    target: str
    packages: tuple[PackageOutcome, ...]  # all but those that are the same, worst first
    same: int = 0

    def of(self, outcome: MoveOutcome) -> tuple[PackageOutcome, ...]:
        """Return the packages of one outcome."""
        return tuple(found for found in self.packages if found.outcome is outcome)

    @property
    def counts(self) -> Mapping[MoveOutcome, int]:
        """How many packages there are of each outcome; their sum is all packages of both snapshots."""
        counted = Counter(found.outcome for found in self.packages)
        return {outcome: counted[outcome] for outcome in MoveOutcome} | {MoveOutcome.SAME: self.same}

    @property
    def has_other_hashes_only(self) -> bool:
        """Whether no hash of `base` is in `target`: all that is installed by hash is installed anew."""
        return bool(self.packages) and not self.same and not any(found.keeps_hashes for found in self.packages)


def move_of(base: str, target: str, outcomes: Iterable[PackageOutcome], total: int) -> SnapshotMove:
    """Put the outcomes of `total` packages together."""
    found = [outcome for outcome in outcomes if outcome.outcome is not MoveOutcome.SAME]
    return SnapshotMove(
        base=base,
        target=target,
        packages=tuple(sorted(found, key=lambda o: (_ORDER.index(o.outcome), not o.is_whole, o.package))),
        same=max(0, total - len(found)),
    )


def move_verdict(move: SnapshotMove) -> str:
    """Say what moving to another snapshot means."""
    lost, older = move.of(MoveOutcome.LOST), move.of(MoveOutcome.DOWNGRADED)
    losing = (
        f"moving would lose {number(len(lost), 'package')} ({names(list(map(_lost_package, lost)))})" if lost else ""
    )
    aging = f"{len(older):,} downgraded ({names([found.package for found in older])})" if older else ""
    anew = "all hashes differ" if move.has_other_hashes_only else ""
    return "; ".join(filter(None, (losing, aging, anew))) or (
        "nothing changes" if not move.packages else "every package stays, none is older"
    )


def _lost_package(found: PackageOutcome) -> str:
    """Name a package, and where it is lost if it is still anywhere."""
    stacks = sorted({place.stack for place in found.places})
    return found.package if found.is_whole or not stacks else f"{found.package} in {stacks_named(stacks)}"


_MOST_ROWS = 60
_EARLIER = 4  # snapshots, which is about a month
# What is listed, worst first, and how.
_LISTED = {
    MoveOutcome.LOST: ("Lost", "attention"),
    MoveOutcome.DOWNGRADED: ("Downgraded", "attention"),
    MoveOutcome.UPGRADED: ("Upgraded", "news"),
    MoveOutcome.GAINED: ("Gained", "news"),
    MoveOutcome.CHANGED: ("With other older versions", "routine"),
}


def tag_rows(catalogue: SiteContents, pages: Mapping[str, TagPage]) -> tuple[TagRow, ...]:
    """List all tags in the order of the catalogue, each with what moving to it from the one before means."""
    all_tags = _by_tag(catalogue)
    before = tag_names.predecessors(all_tags)
    return tuple(
        TagRow(
            Link(shown(tag), page("tag", tag)),
            len(all_tags[tag]),
            sum(present.specs for present in all_tags[tag].values()),
            note=_note(pages[tag]) if tag in before else "",
        )
        for tag in tag_names.in_order(all_tags)
    )


def _note(told: TagPage) -> str:
    counts = [figure for figure in told.moves[0].counts if figure.label != MoveOutcome.SAME.value]
    return ", ".join(f"{figure.number} {figure.label}" for figure in counts) or "nothing changed"


def tag_pages(catalogue: SiteContents) -> Mapping[str, TagPage]:
    """Tell of every tag, and what moving to it and on from it means."""
    all_tags = _by_tag(catalogue)
    before, told = tag_names.predecessors(all_tags), catalogue.past.tag
    return {tag: _tag_page(tag, all_tags, before, told) for tag in all_tags}


def _by_tag(catalogue: SiteContents) -> dict[str, Mapping[str, Present]]:
    told = {history.package: history.present for history in catalogue.past.packages if history.is_there}
    return {catalogue.past.tag: told, **catalogue.tags}


def _moves(tag: str, tags: Collection[str], predecessors: Mapping[str, str], told: str) -> list[tuple[str, str]]:
    """Return what is compared: from the tag before, from the one of a month before, and to the tag that is told."""
    if tag == told:
        newest_of = [[t for t in tag_names.in_order(tags) if tag_names.series(t) == own] for own in (told, "v")]
        return [(found[0], tag) for found in newest_of if found]
    older: list[str] = []
    while len(older) < _EARLIER and (before := predecessors.get(older[-1] if older else tag)):
        older.append(before)
    return [*((base, tag) for base in (*older[:1], *older[_EARLIER - 1 :])), (tag, told)]


def _tag_page(tag: str, all_tags: Mapping[str, Mapping[str, Present]], before: Mapping[str, str], told: str) -> TagPage:
    packages = all_tags[tag]
    specs = sum(present.specs for present in packages.values())
    stacks = {stack for present in packages.values() for stack in present.stacks}
    return TagPage(
        name=shown(tag),
        figures=figures(package=len(packages), spec=specs, stack=len(stacks)),
        moves=tuple(_move(base, target, tag, all_tags) for base, target in _moves(tag, all_tags, before, told)),
        packages=tuple(package_row(package, present, up=_UP) for package, present in sorted(packages.items())),
    )


def _move(base: str, target: str, tag: str, all_tags: Mapping[str, Mapping[str, Present]]) -> Move:
    old, new = all_tags[base], all_tags[target]
    everything = sorted(old.keys() | new.keys())
    found = [outcome_between(package, old.get(package), new.get(package)) for package in everything]
    move = move_of(base, target, found, len(everything))
    counts = move.counts
    other, word = (base, "from") if target == tag else (target, "to")
    return Move(
        key=f"{word}-{file_name(other)}",
        word=word,
        other=Link(shown(other), _UP + page("tag", other)),
        verdict=move_verdict(move),
        counts=tuple(Figure(f"{count:,}", outcome.value) for outcome, count in counts.items() if count),
        sections=tuple(_move_section(move, outcome) for outcome in _LISTED if move.of(outcome)),
    )


def _move_section(move: SnapshotMove, outcome: MoveOutcome) -> MoveSection:
    title, tone = _LISTED[outcome]
    found = move.of(outcome)
    rows = tuple(
        (package_link(one.package, _UP), _fact(one), "" if one.is_whole else in_places(one.places))
        for one in found[:_MOST_ROWS]
    )
    return MoveSection(title, tone, rows, max(0, len(found) - _MOST_ROWS))


def _fact(one: PackageOutcome) -> str:
    if one.before or one.after:
        return f"{shown(one.before, 24)} -> {shown(one.after, 24)}"
    if one.outcome is MoveOutcome.LOST:
        return "not there any more" if one.is_whole else "no build any more"
    return "new package" if one.is_whole else "added" if one.outcome is MoveOutcome.GAINED else ""


def outcome_between(package: str, before: Present | None, after: Present | None) -> PackageOutcome:
    """Say what one package is in another tag, by the newest version of each of its places."""
    if before and after and before.identity == after.identity and before.copies == after.copies:
        return PackageOutcome(package=package, outcome=MoveOutcome.SAME)
    had, has = _places(before), _places(after)
    where: dict[MoveOutcome, list[Place]] = defaultdict(list)
    for place in had.keys() | has.keys():
        where[_verdict(had.get(place), has.get(place))].append(place)
    worst = next((outcome for outcome in _LISTED if where[outcome]), MoveOutcome.SAME)
    is_whole = (worst is MoveOutcome.LOST and not has) or (worst is MoveOutcome.GAINED and not had)
    if worst is MoveOutcome.SAME and before != after:
        worst = _without_places(before, after)
    places = tuple(sorted(where[worst]))
    is_regraded = worst in (MoveOutcome.UPGRADED, MoveOutcome.DOWNGRADED)
    return PackageOutcome(
        package=package,
        outcome=worst,
        is_whole=is_whole,
        before=newest(had[places[0]]) if is_regraded else "",
        after=newest(has[places[0]]) if is_regraded else "",
        places=places,
    )


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
    """Judge a package of which nothing but hashes differs, or that no stack builds."""
    if before is None or after is None:
        return MoveOutcome.LOST if after is None else MoveOutcome.GAINED
    if (before.compilers, before.oses) != (after.compilers, after.oses):
        return MoveOutcome.CHANGED
    return MoveOutcome.SAME if before.identity == after.identity else MoveOutcome.REBUILT
