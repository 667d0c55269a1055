"""`cachewatch show`: packages by name, glob and version, and specs by hash."""

import json
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record, records, spec_hash


@pytest.fixture(autouse=True)
def standing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a catalogue of three packages."""
    packages = {
        "zlib": [record(1, versions=["1.2"]), record(2, versions=["1.3"])],
        "py-a": records([33], versions=["2.0"]),
        "py-b": records([65], versions=["2.1"], stacks=["e4s"]),
    }
    monkeypatch.chdir(history(tmp_path / "r.git", catalogue(packages)))


def headings(output: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if " develop " in line]


def test_globs(run: Run) -> None:
    """Each package that matches has its table, with one empty line between two."""
    output = run("show", "py-*", "zlib").output

    assert headings(output) == ["py-a", "py-b", "zlib"]
    assert "\n\n\n" not in output


def test_versions(run: Run) -> None:
    """`package@version` shows the specs of these versions only; ranges and globs do, too."""
    assert "1 spec, 1 version" in run("show", "zlib@1.2").output
    assert "2 specs, 2 versions" in run("show", "zlib@1.2:").output
    assert headings(run("show", "*@2.1:").output) == ["py-b"]
    assert run("show", "zlib@9").error == "cachewatch: zlib@9: there is no such version; there are 1.2, 1.3\n"
    assert run("show", "py-*@9").error == "cachewatch: py-*@9: no package that matches has such a version\n"


def test_hashes(run: Run) -> None:
    """A spec is found by its hash, or by what its hash begins with."""
    by_hash = run("show", spec_hash(65)).output
    assert by_hash.splitlines()[0] == f"py-b@2.1 /{spec_hash(65)}"
    assert "  stacks    e4s" in by_hash.splitlines()
    assert run("show", f"/{spec_hash(65)[:3]}").output == by_hash
    assert run("show", "/9").error == "cachewatch: /9: no spec in develop has a hash that begins so\n"
    assert run("show", "/9", "zlib").exit_code == 2


def test_many_hashes_are_cut(tmp_path: Path, run: Run) -> None:
    """A beginning that many hashes have shows some of them, and says how many more there are."""
    made = history(tmp_path / "many.git", catalogue({"zlib": records(32 * n for n in range(25))}))

    assert "and 5 more specs; write more of the hash" in run("show", "/a", "--repo", made).output


def test_json(run: Run) -> None:
    """JSON has every spec, and from where it is."""
    (package,) = json.loads(run("show", "zlib@1.3", "--format", "json").output)["packages"]
    assert (package["package"], package["tag"], package["unchanged_since"]) == ("zlib", "develop", package["revision"])
    assert [(spec["hash"], spec["versions"]) for spec in package["specs"]] == [(spec_hash(2), ["1.3"])]
    (spec,) = json.loads(run("show", spec_hash(65), "--format", "json").output)["specs"]
    assert (spec["package"], spec["stacks"], spec["tag"]) == ("py-b", ["e4s"], "develop")


def test_a_document_that_is_not_there(run: Run) -> None:
    """Nothing is looked for in its place."""
    result = run("show", "nowhere.md")

    assert (result.exit_code, result.error) == (2, "cachewatch: nowhere.md: there is no such file or folder\n")
