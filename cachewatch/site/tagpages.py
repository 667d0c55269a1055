"""The pages of tags: what each holds, and what moving to it from another one means."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from cachewatch.core import tag_names
from cachewatch.core.model import Place
from cachewatch.core.versions import is_newer, newest
from cachewatch.history import Present
from cachewatch.render.environment_needs import move_verdict
from cachewatch.render.statement_phrases import in_places
from cachewatch.report.snapshots import Outcome, PackageOutcome, SnapshotMove, move_of
from cachewatch.site.package_lists import package_row
from cachewatch.site.page_names import file_name, page, shown
from cachewatch.site.page_values import Figure, Link, Move, MoveSection, TagPage, TagRow
from cachewatch.site.read_history import Catalogue
from cachewatch.site.shared_phrases import figures, package_link

_UP = "../"
_MOST_ROWS = 60
_EARLIER = 4  # snapshots, which is about a month
# What is listed, worst first, and how.
_LISTED = {
    Outcome.LOST: ("Lost", "attention"),
    Outcome.DOWNGRADED: ("Downgraded", "attention"),
    Outcome.UPGRADED: ("Upgraded", "news"),
    Outcome.GAINED: ("Gained", "news"),
    Outcome.CHANGED: ("With other older versions", "routine"),
}


def tag_rows(catalogue: Catalogue, pages: Mapping[str, TagPage]) -> tuple[TagRow, ...]:
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
    counts = [figure for figure in told.moves[0].counts if figure.label != Outcome.SAME.value]
    return ", ".join(f"{figure.number} {figure.label}" for figure in counts) or "nothing changed"


def tag_pages(catalogue: Catalogue) -> Mapping[str, TagPage]:
    """Tell of every tag, and what moving to it and on from it means."""
    all_tags = _by_tag(catalogue)
    before, told = tag_names.predecessors(all_tags), catalogue.past.tag
    return {tag: _tag_page(tag, all_tags, before, told) for tag in all_tags}


def _by_tag(catalogue: Catalogue) -> dict[str, Mapping[str, Present]]:
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
    move = move_of(base, target, found)
    counts = {**move.counts, Outcome.SAME: len(everything) - len(move.packages)}
    other, word = (base, "from") if target == tag else (target, "to")
    return Move(
        key=f"{word}-{file_name(other)}",
        word=word,
        other=Link(shown(other), _UP + page("tag", other)),
        verdict=move_verdict(move),
        counts=tuple(Figure(f"{count:,}", outcome.value) for outcome, count in counts.items() if count),
        sections=tuple(_section(move, outcome) for outcome in _LISTED if move.of(outcome)),
    )


def _section(move: SnapshotMove, outcome: Outcome) -> MoveSection:
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
    if one.outcome is Outcome.LOST:
        return "not there any more" if one.is_whole else "no build any more"
    return "new package" if one.is_whole else "added" if one.outcome is Outcome.GAINED else ""


def outcome_between(package: str, before: Present | None, after: Present | None) -> PackageOutcome:
    """Say what one package is in another tag, by the newest version of each of its places."""
    if before and after and before.identity == after.identity and before.copies == after.copies:
        return PackageOutcome(package=package, outcome=Outcome.SAME)
    had, has = _places(before), _places(after)
    where: dict[Outcome, list[Place]] = defaultdict(list)
    for place in had.keys() | has.keys():
        where[_verdict(had.get(place), has.get(place))].append(place)
    worst = next((outcome for outcome in _LISTED if where[outcome]), Outcome.SAME)
    is_whole = (worst is Outcome.LOST and not has) or (worst is Outcome.GAINED and not had)
    if worst is Outcome.SAME and before != after:
        worst = _without_places(before, after)
    places = tuple(sorted(where[worst]))
    is_regraded = worst in (Outcome.UPGRADED, Outcome.DOWNGRADED)
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


def _verdict(before: frozenset[str] | None, after: frozenset[str] | None) -> Outcome:
    if not after or not before:
        return Outcome.GAINED if after else Outcome.LOST
    if before == after:
        return Outcome.SAME
    old, new = newest(before), newest(after)
    if is_newer(new, old):
        return Outcome.UPGRADED
    return Outcome.DOWNGRADED if is_newer(old, new) else Outcome.CHANGED


def _without_places(before: Present | None, after: Present | None) -> Outcome:
    """Judge a package of which nothing but hashes differs, or that no stack builds."""
    if before is None or after is None:
        return Outcome.LOST if after is None else Outcome.GAINED
    if (before.compilers, before.oses) != (after.compilers, after.oses):
        return Outcome.CHANGED
    return Outcome.SAME if before.identity == after.identity else Outcome.REBUILT
