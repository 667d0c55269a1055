"""The page of one package: its specs and stacks, how to install it, its history, and why it was rebuilt."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from cachewatch.core import escaping_and_mentions as escaping
from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core.graphs_and_attribution import What
from cachewatch.core.kinds_and_specs import Signature, grouped, known_hash
from cachewatch.core.versions_spellings_targets import NO_COMPILER, newest, sorted_versions, version_key
from cachewatch.extensions.causes.explaining_reports_and_locks import Chain
from cachewatch.extensions.site import page_parts_and_plots as parts
from cachewatch.extensions.site.package_histories import (
    KINDS,
    PackageHistory,
    PackageStep,
    Present,
    Revisions,
    StackStay,
    file_name,
    lost_by,
    page,
    shown,
)
from cachewatch.extensions.site.page_parts_and_plots import Link, View
from cachewatch.extensions.site.reading_history import SiteContents
from cachewatch.report.digests.commands import install_line
from cachewatch.report.rebuild_cause_words import because, change_of
from cachewatch.report.words import first_of, number, stack_name

_UP = "../"
_MOST_VERSIONS = 8
_MOST_HAPPENINGS = 24
_MOST_LETTERS = 30_000  # of variants on one page
_STEP = 40  # pixels from one package to the next
_MOST_STEPS = 7
_LONGEST = 300


class Sources(Struct, frozen=True):
    """The addresses of the mirror to install from, and of Spack's pages about packages; "" if unknown."""

    mirror: str = ""  # {tag} in it stands for the tag
    packages: str = ""  # {package} in it stands for the name of the package


def filled(address: str, field: str, name: str) -> str:
    """Return `address` with `name` in place of `field`; "" if it is no web address, or a shell could misread `name`."""
    is_usable = address and escaping.is_shell_word(name)
    return (escaping.web_address(address.replace(field, name)) or "") if is_usable else ""


def matrix_of(present: Present) -> View | None:
    """Return a table of how many specs each stack has of each version, newest first; None if there are no specs."""
    if not present.copies:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    targets: defaultdict[str, set[str]] = defaultdict(set)
    for copies in present.copies:
        counts[copies.stack, copies.version] += copies.count
        targets[copies.stack].add(copies.target)
    versions = sorted_versions(present.versions)[::-1]
    return {
        "versions": [shown(version, 24) for version in versions[:_MOST_VERSIONS]],
        "rows": [
            {
                "stack": parts.stack_link(stack, _UP),
                "targets": _named(sorted(targets[stack]), 4),
                "counts": [counts[stack, version] for version in versions[:_MOST_VERSIONS]],
                "is_unreferenced": not stack,
            }
            for stack in sorted(targets, key=lambda stack: (stack == "", stack))
        ],
        **parts.cut("older", [shown(version, 24) for version in versions[_MOST_VERSIONS:]], 40),
    }


def _named(words: Sequence[str], most: int) -> str:
    return first_of([shown(word, 24) for word in words], most)


def install_of(package: str, tag: str, present: Present, sources: Sources) -> View | None:
    """Return commands that install the newest version in `present`, as most stacks build it; None if no stack does."""
    built = [build for build in present.builds if build.signature.stacks and build.version]
    if not built:
        return None
    latest = newest({build.version for build in built})
    newest_builds = (build for build in built if build.version == latest)
    chosen = max(newest_builds, key=lambda build: (len(build.signature.stacks), len(build.hashes), build.hashes))
    if (command := install_line(package, latest, spec_hash=known_hash(chosen.hashes[0]) or "")) is None:
        return None
    mirror = filled(sources.mirror, "{tag}", tag)
    setup = (f"spack mirror add {tag} {mirror}", "spack buildcache keys --install --trust") if mirror else ()
    stacks = _named([stack_name(stack) for stack in chosen.signature.stacks], 3)
    variants = " ".join(map(shown, chosen.signature.variants))
    about = f"for {_configuration(chosen.signature)}, from {stacks}"
    return {"setup": setup, "command": command, "about": about, "variants": variants}


def _configuration(spec: Signature) -> str:
    compiler = "" if spec.compiler == NO_COMPILER else spec.compiler
    return ", ".join(shown(value, 40) for value in (spec.target, spec.os, compiler) if value)


