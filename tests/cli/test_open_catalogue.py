"""Which repository a command reads if nobody names one, and which revisions `diff` compares then."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import Run, unprivileged
from helpers import catalogue, document, history, records, write
from upstream import IDENTITY, git

from cachewatch.cli import chosen_repository, shared_options_and_filters

CONFIG = "version: 1\nstate: {folder}/state\nsources: {{first: {{git: {folder}/second.git}}}}\n"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder without a repository and without a configuration; the public cache would be a folder."""
    for name in ("CACHEWATCH_REPO", "CACHEWATCH_CONFIG", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for module in (chosen_repository, shared_options_and_filters):
        monkeypatch.setattr(module, "PUBLIC_REPOSITORY", f"file://{tmp_path}/public.git")
    (tmp_path / "nowhere").mkdir()
    monkeypatch.chdir(tmp_path / "nowhere")
    return tmp_path


def states(name: str) -> list[dict[str, bytes]]:
    """Return two states, of which the newer one adds the package `name`."""
    return [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1]), name: records([2])})]


_LINES = ("diff", "diff HEAD~1 HEAD", "diff before after", "tags", "packages", "show zlib", "history build", "site out")
COMMANDS = [line.split() for line in _LINES]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_catalogue_nothing_is_fetched(nowhere: Path, run: Run, command: list[str]) -> None:
    error = run(*command).error_of(2)

    public = f"--repo public         the catalogue of Spack's public build cache, file://{nowhere}"
    for way in ("--repo PATH or URL", public, "cachewatch init"):
        assert way in error
    assert not (nowhere / "XDG_CACHE_HOME").exists()


