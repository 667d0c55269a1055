"""`cachewatch why`: why specs were rebuilt; `cachewatch impact`: what would be rebuilt if a package changed."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.cli import terminal
from cachewatch.cli.chosen_repository import open_catalogue
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import REPO_OPTION, TAG_OPTION, completing, rev_option
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.graphs_and_attribution import NOT_RECORDED, Cause, Explanation, LockChange, What
from cachewatch.core.kinds_and_specs import Side
from cachewatch.errors import UsageError
from cachewatch.extensions.causes import asked_specs
from cachewatch.extensions.causes.explaining_reports_and_locks import compare_locks
from cachewatch.extensions.causes.predecessors_and_causes import Impact
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve
from cachewatch.git.tags_and_documents import tree_of
from cachewatch.report import rebuild_cause_words as cause_words
from cachewatch.report.dates_and_totals import days
from cachewatch.report.json_and_safe_csv import encode
from cachewatch.report.rebuild_cause_words import SHORT, first_few, short
from cachewatch.report.tables_and_listings import Table, write_table
from cachewatch.report.template_rendering import render
from cachewatch.report.words import number

_MOST_SPECS = 20
_MOST_DIFFERENCES = 4
_MOST_PACKAGES = 40


class WhyReport(Struct, frozen=True, kw_only=True):
    """The contents of an answer to `cachewatch why`."""

    heading: str
    counted: tuple[Explanation, ...] = ()  # specs whose causes are counted together
    are: str = ""  # words that describe the counted specs, such as "rebuilt"
    notes: tuple[str, ...] = ()
    explained: tuple[Explanation, ...] = ()  # specs whose causes are listed one by one
    more: tuple[str, ...] = ()  # last lines, on what is left out
    named: tuple[Cause, ...] = ()  # causes that the notes mention
    differs: bool = True  # False if the two lock files, or specs, that were compared are equal


def package_report(
    package: str, before: Side, after: Side, explanations: Sequence[Explanation], *, is_recorded: bool = True
) -> WhyReport:
    """Return the report on specs of `package` rebuilt between `before` and `after`, as `explanations` explains them.

    `is_recorded`: whether both have a dependency graph.
    """
    explained = tuple(one for one in explanations if one.predecessor is not None)
    rest, new = len(explained) - _MOST_SPECS, len(explanations) - len(explained)
    more = [f"... and {rest:,} more specs (--format json has all)"] if rest > 0 else []
    was = f" at {before.revision[:7]}" if before.revision else f" in {safe(before.name)}"
    more += [f"{number(new, 'new spec')}: the package had none{was}"] if new else []
    notes = [] if explanations else [_nothing("no new specs", before, after)]
    if notes and not is_recorded:
        notes.append("it could not explain new specs either, as no dependency graph of these revisions is recorded")
    heading = _heading(package, before, after)
    return WhyReport(heading=heading, notes=tuple(notes), explained=explained[:_MOST_SPECS], more=tuple(more))


def _nothing(what: str, before: Side, after: Side) -> str:
    """Return a sentence that says `what` (`no new specs`) between two states, and how to see what else changed."""
    tags = [f":{side.tag}" if before.tag != after.tag else "" for side in (before, after)]
    names = [f"{(side.revision or '')[:SHORT]}{safe(tag)}" for side, tag in zip((before, after), tags, strict=True)]
    return f"{what} between these revisions; what else changed: cachewatch diff {' '.join(names)}"


def revisions_report(before: Side, after: Side, explained: Sequence[Explanation]) -> WhyReport:
    """Return the report on causes of rebuilds from `before` to `after`, with notes on other specs in `explained`."""
    rebuilt, groups = [], defaultdict[str, list[Explanation]](list)
    for spec in explained:
        if spec.is_match and spec.causes and not _own_causes(spec):
            rebuilt.append(spec)
        else:  # such as another version, or a new package
            groups[_difference(spec)].append(spec)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rest = [one for _, some in ordered[_MOST_DIFFERENCES:] for one in some]
    shown = [*ordered[:_MOST_DIFFERENCES], *([("with other differences", rest)] if rest else [])]
    notes = [
        f"{number(len(some), 'new spec')}, {difference}: {first_few(sorted({safe(one.spec.name) for one in some}))}"
        for difference, some in shown
    ]
    if not rebuilt:
        notes.insert(0, _nothing("no specs were rebuilt", before, after))
    return WhyReport(
        heading=_heading(after.tag or "", before, after),
        counted=tuple(rebuilt),
        are="rebuilt, in place of an older build or beside it",
        notes=tuple(notes),
        named=tuple(cause for some in groups.values() for one in some for cause in _own_causes(one)),
    )


def _difference(explanation: Explanation) -> str:
    """Return in words how the new spec of `explanation` differs from its predecessor, or that it has no predecessor."""
    if explanation.predecessor is None:
        return "of packages that were not there before"
    own = sorted(_own_causes(explanation), key=lambda cause: cause.sort_key)
    told = ", ".join(f"{cause.what} {cause_words.change_in_words(cause)}" for cause in own)
    return f"with {told}" if own else "without a graph to compare, or in other stacks than any older one"


def lock_report(change: LockChange, before: str, after: str) -> WhyReport:
    """Return the report on two lock files named `before` and `after`: causes with counts, then each root by itself."""
    specs = f"{len(change.explained):,} of {number(change.specs, 'spec')} with another hash"
    notes = [
        f"{word}: {first_few([safe(f'{node.name}@{node.version}') for node in nodes])}"
        for word, nodes in (("added", change.added), ("removed", change.removed))
        if nodes
    ]
    notes += [
        f"/{safe(old.hash[:7])} is {safe(f'{old.name}@{old.version}')} in one file and {safe(f'{new.name}@{new.version}')} "
        "in the other: one of them was edited, as another version has another hash"
        for old, new in change.reused
    ]
    roots = [one for one in change.explained if one.spec.hash in change.roots]
    return WhyReport(
        heading=f"{safe(before)} -> {safe(after)}: {specs}",
        counted=change.explained,
        are="with another hash",
        notes=tuple(notes),
        explained=tuple(roots[:_MOST_SPECS]),
        differs=bool(change.explained or notes),
    )


def report_lines(report: WhyReport) -> Iterator[str]:
    """Yield the lines of a report as text."""
    yield report.heading
    if report.counted:
        yield from cause_words.attributed_lines(report.counted, report.are)
    yield from report.notes
    for place, one in enumerate(report.explained):
        yield from ("", f"{short(one.spec)}: {_predecessor(one, is_first=not place)}")
        yield from (f"  {line}" for line in cause_words.cause_lines(one.paths))
    yield from report.more


def report_markdown(report: WhyReport) -> bytes:
    """Return a report as Markdown."""
    groups = cause_words.cause_rows(report.counted)
    counted, rest = groups[: cause_words.MOST_CAUSES], [one["count"] for one in groups[cause_words.MOST_CAUSES :]]
    return render(
        "causes/why.md.j2",
        report=report,
        specs=number(len(report.counted), "spec"),
        counted=counted,
        other_specs=number(sum(rest), "spec"),
        others=number(sum(map(bool, rest)), "other reason") if any(rest) else "",
        explained=[
            (short(one.spec), _predecessor(one, is_first=not place), [*cause_words.causes_in_words(one.paths)])
            for place, one in enumerate(report.explained)
        ],
    ).encode()


def _predecessor(explanation: Explanation, *, is_first: bool) -> str:
    """Return a text on the predecessor of a spec; if it `is_first` in the report, the text explains the term."""
    assert explanation.predecessor is not None
    where = ", which is still there" if explanation.is_beside else ""
    unlike = "" if explanation.is_paired else ", for another operating system or target"
    meaning = " (the older spec that shares most dependencies)" if is_first else ""
    return f"nearest predecessor {short(explanation.predecessor)}{where}{unlike}{meaning}"


def _own_causes(one: Explanation) -> list[Cause]:
    """Return the causes in the spec itself, such as another version, but not another recipe. A rebuild has none."""
    return [cause for cause in one.causes if cause.package == one.spec.name and cause.what is not What.RECIPE]


def _heading(name: str, before: Side, after: Side) -> str:
    revisions = f"({(before.revision or '')[:SHORT]} -> {(after.revision or '')[:SHORT]})"
    return "  ".join(filter(None, (safe(name), days(before.time, after.time), revisions)))


def impact_tables(asked: str, where: str, impact: Impact) -> list[Table]:
    """Return tables of dependents by stack and by package; the heading says that they depend on `asked` in `where`."""
    dependents = f"{number(impact.specs, 'dependent spec')} of {number(len(impact.packages), 'package')}"
    before = f"{asked} in {where}: {dependents} (of {impact.of_specs:,} specs in the tag)"
    if not impact.specs:
        return [Table((), (), (before,))]
    stacks = [(stack or "(no stack)", *counts) for stack, counts in impact.stacks.items()]
    rows = [(name, specs, "yes" if name in impact.direct else "no") for name, specs in impact.packages.items()]
    rest = len(rows) - _MOST_PACKAGES
    more = (f"... and {number(rest, 'more package')} (--format json has all)",) if rest > 0 else ()
    return [
        Table(("stack", "specs", "packages"), stacks, (before, "")),
        Table(("package", "specs", "direct"), rows[:_MOST_PACKAGES], after=("",) * bool(more) + more),
    ]


@examples(
    "cachewatch why hdf5 --repo catalogue.git",
    "cachewatch why /j4xgwtq --repo catalogue.git --format json",
    "cachewatch why --between 2026-11-01 HEAD --repo catalogue.git",
    "cachewatch why --lock old/spack.lock new/spack.lock",
    "cachewatch why /j4xgwtq --against /22xqlom",
)
@click.command
@click.argument(
    "spec", required=False, metavar="[HASH|PACKAGE[@VERSION]]", shell_complete=completing("package_versions")
)
@click.option(
    "--between",
    nargs=2,
    metavar="A B",
    help="Compare these revisions or dates; REVISION:TAG for two tags.  [default: the step in which the spec came; without a spec, the step to --rev]",
)
@click.option(
    "--lock",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="A B",
    help="Compare two lock files of an environment instead of revisions.",
)
@click.option("--against", metavar="HASH", help="Compare the spec HASH with this one of the same tag.")
@rev_option("Look for the spec in this revision or date; without a spec, count the causes of this revision.")
@TAG_OPTION
@REPO_OPTION
@terminal.format_option("text", "json", "markdown")
@terminal.OUTPUT_OPTION
def why(
    *,
    spec: str | None,
    between: tuple[str, str] | None,
    lock: tuple[Path, Path] | None,
    against: str | None,
    rev: str,
    tag: str,
    repo: str | None,
    format_: str,
    output: str | None,
) -> WhyReport:
    """Explain why specs were rebuilt: what changed in them, or in what they depend on.

    Each new spec is compared with its nearest predecessor, the older spec that shares most dependencies. Without a
    spec, all causes between two revisions are counted. This needs a repository that `cachewatch record` writes:
    Spack's public catalogue has no dependency graph.
    """
    if lock and (spec or between or against):
        raise UsageError("--lock compares two whole lock files; leave out the spec and other options")
    if against and (between or not spec):
        raise UsageError("--against compares two specs of one tag; give one HASH, and no --between")
    if lock:
        change = compare_locks(*lock)
        answer: _Answer = partial(cause_words.lock_json, change), lock_report(change, *map(str, lock))
    else:
        with closing(terminal.ProgressLine()) as line, closing(open_catalogue(repo, line)) as repository:
            if spec and against:
                answer = _of_two(repository, (against, spec), rev, tag)
            elif spec:
                answer = _of_spec(repository, spec, tag, between, rev)
            else:
                answer = _of_all(repository, between or (f"{resolve(repository, rev).commit}~1", rev), tag)
    values, report = answer
    if format_ == "json":
        terminal.write([values()], output)
    elif format_ == "markdown":
        terminal.write([report_markdown(report)], output)
    else:
        colours = terminal.palette(output)
        heading, *lines = report_lines(report)
        causes = chain(report.named, *(one.causes for one in (*report.counted, *report.explained)))
        terminal.write_lines([colours.paint(heading, "bold"), *colours.changes(lines, causes)], output)
    return report


_Answer = tuple[Callable[[], bytes], WhyReport]  # as JSON, and for people


def _of_spec(repository: Repository, text: str, tag: str, between: tuple[str, str] | None, rev: str) -> _Answer:
    """Return why the specs that `text` means differ from their predecessors; the arguments are as in `find_asked`."""
    (package, hashes), before, after = asked_specs.find_asked(repository, text, tag, between, rev)
    if before is None:
        said = "was there in the first recorded revision; there is no predecessor to compare with."
        report = WhyReport(heading=f"{safe(package)}: {said}")
        return partial(cause_words.explained_json, package, [], is_recorded=False), report
    step = asked_specs.GraphStep.between(repository, *((one.commit, one.tag or tag) for one in (before, after)))
    new = step.explain_all(package)
    explained = [step.with_paths(one) for one in new if hashes is None or one.spec.hash in hashes]
    _require_graphs(step, explained)
    sides = before.side(), after.side()
    report = package_report(package, *sides, explained, is_recorded=step.is_recorded)
    return partial(cause_words.explained_json, package, explained, is_recorded=step.is_recorded), report


def _require_graphs(step: asked_specs.GraphStep, found: Sequence[Explanation]) -> None:
    """Raise UsageError if a spec in `found` has no causes because `step` lacks a graph; warn of unreadable packages."""
    if any(NOT_RECORDED in one.causes for one in found):
        step.before.require()
        step.after.require()
    for what in step.unreadable:
        terminal.warn_of_graph(what)


def _of_two(repository: Repository, texts: tuple[str, str], rev: str, tag: str) -> _Answer:
    """Return the differences and stacks of two specs of `tag` at the revision `rev` whose hashes begin with `texts`."""
    revision = resolve(repository, rev)
    tag = revision.tag or tag
    tree_of(repository, revision, tag)
    step, explanation = asked_specs.explain_two(repository, revision, tag, texts)
    assert explanation.predecessor is not None
    _require_graphs(step, ())
    sides, stacks = [], []
    for graph, spec in ((step.before, explanation.predecessor), (step.after, explanation.spec)):
        document = graph.document(spec.name)
        own = document.specs[spec.hash].stacks if document else ()
        at = "" if repository.is_folder else f" at {graph.commit[:SHORT]}"
        sides.append(f"{short(spec)} in {safe(graph.tag)}{at}")
        stacks.append(first_few([*map(safe, own)] or ["none"]))
    differs, notes = explanation.spec.hash != explanation.predecessor.hash, []
    if not differs:
        explanation = replace(explanation, causes=(), paths={})
        notes = ["this is one spec"]
    elif set(explanation.paths) == {NOT_RECORDED}:
        but = "hash" if stacks[0] == stacks[1] else "hash and the stacks"
        notes = [f"the documents say the same of both, except for the {but}"]
    notes += [*cause_words.cause_lines(explanation.paths), f"stacks {' -> '.join(dict.fromkeys(stacks))}"]
    lines = tuple(f"  {line}" for line in notes)
    report = WhyReport(heading=" -> ".join(sides), notes=lines, named=tuple(explanation.paths), differs=differs)
    name = explanation.spec.name
    return partial(cause_words.explained_json, name, [explanation], is_recorded=step.is_recorded), report


def _of_all(repository: Repository, names: tuple[str, str], tag: str) -> _Answer:
    """Return the causes of rebuilds between revisions `names` of `tag`, or of all differences if they name two tags."""
    older, newer = (resolve(repository, name) for name in names)
    first, second = older.tag or tag, newer.tag or tag
    if older.tag is not None:  # else the tag may be new
        tree_of(repository, older, first)
    tree_of(repository, newer, second)
    step = asked_specs.GraphStep.between(repository, (older.commit, first), (newer.commit, second))
    explained = list(step.explain_packages(lambda _: True))
    _require_graphs(step, explained)
    sides = older.side(first), newer.side(second)
    if first == second:
        counted = [one for one in explained if one.is_match]
        report = revisions_report(*sides, explained)
    else:
        counted = [one for one in explained if one.predecessor is not None]
        notes = [] if counted else ["the specs of all packages that both have are equal"]
        if others := [safe(one.spec.name) for one in explained if one.predecessor is None]:
            of_packages = f"of packages that only {safe(second)} has: {first_few(sorted({*others}))}"
            notes.append(f"{number(len(others), 'spec')} {of_packages}")
        than = f"than the specs of {safe(first)} that share most dependencies with them"
        report = WhyReport(
            heading=_heading(f"{first} -> {second}", *sides),
            counted=tuple(counted),
            are=f"of {safe(second)} with another hash {than}",
            notes=tuple(notes),
        )
    return partial(cause_words.night_json, counted, is_recorded=step.is_recorded), report


@examples(
    "cachewatch impact zlib --repo catalogue.git",
    "cachewatch impact openssl@3.4.0 --rev yesterday --repo catalogue.git --format json",
)
@click.command
@click.argument("package", metavar="PACKAGE[@VERSION]", shell_complete=completing("package_versions"))
@rev_option()
@TAG_OPTION
@REPO_OPTION
@terminal.format_option("text", "json", "markdown")
@terminal.OUTPUT_OPTION
def impact(*, package: str, rev: str, tag: str, repo: str | None, format_: str, output: str | None) -> None:
    """Show what would be rebuilt if a package changed: all specs that depend on it, by stack.

    The dependency graph is in repositories that `cachewatch record` writes; upstream's documents do not have it.
    """
    with closing(terminal.ProgressLine()) as line, closing(open_catalogue(repo, line)) as repository:
        revision = resolve(repository, rev)
        tree_of(repository, revision, tag)
        dependents = asked_specs.recorded_impact(asked_specs.RecordedGraph(repository, revision.commit, tag), package)
    if format_ == "json":
        values = {
            "schema": "cachewatch.impact/1",
            "asked": package,
            "hashes": dependents.asked,
            "specs": dependents.specs,
            "of_specs": dependents.of_specs,
            "stacks": [{"stack": s or None, "specs": n, "packages": p} for s, (n, p) in dependents.stacks.items()],
            "packages": [
                {"name": p, "specs": n, "direct": p in dependents.direct} for p, n in dependents.packages.items()
            ],
        }
        terminal.write([encode(values), b"\n"], output)
        return
    tables = impact_tables(package, f"{tag} at {revision.commit[:7]}", dependents)
    parts = [b"".join(write_table(table, format_, terminal.palette(output), terminal.width())) for table in tables]
    terminal.write([b"\n".join(parts)], output, is_for_people=format_ == "text")
