"""Make the front page, the search index, the lists of packages, and the pages of revisions, stacks and tags."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from statistics import median
from typing import NamedTuple

from msgspec.structs import asdict

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.escaping_and_mentions import safe_name
from cachewatch.core.kinds_and_specs import grouped
from cachewatch.core.versions_spellings_targets import sorted_versions
from cachewatch.extensions.site import package_histories as data
from cachewatch.extensions.site import page_parts_and_plots as parts
from cachewatch.extensions.site.package_histories import NewVersion, Present, TagHistory, Totals, file_name, page, shown
from cachewatch.extensions.site.page_parts_and_plots import Link, View
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.diff_blocks_and_colours import Block
from cachewatch.report.words import names, number, stacks_named

_FEW_SPECS = 10  # smaller stacks often come and go
_LATELY = timedelta(days=28)
_MANY_UNREFERENCED = 0.1  # of all specs
# The axis of all revisions ends with the newest, whose changes need a little room to be seen.
_PAST = 0.96
_MOST_FACTS = 6
_UP = "../"
_LETTERS = 7  # of a hash in the search index; the first one is in the name of the file
_HASH_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


class CardLine(NamedTuple):
    """One line of a card: a text after an optional link."""

    text: str
    link: Link | None = None
    tone: str = ""


def _card(title: str, lines: Sequence[CardLine], most: int, nothing: str, onward: Link | None = None) -> View:
    """Return a card: a box with a title, up to `most` of `lines` (if none, the text `nothing`), and a link `onward`."""
    more = [CardLine(f"and {len(lines) - most:,} more")] if len(lines) > most else []
    return {"title": title, "lines": [*lines[:most], *more], "nothing": nothing, "onward": onward}


def cards(catalogue: SiteContents, totals: Totals) -> tuple[View, ...]:
    """Return the three cards (boxes) of the front page; that of unusual events comes first if it has any."""
    unusual, latest, versions = unusual_card(catalogue, totals), latest_card(catalogue), versions_card(catalogue)
    return (unusual, latest, versions) if unusual["lines"] else (latest, unusual, versions)


def latest_card(catalogue: SiteContents) -> View:
    """Return the card on the newest revision that changed anything in the tag whose history is shown."""
    stories, revisions = catalogue.stories, catalogue.past.revisions
    n = next((n for n in range(len(stories) - 1, 0, -1) if stories[n].facts), 0)
    title = "Latest revision" if n == len(stories) - 1 else f"Latest change, {revisions[n].calendar_day}"
    lines = [CardLine(fact.text, tone=fact.tone) for fact in stories[n].facts]
    onward = Link("All of this revision", revisions[n].path) if n else None
    return _card(title, lines, 5, "Nothing has changed since the first revision.", onward)


def unusual_card(catalogue: SiteContents, totals: Totals) -> View:
    """Return the card on stacks and packages that lost unusually much, up to the newest revision."""
    newest = catalogue.past.revisions[-1]
    # It names the day of the newest revision: a page may be read long after it.
    title = f"Unusual on {newest.calendar_day}" if newest.time else "Unusual now"
    nothing = "Nothing: every stack has about what it had, and no package lost in the last four weeks is still missing."
    return _card(title, list(_unusual(catalogue.past, totals)), 5, nothing)


def _fallen(totals: Totals) -> Mapping[str, tuple[str, int]]:
    """Return, by stack with under half of its usual number of specs, a text and the first such revision's index."""
    fallen = {}
    for stack, counts in sorted(totals.stacks.items()):
        usual = round(median([count for count in counts if count] or [0]))
        if usual >= _FEW_SPECS and 2 * counts[-1] < usual:
            since = max(n for n, count in enumerate(counts) if 2 * count >= usual) + 1
            has = f"has {counts[-1]:,} of" if counts[-1] else "has none of its"
            fallen[stack] = f"{has} {usual:,} specs", since
    return fallen