def builds_of(present: Present) -> View:
    """Return a row for each group of specs that differ only in hashes: newest version first, those in no stack last."""
    sets = [set(build.signature.variants) for build in present.builds]
    shared = set.intersection(*sets) if sets else set()
    ordered = sorted(present.builds, key=lambda build: (build.signature.stacks, build.signature.target, build.hashes))
    ordered.sort(key=lambda build: (not build.signature.is_unreferenced, version_key(build.version)), reverse=True)
    rows: list[View] = []
    letters = 0
    for build in ordered[:120]:
        spec = build.signature
        hashes = [shown(spec_hash, 40) for spec_hash in build.hashes if known_hash(spec_hash)]
        variants = " ".join(shown(variant) for variant in spec.variants if variant not in shared)
        letters += len(variants)
        if letters > _MOST_LETTERS:
            break
        rows.append(
            {
                "version": shown(build.version, 40),
                **parts.cut("hashes", hashes, 3),
                "configuration": _configuration(spec),
                "stacks": _named([stack_name(stack) for stack in spec.stacks], 4) if spec.stacks else "no stack",
                "variants": variants,
            }
        )
    more = sum(len(build.hashes) for build in ordered[len(rows) :])
    return {"rows": rows, "count": present.specs, "more": more, "shared": " ".join(map(shown, sorted(shared)))}


def _chain(chain: Chain, packages: Container[str]) -> View:
    """Return the cause in words and, if it lies in a dependency, a drawing of the path with links to `packages`."""
    words = f"{number(chain.specs, 'spec')} {shown(because([chain.cause]), _LONGEST)}"
    names = chain.path[::-1]  # from the cause to the package that was rebuilt
    if len(names) < 2 or chain.cause.what in (What.SPACK, What.NOT_RECORDED):
        return {"words": words, "steps": ()}
    # An empty name stands for the middle of a long path.
    few = names if len(names) <= _MOST_STEPS else (*names[: _MOST_STEPS - 3], "", *names[-2:])
    steps = []
    for place, name in enumerate(few):
        link = Link(f"{len(names) - len(few) + 1} more packages")
        if name:
            is_linked = name in packages and place < len(few) - 1
            link = Link(shown(name, 40), _UP + page("package", name) if is_linked else "")
        note = "" if place else shown(change_of(chain.cause), _LONGEST)
        steps.append({"name": link, "note": note, "top": place * _STEP})
    title = ", which needs ".join(shown(name, 40) for name in chain.path)
    return {"words": words, "title": title, "steps": steps, "height": _STEP * (len(steps) - 1) + 24}


def package_page(
    package: str, catalogue: SiteContents, packages: Mapping[str, PackageHistory | None], sources: Sources
) -> View:
    """Return the values of the page of `package`; `packages` has all histories (None: package only in other tags)."""
    tag, revisions, history = catalogue.past.tag, catalogue.past.revisions, packages[package]
    present = history.present if history else Present()
    steps, stays = (history.steps, history.stays) if history else ((), ())
    losses = lost_by(history) if history and history.is_there else {}
    # The stacks that had the package and have no build of it now, the latest loss first.
    lost = [
        {"stack": Link(parts.stack_text(stack), _UP + page("stack", stack)), "moment": revisions[revision]}
        for stack, revision in sorted(losses.items(), key=lambda item: (-item[1], item[0]))
    ]
    runs = _runs([step for step in steps if not step.is_baseline])
    is_pruned = tag_names.is_mutable(tag)
    # The axis ends with the last change of this package, so that only a change makes another page.
    changed = [step.revision for step in steps]
    drawn = sorted({*changed, *(end for stay in stays for end in (stay.first, stay.last) if end is not None)})
    where = parts.clock([revisions[number] for number in drawn], past=parts.PAST)
    places = dict(zip(drawn, where.places, strict=True)) if len(drawn) > 1 else {}
    causes, versions, stacks = catalogue.causes.get(package), len(present.versions), len(present.stacks)
    return {
        "name": shown(package),
        "tag": shown(tag),
        "lead": _lead(present, tag, is_pruned=is_pruned),
        "gone": revisions[steps[-1].revision] if steps and steps[-1].is_gone else None,
        "since": revisions[history.changed] if history else None,
        **parts.cut("lost", lost, 5),
        "figures": parts.figures(spec=present.specs, version=versions, stack=stacks, target=len(present.targets)),
        "upstream": filled(sources.packages, "{package}", package),
        "install": install_of(package, tag, present, sources),
        "matrix": matrix_of(present),
        "is_pruned": is_pruned,
        "builds": builds_of(present),
        "lanes": list(_lanes(stays, places, revisions)) if places else [],
        "ticks": where.ticks,
        **parts.cut("stays", _stay_rows(stays, revisions), 200),
        "specs": parts.specs_plot([step.specs for step in steps], changed, revisions),
        "reasons": causes
        and {"moment": revisions[causes.revision], "chains": [_chain(chain, packages) for chain in causes.chains]},
        "happenings": [_happening_of(run, revisions) for run in runs[:_MOST_HAPPENINGS]],
        "more_happenings": sum(len(run) for run in runs[_MOST_HAPPENINGS:]),
        "baseline": revisions[steps[0].revision] if steps and steps[0].is_baseline else None,
        "tags": [_tag_row(name, all_of[package]) for name, (_, all_of) in catalogue.tags.items() if package in all_of],
        "feed": f"{file_name(package)}.atom" if history else "",
        "stack_feeds": [Link(shown(s, 40), f"{_UP}stack/{file_name(s)}.atom") for s in sorted(present.stacks)],
    }


