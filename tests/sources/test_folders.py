"""Documents without any git: files, folders, catalogues, and mixes of them with revisions."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, document, history, records


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files below a folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def packages(run: Run, *arguments: object) -> list[tuple[str, str]]:
    """Return what changed, with its status, in all changesets."""
    result = run("diff", *arguments, "--format", "json")
    assert result.exit_code == 0, result.error
    found: dict[str, Any] = json.loads(result.output)
    return [(p["name"], p["status"]) for c in found["changesets"] for p in c["packages"]]


BEFORE = {"zlib": records([1]), "hdf5": records([2]), "same": records([3])}
AFTER = {"zlib": records([4]), "new": records([5]), "same": records([3])}
CHANGES = [("hdf5", "removed"), ("new", "added"), ("zlib", "changed")]


def test_two_documents(run: Run, tmp_path: Path) -> None:
    """The title says what package a document is of, whatever the file is called."""
    untitled = document(records([2])).replace(b'title: "zlib"\n', b"")
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2])), "c.md": untitled})

    assert packages(run, tmp_path / "a.md", tmp_path / "b.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "a.md", tmp_path / "b.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "a.md", tmp_path / "c.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "a.md", "/dev/null") == [("zlib", "removed")]


def test_documents_of_two_packages(run: Run, tmp_path: Path) -> None:
    """Nobody means to compare two packages with each other."""
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2]), package="hdf5")})
    result = run("diff", tmp_path / "a.md", tmp_path / "b.md")

    assert (result.exit_code, result.output) == (2, "")
    assert "a.md is of the package zlib" in result.error
    assert "b.md of hdf5; name two documents of one package" in result.error


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("build_cache/index.json", "is a build cache and holds no documents; `cachewatch record"),
        ("v3/manifests/index/index.manifest.json", "is a build cache and holds no documents; `cachewatch record"),
        ("README", "holds no documents; documents are files _cache/<tag>/<package>/specs.md or <package>.md"),
    ],
)
def test_folders_that_are_no_documents(run: Run, tmp_path: Path, inside: str, said: str) -> None:
    """They are refused, not taken for a catalogue from which everything is gone; what a build cache is for is said."""
    write(tmp_path / "some", catalogue({"zlib": records([1])}))
    write(tmp_path / "other", {inside: b"{}"})
    for sides in (("some", "other"), ("other", "some")):
        result = run("diff", *(tmp_path / side for side in sides))
        assert (result.exit_code, result.output) == (2, "")
        assert said in result.error


def test_a_build_cache_beside_us(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is called like a branch is known for what it is."""
    write(tmp_path / "site", {"v3/manifests/index/index.manifest.json": b"{}"})
    monkeypatch.chdir(tmp_path)

    assert "site: is a build cache" in run("diff", "site", "HEAD").error


def test_documents_without_a_title(run: Run, tmp_path: Path) -> None:
    """Without a title the file, or the folder of a specs.md, says the package."""
    untitled = document(records([1])).replace(b'title: "zlib"\n', b"")
    write(tmp_path, {"one/specs.md": untitled, "two.md": untitled})

    assert packages(run, "/dev/null", tmp_path / "one/specs.md") == [("one", "added")]
    assert packages(run, "/dev/null", tmp_path / "two.md") == [("two", "added")]


@pytest.mark.parametrize("depth", ["checkout", "catalogue", "tag", "flat"])
def test_two_folders(run: Run, tmp_path: Path, depth: str) -> None:
    """A checkout, its _cache, one tag in it and a folder of .md files are all folders of documents."""
    below = {"checkout": "", "catalogue": "_cache", "tag": "_cache/develop", "flat": ""}[depth]
    for name, state in (("before", BEFORE), ("after", AFTER)):
        flat = {f"{package}.md": document(found, package=package) for package, found in state.items()}
        write(tmp_path / name, flat if depth == "flat" else catalogue(state))

    assert packages(run, tmp_path / "before" / below, tmp_path / "after" / below) == CHANGES
    result = run("diff", tmp_path / "before" / below, tmp_path / "after" / below)
    assert "1 of 3 packages changed, 1 of them only rebuilt, 1 new, 1 removed" in result.output


def test_catalogues_of_several_tags(run: Run, tmp_path: Path) -> None:
    """Tags are compared by name, those of one side only as a whole; filters choose among them."""
    write(tmp_path / "before", catalogue(BEFORE) | catalogue({"zlib": records([1])}, "v1"))
    write(tmp_path / "after", catalogue(AFTER) | catalogue({"zlib": records([1])}, "v2"))
    sides = (tmp_path / "before", tmp_path / "after")

    assert packages(run, *sides) == [*CHANGES, ("zlib", "added"), ("zlib", "removed")]
    assert packages(run, *sides, "--tag", "v1") == [("zlib", "removed")]
    assert packages(run, *sides, "--tag", "develop", "--package", "!z*") == CHANGES[:2]


