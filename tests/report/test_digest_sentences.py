"""What a digest says is true for the machines and stacks that it names, and nothing that happened is left out."""

from pathlib import Path

from digests import Packages, digest_of, mail, many, read, week
from helpers import catalogue, history, record

from cachewatch.core.selection import Globs, Selection
from cachewatch.report.first_screen import happened, routine
from cachewatch.report.words import accounting
from cachewatch.report.words_file import words


def without(packages: Packages, stack: str) -> Packages:
    """Return the same packages without a stack."""
    return {
        name: [one | {"stacks": [each for each in one["stacks"] if each != stack]} for one in found]
        for name, found in packages.items()
    }


def test_a_removed_stack_is_named_where_nothing_is_lost(tmp_path: Path) -> None:
    """Beside an upgrade, and to who asked for removed stacks or for that one alone; once, as routine if there is no room."""
    before = many(0, 6, stacks=["cuda", "e4s", "root"])
    states = [catalogue(before | {"zlib": [record(50)]})]
    states.append(catalogue(without(before, "cuda") | {"zlib": [record(51, versions=["1.1"])]}))
    repository = history(tmp_path / "r.git", *states)
    said = "Stack cuda was removed (the catalogue does not say why); 6 packages are built by e4s as well."

    digest = digest_of(read(repository), silenced=())
    _, body = mail(digest)
    assert f"What happened {said}" in body
    assert "zlib 1.0 -> 1.1" in body
    for selection in (Selection(kinds=Globs(["stack-lost", "stack-event"])), Selection(stacks=Globs(["cuda"]))):
        _, body = mail(digest_of(read(repository, selection=selection), silenced=()))
        assert "What happened Stack cuda was removed" in body
    told = happened(digest, words(), 1)
    assert told == [said]
    assert said not in routine(digest, words(), told)
    assert said in routine(digest, words(), [])


def test_only_what_no_stack_builds_may_be_pruned(tmp_path: Path) -> None:
    """Of a removed stack and of one place: what another stack has stays, as the sum in the JSON says."""
    six = many(0, 6, stacks=["cuda", "e4s", "root"])
    alone = six | {"p000": [record(0, stacks=["cuda", "root"])]}
    for name, before, said in (
        ("kept", six, "6 builds kept, now in other stacks"),
        ("unbuilt", alone, "1 old build that may be pruned at any time; 5 builds kept, now in other stacks"),
    ):
        tag = week(tmp_path / name, before, without(before, "cuda"))
        assert accounting((*tag.statements, *tag.rest)) == said


def test_a_stack_is_named_on_one_line(tmp_path: Path) -> None:
    """Also where its name does not fit behind what happened to the package, alone or after another one."""
    for name, others in (("alone", []), ("after", ["a"])):
        stacks = [*others, "ml-darwin-aarch64-mps", "root"]
        states = ({"py-ml-dtypes": [record(n, compiler=f"apple-clang@{n}.0.0", stacks=stacks)]} for n in (16, 17))
        text = mail(digest_of(week(tmp_path / name, *states)))[0].text
        assert "apple-clang@16.0.0 -> apple-clang@17.0.0" in text
        assert "ml-darwin-aarch64-mps" in text
