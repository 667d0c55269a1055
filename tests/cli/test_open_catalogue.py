"""Which repository a command reads if nobody names one, and which revisions `diff` compares then."""

from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, history, records

from cachewatch.cli import open_catalogue

CONFIG = "version: 1\nstate: {folder}/state\nsources: {{first: {{git: {folder}/second.git}}}}\n"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder without a repository and without a configuration; the public cache is a folder."""
    for name in ("CACHEWATCH_REPO", "CACHEWATCH_CONFIG", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    history(tmp_path / "public.git", *states("public"))
    monkeypatch.setattr(open_catalogue, "PUBLIC_REPOSITORY", f"file://{tmp_path}/public.git")
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    return tmp_path


def states(name: str) -> list[dict[str, bytes]]:
    """Return two states, of which the newer one adds the package `name`."""
    return [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1]), name: records([2])})]


def test_the_public_cache_comes_last(nowhere: Path, run: Run) -> None:
    """Without anything, the public cache is cloned, with a sentence, and its newest two revisions are compared."""
    first = run("diff")
    again = run("diff")

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "  public  1.0  +1" in first.output
    assert first.error.startswith(
        f"cachewatch: reading Spack's public build cache, file://{nowhere}/public.git, which is "
    )
    assert again.output == first.output
    assert "first cloned" not in again.error


def test_the_configuration_comes_before_it(nowhere: Path, run: Run) -> None:
    """The first source of the configuration is read, and named."""
    history(nowhere / "second.git", *states("second"))
    Path("cachewatch.yaml").write_text(CONFIG.format(folder=nowhere))
    result = run("diff")

    assert "  second  1.0  +1" in result.output
    assert result.error == f"cachewatch: reading the source first of cachewatch.yaml: {nowhere}/second.git\n"


def test_where_one_stands_comes_before_that(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with a catalogue needs no words, and the configuration is not even read."""
    Path("cachewatch.yaml").write_text("this is no configuration")
    monkeypatch.setenv("CACHEWATCH_CONFIG", str(Path("cachewatch.yaml").absolute()))
    monkeypatch.chdir(history(nowhere / "here.git", *states("here")))
    result = run("diff")

    assert ("  here  1.0  +1" in result.output, result.error) == (True, "")


