"""What lies between cursors and the newest revision: nothing twice, nothing left out, no false new tags."""

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from helpers import START, catalogue, history, records

from cachewatch.git.repository import Repository
from cachewatch.git.revisions import resolve
from cachewatch.service.streams import PendingRanges, plan_ranges
from cachewatch.store.cursors import Cursor, Position

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


def gaps(
    repository: Repository,
    cursors: Mapping[str, int | str],
    *,
    gone: Collection[str] = (),
    at: int | None = None,
    newest: int = 3,
    wanted: str = "",
) -> PendingRanges:
    """Find what lies between `cursors`, of which those in `gone` were told to be gone, and the `newest` revision."""
    known = {tag: place if isinstance(place, str) else commit(repository, place) for tag, place in cursors.items()}
    position = Position(
        revision=commit(repository, at) if at is not None else next(iter(known.values())),
        cursors={tag: Cursor(place, START if tag in gone else None) for tag, place in known.items()},
        unread={},
    )
    to = resolve(repository, commit(repository, newest))
    return plan_ranges(repository, position, to, wanted=lambda tag: tag.startswith(wanted))


def spelled(repository: Repository, found: PendingRanges) -> dict[int, set[str]]:
    numbers = {commit(repository, number): number for number in range(4)}
    return {numbers[gap.base.commit]: set(gap.tags) for gap in found.ranges}


def test_tags_are_grouped_by_the_revision_they_were_told_at(repository: Repository) -> None:
    found = gaps(repository, {"develop": 0, "develop-2025-06-01": 1}, newest=2)
    assert spelled(repository, found) == {0: {"develop", "develop-2025-06-08"}, 1: {"develop-2025-06-01"}}
    assert set(found.places.values()) == {commit(repository, 2)}


def test_what_was_told_is_not_told_again(repository: Repository) -> None:
    found = gaps(repository, {"develop": 2, "develop-2025-06-01": 2, "develop-2025-06-08": 2}, newest=2)
    assert found.ranges == ()


def test_a_tag_that_is_gone_is_told_once(repository: Repository) -> None:
    found = gaps(repository, {"develop": 2, "develop-2025-06-01": 2, "develop-2025-06-08": 2})
    assert spelled(repository, found) == {2: {"develop", "develop-2025-06-01", "develop-2025-06-08"}}
    assert found.places["develop-2025-06-01"] is None
    found = gaps(
        repository, {"develop": 3, "develop-2025-06-08": 3, "develop-2025-06-01": 2}, gone=["develop-2025-06-01"]
    )
    assert found.ranges == ()
    assert "develop-2025-06-01" not in found.places


def test_a_tag_that_returns_is_compared_with_what_was_told_of_it_last(repository: Repository) -> None:
    found = gaps(repository, {"develop": 2, "develop-2025-06-01": 1}, gone=["develop-2025-06-01"], newest=2)
    assert spelled(repository, found) == {1: {"develop-2025-06-01"}}
    assert found.returned == {"develop-2025-06-01": START}


def test_a_stream_that_has_begun_is_told_of_the_first_tag_that_it_wants(repository: Repository) -> None:
    found = gaps(repository, {}, at=0, wanted="develop-")
    assert spelled(repository, found) == {0: {"develop-2025-06-08"}}


def test_all_tags_gone_at_once_is_said(repository: Repository) -> None:
    assert gaps(repository, {"develop-2025-06-01": 2}, wanted="develop-2025-06-01").vanished == ()  # a series goes on
    found = gaps(repository, {"develop": 1, "v1.0": 1}, newest=0, wanted="v")
    assert found.vanished == ("v1.0",)
    assert gaps(repository, {"develop": 1, "v1.0": 1}, newest=0).vanished == ()


def test_a_tag_that_is_wanted_only_now_is_no_new_tag(repository: Repository) -> None:
    found = gaps(repository, {"develop": 1}, newest=2)
    assert spelled(repository, found) == {1: {"develop", "develop-2025-06-08"}}
    assert found.places["develop-2025-06-01"] == commit(repository, 2)


def test_a_tag_that_is_not_wanted_any_more_is_let_go(repository: Repository) -> None:
    found = gaps(repository, {"develop": 0, "develop-2025-06-01": 1}, at=1, newest=2, wanted="develop-")
    assert spelled(repository, found) == {1: {"develop-2025-06-01", "develop-2025-06-08"}}
    assert "develop" not in found.places


def test_a_revision_that_is_nowhere_is_said_to_be_lost(repository: Repository) -> None:
    found = gaps(repository, {"develop": "f" * 40})
    assert (found.ranges, found.lost) == ((), ("f" * 40,))
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
    position = Position(revision=before, cursors={"develop": Cursor(before)}, unread={})
    found = plan_ranges(repository, position, newest, wanted=lambda tag: tag == "develop")
    assert [gap.base.commit for gap in found.ranges] == [before]
