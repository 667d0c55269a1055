"""Filters of a configuration that nothing in their sources has: `config check --source`."""

from pathlib import Path

import pytest
from conftest import Result, Run
from helpers import catalogue, history, record, records
from station import OPEN_CONFIG, Site, begun
from upstream import git

CONFIG = OPEN_CONFIG + "    match: {}\n"
TAGS = {"_data/tags.yaml": b"- name: develop\n  stacks:\n  - declared\n  - e4s\n  - root\n"}
PACKAGES = {
    "zlib": records(range(2)),
    "hdf5": [record(5, stacks=["ml-cpu"], target="aarch64", os="rhel8", compiler="llvm@19.1.0")],
}
NEWEST = catalogue(PACKAGES) | catalogue({"only-here": records([9])}, "v1.0") | TAGS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A source that was fetched; each test configures what it asks for."""
    return begun(tmp_path_factory.mktemp("site"), [NEWEST], CONFIG)


def test_a_source_that_begins_at_a_tag_of_git(tmp_path: Path, run: Run) -> None:
    """It is a revision for the service, for a preview and for the check, as it is for `diff`."""
    site = Site(tmp_path, [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1]), "new": records([2])})])
    site.configure(CONFIG.replace("stale_after: 400d", "stale_after: 4000d, since: v1^0"))
    site.publish(1)
    git(tmp_path / "upstream.git", "tag", "v1", "HEAD~1")
    assert "NEW         new  1.0" in run("preview", "--config", site.file).output
    site.run()

    assert ["NEW         new  1.0" in text for text in site.told()] == [True]
    assert "warning" not in run("config", "check", "--config", site.file, "--source", "--strict").error_of(0)
    git(tmp_path / "upstream.git", "tag", "v2", "HEAD~1")
    assert "NEW         new  1.0" in run("preview", "--since", "v2", "--config", site.file).output


def test_a_source_that_begins_nowhere(site: Site, run: Run) -> None:
    site.configure(CONFIG.replace("stale_after: 400d", "stale_after: 400d, since: v1"))
    checked = run("config", "check", "--config", site.file, "--source", "--strict")
    assert checked.exit_code == 2
    assert "cachewatch: warning: sources.public.since: 'v1' is not a revision" in checked.error
    assert "what `since:` and filters name was not checked" in run("config", "check", "--config", site.file).error


def test_a_repository_on_this_machine_is_looked_into_before_the_first_pass(tmp_path: Path, run: Run) -> None:
    """Its branch, too; nothing is fetched for that."""
    site = Site(tmp_path, [catalogue({"zlib": records([1])})])
    git(tmp_path / "upstream.git", "branch", "next")
    match = "match: {packages: [zlib, zlip]}"
    for branch, said in (("next", "sources.public.since: "), ("none", "sources.public: ")):
        source = f"stale_after: 400d, since: v1, branch: {branch}"
        site.configure(CONFIG.replace("stale_after: 400d", source).replace("match: {}", match))
        result = run("config", "check", "--config", site.file, "--source", "--strict")

        assert result.exit_code == 2
        assert f"warning: {said}" in result.error
        assert "fetched" not in result.error
        assert ("zlip: no package matches" in result.error) == (branch == "next")
    assert not (tmp_path / "state").exists()


def test_a_branch_that_the_service_does_not_fetch_is_no_beginning(tmp_path: Path, run: Run) -> None:
    """Also before the first pass, and also if it is in the repository on this machine; a date is one."""
    site = Site(tmp_path, [catalogue({"zlib": records([1])})])
    git(tmp_path / "upstream.git", "branch", "next")
    for since, code in (("main", 2), ("next~0", 0), ("today", 0)):
        site.configure(CONFIG.replace("stale_after: 400d", f"stale_after: 400d, branch: next, since: {since}"))
        result = run("config", "check", "--config", site.file, "--source", "--strict")

        assert ("warning: sources.public.since: 'main' is not a revision" in result.error) == bool(code)
        assert ("the service fetches one branch alone" in result.error) == bool(code)
        assert result.exit_code == code
    assert not (tmp_path / "state").exists()


def check(site: Site, run: Run, match: str, *options: str) -> Result:
    """Check a configuration whose subscription asks for `match`."""
    site.configure(CONFIG.replace("match: {}", f"match: {match}"))
    return run("config", "check", "--config", site.file, "--source", *options)


def test_filters_are_checked_where_that_is_asked_for(site: Site, run: Run) -> None:
    """Only --strict makes a filter that nothing has a failure."""
    assert check(site, run, "{packages: [zlip]}", "--strict").exit_code == 2
    pinned = check(site, run, "{pinned: develop-2020-01-01}", "--strict")
    assert (pinned.exit_code, "match.pinned: develop-2020-01-01: no tag" in pinned.error) == (2, True)
    check(site, run, "{packages: [zlip]}")
    plain = run("config", "check", "--config", site.file).error
    assert "warning" not in plain
    assert "was not checked; `cachewatch config check --source` does that" in plain
    assert "--strict requires --source" in run("config", "check", "--config", site.file, "--strict").error_of(2)


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("key", "name", "said"),
    [
        ("packages", "zlip", "no package matches in the newest revision of public; did you mean zlib?"),
        ("stacks", "e5s", "no stack matches in the newest revision of public; did you mean e4s?"),
        ("targets", "aarch46", "no target matches in the newest revision of public; did you mean aarch64?"),
        ("oses", "rhel9", "no os matches in the newest revision of public; did you mean rhel8?"),
        ("compilers", "gc", "no compiler matches in the newest revision of public; did you mean gcc?"),
        ("tags", "develo", "no tag matches in the newest revision of public; did you mean develop?"),
        ("packages", "/^x/", "no package matches in the newest revision of public"),
        ("stacks", "'!*-rocm'", "no stack matches in the newest revision of public"),
        ("packages", "zl*, '!zlib'", "no package matches all of this in the newest revision of public"),
    ],
)
def test_a_filter_that_nothing_has(site: Site, run: Run, key: str, name: str, said: str) -> None:
    result = check(site, run, f"{{{key}: [{name}]}}")

    assert result.exit_code == 0
    pattern = name.replace("'", "")
    assert f"cachewatch: warning: subscriptions.ml.match.{key}: {pattern}: {said}" in result.error
    assert "no mistakes" in result.output
    assert "not checked" not in result.error
    assert "filters: each matches" not in result.output


@pytest.mark.parametrize(
    "match",
    [
        "{}",
        "{packages: [zlib, only-here, 'h*']}",
        "{stacks: [declared, ml-cpu, '!e4s']}",
        "{targets: aarch64, oses: rhel8, compilers: [gcc, clang, llvm@19.1.0], tags: [develop, v*]}",
        "{sources: public, versions: '@99:'}",
    ],
)
def test_filters_that_something_has(site: Site, run: Run, match: str) -> None:
    result = check(site, run, match, "--strict")

    assert (result.exit_code, result.error) == (0, "")
    assert result.output.endswith("filters: each matches something in the newest revisions\n")


def test_silences_and_tags_of_sources(site: Site, run: Run) -> None:
    text = CONFIG.replace("stale_after: 400d", "stale_after: 400d, tags: [develop, releases]")
    silence = "silences: {llvm: {match: {packages: lllvm, tags: v1.0}, until: 2099-01-01, reason: moves}}\n"
    site.configure(text + silence)
    error = run("config", "check", "--config", site.file, "--source").error

    assert "warning: sources.public.tags: releases: no tag matches in the newest revision of public" in error
    assert "warning: silences.llvm.match.packages: lllvm: no package matches" in error
    # The source does not watch that tag, so nothing of it is ever told.
    assert "warning: silences.llvm.match.tags: v1.0: no tag matches" in error
    assert error.count("warning") == 3


def test_sources_that_cannot_be_asked_stop_no_other(site: Site, run: Run) -> None:
    """One is not fetched yet, another one is no repository any more; what the third one has is known."""
    others = "public: {git: {folder}/upstream.git, stale_after: 400d}, new: {git: x}, broken: {git: y}"
    text = CONFIG.replace("public: {git: {folder}/upstream.git, stale_after: 400d}", others)
    (site.folder / "state/sources/broken.git").mkdir()
    site.configure(text.replace("match: {}", "match: {packages: [zlib, zlip]}"))
    command = ("config", "check", "--config", site.file, "--source")
    new, broken, name = [line for line in run(*command).error_of(0).splitlines() if "warning" in line]
    assert new == (
        f"cachewatch: warning: sources.new: there is nothing at {site.folder}/x; correct `git:`, or `cachewatch once` fails; "
        "its filters were not checked"
    )
    assert broken.startswith("cachewatch: warning: sources.broken: ")
    assert name.endswith("zlip: no package matches in the newest revision of public; did you mean zlib?")
    assert run(*command, "--strict").exit_code == 2


def test_a_name_that_one_of_two_sources_has(site: Site, run: Run) -> None:
    """A subscription that looks at both is right to name it; one that looks at the other is not."""
    history(site.folder / "second.git", catalogue({"other": records([7])}))
    second = "public: {git: {folder}/upstream.git, stale_after: 400d}, second: {git: {folder}/second.git}"
    text = CONFIG.replace("public: {git: {folder}/upstream.git, stale_after: 400d}", second)
    one = "  one: {channels: files, match: {sources: public, packages: other}}\n"
    site.configure(text.replace("match: {}", "match: {packages: [other, zlib, neither]}") + one)
    site.run()
    error = run("config", "check", "--config", site.file, "--source").error

    said = "subscriptions.ml.match.packages: neither: no package matches in the newest revision of public, second"
    assert said in error
    assert "subscriptions.one.match.packages: other: no package matches in the newest revision of public" in error
    assert error.count("warning") == 2


def test_before_the_first_pass(tmp_path: Path, run: Run) -> None:
    Site(tmp_path, [NEWEST], CONFIG.replace("git: {folder}", "git: file://{folder}"))
    error = run("config", "check", "--config", tmp_path / "cachewatch.yaml", "--source").error_of(0)
    assert "sources.public: nothing has been fetched yet" in error
    assert not (tmp_path / "state").exists()