def test_a_repository_without_a_catalogue_is_none(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who works on something else is not told that his own repository has no catalogue."""
    monkeypatch.chdir(history(nowhere / "other.git", {"README": b"1"}, {"README": b"2"}))

    result = run("diff")

    assert "  public  1.0  +1" in result.output
    assert result.error.startswith("cachewatch: the repository here has no _cache/ at HEAD; reading Spack's public")


def test_the_environment_and_the_option_come_first(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--repo` wins over CACHEWATCH_REPO, which wins over where one stands."""
    monkeypatch.chdir(history(nowhere / "here.git", *states("here")))
    monkeypatch.setenv("CACHEWATCH_REPO", str(history(nowhere / "named.git", *states("named"))))
    option = history(nowhere / "option.git", *states("option"))

    assert "  named  1.0  +1" in run("diff").output
    assert "  option  1.0  +1" in run("diff", "--repo", option).output


@pytest.mark.usefixtures("nowhere")
def test_a_catalogue_in_this_folder_comes_before_the_public_one(run: Run) -> None:
    """What `record` left here is read, with a sentence; other repositories and damaged ones are no catalogues."""
    history(Path("catalogue.git"), *states("beside"))
    history(Path("other.git"), {"README": b"1"}, {"README": b"2"})
    for name in ("objects", "refs"):
        Path("broken.git", name).mkdir(parents=True)
    Path("broken.git", "HEAD").write_text("nonsense")
    result = run("diff")

    assert "  beside  1.0  +1" in result.output
    assert result.error == "cachewatch: reading the catalogue ./catalogue.git\n"


@pytest.mark.usefixtures("nowhere")
def test_of_several_catalogues_in_this_folder_none_is_guessed(run: Run) -> None:
    """They are named, as options to type."""
    for name in ("a.git", "b.git"):
        history(Path(name), *states(name))

    assert run("diff").exit_code == 2
    assert "this folder has several catalogues; choose one: --repo ./a.git, --repo ./b.git\n" in run("diff").error


@pytest.mark.usefixtures("nowhere")
def test_the_configuration_comes_before_a_catalogue_in_this_folder(nowhere: Path, run: Run) -> None:
    """Who configured a source means that one."""
    history(nowhere / "second.git", *states("second"))
    history(Path("catalogue.git"), *states("beside"))
    Path("cachewatch.yaml").write_text(CONFIG.format(folder=nowhere))

    assert "  second  1.0  +1" in run("diff").output


@pytest.mark.usefixtures("nowhere")
def test_what_a_catalogue_is(run: Run) -> None:
    """Who names a folder that is none reads what would be one."""
    assert run("diff", "HEAD~1", "--repo", ".").error == (
        "cachewatch: .: not a git repository, or a damaged one; a catalogue is a git repository with a folder _cache\n"
    )


@pytest.mark.usefixtures("nowhere")
def test_a_cache_that_cannot_be_cloned(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network, the error says what else to do."""
    monkeypatch.setattr(open_catalogue, "PUBLIC_REPOSITORY", "file:///nowhere/at/all.git")
    result = run("diff")

    assert result.exit_code == 3
    assert "stand in it or name it with --repo" in result.error


@pytest.mark.usefixtures("nowhere")
def test_a_mistyped_path_clones_nothing(run: Run) -> None:
    """What can only be a file is said not to be there, before any repository is looked for."""
    assert run("diff", "nowhere.md", "nothing.md").error == "cachewatch: nowhere.md: there is no such file or folder\n"


def test_the_newest_two_are_those_that_changed_the_catalogue(nowhere: Path, run: Run) -> None:
    """A revision that changed other files is not the one that people ask for."""
    before, after = states("new")
    repository = history(nowhere / "r.git", before, after, after | {"README": b"x"})

    assert "  new  1.0  +1" in run("diff", "--repo", repository).output


def test_one_revision_is_not_enough(nowhere: Path, run: Run) -> None:
    """There is nothing to compare the first revision with."""
    result = run("diff", "--repo", history(nowhere / "r.git", states("new")[0]))

    assert (result.exit_code, "has only one revision of the catalogue" in result.error) == (2, True)


def test_ranges(demo_repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`A..B`, `A..` and `..B` mean what they mean to git; three dots are refused."""
    monkeypatch.chdir(demo_repository)
    expected = run("diff", "HEAD~1", "HEAD").output

    assert [run("diff", each).output for each in ("HEAD~1..HEAD", "HEAD~1..", "2025-05-25..main")] == [expected] * 3
    assert "REMOVED" in run("diff", "..HEAD~1").output
    assert "write HEAD~1..HEAD" in run("diff", "HEAD~1...HEAD").error


def test_since(demo_repository: Path, run: Run) -> None:
    """It names the first side; with two sides already named, there is no place for it."""
    expected = run("diff", "HEAD~1", "HEAD", "--repo", demo_repository).output

    for since in ("2025-05-25", "HEAD~1", "2025-05-31"):
        assert run("diff", "--since", since, "--repo", demo_repository).output == expected
    assert "No differences" in run("diff", "--since", "2025-06-01", "--repo", demo_repository).output
    assert (
        "there is no revision that old; the oldest is HEAD~1"
        in run("diff", "--since", "1999-01-01", "--repo", demo_repository).error
    )
    refused = run("diff", "--since", "HEAD~1", "HEAD", "--repo", demo_repository)
    assert (refused.exit_code, "write `cachewatch diff HEAD~1 HEAD`" in refused.error) == (2, True)


def test_since_a_tag_of_a_revision(demo_repository: Path, run: Run) -> None:
    """`REVISION:TAG` means the same as it does without the option, also where the tag would meet itself."""
    for tag in ("HEAD~1:develop", "HEAD:develop-2025-05-25"):
        named, since = (run("diff", *words, tag, "--repo", demo_repository) for words in ((), ("--since",)))
        assert (named.exit_code, named.output, named.error) == (since.exit_code, since.output, since.error)


def test_paths_are_no_ranges(demo_repository: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder above, or with dots in its name, is a file."""
    (tmp_path / "a..b.md").write_bytes(catalogue({"zlib": records([1])})["_cache/develop/zlib/specs.md"])
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")

    assert run("diff", "../a..b.md", "../a..b.md").exit_code == 0
    assert "../b..md: there is no such file" in run("diff", "../b..md", "--repo", demo_repository).error


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("HEAD~9", "'HEAD~9': there is 1 revision before HEAD; the oldest is HEAD~1 of 2025-05-25 04:00 UTC"),
        ("HEAD~1^^", "there is 1 revision before HEAD"),
        ("1999-01-01", "there is no revision that old; the oldest is HEAD~1 of 2025-05-25 04:00 UTC"),
        ("2999-01-01", "'2999-01-01' is in the future"),
        ("before.txt", "'before.txt' is a file, but no document; the names of documents end in .md"),
        ("nowhere.md", "nowhere.md: there is no such file or folder"),
        ("mian", "did you mean main?"),
        ("HEAD~1:develp", "has no tag 'develp'; did you mean develop"),
        ("develop", "'develop' is a tag, not a revision; write HEAD:develop"),
        ("HEAD:develop-2025-05-25", "alone, this tag would be compared with itself; name the other one"),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_what_is_no_revision(demo_repository: Path, run: Run, name: str, said: str) -> None:
    """Each mistake has its own sentence, with the remedy or the nearest name."""
    Path("before.txt").write_text("x")
    result = run("diff", name, "--repo", demo_repository)

    assert result.exit_code == 2
    assert said in result.error
