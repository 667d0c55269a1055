"""Real repositories, honest and hostile."""

import json
import os
import re
import subprocess
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import catalogue, document, history, record, records
from upstream import IDENTITY

from cachewatch.config.schedules_and_quiet_times import as_datetime
from cachewatch.errors import SourceError
from cachewatch.git import remote_urls_and_fetch_errors, tags_and_documents, trees
from cachewatch.git.git_processes import Git
from cachewatch.git.local_repository import Repository, is_in_repository
from cachewatch.git.revision_names_and_times import count_between, resolve

ONE = catalogue({"zlib": records([1, 2]), "hdf5": records([3])})
TWO = catalogue({"zlib": records([1, 4]), "hdf5": records([3])})


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    command, environment = ["git", "-C", str(folder), *arguments], os.environ | IDENTITY
    done = subprocess.run(command, input=stdin, capture_output=True, check=True, env=environment)
    return done.stdout.decode("utf-8", "replace").strip()


def tree(folder: Path, *entries: tuple[str, str, bytes]) -> str:
    """Write one tree object of (mode, object, name) with whatever names are wanted, and return its id."""
    raw = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, oid, name in entries)
    return git(folder, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)


def blob(folder: Path, content: bytes) -> str:
    return git(folder, "hash-object", "-w", "--stdin", stdin=content)


def commit(folder: Path, packages: tuple[tuple[str, str, bytes], ...], *parents: str) -> str:
    """Commit a catalogue whose tag develop has these entries, and return its id."""
    develop = tree(folder, *packages)
    top = tree(folder, ("40000", tree(folder, ("40000", develop, b"develop")), b"_cache"))
    arguments = [argument for parent in parents for argument in ("-p", parent)]
    return git(folder, "commit-tree", top, *arguments, "-m", "x")


def package(folder: Path, name: bytes, content: bytes, mode: str = "100644") -> tuple[str, str, bytes]:
    return ("40000", tree(folder, (mode, blob(folder, content), b"specs.md")), name)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "bare.git")
    return tmp_path / "bare.git"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return history(tmp_path / "two.git", ONE, TWO)


def diff(run: Run, *arguments: object) -> dict[str, Any]:
    result = run("diff", *arguments, "--format", "json")
    assert result.exit_code in (0, 4), result.error
    (found,) = json.loads(result.output)["changesets"]
    return found  # type: ignore[no-any-return]


def names(found: dict[str, Any]) -> list[str]:
    return [package["name"] for package in found["packages"]]


def test_only_what_differs_is_reported(run: Run, two: Path) -> None:
    """A revision names its commit, its tag and its time; unchanged packages are counted."""
    found = diff(run, "HEAD~1", "HEAD", "--repo", two)

    assert names(found) == ["zlib"]
    assert found["before"]["revision"] == git(two, "rev-parse", "HEAD~1")
    head = git(two, "rev-parse", "HEAD")
    assert found["after"] == {"revision": head, "tag": "develop", "time": "2025-06-02T04:00:00Z", "name": "HEAD"}
    assert found["summary"]["packages"] == {
        "before": 2, "after": 2, "added": 0, "removed": 0, "changed": 1, "rebuilt_only": 1
    }  # fmt: skip
    assert found["summary"]["specs"]["before"] == 2


def test_how_far_apart_revisions_are(bare: Path) -> None:
    """Git agrees on near ones, far ones, both directions, and across a merge; on two branches it has no meaning."""
    line = [commit(bare, (package(bare, b"a", b"0"),))]
    for number in range(1, 8):
        line.append(commit(bare, (package(bare, b"a", b"%d" % number),), line[-1]))
    side = commit(bare, (package(bare, b"a", b"side"),), line[2])
    merge = commit(bare, (package(bare, b"a", b"merge"),), line[4], side)

    with closing(Repository(bare)) as repository:
        for before, after in ((line[3], line[5]), (line[5], line[3]), (line[0], line[7]), (line[2], merge)):
            counted = [git(bare, "rev-list", "--count", f"{a}..{b}") for a, b in ((before, after), (after, before))]
            old, new = resolve(repository, before), resolve(repository, after)
            assert count_between(repository, old, new) == max(map(int, counted))
        assert count_between(repository, resolve(repository, side), resolve(repository, line[4])) is None


