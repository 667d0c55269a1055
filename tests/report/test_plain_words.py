"""What `diff` says of simple edits is what happened, in words that nobody has to interpret."""

import copy
from pathlib import Path
from tempfile import mkdtemp

from conftest import Run
from helpers import Record, demo_records, document, record

Documents = dict[str, list[Record]]


def said(run: Run, folder: Path, before: Documents, after: Documents, *options: str) -> str:
    """Return what `diff` of two folders says, without line breaks."""
    folder = Path(mkdtemp(dir=folder))
    for name, side in (("before", before), ("after", after)):
        (folder / name).mkdir()
        for package, some in side.items():
            (folder / name / f"{package}.md").write_bytes(document(some, package=package))
    return " ".join(run("diff", folder / "before", folder / "after", *options).output.split())


def with_stacks(documents: Documents, names: dict[str, str]) -> Documents:
    """Return the same documents with stacks of other names, or without those whose new name is empty."""
    documents = copy.deepcopy(documents)
    for records in documents.values():
        for one in records:
            one["stacks"] = [found for stack in one["stacks"] if (found := names.get(stack, stack))]
    return documents


def packages_of(stacks: list[str], count: int, start: int = 0) -> Documents:
    """Return so many packages of one spec each, in some stacks."""
    return {f"p{n:02}": [record(n + start, stacks=[*stacks, "root"])] for n in range(count)}


def test_a_renamed_stack_lost_nothing(run: Run, tmp_path: Path) -> None:
    """It has another name, with the same hashes and with others; in a catalogue of few packages, too."""
    old, new = packages_of(["old"], 30), packages_of(["new"], 30)
    renamed = said(run, tmp_path, old, new)
    rebuilt = said(run, tmp_path, old, packages_of(["new"], 30, 100))
    few = said(run, tmp_path, demo_records(), with_stacks(demo_records(), {"ml-linux-x86_64-rocm": "rocm7"}))

    assert "STACK RENAMED old is now called new 30 packages, 30 specs kept" in renamed
    assert "STACK RENAMED old is now called new 30 packages, +30 -30" in rebuilt
    assert "STACK RENAMED ml-linux-x86_64-rocm is now called rocm7 4 packages, 49 specs kept" in few
    assert not [text for text in (renamed, rebuilt, few) if "lost there" in text or "new there" in text]


def test_what_a_renamed_stack_lost_is_named(run: Run, tmp_path: Path) -> None:
    """A package that the stack of the new name does not have, and one that the old one did not have."""
    old, new = packages_of(["old", "e4s"], 31), packages_of(["new", "e4s"], 31)
    old["p30"], new["p07"] = ([record(number, stacks=["e4s", "root"])] for number in (30, 7))
    told = said(run, tmp_path, old, new)

    assert "lost there: p07" in told
    assert "new there: p30" in told


def test_a_stack_of_a_small_tag_is_removed(run: Run, tmp_path: Path) -> None:
    """It is half of the packages at least; one document that leaves a stack is a lost place."""
    without = with_stacks(demo_records(), {"ml-linux-x86_64-rocm": ""})
    told = said(run, tmp_path, demo_records(), without)
    joined = said(run, tmp_path, without, demo_records())

    assert "STACK REMOVED ml-linux-x86_64-rocm 4 packages, 49 specs kept" in told
    assert "NEW STACK ml-linux-x86_64-rocm 4 packages, 49 specs kept" in joined
    alone = {"py-build": demo_records()["py-build"]}
    assert "LOST PLACES" in said(run, tmp_path, alone, with_stacks(alone, {"ml-linux-x86_64-rocm": ""}))
