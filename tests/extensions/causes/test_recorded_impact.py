"""What would be rebuilt if a package changed, in caches that a real Spack wrote, and `cachewatch impact`."""

import json

import pytest
from conftest import Run
from truths import V3, History


def test_what_a_new_zlib_rebuilt_is_its_impact(run: Run, histories: dict[str, History]) -> None:
    """State 7 rebuilt exactly what depended on zlib in state 6."""
    history = histories["v3"]
    at = ("--rev", history.revisions[V3[5]], "--repo", history.folder)
    found = json.loads(run("impact", "zlib", *at, "--format", "json").output)
    between = (history.revisions[V3[5]], history.revisions[V3[6]])
    night = json.loads(run("why", "--between", *between, "--repo", history.folder, "--format", "json").output)

    assert {one["name"] for one in found["packages"]} == {"cw-solver", "cw-stack", "cw-torch", "hdf5"}
    assert {one["name"] for one in found["packages"] if one["direct"]} >= {"cw-torch", "hdf5"}
    assert found["specs"] == night["causes"][0]["specs"] - 1  # zlib itself
    assert (found["of_specs"], found["stacks"]) == (9, [{"stack": "cache", "specs": 5, "packages": 4}])


def test_for_people(run: Run, histories: dict[str, History]) -> None:
    """A compiler that is no binary has dependents, too; a leaf has none."""
    at = ("--rev", histories["v3"].revisions[V3[5]], "--repo", histories["v3"].folder)
    gcc, leaf = run("impact", "gcc", *at), run("impact", "cw-stack@2026.05", *at)

    assert (gcc.exit_code, leaf.exit_code) == (0, 0)
    assert gcc.output.startswith("gcc in develop at ")
    assert "\ncache  " in gcc.output
    assert "  yes\n" in gcc.output
    assert leaf.output.endswith(": 0 dependent specs of 0 packages (of 9 specs in the tag)\n")


@pytest.mark.parametrize(
    ("asked", "message"), [("nosuch", "no spec of this revision is or uses it"), ("zlib@9", "no spec of this revision")]
)
def test_nothing_of_that_name(run: Run, histories: dict[str, History], asked: str, message: str) -> None:
    result = run("impact", asked, "--repo", histories["v3"].folder)

    assert (result.exit_code, message in result.error) == (2, True)
