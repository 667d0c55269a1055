"""Git repositories whose documents are not in `_cache/`: known by what they are, or by a pattern."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, document, history, record, records, spec_hash, write
from upstream import git

from cachewatch.git import trees
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import resolve

# How documents may lie: what becomes of the tag and package of each.
LAYOUTS = ("{package}.md", "docs/{tag}/{package}.txt", "c/{tag}/{package}/specs.md")
README = {"README.md": b"# Packages\n\nspec_details: see packages/\n"}
TWO_STATES = (
    {"zlib": records([1, 2]), "hdf5": records([3]), "gmp": records([4])},
    {"zlib": [record(1), record(5, versions=["1.1"])], "gmp": records([4]), "py-a": records([6])},
)


def _state(layout: str, packages: Mapping[str, Any], tag: str = "develop") -> dict[str, bytes]:
    return README | catalogue(packages, tag, layout)


def _diff(run: Run, *arguments: object) -> dict[str, Any]:
    found = run("diff", *arguments, "--format", "json").changeset()
    for side in ("before", "after"):
        found[side] = found[side]["tag"]
    return found  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _forget() -> None:
    trees.KNOWN.clear()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_are_compared_wherever_they_are(run: Run, tmp_path: Path, layout: str) -> None:
    """The comparison is that of the same documents in `_cache/`, and the README is none."""
    here = history(tmp_path / "here.git", *(_state(layout, state) for state in TWO_STATES))
    usual = history(tmp_path / "usual.git", *(_state("_cache/{tag}/{package}/specs.md", state) for state in TWO_STATES))

    assert _diff(run, "HEAD~1", "HEAD", "--repo", here) == _diff(run, "HEAD~1", "HEAD", "--repo", usual)
    for command in (("packages", "--format", "csv"), ("tags", "--format", "json")):
        assert run(*command, "--repo", here).output == run(*command, "--repo", usual).output


def test_tags_are_the_categories_of_documents(run: Run, tmp_path: Path) -> None:
    state = _state("{tag}-{package}.md", TWO_STATES[0]) | _state("{tag}-{package}.md", TWO_STATES[1], "v0.23")
    repository = history(tmp_path / "r.git", state)

    assert run("tags", "--repo", repository, "--format", "names").output.split() == ["develop", "v0.23"]
    found = _diff(run, "HEAD:develop", "HEAD:v0.23", "--repo", repository)
    assert [package["name"] for package in found["packages"]] == ["hdf5", "py-a", "zlib"]


def test_a_move_into_the_usual_place_changes_nothing(run: Run, tmp_path: Path) -> None:
    """Each revision is looked at on its own, also for when a package changed last."""
    packages = TWO_STATES[0]
    elsewhere, usual = _state("docs/{package}.md", packages), _state("_cache/{tag}/{package}/specs.md", packages)
    repository = history(tmp_path / "r.git", elsewhere, usual, _state("{package}.txt", packages))

    for before, after in (("HEAD~2", "HEAD~1"), ("HEAD~1", "HEAD"), ("HEAD~2", "HEAD")):
        found = _diff(run, before, after, "--repo", repository)
        assert found["packages"] == []
        assert found["summary"]["packages"]["before"] == found["summary"]["packages"]["after"] == 3
    with closing(Repository(repository)) as opened:
        first = resolve(opened, "HEAD~2").commit
    shown = json.loads(run("show", "zlib", "--repo", repository, "--format", "json").output)
    assert first[:10] in run("show", "zlib", "--repo", repository).output, shown


def test_the_newest_two_may_be_before_a_move(run: Run, tmp_path: Path) -> None:
    """`diff` alone passes over a revision that only moved documents into the usual place."""
    elsewhere = [_state("{package}.md", state) for state in TWO_STATES]
    repository = history(tmp_path / "r.git", *elsewhere, _state("_cache/{tag}/{package}/specs.md", TWO_STATES[1]))

    assert [package["name"] for package in _diff(run, "--repo", repository)["packages"]] == ["hdf5", "py-a", "zlib"]


def test_a_document_that_was_only_renamed_does_not_differ(run: Run, tmp_path: Path) -> None:
    states = _state("{package}.md", TWO_STATES[0]), _state("docs/{package}.md", TWO_STATES[0])
    assert "No differences in 3 packages" in run("diff", "--repo", history(tmp_path / "r.git", *states)).output
    other = history(tmp_path / "other.git", states[0], states[0] | {"README.md": b"# another"})
    assert "has only one revision of the catalogue" in run("diff", "--repo", other).error


def test_a_pattern_names_documents_that_are_not_known_otherwise(run: Run, tmp_path: Path) -> None:
    """The path is what counts; what is not below it is no document, and one that is broken is named."""
    files = _state("cat/{tag}/{package}.rst", TWO_STATES[0])
    broken = {"cat/develop/zlib.rst": b"---\nbroken"}
    repository = history(tmp_path / "r.git", files, files | broken | _state("{package}.md", TWO_STATES[1]))
    pattern = ["--documents", "cat/{tag}/{package}.rst"]
    error = run("diff", "--repo", repository, *pattern).error_of(4)

    listed = run("packages", "--repo", repository, "--rev", "HEAD~1", "--format", "names", *pattern).output
    assert listed.split() == ["gmp", "hdf5", "zlib"]
    assert "warning: cat/develop/zlib.rst: unreadable: ends before" in error
    assert run("tags", "--repo", repository, "--format", "names").output == "develop\n"


def test_two_files_that_are_one_document_are_both_named(run: Run, tmp_path: Path) -> None:
    before, after = (_state("{package}.md", state) for state in TWO_STATES)
    repository = history(tmp_path / "r.git", before, after | {"old/zlib.txt": before["zlib.md"]})
    result = run("diff", "HEAD~1", "--repo", repository)

    assert result.exit_code == 4
    assert "old/zlib.txt and zlib.md are documents of the same package and tag" in result.error
    assert "hdf5" in result.output
    assert "old/zlib.txt and zlib.md" in run("show", "zlib", "--repo", repository).error_of(4)
    for command in ("packages", "stacks"):
        listed = run(command, "--repo", repository, "--format", "names")
        assert (listed.exit_code, bool(listed.output)) == (4, True)
        assert "old/zlib.txt and zlib.md are documents of the same package and tag" in listed.error
        assert "AFTER" not in listed.error


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_an_overwritten_document(run: Run, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package was not removed, and it was not new when it is a document again; the rest is compared."""
    before, after = (_state(layout, state) for state in TWO_STATES)
    contents = {"zlib": b"hello\n", "hdf5": b"---\ntitle: hdf5\n---\n"}
    damaged = {layout.format(tag="develop", package=name): content for name, content in contents.items()}
    repository = history(tmp_path / "r.git", before, after | damaged, before)
    monkeypatch.setattr(trees, "_MOST_KEPT", 0)

    for first, second in (("HEAD~2", "HEAD~1"), ("HEAD~1", "HEAD")):
        found = run("diff", first, second, "--repo", repository, "--format", "json").changeset(4)
        assert [each["name"] for each in found["packages"]] == ["py-a"]
        assert [warning["path"] for warning in found["warnings"]] == sorted(damaged)
        assert all(warning["kind"] == "unreadable" for warning in found["warnings"])
    run("history", "build", "--repo", repository)
    log = json.loads(run("log", "--repo", repository, "--format", "json").output)
    assert [each["package"] for revision in log["revisions"] for each in revision["unreadable"]] == ["hdf5", "zlib"]
    assert not {"hdf5", "zlib"} & {each.get("package") for row in log["revisions"] for each in row["statements"]}


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_a_document_that_was_moved_and_emptied_cannot_be_read(run: Run, tmp_path: Path, layout: str) -> None:
    """A file that is called as its package is what became of it, whether the document comes or goes."""
    before = _state(layout, TWO_STATES[0])
    place = layout.format(tag="develop", package="zlib")
    elsewhere = {path: content for path, content in before.items() if path != place} | {"moved/zlib.md": b""}
    repository = history(tmp_path / "r.git", {place: before[place]}, before, elsewhere, before)

    assert "2 packages are new; their specs" in run("diff", "HEAD~3", "HEAD~1", "--repo", repository).output
    for first, second in (("HEAD~2", "HEAD~1"), ("HEAD~1", "HEAD")):
        result = run("diff", first, second, "--repo", repository)
        assert (result.exit_code, "moved/zlib.md: unreadable: is empty" in result.error) == (4, True)
        assert "No differences in 2 packages, as far as documents could be compared." in result.output