def _unusual(past: TagHistory, totals: Totals) -> Iterator[CardLine]:
    """Yield lines on stacks that lost most specs, removed packages, packages lost by stacks, and specs in no stack."""
    days = [revision.calendar_day for revision in past.revisions]

    def of_stack(stack: str, text: str, revision: int) -> CardLine:
        link = Link(parts.stack_text(stack), page("stack", stack))
        return CardLine(f"{text} since {days[revision]}", link, data.ATTENTION)

    fallen = _fallen(totals)
    for stack, (text, since) in fallen.items():
        yield of_stack(stack, text, since)
    now = past.revisions[-1].time
    lately = {n for n, each in enumerate(past.revisions) if not each.time or not now or now - each.time <= _LATELY}
    lost: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for history in past.packages:
        last = history.steps[-1].revision if history.steps else -1
        if history.is_there:
            for stack, revision in data.lost_by(history).items():
                if stack not in fallen and revision in lately:
                    lost[stack, revision].append(history.package)
        elif last in lately:
            yield CardLine(f"was removed on {days[last]}", parts.package_link(history.package, ""), data.ATTENTION)
    for (stack, revision), packages in sorted(lost.items(), key=lambda item: (-len(item[1]), item[0])):
        yield of_stack(stack, f"has no build of {names(packages)}", revision)
    count, specs = totals.unreferenced[-1], totals.specs[-1]
    if tag_names.is_mutable(past.tag) and count > _MANY_UNREFERENCED * max(1, specs):
        yield CardLine(f"{count:,} of {number(specs, 'spec')} are in no stack any more and may be pruned at any time")


