"""`cachewatch why`: why specs were rebuilt; `cachewatch impact`: what would be rebuilt if a package changed."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from cachewatch.cli.catalogue import REPO_OPTION, open_catalogue
from cachewatch.cli.completion import completing
from cachewatch.cli.mistakes import examples
from cachewatch.cli.terminal import OUTPUT_OPTION, REPORT_FORMAT_OPTION, progress_line, warn_of_graph, write
from cachewatch.core.model import Side
from cachewatch.errors import UsageError
from cachewatch.extensions.causes.rebuilds import compare_locks
from cachewatch.extensions.causes.recorded import (
    GraphStep,
    RecordedGraph,
    explain_asked,
    find_asked,
    recorded_impact,
    step_of,
)
from cachewatch.extensions.causes.reports import (
    WhyReport,
    impact_json,
    impact_lines,
    impact_markdown,
    lock_report,
    package_report,
    report_lines,
    report_markdown,
    revisions_report,
    two_report,
)
from cachewatch.git.catalogue import require_tag
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.report.causes import explained_json, lock_json, night_json


@click.command(
    epilog=examples(
        "cachewatch why hdf5 --repo catalogue.git",
        "cachewatch why /j4xgwtq --repo catalogue.git --format json",
        "cachewatch why --between 2026-11-01 HEAD --repo catalogue.git",
        "cachewatch why --stacks e4s ml-linux-x86_64-cpu --repo catalogue.git",
        "cachewatch why --lock old/spack.lock new/spack.lock",
    )
)
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
    "--stacks",
    nargs=2,
    metavar="A B",
    shell_complete=completing("stacks"),
    help="Compare the specs of stack B with those of stack A; with --between, A in the first revision, B in the second.",
)
@click.option(
    "--lock",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="A B",
    help="Compare two lock files of an environment instead of revisions.",
)
@click.option(
    "--rev",
    default="HEAD",
    metavar="REVISION",
    shell_complete=completing("revisions"),
    help="Look for the spec in this revision or date; without a spec, count the causes of this revision.",
)
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to read.")
@REPO_OPTION
@REPORT_FORMAT_OPTION
@OUTPUT_OPTION
def why(
    *,
    spec: str | None,
    between: tuple[str, str] | None,
    stacks: tuple[str, str] | None,
    lock: tuple[Path, Path] | None,
    rev: str,
    tag: str,
    repo: str | None,
    format_: str,
    output: str | None,
) -> None:
    """Explain why specs were rebuilt: what changed in them, or in what they depend on.

    Each new spec is compared with its nearest predecessor, the older spec that shares most dependencies. Without a
    spec, all causes between two revisions are counted. This needs a repository that `cachewatch record` writes:
    Spack's public catalogue has no dependency graph.
    """
    if lock and (spec or between or stacks):
        raise UsageError("--lock compares two whole lock files; leave out the spec, --between and --stacks")
    if lock:
        change = compare_locks(*lock)
        answer: _Answer = partial(lock_json, change), partial(lock_report, change, *map(str, lock))
    else:
        with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as repository:
            if stacks and not between:
                between = rev, rev
            scope = _Scope(between=between, rev=rev, tag=tag, stacks=stacks)
            answer = _of_spec(repository, spec, scope) if spec else _of_all(repository, scope)
    _print(answer, format_, output)


_Answer = tuple[Callable[[], bytes], Callable[[], WhyReport]]  # as JSON, and for people


def _print(answer: _Answer, format_: str, output: str | None) -> None:
    values, report = answer
    if format_ == "json":
        write([values()], output)
    elif format_ == "markdown":
        write([report_markdown(report())], output)
    else:
        write([f"{line}\n".encode() for line in report_lines(report())], output, is_for_people=True)


class _Scope(Struct, frozen=True, kw_only=True):
    """What is compared."""

    between: tuple[str, str] | None
    rev: str
    tag: str
    stacks: tuple[str, str] | None

    def side(self, revision: Revision) -> Side:
        """Return a revision as one of the two sides of a report."""
        return revision.side(revision.tag or self.tag)


def _of_spec(repository: Repository, spec: str, scope: _Scope) -> _Answer:
    asked = find_asked(repository, spec, scope.tag, scope.between, scope.rev)
    step = step_of(repository, asked, scope.tag, scope.stacks)
    found = [] if step is None else list(explain_asked(step, asked))
    if step is not None:
        step.require_graphs(found)
        for what in step.unreadable:
            warn_of_graph(what)
    is_recorded = step is not None and step.is_recorded
    before = None if asked.before is None else asked.before.side()
    return (
        partial(explained_json, asked.package, found, is_recorded=is_recorded),
        partial(package_report, asked.package, before, asked.after.side(), found),
    )


def _of_all(repository: Repository, scope: _Scope) -> _Answer:
    newer = resolve(repository, scope.between[1] if scope.between else scope.rev)
    older = resolve(repository, scope.between[0] if scope.between else f"{newer.commit}~1")
    between = older, newer
    before, after = ((each.commit, each.tag or scope.tag) for each in between)
    for each in between:
        if each.tag is not None or each is newer:  # a tag may be new
            require_tag(repository, each, each.tag or scope.tag)
    step = GraphStep.between(repository, before, after, scope.stacks)
    found = list(step.explain_packages(lambda _: True))
    step.require_graphs(found)
    for what in step.unreadable:
        warn_of_graph(what)
    sides = [scope.side(each) for each in between]
    if step.is_of_two:
        explained = [one for one in found if one.predecessor is not None]
        names = scope.stacks or (before[1], after[1])
        return partial(night_json, explained, is_recorded=step.is_recorded), partial(two_report, names, sides, found)
    rebuilt = [one for one in found if one.is_match]
    return partial(night_json, rebuilt, is_recorded=step.is_recorded), partial(
        revisions_report, sides[0], sides[1], found
    )


@click.command(
    epilog=examples(
        "cachewatch impact zlib --repo catalogue.git",
        "cachewatch impact openssl@3.4.0 --rev yesterday --repo catalogue.git --format json",
    )
)
@click.argument("package", metavar="PACKAGE[@VERSION]", shell_complete=completing("package_versions"))
@click.option(
    "--rev", default="HEAD", metavar="REVISION", shell_complete=completing("revisions"), help="Revision or date."
)
@click.option("--tag", default="develop", metavar="TAG", shell_complete=completing("tags"), help="Tag to read.")
@REPO_OPTION
@REPORT_FORMAT_OPTION
@OUTPUT_OPTION
def impact(*, package: str, rev: str, tag: str, repo: str | None, format_: str, output: str | None) -> None:
    """Show what would be rebuilt if a package changed: all specs that depend on it, by stack.

    The dependency graph is in repositories that `cachewatch record` writes; upstream's documents do not have it.
    """
    with closing(progress_line()) as line, closing(open_catalogue(repo, line)) as repository:
        revision = resolve(repository, rev)
        require_tag(repository, revision, tag)
        found = recorded_impact(RecordedGraph(repository, revision.commit, tag), package)
    where = f"{tag} at {revision.commit[:7]}"
    if format_ == "json":
        write([impact_json(package, found)], output)
    elif format_ == "markdown":
        write([impact_markdown(package, where, found)], output)
    else:
        write([f"{line}\n".encode() for line in impact_lines(package, where, found)], output, is_for_people=True)
