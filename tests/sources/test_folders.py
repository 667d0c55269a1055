"""Documents without any git: files, folders, catalogues, and mixes of them with revisions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Run, unprivileged
from helpers import catalogue, document, flat, history, records, write

import cachewatch
from cachewatch.runtime.files_and_locks import read_beginning
from cachewatch.sources import folders_and_unreadable_files as folders


def packages(run: Run, *arguments: object) -> list[tuple[str, str]]:
    found: dict[str, Any] = json.loads(run("diff", *arguments, "--format", "json").output_of(0))
    return [(p["name"], p["status"]) for c in found["changesets"] for p in c["packages"]]


BEFORE = {"zlib": records([1]), "hdf5": records([2]), "same": records([3])}
AFTER = {"zlib": records([4]), "new": records([5]), "same": records([3])}
CHANGES = [("hdf5", "removed"), ("new", "added"), ("zlib", "changed")]


def test_two_documents(run: Run, tmp_path: Path) -> None:
    untitled = document(records([2])).replace(b'title: "zlib"\n', b"")
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2])), "c.md": untitled})

    assert packages(run, tmp_path / "a.md", tmp_path / "b.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "a.md", tmp_path / "c.md") == [("zlib", "changed")]
    assert packages(run, tmp_path / "a.md", "/dev/null") == [("zlib", "removed")]
    # Without a title the file, or the folder of a specs.md, says the package.
    write(tmp_path, {"one/specs.md": untitled})
    assert packages(run, "/dev/null", tmp_path / "one/specs.md") == [("one", "added")]
    assert packages(run, "/dev/null", tmp_path / "c.md") == [("c", "added")]


def test_documents_of_two_packages(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2]), package="hdf5")})
    error = run("diff", tmp_path / "a.md", tmp_path / "b.md").error_of(2)
    assert "a.md is of the package zlib" in error
    assert "b.md of hdf5; name two documents of one package" in error


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("build_cache/index.json", "is a build cache and holds no documents; `cachewatch record"),
        ("v3/manifests/index/index.manifest.json", "is a build cache and holds no documents; `cachewatch record"),
        ("a/README", "files that begin with --- and have spec_details; found only a/README\n"),
        ("HEAD", "found only HEAD"),
    ],
)
def test_folders_that_are_no_documents(run: Run, tmp_path: Path, inside: str, said: str) -> None:
    write(tmp_path / "some", catalogue({"zlib": records([1])}))
    write(tmp_path / "other", {inside: b"{}"})
    for sides in (("some", "other"), ("other", "some")):
        assert said in run("diff", *(tmp_path / side for side in sides)).error_of(2)


@pytest.mark.parametrize("depth", ["checkout", "catalogue", "tag", "flat"])
def test_two_folders(run: Run, tmp_path: Path, depth: str) -> None:
    below = {"checkout": "", "catalogue": "_cache", "tag": "_cache/develop", "flat": ""}[depth]
    for name, state in (("before", BEFORE), ("after", AFTER)):
        write(tmp_path / name, flat(state) if depth == "flat" else catalogue(state))

    assert packages(run, tmp_path / "before" / below, tmp_path / "after" / below) == CHANGES
    said = " ".join(run("diff", tmp_path / "before" / below, tmp_path / "after" / below).output.split())
    assert "1 of 2 packages changed (1 of them only rebuilt), 1 more is new, 1 more was removed" in said


def test_catalogues_of_several_tags(run: Run, tmp_path: Path) -> None:
    """Tags are compared by name, those of one side only as a whole; filters choose among them."""
    states = (("before", BEFORE, "v1"), ("after", AFTER, "v2"))
    zlib = {"zlib": records([1])}
    sides = [write(tmp_path / name, catalogue(state) | catalogue(zlib, tag)) for name, state, tag in states]

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
    assert "no tag 'v9'" in run("diff", "HEAD:v9", tmp_path / "work", "--repo", repository).error_of(2)


def test_a_tag_of_many_against_one(run: Run, tmp_path: Path) -> None:
    """A folder of several tags gives the one that the other side is of, or asks which."""
    write(tmp_path / "many", catalogue(BEFORE) | catalogue(BEFORE, "v1"))
    write(tmp_path / "one", {f"_cache/v1/{p}/specs.md": document(r, package=p, tag="v1") for p, r in AFTER.items()})

    assert packages(run, tmp_path / "many", tmp_path / "one" / "_cache" / "v1") == CHANGES
    (tmp_path / "many" / "_cache" / "v1").rename(tmp_path / "many" / "_cache" / "v3")
    assert "holds several tags" in run("diff", tmp_path / "many", tmp_path / "one" / "_cache" / "v1").error_of(2)


def test_what_is_no_file(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "before", catalogue({"zlib": records([1])}))
    after = write(tmp_path / "after", catalogue({"zlib": records([2])})) / "_cache/develop"
    (after / "link").mkdir()
    (after / "link" / "specs.md").symlink_to("/etc/passwd")
    (after / "folder" / "specs.md").mkdir(parents=True)
    (after / "no-document").mkdir()
    result = run("diff", tmp_path / "before", tmp_path / "after")

    assert result.exit_code == 4
    assert "link/specs.md: unreadable: does not begin with" in result.error
    assert "folder/specs.md: unreadable: cannot be read: Is a directory" in result.error
    assert "REBUILT  1 spec of zlib" in result.output


def test_an_empty_folder_is_a_mistake(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    write(tmp_path / "some", catalogue({"zlib": records([1])}))
    for sides in (("some", "nothing"), ("nothing", "some"), ("nothing", "nothing")):
        error = run("diff", *(tmp_path / side for side in sides)).error_of(2)
        assert "nothing: there are no documents; looked for" in error
        assert error.endswith("; found nothing\n")

    assert packages(run, "/dev/null", tmp_path / "some") == [("zlib", "added")]


def test_damaged_single_documents(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"good.md": document(records([1])), "bad.md": b"---\ntruncated"})
    found = run("diff", tmp_path / "good.md", tmp_path / "bad.md", "--format", "json").changeset(4)
    assert found["packages"] == []
    assert found["summary"]["packages"] == {
        "before": 1, "after": 1, "added": 0, "removed": 0, "changed": 0, "rebuilt_only": 0
    }  # fmt: skip


def test_standard_input_and_pipes(tmp_path: Path) -> None:
    """A document may come from standard input and through a pipe, which can be read only once."""
    sides = tmp_path / "a.md", tmp_path / "b.md"
    write(tmp_path, {"a.md": document(records([1])), "b.md": document(records([2]))})
    program = f"{sys.executable} -m cachewatch diff"
    commands = f"{program} {sides[0]} {sides[1]} --stat", f"{program} - <(cat {sides[1]}) --stat < {sides[0]}"
    done = (subprocess.run(["bash", "-c", each], capture_output=True, check=True, text=True) for each in commands)
    expected, streamed = (each.stdout for each in done)

    assert "zlib" in expected
    assert streamed == expected


@pytest.mark.parametrize("ending", ["txt", "markdown"])
def test_documents_are_known_by_what_they_say(run: Run, tmp_path: Path, ending: str) -> None:
    """They may have any name and lie anywhere; other files do not count, on whichever side they are."""
    before = {f"some/where/{name}": content for name, content in flat(BEFORE, ending).items()}
    after = flat(AFTER, ending) | {"README.md": b"---\ntitle: About\n---\n", "x/notes.txt": b"notes"}
    sides = write(tmp_path / "before", before), write(tmp_path / "after", after)

    assert packages(run, *sides) == CHANGES
    assert packages(run, *reversed(sides))[0] == ("hdf5", "added")
    assert run("diff", *sides).error == ""
    assert (
        packages(run, *(side / f"{'some/where/' * (side == sides[0])}zlib.{ending}" for side in sides)) == CHANGES[2:]
    )


def test_the_title_decides(run: Run, tmp_path: Path) -> None:
    """A file that is called otherwise is the same package, and a note says so."""
    write(tmp_path / "before", flat({"zlib": records([1]), "hdf5": records([2])}))
    write(tmp_path / "after", flat({"zlib": records([1]), "hdf5": records([2])}))
    (tmp_path / "after" / "zlib.md").rename(tmp_path / "after" / "copy-of-zlib.md")
    result = run("diff", tmp_path / "before", tmp_path / "after", "--exit-code")

    assert (result.exit_code, "No differences" in result.output) == (0, True)
    said = "copy-of-zlib.md is of the package zlib, as its title says"
    assert result.error == f"cachewatch: warning: {tmp_path}/after: inconsistent: {said}\n"


def test_files_that_are_called_otherwise(run: Run, tmp_path: Path) -> None:
    """Where most files are not called as their packages, their names claim nothing, and nothing is said of them."""
    for side in ("before", "after"):
        found = flat({"zlib": records([1]), "hdf5": records([2])})
        write(tmp_path / side, {f"{side}-{place}.md": content for place, content in enumerate(found.values())})

    assert run("diff", tmp_path / "before", tmp_path / "after").error_of(0) == ""


def test_two_files_of_one_package_and_tag(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "before", flat(BEFORE))
    write(tmp_path / "after", flat(AFTER))
    write(tmp_path / "after", {"old/zlib.md": document(records([1]))})
    result = run("diff", tmp_path / "before", tmp_path / "after")

    assert result.exit_code == 4
    both = f"{tmp_path}/after/old/zlib.md and {tmp_path}/after/zlib.md"
    assert f"{both} are documents of the same package" in result.error
    assert "REMOVED  1 package, -1\n  hdf5" in result.output
    assert "zlib" not in result.output


def test_links_are_followed_in_a_folder_that_a_user_names(run: Run, tmp_path: Path) -> None:
    """Links to documents and folders, and a link as the folder, are as good as what they lead to; circles end."""
    write(tmp_path / "real", flat(AFTER))
    write(tmp_path / "before", flat(BEFORE))
    write(tmp_path / "tree", catalogue(AFTER))
    links = tmp_path / "links"
    links.mkdir()
    for package in AFTER:
        (links / f"{package}.md").symlink_to(tmp_path / "real" / f"{package}.md")
    (links / "circle").symlink_to(links)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for package in AFTER:
        (tmp_path / "linked/_cache/develop").mkdir(parents=True, exist_ok=True)
        (tmp_path / "linked/_cache/develop" / package).symlink_to(tmp_path / "tree/_cache/develop" / package)

    for name in ("links", "inside", "link", "linked"):
        assert packages(run, tmp_path / "before", tmp_path / name) == CHANGES, name
    (tmp_path / "zlib.md").symlink_to("links/zlib.md")
    assert packages(run, tmp_path / "before" / "zlib.md", tmp_path / "zlib.md") == CHANGES[2:]


@pytest.mark.parametrize(
    ("lost", "layout"),
    [
        ("file", "flat"),
        ("file", "catalogue"),
        ("link", "folders"),
        ("link", "catalogue"),
        ("folder", "flat"),
        ("folder", "folders"),
        ("folder", "catalogue"),
        ("pipe", "folders"),
        ("emptied", "flat"),
    ],
)
def test_what_cannot_be_read_is_not_removed(run: Run, tmp_path: Path, lost: str, layout: str) -> None:
    """It is unreadable: the other documents are compared."""
    of = {"flat": "{}.md", "folders": "packages/{}/document.txt", "catalogue": "_cache/develop/{}/specs.md"}[layout]
    for name, state in (("before", BEFORE), ("after", BEFORE | AFTER)):
        write(tmp_path / name, {of.format(each): document(found, package=each) for each, found in state.items()})
    file = tmp_path / "after" / of.format("hdf5")
    if lost == "file":
        file.chmod(0)
    elif lost == "folder":
        file.parent.chmod(0)
    elif lost == "emptied":
        file.write_bytes(b"")
    else:
        file.unlink()
        file.symlink_to("nowhere") if lost == "link" else os.mkfifo(file)
    sides = (tmp_path / "before", tmp_path / "after")
    result = (unprivileged if lost in ("file", "folder") else run)("diff", *sides, "--format", "json")
    for path in (file, file.parent) if lost in ("file", "folder") else ():
        path.chmod(0o755)

    if layout == "flat" and lost == "folder":
        assert (result.exit_code, "after: the folder cannot be read" in result.error) == (2, True)
        return
    assert result.exit_code == 4
    assert "hdf5" in result.error
    (found,) = json.loads(result.output)["changesets"]
    assert [(p["name"], p["status"]) for p in found["packages"]] == CHANGES[1:]


def test_an_overwritten_document_that_was_moved_is_not_removed(run: Run, tmp_path: Path) -> None:
    """A file that is called as a package may be its document, wherever the other side has that."""
    one = {"zlib.md": document(records([1])), "curl.md": document(records([2]), package="curl")}
    write(tmp_path / "old", one)
    write(tmp_path / "new", {"sub/zlib.md": one["zlib.md"], "sub/curl.md": b"hello\n"})

    result = run("diff", tmp_path / "old", tmp_path / "new", "--stat")

    assert result.exit_code == 4
    assert "sub/curl.md" in result.error
    assert "removed" not in result.output


@pytest.mark.parametrize("is_link", [False, True])
def test_what_may_lie_in_a_file_that_cannot_be_read_is_not_removed(tmp_path: Path, is_link: bool) -> None:
    """Nobody knows of which package it is; but in a link that leads nowhere, under another name, lies none."""
    write(tmp_path / "before", flat(BEFORE))
    write(tmp_path / "after", flat({"zlib": records([4])}))
    unknown = tmp_path / "after" / "unknown.md"
    unknown.symlink_to("nowhere") if is_link else unknown.touch(0)
    result = unprivileged("diff", tmp_path / "before", tmp_path / "after")

    assert (result.exit_code, "PACKAGES REMOVED  2 packages" in result.output) == (4, is_link)
    why = "is a link that leads nowhere" if is_link else "cannot be read: Permission denied"
    assert result.error.count(f"unknown.md: unreadable: {why}") == 1


def test_a_folder_of_other_files_has_no_documents_if_a_folder_in_it_is_closed(tmp_path: Path) -> None:
    """So it is said of /etc, and not that its documents cannot be read."""
    write(tmp_path / "etc", {"hosts": b"x", "words.txt": b"y", "closed/a": b"z"})
    write(tmp_path, {"zlib.md": document(records([1]))})
    (tmp_path / "etc" / "closed").chmod(0)
    result = unprivileged("diff", tmp_path / "zlib.md", tmp_path / "etc")
    (tmp_path / "etc" / "closed").chmod(0o755)

    error = result.error_of(2)
    assert "etc: there are no documents; looked for" in error
    assert "found only words.txt; closed/ cannot be read" in error


def test_a_folder_names_documents_whose_names_no_package_can_have(run: Run, tmp_path: Path) -> None:
    """They are neither left out silently nor said to be no documents."""
    write(tmp_path / "only", {"bülïd.md": document(records([1]), package="bülïd")})
    write(tmp_path / "two", catalogue({"zlib": records([1])}))
    write(tmp_path / "two", {"_cache/develop/bülïd/specs.md": document(records([1]), package="bülïd")})
    only, two = (run("packages", "--repo", tmp_path / name) for name in ("only", "two"))

    assert (only.exit_code, two.exit_code) == (3, 4)
    assert "bülïd.md is ignored: 'bülïd' cannot be the name of a package" in only.error
    assert "ignored 'bülïd': names may have only letters of ASCII" in two.error


def test_nothing_can_be_read(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "before", flat(BEFORE))
    (tmp_path / "after").mkdir()
    for package in BEFORE:
        (tmp_path / "after" / f"{package}.md").symlink_to("nowhere")

    said = "after: none of its documents can be read: hdf5.md is a link that leads nowhere, and 2 more"
    assert said in run("diff", tmp_path / "before", tmp_path / "after").error_of(3)
    for command in ("packages", "tags", "show"):
        result = run(command, *(["zlib"] if command == "show" else []), "--repo", tmp_path / "after")
        assert (result.exit_code, result.output, said in result.error) == (3, "", True)
    lost = tmp_path / "lost/_cache/develop/zlib/specs.md"
    lost.parent.mkdir(parents=True)
    lost.symlink_to("nowhere")
    assert "_cache/develop/zlib/specs.md is a link that leads nowhere" in run("tags", "--repo", tmp_path / "lost").error


def test_documents_beside_a_catalogue(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "before", catalogue(BEFORE))
    write(tmp_path / "after", catalogue(AFTER) | flat(AFTER) | {"README.md": b"# About\n", "_cache/develop/x.md": b"x"})
    error = run("diff", tmp_path / "before", tmp_path / "after").error_of(0)

    assert packages(run, tmp_path / "before", tmp_path / "after") == CHANGES
    assert f"{tmp_path}/after/new.md and 2 more files not compared: where there is _cache/" in error


def test_tags_of_folders(run: Run, tmp_path: Path) -> None:
    """The category is the tag: a tag that only one folder has was added or removed, and --tag chooses."""
    old = {"old.md": document(records([8]), package="old", tag="v1")}
    sides = write(tmp_path / "before", flat(BEFORE) | old), write(tmp_path / "after", flat(AFTER))

    assert packages(run, *sides) == [*CHANGES, ("old", "removed")]
    assert packages(run, *sides, "--tag", "v1") == [("old", "removed")]
    assert "TAG REMOVED  v1" in run("diff", *sides).output
    assert run("diff", *sides, "--quiet", "--fail-on", "tag-removed").exit_code == 1
    assert run("diff", *reversed(sides), "--quiet", "--fail-on", "tag-added").exit_code == 1
    assert run("diff", *sides, "--quiet", "--fail-on", "tag-added").exit_code == 0
    error = run("diff", tmp_path / "after", tmp_path / "after", "--tag", "v1").error_of(2)
    assert "no tag matches v1; there are develop" in error


def test_a_folder_against_a_revision_of_several_tags(run: Run, tmp_path: Path) -> None:
    """A folder of one tag is compared with that tag, and the others are named; one of several is compared as a whole."""
    repository = history(tmp_path / "r.git", catalogue(BEFORE) | catalogue({"zlib": records([7])}, "v1"))
    write(tmp_path / "one", flat(AFTER))
    write(tmp_path / "work", catalogue(AFTER) | catalogue({"zlib": records([8])}, "v1"))

    assert packages(run, "HEAD", tmp_path / "one", "--repo", repository) == CHANGES
    note = run("diff", "HEAD", tmp_path / "one", "--repo", repository).error
    assert f"HEAD: inconsistent: not compared: v1, of which {tmp_path}/one has nothing" in note
    assert packages(run, "HEAD", tmp_path / "work", "--repo", repository) == [*CHANGES, ("zlib", "changed")]
    assert packages(run, "HEAD", tmp_path / "work", "--repo", repository, "--tag", "v1") == [("zlib", "changed")]


def test_a_folder_that_is_called_as_a_branch(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = history(tmp_path / "r.git", catalogue(BEFORE))
    (branch,) = (path.name for path in (repository / "refs" / "heads").iterdir())
    write(tmp_path / branch, flat(AFTER))
    monkeypatch.chdir(tmp_path)
    error = run("diff", "HEAD", branch, "--repo", repository).error_of(0)
    assert f"{branch}: inconsistent: taken as a path; write refs/heads/{branch} for what git calls so" in error


def test_a_file_of_a_revision(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "_cache/develop/zlib/specs.md"
    repository = history(tmp_path / "r.git", catalogue(BEFORE), catalogue(AFTER))
    write(tmp_path, {"zlib.md": document(records([4]))})

    assert packages(run, f"HEAD~1:{path}", f"HEAD:{path}", "--repo", repository) == [("zlib", "changed")]
    assert packages(run, f"HEAD~1:{path}", tmp_path / "zlib.md", "--repo", repository) == [("zlib", "changed")]
    assert packages(run, f"HEAD:{path}", tmp_path / "zlib.md", "--repo", repository) == []
    assert packages(run, f"HEAD~1:{path}", "HEAD", "--repo", repository) == [("zlib", "changed")]
    nothing = "_cache/develop/nothing/specs.md"
    assert f"HEAD has no file {nothing}" in run("diff", f"HEAD:{nothing}", "HEAD", "--repo", repository).error_of(2)
    folder = "_cache/develop is a folder in HEAD; name a document in it, or a tag as HEAD:TAG"
    for place, said in (("nosuch.md", "HEAD has no file nosuch.md"), ("_cache/develop", folder)):
        assert said in run("diff", f"HEAD:{place}", tmp_path / "zlib.md", "--repo", repository).error_of(2)
    for folder in (".git", "_cache"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "_cache")
    result = run("diff", "HEAD~1:./develop/zlib/specs.md", "HEAD", "--repo", repository)
    assert f"has no file ./develop/zlib/specs.md; did you mean HEAD~1:{path}?" in result.error


def test_a_folder_of_a_hundred_thousand_other_files(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each only the beginning is read, and there is a limit to how many are looked at."""
    write(tmp_path / "many", {f"{number}.md": b"# A page\n" + bytes(100_000) for number in range(20)})
    read = []

    def counted(name: str, most: int, **options: bytes) -> bytes:
        read.append(len(read_beginning(name, most, **options)))
        return b""

    monkeypatch.setattr(folders, "read_beginning", counted)
    assert "found only 0.md and 19 more files" in run("diff", tmp_path / "many", tmp_path / "many").error
    assert max(read) < 100
    monkeypatch.setattr(folders, "MAX_ENTRIES", 19)
    assert "has more than 19 files and folders; name the folder" in run("diff", tmp_path / "many", tmp_path).error


def test_a_pattern_names_documents_of_folders(run: Run, tmp_path: Path) -> None:
    for name, state in (("before", BEFORE), ("after", AFTER)):
        files = {f"x/develop/{each}.rst": document(found, package=each) for each, found in state.items()}
        write(tmp_path / name, files | {"other.md": document(records([9]), package="other")})
    sides = (tmp_path / "before", tmp_path / "after")

    assert packages(run, *sides, "--documents", "x/{tag}/{package}.rst") == CHANGES
    opened = cachewatch.open(tmp_path / "before", documents="x/{tag}/{package}.rst")
    changed = [package for each in opened.diff(tmp_path / "before", tmp_path / "after") for package in each]
    assert [package.package for package in changed] == [name for name, _ in CHANGES]
    error = run("diff", *(side / "other.md" for side in sides), "--documents", "{package}.md").error_of(2)
    assert "--documents has no effect on two documents" in error
