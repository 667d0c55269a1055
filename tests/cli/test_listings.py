"""`cachewatch tags`, `stacks` and `packages`: what there is in a revision."""

import json
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, document, history, record, records, write


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    other = record(2, versions=["1.10"], stacks=["radiuss"], target="aarch64")
    packages = {"zlib": [record(1, versions=["1.9"]), other], "py-a": records([3, 4]), "py-b": records([5], stacks=[])}
    state = catalogue(packages) | catalogue({"zlib": records([1])}, tag="develop-2025-06-01")
    return history(tmp_path_factory.mktemp("listed") / "r.git", state | {"_data/tags.yaml": b""})


@pytest.fixture(autouse=True)
def listed(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def test_tags(run: Run) -> None:
    assert run("tags").output.splitlines() == [
        "tag                 packages",
        "develop                    3",
        "develop-2025-06-01         1",
    ]
    assert run("tags", "develop-*", "--format", "names").output == "develop-2025-06-01\n"
    listed = json.loads(run("tags", "!*-*", "--format", "json").output)
    assert listed == {"schema": "cachewatch.tags/1", "tags": [{"tag": "develop", "packages": 3, "stacks": None}]}


def test_other_forms(run: Run) -> None:
    row = "zlib,2,1.10 1.9,e4s radiuss,aarch64 x86_64_v3"
    listed = run("packages", "zlib", "--format", "csv").output.splitlines()
    assert listed == ["package,specs,versions,stacks,targets", row]
    assert run("tags", "--format", "markdown").output.splitlines() == [
        "| tag | packages | stacks |",
        "| --- | ---: | --- |",
        "| develop | 3 | - |",
        "| develop-2025-06-01 | 1 | - |",
    ]


def test_stacks(run: Run) -> None:
    assert run("stacks", "!root").output.splitlines() == [
        "stack    packages  specs  targets",
        "e4s             2      3  x86_64_v3",
        "radiuss         1      1  aarch64",
        "Specs that several stacks share are counted in each of them.",
    ]


def test_a_stack_without_specs_is_listed(run: Run, demo_repository: Path) -> None:
    lines = run("stacks", "--repo", demo_repository).output.splitlines()[1:]

    assert lines[-3].split() == ["radiuss", "0", "0", "-"]
    assert lines[-1].startswith("A stack with 0 specs is in the catalogue's list")
    _, tag, note = run("tags", "develop", "--repo", demo_repository).output.splitlines()
    assert tag.split()[-1] == str(len(lines) - 2)
    assert note.startswith("Stacks are counted as the catalogue lists them")


def test_packages(run: Run) -> None:
    assert run("packages", "z*", "py-b").output.splitlines() == [
        "package  specs  versions   stacks  targets",
        "py-b         1  1.0             0  x86_64_v3",
        "zlib         2  1.10, 1.9       2  aarch64, x86_64_v3",
    ]
    assert run("packages", "--tag", "develop-2025-06-01", "--format", "names").output == "zlib\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("packages", "py-?", "zlibb", "zlibb", "!py-?"), "py-?, zlibb, zlibb, !py-?; did you mean zlib?\n"),
        (("packages", "zlibb"), "no package matches zlibb; did you mean zlib?"),
        (("stacks", "radius"), "no stack matches radius; did you mean radiuss?"),
        (("tags", "develp"), "no tag matches develp; did you mean develop?"),
        (("packages", "--tag", "develp"), "has no tag 'develp'; did you mean develop"),
    ],
)
def test_names_that_nothing_has(run: Run, arguments: tuple[str, ...], said: str) -> None:
    """An empty list would hide the mistake; the nearest names are told."""
    assert said in run(*arguments).error_of(2)


def _put(folder: Path, files: dict[str, bytes], is_folder: bool) -> Path:
    return write(folder, files) if is_folder else history(folder, files)


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_is_no_document_any_more(tmp_path: Path, run: Run, is_folder: bool) -> None:
    """Where documents may be anywhere, a file that is called as one and is none is named; README.md and notes.txt are not."""
    files = {"zlib.md": document([record(1)]), "hdf5.md": b"garbage", "README.md": b"# These", "xz.md": b"none"}
    files |= {"notes.txt": b"", "a.txt": b"x"}
    repo = _put(tmp_path / "r", files, is_folder)
    said = "hdf5.md: inconsistent: this and 1 more are no documents: no front matter with spec_details\n"
    for command in (("packages",), ("stacks",), ("tags",), ("show", "zlib")):
        assert run(*command, "--repo", repo).error_of(0).endswith(said)


@pytest.mark.parametrize(
    ("layout", "content"),
    [("{}.md", b""), ("docs/develop/{}.md", b""), *[("_cache/develop/{}/specs.md", each) for each in (b"", b"<html>")]],
)
@pytest.mark.parametrize("is_folder", [False, True])
def test_no_document_counts_nowhere(tmp_path: Path, run: Run, layout: str, content: bytes, is_folder: bool) -> None:
    """Every list says that it cannot be read, and ends with 4; `tags` does not count it as a package."""
    files = {layout.format("zlib"): document([record(1)], package="zlib"), layout.format("xz"): content}
    repo = _put(tmp_path / "r", files, is_folder)
    unreadable = f"{layout.format('xz')}: unreadable: {'does not begin' if content else 'is empty'}"
    for command in ("packages", "stacks", "tags"):
        result = run(command, "--repo", repo)
        assert (result.exit_code, result.error.count(unreadable)) == (4, 1)
        assert command != "tags" or result.output.splitlines()[1].split() == ["develop", "1"]
    assert run("show", "zlib", "--repo", repo).exit_code == 0


def test_another_folder_to_stand_in(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As git has it."""
    repository = history(tmp_path / "there" / "r.git", catalogue({"gmp": records([1])}))
    monkeypatch.chdir(tmp_path)
    assert run("-C", repository, "packages", "--format", "names").output == "gmp\n"
    monkeypatch.chdir(tmp_path)
    assert run("-C", "nowhere", "packages").exit_code == 2