def test_a_document_against_a_folder(run: Run, tmp_path: Path) -> None:
    """A single document stands for its package; the others of the folder are not missing."""
    write(tmp_path / "all", catalogue(BEFORE))
    write(tmp_path, {"one.md": document(records([9])), "other.md": document(records([9]), package="other")})

    assert packages(run, tmp_path / "all", tmp_path / "one.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "one.md", tmp_path / "all") == [("zlib", "changed")]
    assert packages(run, tmp_path / "all", tmp_path / "other.md") == [("other", "added")]


def test_revisions_against_files(run: Run, tmp_path: Path) -> None:
    """A revision, of the tag it names or of develop, is compared with what lies in files."""
    repository = history(tmp_path / "r.git", catalogue(BEFORE), catalogue(AFTER))
    write(tmp_path / "work", catalogue(AFTER))
    write(tmp_path, {"one.md": document(records([9]))})

    assert packages(run, "HEAD~1", tmp_path / "work", "--repo", repository) == CHANGES
    assert packages(run, "HEAD:develop", tmp_path / "work", "--repo", repository) == []
    assert packages(run, tmp_path / "one.md", "HEAD", "--repo", repository) == [("zlib", "changed")]
    result = run("diff", "HEAD:v9", tmp_path / "work", "--repo", repository)
    assert (result.exit_code, "no tag 'v9'" in result.error) == (2, True)


def test_a_tag_of_many_against_one(run: Run, tmp_path: Path) -> None:
    """A folder of several tags gives the one that the other side is of, or asks which."""
    write(tmp_path / "many", catalogue(BEFORE) | catalogue(BEFORE, "v1"))
    write(tmp_path / "one", {f"_cache/v1/{p}/specs.md": document(r, package=p, tag="v1") for p, r in AFTER.items()})

    assert packages(run, tmp_path / "many", tmp_path / "one" / "_cache" / "v1") == CHANGES
    (tmp_path / "many" / "_cache" / "v1").rename(tmp_path / "many" / "_cache" / "v3")
    result = run("diff", tmp_path / "many", tmp_path / "one" / "_cache" / "v1")
    assert (result.exit_code, "holds several tags" in result.error) == (2, True)


def test_what_is_no_file(run: Run, tmp_path: Path) -> None:
    """Links and folders in the place of documents are named; what cannot be read stops only itself."""
    write(tmp_path / "before", catalogue({"zlib": records([1])}))
    after = write(tmp_path / "after", catalogue({"zlib": records([2])})) / "_cache/develop"
    (after / "link").mkdir()
    (after / "link" / "specs.md").symlink_to("/etc/passwd")
    (after / "folder" / "specs.md").mkdir(parents=True)
    (after / "no-document").mkdir()
    result = run("diff", tmp_path / "before", tmp_path / "after")

    assert result.exit_code == 4
    assert result.error.count("is not a regular file") == 2
    assert "REBUILT  1 spec of 1 package" in result.output


def test_an_empty_folder_is_a_mistake(run: Run, tmp_path: Path) -> None:
    """It is said, on either side; what stands for nothing is /dev/null."""
    (tmp_path / "nothing").mkdir()
    write(tmp_path / "some", catalogue({"zlib": records([1])}))
    for sides in (("some", "nothing"), ("nothing", "some"), ("nothing", "nothing")):
        result = run("diff", *(tmp_path / side for side in sides))
        assert (result.exit_code, result.output) == (2, "")
        assert "nothing: is empty; documents are" in result.error

    assert packages(run, "/dev/null", tmp_path / "some") == [("zlib", "added")]


def test_damaged_single_documents(run: Run, tmp_path: Path) -> None:
    """A document that cannot be read is the same package as the one that it is compared with."""
    write(tmp_path, {"good.md": document(records([1])), "bad.md": b"---\ntruncated"})
    result = run("diff", tmp_path / "good.md", tmp_path / "bad.md", "--format", "json")

    assert result.exit_code == 4
    (found,) = json.loads(result.output)["changesets"]
    assert found["packages"] == []
    assert found["summary"]["packages"] == {
        "before": 1, "after": 1, "added": 0, "removed": 0, "changed": 0, "rebuilt_only": 0
    }  # fmt: skip


def test_standard_input_and_pipes(tmp_path: Path) -> None:
    """A document may come from standard input and through a pipe, which can be read only once."""
    sides = tmp_path / "a.md", tmp_path / "b.md"
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2]))})
    program = f"{sys.executable} -m cachewatch diff"
    expected, streamed = (
        subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True).stdout
        for command in (
            f"{program} {sides[0]} {sides[1]} --stat",
            f"{program} - <(cat {sides[1]}) --stat < {sides[0]}",
        )
    )

    assert "zlib" in expected
    assert streamed == expected