def versions_card(catalogue: SiteContents) -> View:
    """Return the card on versions and packages that came in the week up to the newest revision, newest first."""
    revisions, newest = catalogue.past.revisions, catalogue.past.revisions[-1]
    # By revision: the stacks in which a version of a package was the first ever, by package and version.
    firsts: defaultdict[str, defaultdict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for package, stay in ((one.package, stay) for one in catalogue.past.packages for stay in one.stays):
        if stay.is_first and stay.is_dated:
            firsts[stay.since.revision][package, stay.version].append(stay.stack)
    versions: dict[tuple[str, str], NewVersion] = {}  # by package, and by version where that is no upgrade
    for story, revision in zip(catalogue.stories, revisions, strict=True):
        if newest.time is None or revision.time is None or newest.time - revision.time < timedelta(days=7):
            for one in story.versions:
                first = versions.pop((one.package, ""), one)
                versions[one.package, ""] = NewVersion(one.package, first.before, one.after, one.where)
            told = {(one.package, version) for one in story.versions for version in one.after.split(", ")}
            for key in sorted(firsts[revision.revision].keys() - told):
                versions[key] = NewVersion(key[0], "", key[1], f"in {stacks_named(firsts[revision.revision][key])}")
    # When packages that came back had been removed; a removal that ends a history is a later one.
    removed = {one.package: step.revision for one in catalogue.past.packages for step in one.steps[:-1] if step.is_gone}
    lines = []
    for (package, version), new in reversed(versions.items()):
        back = package in removed and f"back after it was removed on {revisions[removed[package]].calendar_day}"
        after = shown(new.after, 40)
        came = f"{shown(new.before, 40)} -> " if new.before else ""
        text = f"{came}{after} {new.where}" if came or version else f"{after}, {back or 'new package'}"
        lines.append(CardLine(text.rstrip(), parts.package_link(package, ""), data.NEWS))
    title = f"New versions in the {f'week to {newest.calendar_day}' if newest.time else 'last week'}"
    return _card(title, lines, 8, "No package has a new version.", Link("All revisions", "revisions.html"))


def index_page(catalogue: SiteContents, totals: Totals) -> View:
    """Return the values of the front page."""
    revisions = catalogue.past.revisions
    first, last, newest = revisions[0].calendar_day, revisions[-1].calendar_day, revisions[-1].time
    several = f"{number(len(revisions), 'revision')} from {first} to {last}."
    stacks = sum(1 for counts in totals.stacks.values() if counts[-1])
    packages, specs, tags = totals.packages[-1], totals.specs[-1], len(catalogue.tags) + 1
    return {
        "tag": shown(catalogue.past.tag),
        "day": last,
        "published": newest.isoformat() if newest else "",
        "lead": several if len(revisions) > 1 else f"One revision, of {last}.",
        "cards": cards(catalogue, totals),
        "figures": parts.figures(package=packages, spec=specs, stack=stacks, tag=tags),
        "churn": _churn_plot(catalogue, totals),
        "stacks": stacks_plot(catalogue, totals),
    }


def _churn_plot(catalogue: SiteContents, totals: Totals) -> View | None:
    """Return a plot of the numbers of changed specs, scaled for each kind of change; None if there is one revision."""
    revisions = catalogue.past.revisions
    if len(revisions) < 2:
        return None
    where = parts.clock(revisions, past=_PAST)
    churn = {kind: totals.churn[kind] for kind in data.KINDS if any(totals.churn.get(kind, ()))}
    curves = []
    for kind, numbers in churn.items():
        top, total = max(numbers), sum(numbers)
        peak = revisions[numbers.index(top)].day
        curves.append(
            {
                "name": Link(kind),
                "title": f"{kind}: {number(total, 'spec')} in all, at most {top:,} in one revision, on {peak}",
                "bars": parts.bars(where.places, numbers, top),
                "value": f"{total:,}",
                "note": "",
                "tone": kind,
                "about": data.KINDS[kind],
                "top": f"{top:,}",
            }
        )
    return parts.plot_of(where, revisions, curves, churn, catalogue.stories)


def stacks_plot(catalogue: SiteContents, totals: Totals) -> View | None:
    """Return a plot of the numbers of specs in the tag and in each stack, the largest first; None without any stack."""
    ordered = sorted(totals.stacks, key=lambda stack: (-totals.stacks[stack][-1], stack))
    if not ordered:
        return None
    where, revisions = parts.clock(catalogue.past.revisions, past=_PAST), catalogue.past.revisions
    everything = [(Link("all together"), totals.specs), *((parts.stack_link(s, ""), totals.stacks[s]) for s in ordered)]
    curves = [parts.curve(name, specs, where.places, revisions) for name, specs in everything]
    columns = {"all together": totals.specs, **{shown(stack, 40): totals.stacks[stack] for stack in ordered}}
    return parts.plot_of(where, revisions, curves, columns, catalogue.stories)


def revision_list(catalogue: SiteContents, totals: Totals) -> list[View]:
    """Return a row for each revision but the first, with its changes, newest first."""
    past, stories = catalogue.past, catalogue.stories
    return [
        {
            "moment": past.revisions[n],
            "address": past.revisions[n].path if stories[n].facts else "",
            "facts": stories[n].facts[:_MOST_FACTS],
            "more": max(0, len(stories[n].facts) - _MOST_FACTS),
            "size": number(totals.specs[n], "spec"),
        }
        for n in range(len(stories) - 1, 0, -1)
    ]


def revision_pages(catalogue: SiteContents) -> Iterator[tuple[str, View]]:
    """Yield the path and values of the page of each revision that changed anything."""
    past, stories = catalogue.past, catalogue.stories
    packages = {safe_name(history.package): _UP + page("package", history.package) for history in past.packages}
    numbers = [n for n, story in enumerate(stories) if story.facts]
    links = [Link(past.revisions[n].day or past.revisions[n].commit, _UP + past.revisions[n].path) for n in numbers]
    for n, earlier, later in zip(numbers, [None, *links], [*links[1:], None], strict=False):
        view = {
            "tag": shown(past.tag),
            "commit": past.revisions[n].revision,
            "moment": past.revisions[n],
            "before": past.revisions[n - 1],
            "earlier": earlier,
            "later": later,
            "total": stories[n].total,
            "sections": [_section(section, packages) for section in stories[n].sections],
        }
        yield past.revisions[n].path, view


def _section(section: Block, packages: Mapping[str, str]) -> View:
    """Return the values of `section`, part of a page; `packages` has addresses of packages by their displayed names."""
    named, _, more = section.named.partition(" and ")
    linked = {} if section.is_by_place else packages
    return asdict(section) | {
        "tone": data.tone_of(section.kind, section.severity),
        "named": [Link(shown(name), packages.get(name, "")) for name in (named.split(", ") if named else ())],
        "more_named": f"and {more}" if more else "",
        "rows": [(Link(shown(e.name), linked.get(e.name, "")), e.fact, e.specs, e.where) for e in section.entries],
    }


def package_rows(catalogue: SiteContents) -> list[View]:
    """Return a row for each package that is in any tag, or was in the tag whose history is shown, sorted by name."""
    rows = []
    for package, history in sorted(packages_of(catalogue).items()):
        if history is None:
            rows.append(parts.package_row(package, Present(), note="in other tags"))
        else:
            day, note = catalogue.past.revisions[history.changed].day, "" if history.is_there else "gone"
            rows.append(parts.package_row(package, history.present, day=day, note=note))
    return rows


def packages_of(catalogue: SiteContents) -> dict[str, data.PackageHistory | None]:
    """Return the histories of all packages by name; None for packages that are only in other tags."""
    elsewhere = dict.fromkeys(package for _, packages in catalogue.tags.values() for package in packages)
    return {**elsewhere, **{history.package: history for history in catalogue.past.packages}}


def index_file(packages: Sequence[str], catalogue: SiteContents, totals: Totals) -> bytes:
    """Return the script with all data to search except hashes; a package's number in it is its index in `packages`."""
    presents = _presents_of(catalogue)

    def numbered(names: Iterable[str]) -> Mapping[str, int]:
        return {name: n for n, name in enumerate(sorted(set(names)))}

    stacks = numbered([*totals.stacks, *(stack for present in presents.values() for stack in present.stacks)])
    targets = numbered(target for present in presents.values() for target in present.targets)
    compilers = numbered(compiler for present in presents.values() for compiler in present.compilers)
    rows = []
    for package in packages:
        present = presents.get(package, Present())
        versions = [shown(version, 40).replace(" ", "") for version in sorted_versions(present.versions)[::-1][:12]]
        facts = ((stacks, present.stacks), (targets, present.targets), (compilers, present.compilers))
        rows.append((_named(package), " ".join(versions), *(sorted(ids[name] for name in own) for ids, own in facts)))
    content = {
        "tag": shown(catalogue.past.tag),
        "letters": "".join(sorted({letter for present in presents.values() for letter in _by_letter(present)})),
        "stacks": [_named(stack) for stack in stacks],
        "tags": [_named(tag) for tag in (catalogue.past.tag, *catalogue.tags)],
        "targets": [shown(target, 40) for target in targets],
        "compilers": [shown(compiler, 40) for compiler in compilers],
        "packages": rows,
    }
    # A script that calls a function with data, because a page that is opened from a disk may load nothing else.
    return b"cachewatch.index(" + _json(content) + b");\n"


def hash_files(packages: Sequence[str], catalogue: SiteContents) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of a script for each first letter of hashes, with these hashes by index in `packages`."""
    presents = _presents_of(catalogue)
    by_letter: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for place, package in enumerate(packages):
        for letter, hashes in _by_letter(presents.get(package, Present())).items():
            by_letter[letter][place] = "".join(sorted(hashes))
    for letter, by_number in sorted(by_letter.items()):
        yield f"assets/hashes-{letter}.js", b'cachewatch.hashes("%s",' % letter.encode() + _json(by_number) + b");\n"


def _presents_of(catalogue: SiteContents) -> dict[str, Present]:
    """Return, by package, the current specs in the tag whose history is shown."""
    return {history.package: history.present for history in catalogue.past.packages if history.is_there}


def _by_letter(present: Present) -> Mapping[str, list[str]]:
    """Return the second to seventh letters of all hashes in `present`, by first letter, without unusual hashes."""
    all_short = (spec_hash[:_LETTERS].lower() for build in present.builds for spec_hash in build.hashes)
    usual = (short for short in all_short if len(short) == _LETTERS and _HASH_LETTERS.issuperset(short))
    return grouped((short[0], short[1:]) for short in usual)


def _named(name: str) -> str | list[str]:
    """Return `name`, or a list of `name` as shown and the file name of its page if that differs."""
    return name if file_name(name) == name else [shown(name), file_name(name)]


def _json(content: object) -> bytes:
    # Without "<", no data can look like markup in a script.
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c").encode()


def stack_pages(past: TagHistory, totals: Totals) -> Iterator[tuple[str, View]]:
    """Yield each stack that had specs in any revision, and the values of its page."""
    members: defaultdict[str, dict[str, Present]] = defaultdict(dict)
    # By stack and revision: the versions of packages that were added to the stack, and those that were removed from it.
    events: defaultdict[str, dict[int, tuple[list[Link], list[Link]]]] = defaultdict(dict)
    for history in past.packages:
        for stack in history.present.stacks:
            copies = tuple(found for found in history.present.copies if found.stack == stack)
            members[stack][history.package] = Present(specs=sum(found.count for found in copies), copies=copies)
        address = _UP + page("package", history.package)
        for step in history.steps:
            for place, side in enumerate(() if step.is_baseline else (step.added, step.removed)):
                for stack, version in side:
                    link = Link(f"{shown(history.package)} {shown(version, 24)}", address)
                    events[stack].setdefault(step.revision, ([], []))[place].append(link)
    for stack, specs in sorted(totals.stacks.items()):
        # Like a package's, its axis ends with the last change.
        changes = [n for n in range(len(specs)) if n == 0 or specs[n] != specs[n - 1]]
        happened = [
            parts.happening(past.revisions[revision], specs[revision], *sides)
            for revision, sides in sorted(events[stack].items(), reverse=True)
        ]
        own = members[stack]
        targets = sorted({target for present in own.values() for target in present.targets})
        lead = f"It builds for {', '.join(shown(t, 40) for t in targets[:6])}{', ...' if len(targets) > 6 else ''}."
        view = {
            "name": shown(stack),
            "tag": shown(past.tag),
            "lead": lead if own else "It has no specs now.",
            "figures": parts.figures(package=len(own), spec=specs[-1], target=len(targets)),
            "plot": parts.specs_plot([specs[n] for n in changes], changes, past.revisions),
            **parts.cut("happenings", happened, 40),
            "packages": [parts.package_row(package, present, up=_UP) for package, present in sorted(own.items())],
            "feed": f"{file_name(stack)}.atom",
        }
        yield stack, view


def tag_rows(catalogue: SiteContents) -> list[View]:
    """Return a row for each tag, in the order of `tag_names.in_order`, with its changes from the tag before it."""
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
    """Yield each tag and the values of its page: the packages it has, and its changes from the tag before it."""
    commit = catalogue.past.revisions[-1].commit
    links = {safe_name(package): _UP + page("package", package) for package in packages_of(catalogue)}
    for tag, packages in _by_tag(catalogue).items():
        specs = sum(present.specs for present in packages.values())
        stacks = {stack for present in packages.values() for stack in present.stacks}
        view: View = {
            "name": shown(tag),
            "figures": parts.figures(package=len(packages), spec=specs, stack=len(stacks)),
            "packages": [parts.package_row(package, present, up=_UP) for package, present in sorted(packages.items())],
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
    return {catalogue.past.tag: _presents_of(catalogue), **others}
