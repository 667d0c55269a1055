"""What each revision did to the whole tag: the same as when two revisions are compared."""

from pathlib import Path

import pytest
import scripted
from helpers import catalogue, history, record, records

from cachewatch.comparing import changesets
from cachewatch.core.changesets import NoCollector
from cachewatch.core.selection import Globs, Selection
from cachewatch.core.statement_values import StatementKind
from cachewatch.extensions.site.past import Revisions, TagHistory, reports_of, walk
from cachewatch.extensions.site.trails import FileHistories, find_trails
from cachewatch.git.catalogue import stacks_of
from cachewatch.git.recording import NewRevision, write_repository
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, resolve
from cachewatch.report.formats import read_report
from cachewatch.report.text import ALL, Requested
from cachewatch.report.values import Report
from cachewatch.sources.opening import open_comparison

_EVERYTHING = Requested(most=ALL, wants=lambda _: True)


def _walked(repository: Path, known: TagHistory | None = None) -> tuple[TagHistory, list[Report], FileHistories]:
    opened = Repository(repository)
    trails = find_trails(opened, resolve(opened, "HEAD"), tag="develop", since=None, wanted_package=lambda _: True)
    seen = Revisions()
    past = walk(trails, known, seen=seen)
    first = len(known.revisions) if known else 1
    reports = list(
        reports_of(
            trails,
            seen,
            lambda moment: stacks_of(opened, Revision(moment.commit, moment.commit, None, moment.time)),
            first=first,
        )
    )
    opened.close()
    return past, reports, trails


def _compared(repository: Path, before: str = "HEAD~1", after: str = "HEAD") -> Report:
    chosen = Selection(tags=Globs(["develop"]))
    with open_comparison(
        before, after, repository=str(repository), wanted_tag=chosen.tags, wanted_package=chosen.packages
    ) as comparison:
        (changeset,) = changesets(comparison, chosen, NoCollector)
        return read_report(changeset, _EVERYTHING)


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "week",
    ["rebuilt-beside", "prune-after", "upgrades", "package-gone", "stack-lost-declared", "stack-lost", "migration"],
)
def test_a_revision_says_what_a_comparison_says(tmp_path: Path, week: str) -> None:
    """Statements, counts of packages and of specs are those of `cachewatch diff`, however the documents were read."""
    before, after = scripted.WEEKS[week]()
    repository = tmp_path / "r.git"
    removed = tuple(sorted(before.keys() - after.keys()))
    write_repository(
        repository,
        [
            NewRevision(message="Before", time=scripted.END, files=dict(before)),
            NewRevision(message="After", time=scripted.END, files=dict(after), removed=removed),
        ],
    )
    _, (told,), _ = _walked(repository)
    compared = _compared(repository)

    assert told.statements == compared.statements
    assert told.specs == compared.specs
    assert told.packages.before == compared.packages.before
    assert (told.packages.added, told.packages.removed) == (compared.packages.added, compared.packages.removed)


def test_only_new_revisions_are_told(tmp_path: Path) -> None:
    """What is known of a history is not told again, and what came since is told of all packages."""
    states = [
        catalogue({"a": [record(1)], "b": records([2, 3])}),
        catalogue({"a": [record(4)], "b": records([2, 3])}),
        catalogue({"a": [record(6, versions=["2.0"])], "c": [record(5)]}),
    ]
    known, first, _ = _walked(history(tmp_path / "old.git", *states[:2]))
    _, (told,), trails = _walked(history(tmp_path / "new.git", *states), known)

    assert [one.kind for one in first[0].statements] == [StatementKind.REBUILT]
    assert len(trails.revisions) == 3
    assert [(one.kind, one.packages) for one in told.statements] == [
        (StatementKind.PACKAGE_REMOVED, ("b",)),
        (StatementKind.PACKAGE_ADDED, ("c",)),
        (StatementKind.UPGRADED, ("a",)),
    ]


def test_nothing_is_told_of_what_was_there_from_the_beginning(tmp_path: Path) -> None:
    """The oldest revision has nothing before it."""
    _, told, _ = _walked(history(tmp_path / "r.git", catalogue({"a": [record(1)]})))

    assert told == []