def _runs(steps: Sequence[PackageStep]) -> list[list[PackageStep]]:
    """Return `steps` in groups, newest first: successive ones that only rebuilt specs are a group, others are alone."""
    runs: list[list[PackageStep]] = []
    for is_noise, some in groupby(
        reversed(steps), lambda step: step.counts.keys() == {"rebuilt"} and not (step.added or step.removed)
    ):
        group = list(some)
        runs += [group] if is_noise else [[step] for step in group]
    return runs


def _happening_of(run: Sequence[PackageStep], revisions: Revisions) -> View:
    """Return the values on `run`, an item of `_runs`: one step, or several that only rebuilt specs, newest first."""
    step, moment = run[0], revisions[run[0].revision]
    sums = {kind: sum(one.counts.get(kind, 0) for one in run) for kind in KINDS}
    counts = [{"number": f"{count:,}", "label": kind} for kind, count in sums.items() if count]
    note = f"in {len(run)} revisions from {revisions[run[-1].revision].day} on" if len(run) > 1 else ""
    added, removed = _versions(step.added), _versions(step.removed)
    return parts.happening(moment, step.specs, added, removed, counts=counts, note=note)


def _stay_rows(stays: Sequence[StackStay], revisions: Revisions) -> list[View]:
    arrivals = sorted(stays, key=lambda stay: stay.stack)
    arrivals.sort(key=lambda stay: (stay.first, version_key(stay.version)), reverse=True)
    return [
        {
            "stack": parts.stack_link(stay.stack, _UP),
            "version": shown(stay.version, 40),
            "since": stay.since,
            "is_dated": stay.is_dated,
            "went": None if stay.last is None else revisions[stay.last],
            "lag": "" if stay.lag is None else "first" if stay.is_first else f"{parts.days(stay.lag)} later",
        }
        for stay in arrivals
    ]


def _tag_row(tag: str, present: Present) -> View:
    versions = _named(sorted_versions(present.versions)[::-1], 4)
    return {"name": Link(shown(tag), _UP + page("tag", tag)), "specs": present.specs, "versions": versions}


def _lead(present: Present, tag: str, *, is_pruned: bool) -> str:
    if not present.specs:
        return f"There is no binary of it in {shown(tag)}."
    if not present.versions:
        return "Its specs have no version."
    latest = newest(present.versions)
    stacks = sorted({parts.stack_text(one.stack) for one in present.copies if one.version == latest and one.stack})
    there = f"in {first_of(stacks, 3, ' and {:,} more stacks')}" if stacks else "which no stack builds"
    text = f"The newest version is {shown(latest, 40)}, {there}."
    if present.unreferenced and is_pruned:
        verb = "is" if present.unreferenced == 1 else "are"
        text += f" {number(present.unreferenced, 'spec')} {verb} in no stack any more and may be pruned at any time."
    return text


def _lanes(stays: Sequence[StackStay], places: Mapping[int, float], revisions: Revisions) -> Iterator[View]:
    """Yield a drawing for each stack, with a bar for each stay; `places` has positions of revisions in percent."""
    there = [stay.version for stay in stays if stay.last is None]
    latest = newest(there) if there else None
    for stack, own in sorted(grouped((stay.stack, stay) for stay in stays).items()):
        ends: list[float] = []
        drawn = []
        for stay in own:
            left, right = places[stay.first], 100.0 if stay.last is None else places[stay.last]
            lane = next((n for n, end in enumerate(ends) if end <= left), len(ends))
            if lane >= 6:
                continue  # the table has it
            ends[lane : lane + 1] = [right]
            tone = "past" if stay.last is not None else "newest" if stay.version == latest else "there"
            width = round(max(0.8, right - left), 2)
            drawn.append({"left": left, "width": width, "lane": lane, "label": shown(stay.version, 40), "tone": tone})
        texts = []
        for stay in own[-8:]:
            began = f"{stay.since.day}{'' if stay.is_dated else ' or before'}"
            ended = f" to {revisions[stay.last].day}" if stay.last is not None else ""
            texts.append(f"{shown(stay.version, 24)} {'from' if ended else 'since'} {began}{ended}")
        title = f"{shown(stack)}: {', '.join(texts)}"
        yield {"stack": parts.stack_link(stack, _UP), "title": title, "height": len(ends), "bars": drawn}


def _versions(places: Iterable[tuple[str, str]]) -> tuple[Link, ...]:
    """Return a text such as "1.2 in e4s, radiuss" for each version in `places`, pairs of stack and version."""
    stacks = grouped((version, parts.stack_text(stack) if stack else "no stack") for stack, version in places)
    return tuple(
        Link(f"{shown(version, 40)} in {first_of(names, 3)}")
        for version, names in sorted(stacks.items(), key=lambda item: version_key(item[0]))
    )
