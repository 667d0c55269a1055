"""What a digest is made of: exact counts, capped lines, and the table of stacks."""

import csv
import gzip
import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers import Record, catalogue, history, record, records
from hypothesis import given
from hypothesis import strategies as st

from cachewatch.digests import Gap, TagDigest, find_gaps
from cachewatch.model import Direction, Kind
from cachewatch.pipeline import changesets
from cachewatch.render import digest as digest_module
from cachewatch.render.digest import DigestBody, read_tag_digest
from cachewatch.report.topics import Topic
from cachewatch.select import Globs, Selection
from cachewatch.sources.opening import open_comparison

Packages = Mapping[str, list[Record]]


def read(
    repository: Path, *, most: int = 25, group_by: str = "stack", selection: Selection | None = None, jobs: int = 1
) -> TagDigest:
    """Read the last revision of develop as a digest."""
    chosen = selection or Selection(tags=Globs(["develop"]))
    opened = open_comparison(
        "HEAD~1",
        "HEAD",
        repository=str(repository),
        wanted_tag=chosen.tags,
        wanted_package=chosen.packages,
        report=None,
    )
    with opened as comparison:
        found = changesets(comparison, chosen, lambda: DigestBody(most, chosen.wants, group_by), jobs=jobs)
        (tag,) = [
            read_tag_digest(one, source="public", most=most, wants=chosen.wants, group_by=group_by) for one in found
        ]
    return tag


def between(folder: Path, before: Packages, after: Packages, **options: object) -> TagDigest:
    """Read the digest of a repository of two states."""
    return read(history(folder / "r.git", catalogue(before), catalogue(after)), **options)  # type: ignore[arg-type]


def counts(tag: TagDigest) -> dict[str, tuple[int, int]]:
    """Return packages and specs by topic."""
    return {report.topic.value: (report.packages, report.specs) for report in tag.topics}


def test_the_demo_topic_by_topic(demo_repository: Path) -> None:
    """What the demo's documents say, counted."""
    tag = read(demo_repository)

    assert counts(tag) == {
        "upgraded": (2, 3),
        "new": (1, 130),
        "added": (1, 118),
        "retired": (1, 3),
        "stacks": (1, 1),
        "rebuilt": (1, 15),
    }
    assert {group.names: [row.package for row in group.rows] for group in tag.places} == {
        ("e4s",): ["py-ml-dtypes"],
        ("e4s-neoverse_v1",): ["py-build", "py-ml-dtypes"],
    }
    assert tag.place_packages == 2
    assert [(found.package, found.version) for found in tag.examples] == [
        ("py-keras", "3.9.2"),
        ("py-ml-dtypes", "0.4.0"),
    ]


@pytest.mark.parametrize("group_by", ["stack", "package", "kind"])
def test_processes_agree(demo_repository: Path, monkeypatch: pytest.MonkeyPatch, group_by: str) -> None:
    """However the work is cut, the digest is the same."""
    whole = read(demo_repository, group_by=group_by, most=2)
    monkeypatch.setattr("cachewatch.pipeline._CHUNK_BYTES", 1)
    monkeypatch.setattr("cachewatch.pipeline._WORTH_TWO_PROCESSES", 1)

    assert read(demo_repository, group_by=group_by, most=2, jobs=2) == whole


def test_groups(tmp_path: Path) -> None:
    """By package every line says where; by kind like stands with like."""
    before = {"a": records([1], stacks=["e4s", "x"]), "b": records([2])}
    after = {
        "a": records([3], stacks=["e4s", "x"], versions=["1.1"]),
        "b": records([4], compiler="gcc@13.2.0"),
    }
    repository = history(tmp_path / "r.git", catalogue(before), catalogue(after))

    by_stack, by_package, by_kind = (read(repository, group_by=name).places for name in ("stack", "package", "kind"))

    assert {group.names: group.lines for group in by_stack} == {("e4s",): 2, ("x",): 1}
    ((name,), (first, second), _) = (by_package[0].names, by_package[0].rows, None)
    assert (name, first.stacks, second.stacks) == ("", ("e4s", "x"), ("e4s",))
    assert (first.direction, first.gone, first.came) == (Direction.UPGRADE, ("1.0",), ("1.1",))
    assert second.compilers == (("gcc@11.4.0", "gcc@13.2.0"),)
    assert {group.names: group.lines for group in by_kind} == {("compilers",): 1, ("upgraded",): 1}