def test_what_people_call_revisions(two: Path) -> None:
    older = ("2025-06-01", "2025-06-02T03:59:59", "2025-06-02T05:59:59+02:00", ":/State 1", "2025-06-01:develop")
    newest = ("main", "2025-06-02", "2025-06-02t04:00:00z", "yesterday", "3 days ago", ":develop")
    expected = {"main~1": "HEAD~1"} | dict.fromkeys(older, "HEAD~1") | dict.fromkeys(newest, "HEAD")
    with closing(Repository(two)) as repository:
        for name, commit in expected.items():
            assert resolve(repository, name).commit == git(two, "rev-parse", commit), name


def test_moments() -> None:
    """A day means its end, in UTC; other text is no date."""
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    assert as_datetime("2025-06-01", now) == datetime(2025, 6, 1, 23, 59, 59, tzinfo=UTC)
    assert as_datetime("20250601", now) == as_datetime("2025-06-01", now)
    assert as_datetime("1 Jun 2025", now) == as_datetime("1 june 2025", now) == as_datetime("2025-06-01", now)
    assert as_datetime("12 months ago", now) == as_datetime("1 year ago", now) == datetime(2025, 3, 1, 12, tzinfo=UTC)
    assert as_datetime("1 month ago", datetime(2028, 3, 31, tzinfo=UTC)) == datetime(2028, 2, 29, tzinfo=UTC)
    assert as_datetime("last week", now) == as_datetime("1 week ago", now)
    assert as_datetime("Yesterday", now) == datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)
    assert as_datetime("2 weeks ago", now) == datetime(2026, 2, 15, 12, tzinfo=UTC)
    for text in ("2025-13-01", "main", "20251301", "2025060", "ago", "", "now", "2025-06-01x"):
        assert as_datetime(text, now) is None


HOSTILE = [
    *("--output=stolen", "--upload-pack=touch stolen", "$(touch stolen)", "ext::touch stolen", "../../etc/passwd"),
    *("main@{1}", "HEAD~99999999", "main^!", "main..HEAD", "@{upstream}", "HEAD@{99 years ago}", "1800-01-01", "["),
    *("f" * 40, "f" * 64, "a" * 5000, "HEAD\nHEAD", "HEAD\0", "HEAD^{tree}", "HEAD:no-such-tag"),
    *("", " ", "\x1b[31mred", "\ud800"),
]


