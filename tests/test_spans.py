"""What lies between cursors and the newest revision: nothing twice, nothing left out, no false new tags."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers import catalogue, history, records

from cachewatch.service.spans import Gaps, find_gaps
from cachewatch.sources.git import Repository
from cachewatch.sources.revisions import resolve

DEVELOP = catalogue({"zlib": records(range(2))})
MORE = catalogue({"zlib": records(range(3))})
MOST = catalogue({"zlib": records(range(4))})
SNAPSHOT = catalogue({"zlib": records(range(2))}, tag="develop-2025-06-01")
NEXT_SNAPSHOT = catalogue({"zlib": records(range(3))}, tag="develop-2025-06-08")


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """Four revisions: develop; it and a snapshot; it and the next snapshot; without any snapshot."""
    folder = history(
        tmp_path / "catalogue.git", DEVELOP, MORE | SNAPSHOT, MORE | SNAPSHOT | NEXT_SNAPSHOT, MOST | NEXT_SNAPSHOT
    )
    with closing(Repository(folder)) as opened:
        yield opened


def commit(repository: Repository, number: int) -> str:
    return resolve(repository, f"HEAD~{3 - number}").commit


def gaps(repository: Repository, cursors: dict[str, int | str], *, newest: int = 3, wanted: str = "") -> Gaps:
    known = {tag: place if isinstance(place, str) else commit(repository, place) for tag, place in cursors.items()}
    return find_gaps(
        repository,
        known,
        resolve(repository, commit(repository, newest)),
        first=None,
        wanted=lambda tag: tag.startswith(wanted),
    )


def spelled(repository: Repository, found: Gaps) -> dict[int, set[str]]:
    numbers = {commit(repository, number): number for number in range(4)}
    return {numbers[gap.base.commit]: set(gap.tags) for gap in found.gaps}


def test_tags_are_grouped_by_the_revision_they_were_told_at(repository: Repository) -> None:
    found = gaps(repository, {"develop": 0, "develop-2025-06-01": 1}, newest=2)
    assert spelled(repository, found) == {0: {"develop", "develop-2025-06-08"}, 1: {"develop-2025-06-01"}}
    assert set(found.places.values()) == {commit(repository, 2)}


def test_what_was_told_is_not_told_again(repository: Repository) -> None:
    found = gaps(repository, {"develop": 2, "develop-2025-06-01": 2, "develop-2025-06-08": 2}, newest=2)
    assert found.gaps == ()


def test_a_tag_that_is_gone_is_told_and_its_cursor_goes(repository: Repository) -> None:
    found = gaps(repository, {"develop": 2, "develop-2025-06-01": 2, "develop-2025-06-08": 2})
    assert spelled(repository, found) == {2: {"develop", "develop-2025-06-01", "develop-2025-06-08"}}
    assert found.places["develop-2025-06-01"] is None


def test_a_tag_that_is_wanted_only_now_is_no_new_tag(repository: Repository) -> None:
    found = gaps(repository, {"develop": 1}, newest=2)
    assert spelled(repository, found) == {1: {"develop", "develop-2025-06-08"}}
    assert found.places["develop-2025-06-01"] == commit(repository, 2)


def test_a_tag_that_is_not_wanted_any_more_is_let_go(repository: Repository) -> None:
    found = gaps(repository, {"develop": 0, "develop-2025-06-01": 1}, newest=2, wanted="develop-")
    assert spelled(repository, found) == {1: {"develop-2025-06-01", "develop-2025-06-08"}}
    assert "develop" not in found.places


def test_a_revision_that_is_nowhere_is_said_to_be_lost(repository: Repository) -> None:
    found = gaps(repository, {"develop": "f" * 40})
    assert (found.gaps, found.lost) == ((), ("f" * 40,))
    assert found.places["develop"] == commit(repository, 3)


def test_one_lost_revision_does_not_hide_what_others_know(repository: Repository) -> None:
    found = gaps(repository, {"develop": "f" * 40, "develop-2025-06-08": 2})
    assert found.lost == ("f" * 40,)
    assert spelled(repository, found) == {2: {"develop-2025-06-08"}}


def test_a_force_push_still_has_a_gap(repository: Repository, tmp_path: Path) -> None:
    before = commit(repository, 2)
    git = ["git", f"--git-dir={tmp_path / 'catalogue.git'}"]
    subprocess.run([*git, "update-ref", "refs/heads/main", commit(repository, 1)], check=True)
    newest = resolve(repository, "HEAD")
    found = find_gaps(repository, {"develop": before}, newest, first=None, wanted=lambda tag: tag == "develop")
    assert [gap.base.commit for gap in found.gaps] == [before]