def test_stacks_that_say_the_same_share_a_group(tmp_path: Path) -> None:
    """Two stacks of the same packages are told once."""
    before = {f"p{n}": records([n], stacks=["one", "two"]) for n in range(5)}
    after = {f"p{n}": records([10 + n], stacks=["one", "two"], versions=["2"]) for n in range(5)}

    (group,) = between(tmp_path, before, after, most=2).places

    assert (group.names, group.lines, len(group.rows)) == (("one", "two"), 5, 2)


def test_targets_by_stack(tmp_path: Path) -> None:
    """A stack that builds for another target says so."""
    before = {"a": records([1]) + records([2], stacks=["x"])}
    after = {"a": records([3], target="x86_64_v4") + records([2], stacks=["x"])}

    groups = {group.names: group.rows for group in between(tmp_path, before, after).places}

    assert [row.targets for row in groups["e4s",]] == [(("x86_64_v3", "x86_64_v4"),)]
    assert ("x",) not in groups


def test_what_nobody_asked_for_is_not_there(tmp_path: Path) -> None:
    """Kinds that were not chosen are in no topic, no table and no count."""
    before = {"a": records([1]), "b": records([2])}
    after = {"a": records([3], versions=["2"]), "b": records([4], compiler="gcc@13.2.0")}
    chosen = Selection(kinds=Globs(["compiler"]))
    tag = between(tmp_path, before, after, selection=chosen)

    assert counts(tag) == {"compilers": (1, 1)}
    assert [row.package for group in tag.places for row in group.rows] == ["b"]


def test_what_an_event_tells_is_not_told_again(tmp_path: Path) -> None:
    """A compiler that replaced another everywhere leaves no lines, and no packages in the counts."""
    before = {f"p{n}": records([n]) for n in range(6)}
    after = {f"p{n}": records([10 + n], compiler="gcc@13.2.0") for n in range(6)}
    tag = between(tmp_path, before, after)

    assert [event.kind for event in tag.report.events] == [Kind.COMPILER]
    assert (tag.places, tag.place_packages) == ((), 0)
    assert [(t.topic, t.packages, t.specs, t.explained_specs) for t in tag.topics] == [(Topic.COMPILERS, 0, 0, 6)]


specs = st.lists(
    st.builds(
        lambda number, version, stacks, target: record(
            number, versions=[version], stacks=[*stacks, "root"], target=target
        ),
        st.integers(0, 40),
        st.sampled_from(["1.0", "1.1", "2.0"]),
        st.lists(st.sampled_from(["e4s", "x", "y"]), unique=True),
        st.sampled_from(["x86_64_v3", "aarch64"]),
    ),
    max_size=8,
    unique_by=lambda found: str(found["hash"]),
)
states = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), specs, max_size=4)


@given(states, states, st.integers(0, 3))
def test_counts_do_not_depend_on_the_cap(
    tmp_path_factory: pytest.TempPathFactory, before: Packages, after: Packages, most: int
) -> None:
    """However few lines are kept, what is counted is the same, and is never less than what is shown."""
    repository = history(tmp_path_factory.mktemp("r") / "r.git", catalogue({**before, "z": []}), catalogue(after))
    few, all_ = read(repository, most=most), read(repository, most=1000)

    assert counts(few) == counts(all_)
    assert [(g.names, g.lines) for g in few.places] == [(g.names, g.lines) for g in all_.places]
    for report in all_.topics:
        assert report.specs == sum(row.count or 0 for row in report.rows)
        assert report.lines == sum(row.count is None for row in report.rows)
        assert report.packages == len({row.package for row in report.rows})
    assert all(len(group.rows) == group.lines for group in all_.places)


def test_all_changes_as_csv(demo_repository: Path) -> None:
    """The table has every spec that came and went, with its tag."""
    tag = read(demo_repository)
    lines = list(csv.reader(io.StringIO(gzip.decompress(tag.table.content).decode(), newline="")))

    assert {line[0] for line in lines} == {"develop"}
    assert sum(line[2] == "spec-added" for line in lines) == tag.report.specs.added
    assert sum(line[2] == "spec-removed" for line in lines) == tag.report.specs.removed


def test_a_table_that_is_too_large_is_dropped(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be attached is not kept, and that is said."""
    monkeypatch.setattr(digest_module, "MOST_CSV", 1000)
    table = read(demo_repository).table

    assert (table.content, table.is_complete) == (b"", False)
    assert table.size > 1000


def test_gaps() -> None:
    """Only what is longer than usual is a gap."""
    day = datetime(2025, 6, 1, 4, tzinfo=UTC)
    times = [day, day + timedelta(days=1), day + timedelta(days=5)]

    assert find_gaps(reversed(times), timedelta(days=2)) == (Gap(times[1], times[2]),)
    assert find_gaps(times[:1], timedelta(0)) == ()
