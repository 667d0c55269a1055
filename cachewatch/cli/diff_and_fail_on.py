"""`cachewatch diff`: show the changes between two revisions, tags, files or folders."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from cachewatch.cli import terminal
from cachewatch.cli.help_and_exit_codes import examples
from cachewatch.cli.shared_options_and_filters import REPO_OPTION, SELECTED, check_names, completing, layout_asked_for
from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import Changeset, Comparison, ListCollector, Report, no_part
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.filters_and_spec_patterns import Globs, Selection, every_kind, select
from cachewatch.core.kinds_and_specs import PackageChange
from cachewatch.core.names_and_layouts import ANYWHERE
from cachewatch.core.statement_kinds import StatementKind
from cachewatch.core.statements import of_kinds
from cachewatch.errors import UsageError
from cachewatch.hooks import extensions, lacking, load
from cachewatch.report.diff_blocks_and_colours import ALL, Requested
from cachewatch.report.diff_formats_and_alike_tags import changed_facts, stat_of, write_stat, write_text
from cachewatch.report.json_and_safe_csv import csv_lines, package_json, write_csv, write_json, write_jsonl
from cachewatch.report.words import first_of, occurrences, tag_event
from cachewatch.sources.before_and_after import NEWEST, compare_sides, needs_git, split_range
from cachewatch.sources.folders_and_unreadable_files import check_path, is_documents

if TYPE_CHECKING:
    from cachewatch.git.local_repository import Repository


class GroupedOptions(click.Command):
    """A command whose help lists its options in groups with titles; all other options come last."""

    def __init__(self, *arguments: Any, groups: Mapping[str, Sequence[str]], **values: Any) -> None:
        super().__init__(*arguments, **values)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the help, below the titles of their groups."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {str(option.name): record for option in options if (record := option.get_help_record(ctx))}
        grouped = {name for names in self.groups.values() for name in names}
        for title, names in {**self.groups, "Options": records.keys() - grouped}.items():
            with formatter.section(title):
                formatter.write_dl([records[name] for name in records if name in names])


_FILTERS = {
    "tag": ("these tags", "tags"),
    "package": ("these packages", "packages"),
    "stack": ("specs of these stacks", "stacks"),
    "target": ("specs for these targets", ""),
    "os": ("specs for these operating systems", ""),
    "compiler": ("specs built with these compilers; clang is llvm", ""),
    "kind": ("these kinds of change (`cachewatch help kinds`)", "kinds"),
    "versions": ("specs of these versions (@1.2:, @:2, @1.2.3)", ""),
}
_FILTER_OPTIONS = terminal.with_options(
    *(
        click.option(
            f"--{name}",
            multiple=True,
            metavar="RANGE" if name == "versions" else "GLOB",
            shell_complete=completing(completed) if completed else None,
            help=f"Only {selected}.",
        )
        for name, (selected, completed) in _FILTERS.items()
    )
)
_EXPLAINED = ("text", "json", "jsonl", "markdown")  # formats that say why
_HASH = re.compile(r"/[a-z0-9]{4,32}")
_HASH_OF = re.compile(rf"[^:]+:{_HASH.pattern}")  # git has no such names
_MOST_LINES = 20
_MOST_WARNINGS = 20
_NEW = (StatementKind.PACKAGE_ADDED, StatementKind.STACK_ADDED)
_MOST_TAGS = 5

# A function that returns what to keep of a package, and one that writes changesets.
Format = tuple[Callable[[PackageChange], Any], Callable[[Iterable[Changeset]], Iterator[bytes]]]


@examples(
    "cachewatch diff",
    "cachewatch diff HEAD~7..HEAD --tag develop",
    "cachewatch diff 2025-06-01 yesterday --package 'py-*' --format json",
)
@click.command(
    cls=GroupedOptions,
    groups={
        "Filters (each may be repeated; ! before a value excludes)": list(_FILTERS),
        "Output": ["format_", "stat", "is_all", "why", "output", "color", "quiet"],
        "Gates": ["exit_code", "fail_on"],
    },
)
@click.argument("before", required=False, shell_complete=completing("revisions"))
@click.argument("after", required=False, shell_complete=completing("revisions"))
@REPO_OPTION
@_FILTER_OPTIONS
@terminal.format_option("text", "json", "jsonl", "csv", "markdown", "html")
@click.option("--stat", is_flag=True, help="Print one line for each package.")
@click.option("--all", "is_all", is_flag=True, help="Print every line of every section.")
@click.option("--why", is_flag=True, help="Also say why specs were rebuilt, for catalogues that `record` wrote.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if anything changed.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="KIND",
    shell_complete=completing("kinds"),
    help="Exit with 1 if a change of this kind (or group, or glob) occurred, also if --kind leaves it out; repeatable.",
)
@terminal.OUTPUT_OPTION
@click.option(
    "-q", "--quiet", is_flag=True, help="Print no report; exit with 1 if anything changed, or as --fail-on says."
)
@terminal.JOBS_OPTION
@click.pass_context
def diff(
    context: click.Context,
    /,
    *,
    before: str | None,
    after: str | None,
    repo: str | None,
    format_: str,
    stat: bool,
    is_all: bool,
    why: bool,
    exit_code: bool,
    fail_on: tuple[str, ...],
    output: str | None,
    quiet: bool,
    jobs: int,
    **filters: tuple[str, ...],
) -> int:
    """Show what changed between two revisions, dates or documents.

    BEFORE and AFTER are each a revision (anything that git resolves), a date (2025-06-01, "1 Jun 2025",
    "3 days ago"), REVISION:TAG for one tag, REVISION:PATH for a document, the path of a document, a folder or a
    spack.lock, without git, or the /HASH of a spec. Of revisions, BEFORE..AFTER is the same as BEFORE AFTER.
    AFTER is HEAD if omitted; without either, the newest revision is compared with the one before it. Each tag that changed has a report.

    Exit code: 0; 1 if a gate applies; 2 for a mistake; 3 if a source, and 4 if a document cannot be read.
    """
    if stat and format_ != "text":
        raise UsageError(f"--stat is text; leave it out, and --format {format_} has the same counts and more")
    if why and (stat or format_ not in _EXPLAINED):
        raise UsageError(f"--why takes one of the formats {', '.join(_EXPLAINED)}, and no --stat")
    chosen = {key: filters[name] for name, key in SELECTED.items()}
    selection = select(**chosen, kinds=_kinds("--kind", filters["kind"]))
    failures = Globs(_kinds("--fail-on", fail_on))
    part_of, write_format = _format("stat" if stat else format_, selection, is_all=is_all, output=output)
    differs = _by_why(context, (before or "", after or ""), format=format_, output=os.devnull if quiet else output)
    if differs is not None:
        return int(differs and (exit_code or quiet))
    line = terminal.ProgressLine(is_wanted=not quiet)
    done: list[Changeset] = []
    named = _named(before, after)
    has_repo = context.get_parameter_source("repo") is ParameterSource.COMMANDLINE
    with ExitStack() as stack:
        repository = None
        if not _are_paths(named, filters["tag"], has_repo=has_repo):
            from cachewatch.cli.chosen_repository import open_catalogue  # noqa: PLC0415  documents are compared without git

            repository = stack.enter_context(closing(open_catalogue(repo, line, asked=_asked(named, after))))
        comparison = _compared(named, repository, selection)
        stack.enter_context(closing(line))
        line.begin(sum(pair.difference.size for pair in comparison.pairs))
        keep = partial(ListCollector, part_of)
        found: Iterable[Changeset] = changesets(comparison, selection, keep, jobs=jobs, progress=line.advance)
        if why:
            found = _explained(found, repository, selection, stack)
        written = write_format(_noting(found, done))
        pieces: Iterable[bytes] = _checked(written, filters, comparison, done, names_tags=format_ == "text")
        # Reading `pieces` compares. Formats for programs are written as they come, before errors in filters are known.
        if format_ not in ("json", "jsonl", "csv") or stat or quiet:
            pieces = list(pieces)
            line.close()  # before a pager has the screen
        if not quiet:
            terminal.write(pieces, output, is_for_people=stat or format_ == "text")
        if repository and not quiet:
            _note_not_compared(repository, named, after)
            _note_returned(repository, (each.report for each in done))
    reports = [each.report for each in done]
    faults = dict.fromkeys(fault for report in reports for fault in report.diagnostics)
    terminal.warn_of(faults, most=None if is_all else _MOST_WARNINGS, more=" (--all)")
    if not all(report.adds_up for report in reports):
        terminal.say("the totals do not add up; this is a bug in cachewatch, please report it")
    _say_what_failed(reports, fail_on, failures, selection)
    return _status(reports, selection, failures, is_gate=exit_code or (quiet and failures.is_open))


def _note_not_compared(repository: "Repository", named: tuple[str, str] | None, after: str | None) -> None:
    """Print the command that compares HEAD with a folder or with uncommitted files, if the user may have meant that.

    `named` are the compared sides (None: none were given); `after` is the argument AFTER, None if it was left out.
    """
    root = next((folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / ".git").exists()), None)
    if named is not None and after is None and is_documents(named[0]):
        command = shlex.join(["cachewatch", "diff", NEWEST, named[0]])
        sentence = f"{named[0]} is BEFORE, {NEWEST} is AFTER; the other way round"
    elif named == (NEWEST, NEWEST) and repository.path == Path() and root is not None:
        command = shlex.join(["cachewatch", "diff", NEWEST, os.path.relpath(root)])
        sentence = "only commits are compared; with what is not committed"
    else:
        return
    terminal.say(f"{sentence}: `{command}`")


def _note_returned(repository: "Repository", reports: Iterable[Report]) -> None:
    """Print which new packages and stacks in `reports` a tag had some time before, if there is a history index."""
    in_one_tag = [report for report in reports if report.before.tag == report.after.tag]
    new = [(one, report) for report in in_one_tag for one in report.statements if one.kind in _NEW]
    old, end = (new[0][1].before.revision, new[0][1].after.revision) if new else (None, None)
    from cachewatch.git.revision_names_and_times import covers  # noqa: PLC0415  as above

    is_later = old and (end is None or covers(repository, end, old))  # AFTER comes after BEFORE
    past = extensions().hook.past(repository=repository, log=None) if is_later else None
    if past is None:
        return
    with closing(past):
        for one, report in new[:_MOST_WARNINGS]:
            for said in past.returned([one], report.before).values():
                terminal.say(said)


def _named(before: str | None, after: str | None) -> tuple[str, str] | None:
    """Return `before` and `after` (None: HEAD); return None if `before` is None. Raises UsageError if one is wrong."""
    if before is None:
        return None
    if after is None and (found := split_range(before)) is not None:
        return found
    if after is not None and split_range(before) is not None:
        raise UsageError(f"{before} is a range, which takes no AFTER")
    for name in (before, NEWEST if after is None else after):
        check_path(name)
    if after is not None:
        return before, after
    if before.startswith((f"{NEWEST}:", ":")) and not before.startswith(":/") and not os.path.exists(before):  # noqa: PTH110
        command = f"`cachewatch diff {NEWEST}~1{before.removeprefix(NEWEST)} {before}`"
        raise UsageError(f"{before}: alone, this tag would be compared with itself; name the other one: {command}")
    return before, NEWEST


def _by_why(context: click.Context, names: Sequence[str], **options: str | None) -> bool | None:
    """Compare two lock files or two hashes, `names`, by `why`; return whether they differ, or None for other names."""
    with_effect = {"before", "after", "format_", "color", "output", "exit_code", "quiet"}
    if all(Path(name).suffix == ".lock" and Path(name).is_file() for name in names):
        what, arguments = "two lock files", ["--lock", *names]
    elif all(_HASH.fullmatch(name) and not os.path.exists(name) for name in names):  # noqa: PTH110
        what, arguments = "two hashes", [names[1], "--against", names[0]]
        if len(tags := context.params["tag"]) > 1:
            raise UsageError("two hashes are compared in one tag; give one --tag")
        options |= {"repo": context.params["repo"], "tag": "".join(tags)}
        with_effect |= {"repo", "documents", "tag"}
    elif any(_HASH_OF.fullmatch(name) for name in names):
        hashes = " ".join(f"/{name.rpartition('/')[2]}" for name in names)
        remedy = f"`cachewatch diff {hashes}` also reads specs that are gone, as they last were"
        raise UsageError(f"{' '.join(names)}: hashes take no revision; {remedy}")
    else:
        return None
    for param in context.command.params:
        is_given = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_given and param.name not in with_effect:
            raise UsageError(f"{param.opts[-1]} has no effect on {what}; leave it out")
    command = next((load(row.object) for row in extensions().commands if row.name == "why"), None)
    if command is None:
        raise UsageError(lacking("a comparison of lock files or hashes", "causes"))
    arguments += [word for name, value in options.items() if value for word in (f"--{name}", value)]
    with command.make_context("why", arguments, parent=context.parent) as inner:
        return bool(command.invoke(inner).differs)


def _are_paths(named: tuple[str, str] | None, tags: Sequence[str], *, has_repo: bool) -> bool:
    """Tell whether both sides `named` are paths; if so, raise UsageError for --repo or --tag without effect."""
    if named is None or needs_git(*named):
        return False
    if has_repo:
        raise UsageError("--repo has no effect on two paths; leave it out")
    if layout_asked_for() and not any(Path(name).is_dir() for name in named):
        raise UsageError("--documents has no effect on two documents; leave it out")
    if tags and any(not Path(name).is_dir() for name in named):
        raise UsageError("--tag has no effect on a single document; leave it out, or name two folders")
    return True


def _asked(named: tuple[str, str] | None, after: str | None) -> str:
    """Return, for a message, why `named` sides need a catalogue; "" if `named` is None. `after` is AFTER or None."""
    if named and after is None and is_documents(named[0]):
        return f"{named[0]} alone is compared with {NEWEST} of a catalogue (name a second path to compare two), and "
    missing = " and ".join(name for name in dict.fromkeys(named or ()) if not is_documents(name))
    return f"{missing}: no such file or folder, and " if named else ""


def _compared(named: tuple[str, str] | None, repository: "Repository | None", selection: Selection) -> Comparison:
    """Return the comparison of the sides `named`; if None, of the newest revision with the one before it."""
    if named is None:
        assert repository is not None  # only paths need none
        from cachewatch.git.revision_names_and_times import newest_two  # noqa: PLC0415  as above

        named = newest_two(repository)
        if named[1] != NEWEST:
            terminal.say("the newest revision changed no document; what is compared is the one before it that did")
    return compare_sides(*named, selection, repository=repository, layout=layout_asked_for() or ANYWHERE)


def _explained(
    compared: Iterable[Changeset], opened: "Repository | None", selection: Selection, stack: ExitStack
) -> Iterable[Changeset]:
    """Return `compared` with rebuild causes; `stack` closes the repository. Raises UsageError if `opened` is None."""
    if opened is None:
        raise UsageError("--why compares revisions: files and folders have no dependency graph")
    causes = extensions().hook.causes(repository=stack.enter_context(closing(opened.reopened())))
    if causes is None:
        raise UsageError(lacking("--why", "causes"))
    found: Iterable[Changeset] = causes.of_changesets(compared, selection, terminal.warn_of_graph)
    return found


def _kinds(option: str, patterns: Iterable[str]) -> list[str]:
    try:
        return list(every_kind(patterns))
    except UsageError as error:
        raise UsageError(f"{option} {error}") from error


def _format(name: str, selection: Selection, *, is_all: bool, output: str | None) -> Format:
    """Return two functions for the format `name`: one picks what a report needs of a package, the other writes reports.

    `name` may be "stat". If `is_all`, the sections of a report are not cut.
    """
    if name in ("json", "jsonl"):
        return package_json, partial(write_json if name == "json" else write_jsonl, wants=selection.wants)
    if name == "csv":
        return csv_lines, partial(write_csv, wants=selection.wants)
    palette = terminal.palette(output)
    if name == "stat":
        return stat_of, partial(write_stat, wants=selection.wants, width=terminal.width(), palette=palette)
    lists_facts = is_all or name == "html" or not selection.wants(frozenset())
    part_of = changed_facts if lists_facts else no_part
    asked = Requested(most=ALL if is_all else _MOST_LINES, wants=selection.wants)
    if name in ("html", "markdown"):
        from cachewatch.report import template_rendering  # noqa: PLC0415  Jinja2 is slow to load

        if name == "markdown":
            return part_of, partial(template_rendering.write_markdown, asked=asked)
        asked = replace(asked, most=ALL if is_all else template_rendering.MOST_ROWS, names_packages=True)
        return part_of, partial(template_rendering.write_page, asked=asked)
    return part_of, partial(write_text, asked=asked, width=terminal.width() or 80, palette=palette)


def _noting(found: Iterable[Changeset], done: list[Changeset]) -> Iterator[Changeset]:
    """Yield the changesets in `found`, and add each to `done` once the caller asks for the next."""
    for changeset in found:
        yield changeset
        done.append(changeset)


def _checked(
    pieces: Iterable[bytes],
    filters: Mapping[str, Sequence[str]],
    comparison: Comparison,
    done: Sequence[Changeset],
    *,
    names_tags: bool,
) -> Iterator[bytes]:
    """Yield `pieces` of a report (if `names_tags`, first a list of several tags); then check that `filters` match."""
    tags = [safe(pair.after.tag or pair.before.tag or "") for pair in comparison.pairs]
    if names_tags and not filters["tag"] and len(tags) > 1:
        text = f"{len(tags):,} tags compared: {first_of(tags, _MOST_TAGS)} (--tag {tags[0]} selects one)"
        yield f"{fill(text, terminal.width() or 80, break_on_hyphens=False)}\n\n".encode()
    yield from pieces
    check_names(filters, comparison, done)  # before an output file is replaced


def _say_what_failed(reports: Sequence[Report], words: Sequence[str], fail_on: Globs, selection: Selection) -> None:
    """Print which changes in `reports` match --fail-on. `words` are its values; `fail_on` is made of all of them."""
    if fail_on.is_open or not any(fail_on(kind) for report in reports for kind in report.kinds):
        return
    for word in [word for word in words if not word.startswith("!")] or [" ".join(words)]:
        own = Globs(every_kind([word])) if word in words else fail_on
        words_by_kind: dict[str, list[str]] = {}
        for report in reports:
            kinds = frozenset(kind for kind in report.kinds if own(kind) and fail_on(kind))
            if kinds:
                tag = safe(report.after.tag or report.before.tag or "")
                unread = [safe(one.package) for one in report.unreadable] if "unreadable" in kinds else []
                told = occurrences(report.statements, kinds.__contains__)
                what = "; ".join(filter(None, (told or tag_event(report, kinds), ", ".join(unread))))
                words_by_kind.setdefault(what, []).append(tag)
        for what, tags in words_by_kind.items():
            where = f"[{', '.join(tags)}]" if len(reports) > 1 or not what else ""
            # Versions outside of the filter may be there.
            part = "" if selection.versions.is_open else "(of the selected versions)"
            terminal.tell(" ".join(filter(None, (f"cachewatch: --fail-on {safe(word)}:", what, where, part))))


def _status(reports: Sequence[Report], selection: Selection, fail_on: Globs, *, is_gate: bool) -> int:
    if any(report.is_partial for report in reports):
        return 4
    if not fail_on.is_open and any(fail_on(kind) for report in reports for kind in report.kinds):
        return 1
    is_event = any(one.tag_event and selection.wants({one.tag_event.kind}) for one in reports)
    return int(is_gate and (is_event or any(of_kinds(one.statements, selection.wants) for one in reports)))
