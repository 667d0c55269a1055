"""What a digest is made of: exact counts, capped lines, and the table of stacks."""

import csv
import gzip
import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from digests import read
from helpers import Record, catalogue, history, records

from cachewatch.core.filters_and_default_kinds import Globs, Selection
from cachewatch.core.model import Kind
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.report.digests import data_for_templates as digest_data

Packages = Mapping[str, list[Record]]


def between(folder: Path, before: Packages, after: Packages, **options: object) -> TagDigest:
    """Read the digest of a repository of two states."""
    return read(history(folder / "r.git", catalogue(before), catalogue(after)), **options)  # type: ignore[arg-type]


def counts(tag: TagDigest) -> list[tuple[str, str, int, int, int]]:
    """Return kind, name and items of each statement."""
    return [(s.kind.value, s.name, s.counts.vanished, s.counts.new, s.counts.kept) for s in tag.statements]


def test_the_demo_statement_by_statement(demo_repository: Path) -> None:
    """What the demo's documents say, told."""
    tag = read(demo_repository)

    assert [(one.kind.value, one.name, one.packages) for one in tag.statements] == [
        ("package-added", "py-keras", ("py-keras",)),
        ("place-lost", "radiuss (x86_64_v3)", ("py-build",)),
        ("upgraded", "py-ml-dtypes", ("py-ml-dtypes",)),
        ("upgraded", "py-build", ("py-build",)),
        ("place-gained", "", ("py-ml-dtypes",)),
        ("retired", "", ("py-safetensors",)),
        ("rebuilt", "", ("py-gpytorch",)),
    ]
    assert [(found.package, found.version) for found in tag.examples] == [
        ("py-keras", "3.9.2"),
        ("py-ml-dtypes", "0.4.0"),
    ]
    assert {one.package: (one.added, one.removed) for one in tag.versions}["py-build"] == ((), ("1.2.0",))


def test_what_nobody_asked_for_is_only_summed_up(tmp_path: Path) -> None:
    """Kinds that were not chosen are told nowhere; that something was rebuilt is said all the same."""
    before = {"a": records([1]), "b": records([2]), "c": records([3])}
    after = {"a": records([11], versions=["2"]), "b": records([12], compiler="gcc@13.2.0"), "c": records([13])}
    tag = between(tmp_path, before, after, selection=Selection(kinds=Globs(["compiler"])))

    assert counts(tag) == [("reconfigured", "", 1, 1, 0)]
    assert [(one.kind.value, one.packages) for one in tag.rest] == [("upgraded", ("a",)), ("rebuilt", ("c",))]


def test_what_happened_to_the_whole_tag_is_told_once(tmp_path: Path) -> None:
    """A compiler that replaced another everywhere is one statement."""
    before = {f"p{n}": records([n]) for n in range(6)}
    after = {f"p{n}": records([10 + n], compiler="gcc@13.2.0") for n in range(6)}
    tag = between(tmp_path, before, after)

    assert [event.kind for event in tag.report.events] == [Kind.COMPILER]
    assert counts(tag) == [("migration", "gcc@11.4.0 -> gcc@13.2.0", 6, 6, 0), ("turnover", "", 0, 0, 0)]


def test_all_changes_as_csv(demo_repository: Path) -> None:
    """The table has every spec that came and went, with its tag."""
    tag = read(demo_repository)
    lines = list(csv.reader(io.StringIO(gzip.decompress(tag.table.content).decode(), newline="")))

    assert {line[0] for line in lines} == {"develop"}
    assert sum(line[2] == "spec-added" for line in lines) == tag.report.specs.added
    assert sum(line[2] == "spec-removed" for line in lines) == tag.report.specs.removed


def test_a_table_that_is_too_large_is_dropped(demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be attached is not kept, and that is said."""
    monkeypatch.setattr(digest_data, "MOST_CSV", 1000)
    table = read(demo_repository).table

    assert (table.content, table.is_complete) == (b"", False)
    assert table.size > 1000
