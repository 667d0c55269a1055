"""Streams: when they begin, what they are compared with, and that tags and names which change lose nothing."""

from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, record, records
from station import DAY, Site, begun
from station import DESK_CONFIG as CONFIG

DEVELOP = catalogue({"zlib": records(range(3))})
RELEASE = catalogue({"hdf5": records([20, 21])}, tag="v1.0")
NAMES = [f"p{number:02}" for number in range(20)]
OLD = catalogue({name: [record(n, versions=["1.0"])] for n, name in enumerate(NAMES)})
NEW = catalogue({name: [record(n + 100, versions=["2.0"])] for n, name in enumerate(NAMES)})


def site(folder: Path, *states: dict[str, bytes], config: str = CONFIG) -> Site:
    return begun(folder, states, config)


def asking(what: str) -> str:
    return CONFIG.replace("changes: [all]", f"changes: [all], {what}")


def test_an_empty_catalogue_has_begun_too(tmp_path: Path) -> None:
    made = site(tmp_path, {"README.md": b"soon"}, DEVELOP)
    made.run(1, later=DAY)
    assert ["zlib" in text for text in made.told()] == [True]


@pytest.mark.slow
def test_a_catalogue_that_was_emptied_is_held_and_its_return_takes_that_back(tmp_path: Path) -> None:
    """Upstream emptied it by mistake and restored it with upgrades: readers are told of the upgrades alone."""
    both, restored = OLD | RELEASE, NEW | RELEASE
    made = site(tmp_path, both, {"README.md": b"oops"}, restored)
    made.run(1, later=DAY)
    assert made.told() == []
    (held,) = made.held()
    assert "all watched tags are gone (develop, v1.0)" in held.reason
    made.run(2, later=DAY)
    (text,) = made.told()
    assert "1.0 -> 2.0" in text
    assert made.held() == []


@pytest.mark.parametrize("since", ["", ", since: HEAD"])
def test_a_tag_that_returns_is_compared_with_what_was_told_last(tmp_path: Path, since: str) -> None:
    """Readers were told that it is gone; nothing of what changed meanwhile is left out, and nothing told twice."""
    config = CONFIG.replace("stale_after: 4000d", f"stale_after: 4000d{since}")
    made = site(tmp_path, OLD | RELEASE, RELEASE, RELEASE, NEW | RELEASE, NEW | RELEASE, config=config)
    for number in range(1, 5):
        made.run(number, later=DAY)
    gone, back = made.told()
    assert "develop" in gone
    assert "back" in back
    assert "1.0 -> 2.0" in back


@pytest.mark.slow
def test_the_base_of_a_tag_that_is_gone_survives_a_force_push(tmp_path: Path) -> None:
    made = site(tmp_path, OLD | RELEASE, RELEASE, NEW | RELEASE)
    made.run(1, later=DAY)
    made.rewrite(2)
    made.run(later=DAY)
    text = made.told()[-1]
    assert "1.0 -> 2.0" in text
    assert text.count("upstream rewrote its history") == 1  # both tags are compared with revisions that are gone
    assert "more source" not in text


def test_the_oldest_snapshot_of_a_series_is_retired_without_asking(tmp_path: Path) -> None:
    def snapshot(day: int) -> dict[str, bytes]:
        return catalogue({"zlib": records([day])}, tag=f"develop-2025-06-{day:02}")

    config = asking("match: {tags: [develop-2025-06-01]}")
    made = site(tmp_path, snapshot(1) | snapshot(8), snapshot(8) | snapshot(15), config=config)
    made.run(1, later=DAY)
    assert made.held() == []
    assert "develop-2025-06-01" in made.told()[0]


def test_a_subscription_that_is_renamed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another one keeps its own position; both are told what went since the last digest under the old name."""
    both = asking("when: weekly mon 07:30") + "  other: {channels: [files], changes: [all], when: weekly mon 07:30}\n"
    made = site(tmp_path, DEVELOP, OLD, NEW, config=both)
    made.run(1, later=DAY)
    made.configure(both.replace("ml:", "machines:").replace("changes:", "renamed_from: ml, changes:"))
    made.run(2, later=7 * DAY)
    assert ["zlib" in text for name in ("machines", "other") for text in made.told(name)] == [True, True]


@pytest.mark.slow
def test_a_subscription_that_was_renamed_without_a_word_can_be_given_its_past_later(tmp_path: Path) -> None:
    """Operators are told what to write; what was told under the new name meanwhile is then told again."""
    weekly = asking("when: weekly mon 07:30")
    made = site(tmp_path, DEVELOP, OLD, NEW, config=weekly)
    made.run(1, later=DAY)
    renamed = weekly.replace("ml:", "machines:")
    made.configure(renamed)
    made.run()
    (notice,) = [stored for stored in made.digests() if stored.subscription == "(operators)"]
    assert "renamed_from: ml" in notice.rendered.text
    made.run(later=DAY)
    assert len(made.notices()) == 1
    made.configure(renamed.replace("changes:", "renamed_from: ml, changes:"))
    made.run(2, later=7 * DAY)
    (text,) = made.told("machines")
    assert "zlib" in text


def test_the_name_of_a_subscription_that_is_there_is_no_old_name(tmp_path: Path, run: Run) -> None:
    Site(tmp_path, [DEVELOP], CONFIG + "  other: {channels: [files], renamed_from: ml}\n")
    error = run("config", "check", "--config", tmp_path / "cachewatch.yaml").error_of(2)
    assert "renamed_from" in error
    assert "is configured" in error


def test_a_new_snapshot_is_named_though_it_is_equal_to_the_one_before(tmp_path: Path) -> None:
    """Alone, and beside another new tag."""
    names = ("develop-2025-06-01", "develop-2025-06-08", "develop-2025-06-15", "v1.0")
    tags = [catalogue({"zlib": records([1])}, tag=name) for name in names]
    states = (tags[0], tags[0] | tags[1], tags[0] | tags[1] | tags[2] | tags[3])
    made = site(tmp_path, *states, config=CONFIG.replace("[all]", "[tag-added]"))
    for number in (1, 2):
        made.run(number, later=DAY)
    titles = {stored.title for stored in made.digests() if stored.subscription == "ml"}
    assert titles == {"develop-2025-06-08 is out", "develop-2025-06-15 is out; new tag v1.0"}


def test_a_new_snapshot_that_was_only_rebuilt(tmp_path: Path) -> None:
    """Its rebuilt binaries are counted; a tag that was removed has as many packages as the subscription selects."""
    old, new, release = (
        catalogue({"zlib": records([n]), "hdf5": records([9])}, tag=tag)
        for n, tag in ((1, "develop-2025-06-01"), (2, "develop-2025-06-08"), (3, "v1.0"))
    )
    made = site(
        tmp_path, old | release, old | new, config=asking("match: {packages: [zlib]}").replace("[all]", "default")
    )
    made.run(1, later=DAY)
    (text,) = (" ".join(text.split()) for text in made.told())
    assert "What happened Tag v1.0 was removed, with 1 package that you selected" in text
    assert "develop-2025-06-08 is out. Commands" in text
    assert "Routine develop-2025-06-08: 1 binary of zlib rebuilt" in text