@pytest.mark.parametrize(
    ("layout", "pattern"),
    [
        ("docs/{tag}/{package}.md", ""),
        ("docs/{tag}/{package}.md", "docs/*/{package}.md"),
        ("{package}/{tag}.md", ""),
        ("{tag}/{package}/{package}.txt", ""),
        ("{tag}/{package}/{package}.txt", "*/{package}/{package}.txt"),
    ],
)
def test_an_overwritten_document_of_one_tag_cannot_be_read(run: Run, tmp_path: Path, layout: str, pattern: str) -> None:
    """Another tag of the revision has the package, so it is neither new nor removed; lists name it, too."""
    state = _state(layout, TWO_STATES[0]) | _state(layout, TWO_STATES[0], "v1")
    damaged = {layout.format(tag="v1", package="zlib"): b"", layout.format(tag="v1", package="gmp"): b"see v2\n"}
    repository = history(tmp_path / "r.git", state | damaged)
    option = ["--documents", pattern] if pattern else []

    for sides in (("HEAD:develop", "HEAD:v1"), ("HEAD:v1", "HEAD:develop")):
        found = run("diff", *sides, "--repo", repository, "--format", "json", *option).changeset(4)
        assert found["packages"] == []
        assert [warning["path"] for warning in found["warnings"]] == sorted(damaged)
    for tag, code in (("v1", 4), ("develop", 0)):
        result = run("packages", "--tag", tag, "--repo", repository, *option)
        assert (result.exit_code, result.error.count("unreadable")) == (code, code // 2)
    result = run("tags", "--repo", repository, *option)
    assert (result.exit_code, result.error.count("unreadable")) == (4, 2)
    assert [line.split()[1:] for line in result.output.splitlines()[1:]] == [["3"], ["1"]]


def test_a_short_name_is_not_found_within_other_words(run: Run, tmp_path: Path) -> None:
    """`r` is a package, and a letter of the folder in which documents lie."""
    other = {"zlib": record(1), "hdf5": record(2), "r": record(3)}
    places = {(tag, name): f"builder/{tag}/{name}.md" for tag in ("develop", "v1") for name in other}
    state = {place: document([other[name]], package=name, tag=tag) for (tag, name), place in places.items()}
    repository = history(tmp_path / "r.git", state | {"builder/v1/r.md": b""})
    assert "builder/v1/r.md: unreadable" in run("diff", "HEAD:develop", "HEAD:v1", "--repo", repository).error_of(4)


def test_a_document_of_one_tag_that_was_overwritten_in_a_folder_is_named(run: Run, tmp_path: Path) -> None:
    state = _state("{tag}/{package}.md", TWO_STATES[0]) | _state("{tag}/{package}.md", TWO_STATES[0], "v1")
    folder = write(tmp_path, state | {"v1/zlib.md": b""})
    result = run("packages", "--tag", "v1", "--repo", folder, "--format", "names")

    assert (result.exit_code, result.output.split()) == (4, ["gmp", "hdf5"])
    assert result.error.count("v1/zlib.md: unreadable: no front matter with spec_details") == 1


def _with_link(folder: Path, place: Path, files: Mapping[str, bytes]) -> Path:
    """Return a work tree whose second revision has a link at `place` that leads out of it."""
    tree = folder / "tree"
    git(history(folder / "r.git", files), "clone", "-q", str(folder / "r.git"), str(tree))
    (tree / place).rename(folder / "elsewhere")
    (tree / place).symlink_to(folder / "elsewhere")
    for command in (("add", "-A"), ("commit", "-q", "-m", "linked")):
        git(tree / ".git", f"--work-tree={tree}", *command)
    return tree


@pytest.mark.parametrize("layout", ["packages/{package}.md", "_cache/{tag}/{package}/specs.md"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_link_in_place_of_a_document_cannot_be_read(run: Run, tmp_path: Path, layout: str, is_folder: bool) -> None:
    """Its package was not removed, wherever the link leads; also if the folder of the document is the link."""
    path = Path(layout.format(tag="develop", package="zlib"))
    place = path.parent if is_folder else path
    tree = _with_link(tmp_path, place, _state(layout, TWO_STATES[0]) | {"other.md": b"# none"})

    found = run("diff", "HEAD~1", "HEAD", "--repo", tree, "--format", "json").changeset(4)
    assert found["packages"] == []
    assert {warning["kind"] for warning in found["warnings"]} == {"unreadable"}


def test_a_link_that_took_the_place_of_the_catalogue_is_an_error(run: Run, tmp_path: Path) -> None:
    tree = _with_link(tmp_path, Path("_cache"), _state("_cache/{tag}/{package}/specs.md", TWO_STATES[0]))
    assert "_cache is a link or a module" in run("diff", "HEAD~1", "HEAD", "--repo", tree).error_of(3)


def test_a_name_that_no_package_can_have_is_a_warning(run: Run, tmp_path: Path) -> None:
    before, after = (_state("{package}.md", state) for state in TWO_STATES)
    odd = {"odd.md": document(records([9]), package="two words")}
    error = run("diff", "HEAD~1", "--repo", history(tmp_path / "r.git", before, after | odd)).error_of(4)
    assert "odd.md: unreadable: ignored: 'two words' cannot be the name of a package" in error


def test_a_repository_without_documents_says_so(run: Run, tmp_path: Path) -> None:
    repository = history(tmp_path / "r.git", README, README | {"notes.md": b"x"})
    for command in (["diff", "HEAD", "HEAD"], ["diff"], ["packages"], ["show", "zlib"], ["tags"], ["site", "out"]):
        error = run(*command, "--repo", repository).error_of(2)
        assert "has no documents: looked for _cache/<tag>/<package>/specs.md, or *.md" in error, command
        assert "found README.md and 1 more" in error, command


def test_too_many_files_are_not_looked_at(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MAX_ENTRIES", 5)
    state = {f"src/{n}.c": b"x" for n in range(9)} | _state("docs/{package}.md", TWO_STATES[0])
    repository = history(tmp_path / "r.git", state)
    error = run("packages", "--repo", repository).error_of(3)
    assert "has more than 5 files" in error
    assert "--documents" in error
    assert run("packages", "--repo", repository, "--documents", "docs/{package}.md").exit_code == 0


def test_documents_that_cannot_be_told_apart_are_named_in_revisions_without_changes(run: Run, tmp_path: Path) -> None:
    """As in a folder that is compared with itself, in every tag: they are not called the same."""
    state = _state("{tag}/{package}.md", TWO_STATES[0])
    (zlib,) = (path for path in state if path.endswith("/zlib.md"))
    tags = {f"other/{zlib}": state[zlib], f"z/{zlib}": state[zlib].replace(b"develop", b"z")}
    state |= tags | {f"z/other/{zlib}": tags[f"z/{zlib}"]}
    repository, folder = history(tmp_path / "r.git", state), write(tmp_path / "folder", state)
    for result in (run("diff", "HEAD", "HEAD", "--repo", repository), run("diff", folder, folder)):
        assert result.exit_code == 4
        assert result.error.count("are documents of the same package and tag") == 2
        for said in ("No differences in 2 packages, as far as documents could be", "\nNothing could be compared."):
            assert said in result.output


@pytest.mark.parametrize("layout", ["_cache/{tag}/{package}/specs.md", "cat/{tag}/{package}/specs.md"])
def test_a_document_with_another_title_counts_as_its_folder(run: Run, tmp_path: Path, layout: str) -> None:
    """Where the layout has a place for the package, its name is that of the place, in all commands, with a warning."""
    state = _state(layout, TWO_STATES[0])
    moved = {path.replace("/zlib/", "/zlib2/"): content for path, content in state.items()}
    repository = history(tmp_path / "r.git", state, moved)
    option = [] if layout.startswith("_cache") else ["--documents", layout]
    place = layout.format(tag="develop", package="zlib2")
    said = f"{place}: inconsistent: its title is zlib; by its path it counts as the package zlib2"

    result = run("diff", "HEAD~1", "HEAD", "--repo", repository, "--format", "json", *option)
    names = {each["name"] for each in json.loads(result.output)["changesets"][0]["packages"]}
    assert (result.exit_code, names, said in result.error) == (0, {"zlib", "zlib2"}, True)
    result = run("packages", "--repo", repository, "--format", "names", *option)
    assert (result.exit_code, result.output.split(), said in result.error) == (0, ["gmp", "hdf5", "zlib2"], True)
    result = run("show", "zlib2", "--repo", repository, *option)
    assert (result.output.split()[0], said in result.error) == ("zlib2", True)
    assert "has no package 'zlib'" in run("show", "zlib", "--repo", repository, *option).error
    assert run("show", f"/{spec_hash(1)}", "--repo", repository, *option).output.startswith("zlib2@")


@pytest.mark.parametrize("layout", ["_cache/{tag}/{package}/specs.md", "docs/{package}.md"])
def test_a_warning_names_the_revision_whose_document_cannot_be_read(run: Run, tmp_path: Path, layout: str) -> None:
    """The path is the same in both revisions, so the message says on which side it is."""
    state = _state(layout, TWO_STATES[0])
    place = layout.format(tag="develop", package="zlib")
    repository = history(tmp_path / "r.git", state, state | {place: b""}, state | {place: b"", "gmp.md": b""}, state)

    for before, after, side in ((3, 2, "AFTER"), (1, 0, "BEFORE")):
        command = ("diff", f"HEAD~{before}", f"HEAD~{after}", "--repo", repository)
        assert f"{place}: unreadable: is empty ({side})\n" in run(*command).error
        assert run(*command, "--format", "json").changeset(4)["warnings"][0]["side"] == side.lower()


def test_documents_beside_the_usual_place_are_named(run: Run, tmp_path: Path) -> None:
    """An edit of one is not compared, nor is what stays elsewhere when others move to `_cache/`."""
    before, after = (_state("{package}.md", state) for state in TWO_STATES)
    usual = _state("_cache/{tag}/{package}/specs.md", TWO_STATES[0])
    states = (before, usual | before, usual | after, usual | after | {"docs/notes.md": b"# notes"})
    repository = history(tmp_path / "r.git", *states)
    said = "where there is _cache/, documents are _cache/<tag>/<package>/specs.md"

    for first, package in enumerate(("gmp", "hdf5")):
        named = f"{package}.md: inconsistent: this and 2 more are"
        result = run("diff", f"HEAD~{3 - first}", f"HEAD~{2 - first}", "--repo", repository)
        assert result.exit_code == 0
        assert "No differences" in result.output
        assert f"{named} not compared: {said}" in result.error
    assert run("diff", "HEAD~1", "HEAD", "--repo", repository).error == ""


def test_a_clone_that_lacks_what_is_not_compared(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's clone has no contents but those of what is compared; a document beside `_cache/` does not end it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    states = (
        _state("_cache/{tag}/{package}/specs.md", state) | {"x.md": document(records([n]), package="x")}
        for n, state in enumerate(TWO_STATES)
    )
    upstream = history(tmp_path / "up.git", *states)
    git(upstream, "config", "uploadpack.allowFilter", "true")
    assert "py-a" in run("diff", "HEAD~1", "HEAD", "--repo", upstream.as_uri()).output_of(0)


def test_an_index_of_a_repository_without_documents_says_so(run: Run, tmp_path: Path) -> None:
    """It is made, because older revisions may have some."""
    error = run("history", "build", "--repo", history(tmp_path / "r.git", README)).error_of(0)
    assert "'HEAD' has no documents: looked for _cache/<tag>/<package>/specs.md, or *.md" in error
