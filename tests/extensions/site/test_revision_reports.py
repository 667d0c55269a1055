"""What each revision did to the whole tag: the same as when two revisions are compared."""

from contextlib import suppress
from pathlib import Path

import pytest
import scripted
from helpers import NewRevision, catalogue, record, write_repository
from indexes import Catalogue, write
from msgspec.structs import replace
from sites import read_site

from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import NoCollector, Report
from cachewatch.core.filters_and_default_kinds import Globs, Selection
from cachewatch.errors import UsageError
from cachewatch.extensions.site.package_histories import story_of
from cachewatch.report.diff_blocks_and_colours import ALL, Requested
from cachewatch.report.diff_formats import read_report
from cachewatch.sources.before_and_after import open_comparison

_EVERYTHING = Requested(most=ALL, wants=lambda _: True)


def _compared(repository: Path, before: str = "HEAD~1", after: str = "HEAD") -> list[Report]:
    chosen = Selection(tags=Globs(["develop"]))
    with open_comparison(
        before, after, repository=str(repository), wanted_tag=chosen.tags, wanted_package=chosen.packages
    ) as comparison:
        return [read_report(changeset, _EVERYTHING) for changeset in changesets(comparison, chosen, NoCollector)]


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "week",
    ["migration", "stack-lost-declared", "prune-after", "rebuilt-beside", "upgrades", "package-gone", "stack-lost"],
)
def test_a_revision_says_what_a_comparison_says(tmp_path: Path, week: str) -> None:
    """All of its story is that of `cachewatch diff`, although no document is read."""
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
    (compared,) = _compared(repository)

    assert read_site(repository).stories[1] == story_of(compared)


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(1, 4))
def test_odd_revisions_say_what_comparisons_say(tmp_path: Path, seed: int) -> None:
    """Also where documents are written in other ways, are empty, or name other specs by the same hashes."""
    night = Catalogue(seed)
    states = [night.night() for _ in range(25)]
    repository = write(tmp_path / "r.git", [*states, catalogue({"zlib": [record(1)]})], seed=seed)
    found = read_site(repository)
    commits = [one.revision for one in found.past.revisions]
    asked = 0
    for number in range(1, len(commits)):
        with suppress(UsageError):  # one of the two does not have the tag
            for compared in _compared(repository, commits[number - 1], commits[number]):
                # What cannot be read is not compared, while the index compares what follows with what was before it.
                if not compared.losses and compared.packages.before and compared.packages.after:
                    # Links in the place of documents are no packages there, and here they are.
                    told = replace(story_of(compared), total=found.stories[number].total)
                    assert found.stories[number] == told, number
                    asked += bool(compared.statements)
    assert asked
