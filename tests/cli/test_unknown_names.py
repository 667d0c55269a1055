"""A filter that names what does not exist is a mistake, and is called one."""

import json
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, record, records

import cachewatch.git.tags_and_documents as catalogue_of_git

TAGS = {"_data/tags.yaml": b"- name: develop\n  stacks:\n  - declared\n  - e4s\n  - root\n"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four packages one changes; another has what no other has; a tag does not change at all."""
    still = {"still": [record(2, stacks=["ml-cpu"], target="aarch64", os="rhel8", compiler="llvm@19.1.0")]}
    before = {"zlib": records([1]), "hdf5": [record(3, compiler="none")], **still}
    after = {**before, "zlib": records([11])}
    rest = TAGS | catalogue({"only-here": records([4])}, "v1")
    return history(tmp_path_factory.mktemp("names") / "r.git", catalogue(before) | rest, catalogue(after) | rest)


@pytest.mark.parametrize(
    ("option", "name", "near"),
    [
        ("--package", "zlip", "; did you mean zlib?"),
        ("--stack", "e5s", "; did you mean e4s?"),
        ("--target", "aarch46", "; did you mean aarch64?"),
        ("--os", "rhel9", "; did you mean rhel8?"),
        ("--compiler", "gc", "; did you mean gcc"),
        ("--compiler", "gcc@11.4.1", "; did you mean gcc@11.4.0"),
        ("--versions", "foo", ""),
    ],
)
def test_a_name_that_nothing_has(  # noqa: PLR0917
    run: Run, repository: Path, tmp_path: Path, option: str, name: str, near: str
) -> None:
    command = ("diff", "HEAD~1", "--repo", repository, option, name)
    said = f"cachewatch: {option} {name}: no {option[2:].replace('ons', 'on')} matches on either side{near}"
    for options in ((), ("--fail-on", "place-lost")):
        assert said in run(*command, *options).error_of(2)
    assert run(*command, "--format", "json", "-o", tmp_path / "out.json").exit_code == 2
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--package", "still"),
        ("--package", "only-here"),
        ("--stack", "ml-cpu"),
        ("--stack", "declared"),
        ("--target", "aarch64"),
        ("--os", "rhel8"),
        ("--compiler", "llvm"),
        ("--compiler", "clang@19.1.0"),
        ("--compiler", "none"),
    ],
)
def test_a_name_that_only_something_unchanged_has(run: Run, repository: Path, option: str, name: str) -> None:
    """The catalogue is asked: that nothing of it changed is an answer."""
    result = run("diff", "HEAD~1", "--repo", repository, option, name)

    assert (result.exit_code, result.error) == (0, "")
    assert "No differences in your selection; " in result.output


@pytest.mark.parametrize(
    ("option", "pattern"),
    [("--package", "zl?p"), ("--stack", "/^x/"), ("--stack", "!e5s"), ("--package", "!zlip"), ("--versions", "@99:")],
)
def test_a_pattern_that_matches_nothing(run: Run, repository: Path, option: str, pattern: str) -> None:
    """It may match tomorrow, so it is no mistake, but worth a word."""
    error = run("diff", "HEAD~1", "--repo", repository, option, pattern).error_of(0)

    key = option[2:].replace("versions", "version")
    assert f"cachewatch: warning: {option} {pattern}: no {key} matches" in error


def test_what_cannot_be_read_may_have_it(run: Run, tmp_path: Path) -> None:
    """A name is not called wrong while a document is unreadable."""
    bad = {"_cache/develop/bad/specs.md": b"x"}
    repository = history(tmp_path / "r.git", catalogue({"zlib": records([1])}), catalogue({"zlib": records([2])}) | bad)
    error = run("diff", "HEAD~1", "--repo", repository, "--stack", "ml").error_of(4)
    assert "warning: --stack ml: no stack matches" in error


def test_a_compiler_without_a_version(run: Run, tmp_path: Path) -> None:
    """It means every version of it, in any of its spellings."""
    compilers = ("gcc@11.4.0", "gcc@13.2.0", "llvm@19.1.0")
    states = [
        catalogue({"zlib": [record(start + n, compiler=name) for n, name in enumerate(compilers)]}) for start in (0, 10)
    ]
    repository = history(tmp_path / "r.git", *states)
    expected = {"gcc": 2, "gcc@11.4.0": 1, "gcc@=11.4.0": 1, "!gcc": 1, "clang": 1, "g*": 2, "gcc !gcc@13.2.0": 1}
    expected |= {"clang*": 1, "clang@1*": 1, "!clang*": 2, "llvm@*": 1}
    for patterns, rebuilt in expected.items():
        options = [option for pattern in patterns.split() for option in ("--compiler", pattern)]
        output = run("diff", "HEAD~1", "--repo", repository, "--format", "json", *options).output
        assert json.loads(output)["changesets"][0]["summary"]["specs"]["rebuilt"] == rebuilt, patterns


@pytest.fixture(scope="module")
def two_tags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a catalogue in which develop changed, and v1, with a stack and package of its own, did not."""
    v1 = catalogue({"old-zlib": records([9], stacks=["old", "root"], target="zen4")}, tag="v1")
    states = [catalogue({"zlib": records([n])}) | v1 for n in (1, 2)]
    return history(tmp_path_factory.mktemp("tags") / "r.git", *states)


@pytest.mark.parametrize("names", [("--stack", "old"), ("--target", "zen4")])
def test_a_name_that_only_a_tag_has_which_did_not_change(run: Run, two_tags: Path, names: tuple[str, str]) -> None:
    """The documents of that tag are asked too, though nothing of it is compared."""
    result = run("diff", "HEAD~1", "--repo", two_tags, *names)

    assert (result.exit_code, result.error) == (0, "")
    assert "No differences in your selection; " in result.output
    assert run("diff", "HEAD", "HEAD", "--repo", two_tags, *names).exit_code == 0
    assert run("diff", "HEAD~1", "--repo", two_tags, *names, "--tag", "develop").exit_code == 2


def test_too_many_documents_are_not_read_for_a_name(run: Run, two_tags: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_of_git, "_FEW_DOCUMENTS", 0)
    error = run("diff", "HEAD~1", "--repo", two_tags, "--stack", "old").error_of(0)
    assert "warning: --stack old: no stack matches in develop; other tags did not change" in error