def test_hostile_revisions_are_refused(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    for name in HOSTILE:
        error = run("diff", "--repo", two, "--", name, "HEAD").error_of(2)
        assert error.startswith("cachewatch: ")
        assert (error.count("\n"), "\x1b" in error) == (1, False), name
    assert list(empty.iterdir()) == []


def test_work_tree_bare_shallow_and_subfolder(run: Run, two: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(two), "work")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{two}", "shallow")
    (tmp_path / "work" / "_cache" / "develop" / "zlib" / "specs.md").write_bytes(b"edited and not committed")

    assert names(diff(run, "HEAD~1", "--repo", tmp_path / "work")) == ["zlib"]
    assert names(diff(run, "HEAD~1", "--repo", tmp_path / "work" / "_cache")) == ["zlib"]
    assert names(diff(run, "HEAD", "--repo", tmp_path / "shallow")) == []
    assert run("diff", "HEAD~1", "--repo", tmp_path / "shallow").exit_code == 2


def test_a_folder_beside_a_repository(run: Run, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands in a repository and names a folder beside it is not given what is not asked for."""
    git(tmp_path, "clone", "--quiet", str(two), "catalogue")
    (tmp_path / "notes").mkdir()
    monkeypatch.chdir(tmp_path / "catalogue" / "_cache")

    error = run("diff", "HEAD~1", "HEAD", "--repo", "../../notes").error_of(2)
    assert "notes: there are no documents" in error
    assert "it is no git repository either" in error
    assert names(diff(run, "HEAD~1", "--repo", "../../catalogue")) == ["zlib"]
    assert not is_in_repository(Path("../../notes"))


def test_links_are_followed_as_git_follows_them(two: Path, tmp_path: Path) -> None:
    """What a link leads to is in the repository that it lies in, not in one that the link lies in."""
    git(tmp_path, "clone", "--quiet", str(two), "checkout")
    git(tmp_path, "init", "--quiet", "links")
    (tmp_path / "checkout" / "sub").mkdir()
    git(tmp_path / "checkout", "clone", "--quiet", "--bare", str(two), "modules/module")
    (tmp_path / "checkout" / "module").mkdir()
    (tmp_path / "checkout" / "module" / ".git").write_text("gitdir: ../modules/module\n")
    git(tmp_path / "checkout", "worktree", "add", "--quiet", "--detach", "side")
    (tmp_path / "checkout" / "side" / ".git").write_text("gitdir: ../.git/worktrees/side\n")
    for name in ("sub", "module", "side"):
        (tmp_path / "links" / name).symlink_to(tmp_path / "checkout" / name)

    for path in (tmp_path / "links" / place for place in ("sub/..", "sub", "module", "side")):
        with closing(Repository(path)) as repository:
            assert repository.git_dir == git(path, "rev-parse", "--absolute-git-dir")
            assert repository.objects().get("HEAD") is not None
        shared = git(path, "rev-parse", "--path-format=absolute", "--git-common-dir")
        assert repository.shared_git_dir.resolve() == Path(shared)


def test_nothing_is_written_to_a_repository(run: Run, two: Path) -> None:
    def snapshot() -> dict[str, tuple[int, int]]:
        return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(two.rglob("*"))}

    before = snapshot()
    diff(run, "HEAD~1", "HEAD", "--repo", two, "--jobs", "2")
    run("show", "zlib", "--repo", two)

    assert snapshot() == before


def test_a_shell_is_not_heard_on_git(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIT_DIR, GIT_CONFIG_* and a user's configuration change nothing."""
    config = tmp_path / "config"
    config.write_text("[core]\n\tfsmonitor = touch stolen\n[diff]\n\texternal = touch stolen\n[broken\n")
    expected = diff(run, "HEAD~1", "HEAD", "--repo", two)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.repositoryformatversion")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "99")

    assert diff(run, "HEAD~1", "HEAD", "--repo", two) == expected


def test_a_work_tree_is_found_whatever_a_shell_says(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitPython, which finds it, would listen."""
    git(tmp_path, "clone", "--quiet", str(two), "checkout")
    git(tmp_path / "checkout", "worktree", "add", "--quiet", "../other")
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE"):
        with monkeypatch.context() as shell:
            shell.setenv(name, str(tmp_path / "nowhere"))
            with closing(Repository(tmp_path / "other")) as repository:
                assert repository.git_dir == str(tmp_path / "checkout" / ".git" / "worktrees" / "other"), name
            assert os.environ[name] == str(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [b"caf\xe9", b"a\nb", b"..", b"-x", b":100644 100644 a b M"])
def test_odd_names_hide_nothing(run: Run, bare: Path, name: bytes) -> None:
    """One odd name is named itself; all the others are reported, and none is forged."""
    good = [(f"p{n}".encode(), records([n])) for n in range(4)]
    old = commit(bare, tuple(package(bare, n, document(r, package=n.decode())) for n, r in good))
    others = [(n, document(records([99 + i]), package=n.decode())) for i, (n, _) in enumerate(good)]
    changed = [*others, (name, document(records([7]), package="-x"))]
    new = commit(bare, tuple(package(bare, n, data) for n, data in sorted(changed)), old)
    result = run("diff", old, new, "--repo", bare, "--format", "json")
    (found,) = json.loads(result.output)["changesets"]

    is_a_name = name == b"-x"
    assert names(found) == [*["-x"] * is_a_name, "p0", "p1", "p2", "p3"]
    assert result.exit_code == (0 if is_a_name else 4)
    if not is_a_name:
        (warning,) = found["warnings"]
        assert "names may have only letters of ASCII" in warning["message"]


def test_what_is_no_regular_file_is_refused(run: Run, bare: Path) -> None:
    old = commit(bare, (package(bare, b"good", document(records([1]), package="good")),))
    some = blob(bare, b"/etc/passwd")
    entries = (
        ("120000", some, b"a-link"),
        ("160000", old, b"a-module"),
        package(bare, b"document-is-link", b"/etc/passwd", "120000"),
        ("40000", tree(bare, ("40000", tree(bare, ("100644", some, b"x")), b"specs.md")), b"document-is-folder"),
        ("40000", tree(bare, ("160000", old, b"specs.md")), b"document-is-module"),
        ("40000", tree(bare, ("100644", some, b"spec-1.json")), b"leftover"),
        package(bare, b"good", document(records([2]), package="good")),
        ("100644", some, b"zfile"),
    )
    new = commit(bare, entries, old)
    output = run("diff", old, new, "--repo", bare, "--format", "json").output_of(4)
    (found,) = json.loads(output)["changesets"]

    assert names(found) == ["good"]
    warned = {warning["path"].split("/")[-2]: warning["message"] for warning in found["warnings"]}
    assert {"document-is-link", "document-is-folder", "document-is-module", "_cache"} == warned.keys()
    assert "mode 120000" in warned["document-is-link"]
    assert "'a-link' and 1 more" in warned["_cache"]
    assert "root:" not in output
    assert "mode 120000" in run("show", "document-is-link", "--rev", new, "--repo", bare).error_of(4)


def test_a_large_blob_is_not_read(run: Run, bare: Path) -> None:
    """A gigabyte of nothing in a small pack costs no memory; it is named and skipped."""
    big = blob(bare, b"\0" * (33 * 2**20))
    old = commit(bare, (package(bare, b"good", document(records([1]), package="good")),))
    large = ("40000", tree(bare, ("100644", big, b"specs.md")), b"big")
    entries = (large, package(bare, b"good", document(records([2]), package="good")))
    result = run("diff", old, commit(bare, entries), "--repo", bare)

    assert result.exit_code == 4
    assert "_cache/develop/big/specs.md: unreadable: larger than 32 MiB" in result.error
    assert "1 of 1 package changed" in result.output


def test_a_tree_bomb_is_not_walked(run: Run, bare: Path) -> None:
    """A hundred million files below a package are never looked at."""
    layer = tree(bare, ("100644", blob(bare, b"x"), b"x"))
    for _ in range(8):
        layer = tree(bare, *(("40000", layer, f"d{n}".encode()) for n in range(10)))
    a = tree(bare, ("40000", layer, b"bomb"), ("100644", blob(bare, document(records([1]))), b"specs.md"))
    found = diff(run, commit(bare, ()), commit(bare, (("40000", a, b"a"), ("40000", layer, b"b"))), "--repo", bare)

    assert names(found) == ["a"]
    assert found["summary"]["packages"]["after"] == 1


def test_revisions_without_documents(run: Run, tmp_path: Path, bare: Path) -> None:
    top = tree(bare)
    old, other = (git(bare, "commit-tree", top, "-m", message) for message in ("x", "y"))

    assert "neither revision has documents" in run("diff", old, other, "--repo", bare).error_of(2)
    assert run("diff", "HEAD", "HEAD", "--repo", bare).exit_code == 2
    assert run("diff", "HEAD", "HEAD", "--repo", tmp_path / "nowhere").exit_code == 2
    assert run("diff", "HEAD", "HEAD", "--repo", tmp_path).exit_code == 2


def test_sha256_repositories(run: Run, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main", "long")
    folder = tmp_path / "long" / "_cache" / "develop" / "zlib"
    folder.mkdir(parents=True)
    for number in (1, 2):
        (folder / "specs.md").write_bytes(document(records([number])))
        git(tmp_path / "long", "add", ".")
        git(tmp_path / "long", "commit", "--quiet", "-m", "x")
    found = diff(run, "HEAD~1", "--repo", tmp_path / "long")

    assert len(found["after"]["revision"]) == 64
    assert names(found) == ["zlib"]


def test_a_commit_from_no_calendar(run: Run, bare: Path) -> None:
    top = git(bare, "rev-parse", commit(bare, (package(bare, b"a", document(records([1]))),)) + "^{tree}")
    raw = f"tree {top}\nauthor x <x@x> 1 +0000\ncommitter x <x@x> 99999999999999999 +0000\n\nx\n".encode()
    odd = git(bare, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw)

    assert diff(run, odd, odd, "--repo", bare)["after"]["time"] == "9999-12-30T00:00:00Z"


def test_a_damaged_repository_is_one_sentence(run: Run, two: Path) -> None:
    for file in two.glob("objects/*/*"):
        file.chmod(0o644)
        file.write_bytes(file.read_bytes()[:10])
    result = run("diff", "HEAD~1", "--repo", two)

    assert result.exit_code in (2, 3)
    assert result.error.startswith("cachewatch: ")
    assert "Traceback" not in result.error


def test_a_missing_blob_is_one_sentence(run: Run, two: Path, tmp_path: Path) -> None:
    """A user's partial clone is read as it is: what is not in it is not fetched into it."""
    git(two, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", f"file://{two}", "partial.git")
    error = run("diff", "HEAD~1", "--repo", tmp_path / "partial.git").error_of(3)
    assert "give --repo the URL" in error
    assert error.count("\n") == 1


HOSTILE_URLS = [
    *("ext::sh -c 'touch stolen'", "ext::touch% stolen", "fd::17", "-u./stolen", "--upload-pack=touch stolen"),
    *("ssh://-oProxyCommand=touch/x", "ssh://-oProxyCommand=touch%20stolen/x", "ftp://example.org/x.git"),
    *("https://user:secret@example.org/x.git", "http://token@example.org/x.git", "https:///x.git"),
    *("https://exa\nmple.org/x", "javascript://x"),
]


def test_hostile_urls_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An address that runs a command or carries a password is refused before git sees it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext")
    for url in HOSTILE_URLS:
        assert not re.search("secret|token", run("diff", "HEAD~1", "HEAD", f"--repo={url}").error_of(2))
    assert not (tmp_path / "stolen").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("can_filter", [True, False])
def test_a_url_is_cloned_and_refreshed(run: Run, two: Path, can_filter: bool, tmp_path: Path) -> None:
    """A URL is cloned once, without contents where the server can, and brought up to date after that."""
    git(two, "config", "uploadpack.allowFilter", str(can_filter).lower())
    url = f"file://{two}"
    assert names(diff(run, "HEAD~1", "HEAD", "--repo", url)) == ["zlib"]

    folder = remote_urls_and_fetch_errors.clone_folder(url)
    assert folder.is_dir()
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(two), "work")
    (work / "_cache/develop/hdf5/specs.md").write_bytes(document(records([77])))
    git(work, "commit", "--quiet", "-am", "x")
    git(work, "push", "--quiet", "--force", "origin", "HEAD:main")

    assert names(diff(run, "HEAD~1", "HEAD", "--repo", url)) == ["hdf5"]
    assert names(diff(run, "HEAD~2", "HEAD", "--repo", url)) == ["hdf5", "zlib"]
    for branch in ("topic", "topic/x"):  # which git cannot create while there is `topic`
        git(two, "branch", "--quiet", branch)
        assert names(diff(run, "HEAD~1", "HEAD", "--repo", url)) == ["hdf5"]
        git(two, "branch", "--quiet", "-D", branch)
    assert [f.name for f in folder.parent.iterdir() if f.name.startswith("new-")] == []


def test_a_url_of_nothing(run: Run, tmp_path: Path) -> None:
    error = run("diff", "HEAD~1", "HEAD", "--repo", f"file://{tmp_path}/nowhere.git").error_of(3)
    assert "does not appear to be a git repository" in error
    assert [f.name for f in (tmp_path / "cache" / "cachewatch" / "clones").iterdir() if f.is_dir()] == []


@pytest.mark.parametrize(("name", "said"), [("XDG_CACHE_HOME", "XDG_CACHE_HOME"), ("PATH", "git is not installed")])
def test_an_environment_without(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.setenv(name, "/dev/null/x")
    assert said in run("diff", "HEAD~1", "HEAD", "--repo", f"file://{two}").error_of(3)


def test_two_processes_give_the_same_answer(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachewatch.comparison_flow._WORTH_TWO_PROCESSES", 0)
    monkeypatch.setattr("cachewatch.comparison_flow._BATCH_BYTES", 1000)
    before = catalogue({f"p{n:02}": records([n, 100 + n]) for n in range(30)})
    after = catalogue({f"p{n:02}": [*records([n, 200 + n]), record(300 + n, versions=["2"])] for n in range(2, 32)})
    repository = history(tmp_path / "r.git", before, after)

    for form in ("text", "json"):
        command = ("diff", "HEAD~1", "--repo", repository, "--format", form, "--all", "--jobs")
        one, other = (run(*command, jobs).output for jobs in (1, 2))
        assert one == other
        assert "p31" in one


def test_a_name_that_stands_twice(run: Run, bare: Path) -> None:
    """A tree that lists one name twice says nothing about it that could be believed."""
    one, other = (package(bare, b"twice", document(records([n]))) for n in (1, 2))
    old = commit(bare, (package(bare, b"a", document(records([3]))), one))
    result = run("diff", old, commit(bare, (package(bare, b"a", document(records([4]))), one, other)), "--repo", bare)

    assert result.exit_code == 4
    assert "ignored 'twice'" in result.error
    assert "twice" not in result.output


def test_a_missing_tree_is_not_somebody_elses(run: Run, bare: Path) -> None:
    """Git passes over a tree that it cannot read; nothing else takes its place."""
    old = commit(bare, tuple(package(bare, name, document(records([n]))) for n, name in enumerate((b"a", b"b", b"c"))))
    entries = [package(bare, name, document(records([10 + n]))) for n, name in enumerate((b"a", b"b", b"c"))]
    new = commit(bare, tuple(entries), old)
    lost = entries[1][1]
    (bare / "objects" / lost[:2] / lost[2:]).unlink()
    assert "damaged or incomplete" in run("diff", old, new, "--repo", bare).error_of(3)


def test_a_tag_that_is_none_is_neither_gone_nor_new(run: Run, bare: Path) -> None:
    develop = tree(bare, package(bare, b"a", document(records([1]))))
    other = tree(bare, package(bare, b"a", document(records([2]))))
    kept = ("40000", develop, b"zzz")

    def make(*entries: tuple[str, str, bytes]) -> str:
        return git(bare, "commit-tree", tree(bare, ("40000", tree(bare, *entries), b"_cache")), "-m", "x")

    old = make(("40000", develop, b"develop"), kept)
    usual = ("40000", develop, b"develop")
    twice, badly_named = [usual, ("40000", other, b"develop")], [("40000", develop, b"bad name"), usual]
    for odd in ([("160000", old, b"develop")], twice, badly_named):
        result = run("diff", old, make(*odd, kept), "--repo", bare)
        assert (result.exit_code, "gone" in result.output, "ignored" in result.error) == (4, False, True), odd


def test_documents_that_stand_twice(run: Run, bare: Path) -> None:
    one, two = (blob(bare, document(records([n]))) for n in (1, 2))
    old = commit(bare, (("40000", tree(bare, ("100644", one, b"specs.md")), b"p"),))
    both = tree(bare, ("100644", one, b"specs.md"), ("100644", two, b"specs.md"))
    result = run("diff", old, commit(bare, (("40000", both, b"p"),), old), "--repo", bare)

    assert result.exit_code in (3, 4)
    assert "[" not in result.output


def test_zeros_before_a_mode_mean_nothing(run: Run, bare: Path) -> None:
    """Old tools wrote 040000 for a folder."""
    old = commit(bare, (package(bare, b"a", document(records([1]))),))
    folder = tree(bare, ("100644", blob(bare, document(records([2]))), b"specs.md"))
    new = commit(bare, (("040000", folder, b"a"),), old)

    assert [(p["name"], p["status"]) for p in diff(run, old, new, "--repo", bare)["packages"]] == [("a", "changed")]


def test_a_folder_of_the_name_of_a_branch(run: Run, two: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    monkeypatch.chdir(tmp_path)
    error = run("diff", "main", "HEAD", "--repo", two).error_of(2)
    assert "main: there are no documents; looked for" in error
    assert "if you mean a branch or tag of git, write refs/heads/main or refs/tags/main" in error
    assert "No differences" in run("diff", "refs/heads/main", "HEAD", "--repo", two).output


def test_other_tags_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands, each would be read for each."""
    files = {**catalogue({"zlib": [record(1)]}), **catalogue({"xz": [record(2)]}, tag="v1")}
    asked, listed = list[str](), trees.folders

    def noted(repository: Repository, name: str) -> trees.Folders:
        asked.append(name)
        return listed(repository, name)

    monkeypatch.setattr(tags_and_documents, "folders", noted)
    with closing(Repository(history(tmp_path / "r.git", files))) as repository:
        commit = resolve(repository, "HEAD").commit
        assert set(tags_and_documents.packages_in(repository, commit, "v1")) == {"xz"}
        assert asked == [repository.run(["rev-parse", "HEAD:_cache/v1"]).decode().strip()]
        assert tags_and_documents.packages_in(repository, commit, "v1/xz") == {}


def test_git_is_heard_where_a_thousand_files_are_open() -> None:
    """select() takes no descriptor above 1,023, and a daemon with many connections has those."""
    with ExitStack() as opened:
        while opened.enter_context(Path(os.devnull).open("rb")).fileno() < 1100:
            pass
        assert Git(seconds=20).ask(["version"], silence=20).output.startswith(b"git version")


@pytest.mark.parametrize("branch", [f"{'0123456789' * 4}-fix", "0123456789abcdef" * 4])
def test_what_a_branch_names_is_read_each_time(two: Path, branch: str) -> None:
    git(two, "branch", branch)
    with closing(Repository(two)) as repository:
        objects = repository.objects()
        newest = objects.get("HEAD")
        assert newest is not None
        assert objects.get(branch) == newest
        with pytest.raises(SourceError, match="bytes"):
            objects.get(newest.id, most=1)
        git(two, "update-ref", "refs/heads/main", git(two, "rev-parse", "HEAD~1"))
        git(two, "branch", "--force", branch, "HEAD")
        moved = objects.get("HEAD")
        assert moved is not None
        assert moved.id != newest.id
        assert objects.get(branch) == moved