def test_the_public_cache_has_a_short_name(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--repo public` and CACHEWATCH_REPO=public mean the public cache; a folder of that name is a folder."""
    history(nowhere / "public.git", *states("public"))
    assert "  public  1.0  +1" in run("diff", "--repo", "public").output
    monkeypatch.setenv("CACHEWATCH_REPO", "public")
    assert "  public  1.0  +1" in run("diff").output

    history(nowhere / "nowhere" / "public", *states("folder"))
    assert "  folder  1.0  +1" in run("diff").output


def test_the_configuration_comes_before_it(nowhere: Path, run: Run) -> None:
    """The first source of the configuration is read, and named, also where a catalogue is in this folder."""
    history(nowhere / "second.git", *states("second"))
    history(Path("catalogue.git"), *states("beside"))
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

    error = run("diff").error_of(2)
    assert "the repository here is no catalogue: 'HEAD' has no documents: looked for _cache/<tag>/<package>" in error
    assert "; found README; `--repo .` reads its other revisions. Name one" in error
    history(nowhere / "second.git", *states("second"))
    Path("cachewatch.yaml").write_text(CONFIG.format(folder=nowhere))
    configured = run("diff")
    assert "  second  1.0  +1" in configured.output
    assert configured.error.startswith("cachewatch: the repository here has no documents at HEAD; reading the source")


def test_a_catalogue_that_the_newest_revision_removed(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is removed; no other catalogue is read."""
    monkeypatch.chdir(history(nowhere / "here.git", states("here")[1], {"README": b"moved away"}))

    for command in (["diff"], ["diff", "HEAD~1", "HEAD"], ["diff", "HEAD~1"]):
        result = run(*command)
        assert (result.exit_code, result.error) == (0, "")
        assert "TAGS REMOVED" in result.output or "REMOVED" in result.output


def test_a_repository_without_commits(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    git(nowhere / "empty", "init", "--bare", "--quiet")
    monkeypatch.chdir(nowhere / "empty")

    assert "it has no commits yet. Name one" in run("diff").error
    assert run("diff", "--repo", ".").error == "cachewatch: .: the repository has no commits yet\n"
    assert run("diff", "HEAD~1", "HEAD", "--repo", ".").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("",), "a name is empty; write a revision, a date or a path"),
        (("HEAD", ""), "a name is empty; write a revision, a date or a path"),
        (("a.md",), "a.md alone is compared with HEAD of a catalogue (name a second path to compare two), and there"),
        (("a.md", "HEAD"), "HEAD: no such file or folder, and there is no catalogue here"),
        (("a.md..b.md",), "of paths, write `cachewatch diff a.md b.md`"),
        (("a.md", "b.txt", "--repo", "x.git"), "--repo has no effect on two paths; leave it out"),
        (("a.md", "b.txt", "--tag", "develop"), "--tag has no effect on a single document"),
        (("a.md", "folder", "--tag", "develop"), "--tag has no effect on a single document"),
        (("c.txt", "b.txt"), "c.txt: there is no such file or folder"),
    ],
)
def test_what_to_type_for_paths(run: Run, arguments: tuple[str, ...], said: str) -> None:
    """Mistakes with paths are usage errors, and nothing is fetched."""
    write(Path(), dict.fromkeys(("a.md", "b.txt", "folder/zlib.md"), document(records([1]))))
    assert said in run("diff", *arguments).error_of(2)


def test_the_environment_does_not_matter_to_paths(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """CACHEWATCH_REPO is for all commands; only an option that has no effect is an error."""
    monkeypatch.setenv("CACHEWATCH_REPO", "nowhere.git")
    Path("a.md").write_bytes(catalogue({"zlib": records([1])})["_cache/develop/zlib/specs.md"])

    assert run("diff", "a.md", "a.md").exit_code == 0


def test_the_environment_and_the_option_come_first(nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--repo` wins over CACHEWATCH_REPO, which wins over where one stands."""
    monkeypatch.chdir(history(nowhere / "here.git", *states("here")))
    monkeypatch.setenv("CACHEWATCH_REPO", str(history(nowhere / "named.git", *states("named"))))
    option = history(nowhere / "option.git", *states("option"))

    assert "  named  1.0  +1" in run("diff").output
    assert "  option  1.0  +1" in run("diff", "--repo", option).output


def test_a_catalogue_in_this_folder_is_read(run: Run) -> None:
    """What `record` left here is read, with a sentence; other repositories and damaged ones are no catalogues."""
    history(Path("catalogue.git"), *states("beside"))
    history(Path("other.git"), {"README": b"1"}, {"README": b"2"})
    for name in ("objects", "refs"):
        Path("broken.git", name).mkdir(parents=True)
    Path("broken.git", "HEAD").write_text("nonsense")
    result = run("diff")

    assert "  beside  1.0  +1" in result.output
    assert result.error == "cachewatch: reading the catalogue ./catalogue.git\n"


def test_of_several_catalogues_in_this_folder_none_is_guessed(run: Run) -> None:
    for name in ("a.git", "b.git"):
        history(Path(name), *states(name))

    assert run("diff").exit_code == 2
    assert "this folder has several catalogues; choose one: --repo ./a.git, --repo ./b.git\n" in run("diff").error


def test_the_newest_two_are_those_that_changed_the_catalogue(nowhere: Path, run: Run) -> None:
    """A revision that changed other files is not the one that people ask for."""
    before, after = states("new")
    repository = history(nowhere / "r.git", before, after, after | {"README": b"x"})

    result = run("diff", "--repo", repository)
    assert "  new  1.0  +1" in result.output
    said = "the newest revision changed no document; what is compared is the one before it that did"
    assert result.error == f"cachewatch: {said}\n"
    assert run("diff", "HEAD~1", "--repo", repository).error == ""


def test_ranges(demo_repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo_repository)
    expected = run("diff", "HEAD~1", "HEAD").output

    assert [run("diff", each).output for each in ("HEAD~1..HEAD", "HEAD~1..", "2025-05-25..main")] == [expected] * 3
    assert "REMOVED" in run("diff", "..HEAD~1").output
    assert "write HEAD~1..HEAD" in run("diff", "HEAD~1...HEAD").error


def test_paths_are_no_ranges(demo_repository: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a..b.md").write_bytes(catalogue({"zlib": records([1])})["_cache/develop/zlib/specs.md"])
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")

    assert run("diff", "../a..b.md", "../a..b.md").exit_code == 0
    assert "../b..md: there is no such file" in run("diff", "../b..md", "--repo", demo_repository).error


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("HEAD~9", "'HEAD~9': there is 1 revision before HEAD; the oldest is HEAD~1 of 2025-05-25 04:00 UTC"),
        ("HEAD~1^^", "there is 1 revision before HEAD"),
        ("1999-01-01", "there is no revision that old; the oldest is HEAD~1 of 2025-05-25 04:00 UTC"),
        ("1999-01-01:develop", "'1999-01-01': there is no revision that old"),
        ("2999-01-01", "'2999-01-01' is in the future"),
        ("nowhere.md", "nowhere.md: there is no such file or folder"),
        ("mian", "did you mean main?"),
        ("HEAD~1:develp", "has no tag 'develp'; did you mean develop"),
        ("develop", "'develop' is a tag, not a revision; write HEAD:develop"),
        ("HEAD:develop-2025-05-25", "alone, this tag would be compared with itself; name the other one"),
        ("develop-2025-05-25 develop-2025-06-01", "'develop-2025-05-25' is a tag, not a revision; write HEAD:develop"),
        ("HEAD~1:/kfazpaq HEAD:/pfqg2xi", "hashes take no revision; `cachewatch diff /kfazpaq /pfqg2xi` also reads"),
    ],
)
def test_what_is_no_revision(demo_repository: Path, run: Run, names: str, said: str) -> None:
    assert said in run("diff", *names.split(), "--repo", demo_repository).error_of(2)


@pytest.mark.parametrize("place", ["_cache/develop/zlib/specs.md", "docs/zlib.txt"])
def test_what_is_not_committed_is_compared_by_another_command(
    nowhere: Path, run: Run, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Who compares HEAD with itself in a work tree is told so; a document alone is the older side."""
    document = next(iter(catalogue({"zlib": records([1])}).values()))
    work = write(nowhere / "work", {place: document, "README.md": b"# About\n"})
    for arguments in (["init", "--quiet", "-b", "main"], ["add", "."], ["commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", "-C", str(work), *arguments], check=True, env={**os.environ, **IDENTITY})
    (work / place).write_bytes(document.replace(b'["1.0"]', b'["1.1"]'))
    monkeypatch.chdir(work)
    result = run("diff", "HEAD", "--exit-code")

    note = "cachewatch: only commits are compared; with what is not committed: `cachewatch diff HEAD .`\n"
    assert (result.exit_code, result.error) == (0, note)
    changed = run("diff", "HEAD", ".")
    assert ("1.0 -> 1.1" in changed.output, changed.error.count("uncommitted")) == (True, 0)
    assert "`cachewatch diff HEAD .` with what is not committed" in run("diff").error
    alone = run("diff", place)
    assert "1.1 -> 1.0" in alone.output
    assert f"{place} is BEFORE, HEAD is AFTER; the other way round: `cachewatch diff HEAD {place}`" in alone.error
    assert "uncommitted" not in alone.error
    assert run("diff", "HEAD", "--repo", history(nowhere / "other.git", *states("other"))).error == ""
    assert "needs a revision, and . is a path: --repo reads it" in run("packages", "--rev", ".").error

    (work / "sub").mkdir()
    monkeypatch.chdir(work / "sub")
    assert "`cachewatch diff HEAD ..`" in run("diff", "HEAD").error


@pytest.mark.parametrize("place", ["docs/{}.txt", "_cache/develop/{}/specs.md"])
def test_commands_take_a_folder(nowhere: Path, run: Run, place: str) -> None:
    """They answer as they do for a repository of the same documents, and show no revision, because there is none."""
    states = {"zlib": records([1, 2]), "hdf5": records([3])}
    files = {place.format(name): document(found, package=name) for name, found in states.items()}
    repository = history(nowhere / "repository.git", files)
    folder = write(nowhere / "folder", files)

    for command in (["tags"], ["packages", "z*"], ["stacks"], ["packages", "--format", "json"]):
        assert run(*command, "--repo", folder).output_of(0) == run(*command, "--repo", repository).output
    for command in (["show", "zlib"], ["show", "*"]):
        output = run(*command, "--repo", folder).output_of(0)
        assert output.splitlines()[0].split() == [output.split()[0], "develop"]
    assert run("site", nowhere / "site", "--repo", folder, "--no-progress").exit_code == 0
    assert run("diff", folder, "HEAD", "--repo", repository).output.count("No differences") == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["packages", "--rev", "HEAD~1"], "folder: is a folder, which has no revisions, so 'HEAD~1:develop' is none"),
        (["diff"], "folder: is a folder, which has no revisions; name two folders"),
        (["diff", "HEAD~1", "HEAD"], "folder: is a folder, which has no revisions"),
        (["log"], "folder: is a folder, which has no history"),
        (["history", "build"], "folder: is a folder, which has no history"),
        (["show", "nope"], "'folder' has no package 'nope' in develop"),
        (["packages", "--documents", "x/{package}.rst"], "there are no documents; looked for files x/{package}.rst"),
    ],
)
def test_a_folder_has_no_history(run: Run, command: list[str], said: str) -> None:
    write(Path("folder"), {"zlib.md": document(records([1]))})
    assert said in run(*command, "--repo", "folder").error_of(2)


def test_documents_in_the_folder_here_are_read(run: Run) -> None:
    """Who stands in a folder of documents need not name it, but for what needs revisions."""
    Path("zlib.md").write_bytes(document(records([1])))
    result = run("packages", "--format", "names")

    assert (result.exit_code, result.output) == (0, "zlib\n")
    assert result.error == "cachewatch: reading the documents in this folder\n"
    assert "is a folder, which has no revisions" in run("diff").error


def test_init_says_what_will_be_fetched(run: Run) -> None:
    """Who names no source is told which one `once` asks; nothing is fetched to write the file."""
    said = "`cachewatch once` will fetch https://github.com/spack/cache.spack.io.git; --source names another"

    assert said in run("init", "a.yaml").error
    assert said not in run("init", "b.yaml", "--source", "other.git").error


def test_a_folder_that_may_not_be_read_is_named(nowhere: Path) -> None:
    folder = nowhere / "closed"
    folder.mkdir(mode=0)
    done = unprivileged("packages", "--repo", folder)
    folder.chmod(0o700)
    assert done.error_of(2) == f"cachewatch: {folder}: the folder cannot be read: Permission denied\n"
