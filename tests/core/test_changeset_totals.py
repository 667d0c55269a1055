"""What happens to a whole tag."""

import json
import re
from pathlib import Path
from typing import Any

from conftest import Run
from helpers import Record, catalogue, history, record, records

MANY = range(8)


def packages(**values: Any) -> dict[str, list[Record]]:
    """Return eight packages of one spec each with these values."""
    return {f"p{n}": [record(n, **values)] for n in MANY}


def later(**values: Any) -> dict[str, list[Record]]:
    """Return the same packages with other hashes."""
    return {f"p{n}": [record(100 + n, **values)] for n in MANY}


def tags_yaml(*stacks: str) -> dict[str, bytes]:
    """Return the list of tags."""
    names = "".join(f"\n  - {stack}" for stack in (*stacks, "root"))
    return {"_data/tags.yaml": f"- name: develop\n  stacks:{names}\n".encode()}


def events(run: Run, tmp_path: Path, *states: dict[str, bytes]) -> tuple[list[dict[str, Any]], str]:
    """Return the events between two states, and the text."""
    repository = history(tmp_path / "r.git", *states)
    (found,) = json.loads(run("diff", "HEAD~1", "--repo", repository, "--format", "json").output)["changesets"]
    return found["events"], run("diff", "HEAD~1", "--repo", repository).output


def test_a_stack_that_left_the_tag(run: Run, tmp_path: Path) -> None:
    """A failed pipeline is one line, not one for each package; the JSON stays complete."""
    rest = {f"q{n}": records([50 + n]) for n in range(20)}
    before = packages(stacks=["arm", "root"]) | rest
    after = {name: [found[0] | {"stacks": ["root"]}] for name, found in packages().items()} | rest
    found, text = events(run, tmp_path, catalogue(before), catalogue(after))

    assert found == [{"kind": "stack-removed", "name": "arm", "packages": 8, "specs": 8}]
    assert (
        "STACK REMOVED  arm  8 packages, 8 specs kept\n  8 packages are built by no stack any more and may be pruned at any time\n\n8 of 28 packages changed"
        in text
    )


def test_what_the_tag_declares_is_believed(run: Run, tmp_path: Path) -> None:
    """Where documents are not all compared, the list of tags says whether a stack left."""
    before, after = packages(stacks=["arm", "e4s"]), packages(stacks=["e4s"])
    kept = {"kept": records([50], stacks=["arm"])}
    still, _ = events(
        run,
        tmp_path,
        catalogue(before | kept) | tags_yaml("arm", "e4s"),
        catalogue(after | kept) | tags_yaml("arm", "e4s"),
    )
    assert still == []

    (tmp_path / "r.git").rename(tmp_path / "old.git")
    few = {"p1": before["p1"], "other": records([60])}
    left, _ = events(
        run,
        tmp_path,
        catalogue(few) | tags_yaml("arm", "e4s"),
        catalogue(few | {"p1": after["p1"]}) | tags_yaml("e4s"),
    )
    assert [(e["kind"], e["name"]) for e in left] == [("stack-removed", "arm")]


def test_a_compiler_replaced_almost_everywhere(run: Run, tmp_path: Path) -> None:
    """A package that keeps the old compiler is an exception of the migration, not the end of it."""
    after = later(compiler="gcc@13.2.0") | {"p0": records([200])}
    found, text = events(run, tmp_path, catalogue(packages()), catalogue(after))

    assert found == [{"kind": "compiler", "name": "gcc@11.4.0 -> gcc@13.2.0", "packages": 7, "specs": 7}]
    assert "7 packages, +7 -7, in e4s\n  still on 11.4.0: p0\n" in text


def test_a_target_replaced_everywhere(run: Run, tmp_path: Path) -> None:
    """Specs of another target are new and gone; that all are is one event."""
    found, text = events(run, tmp_path, catalogue(packages()), catalogue(later(target="x86_64_v4")))

    assert found == [{"kind": "target", "name": "x86_64_v3 -> x86_64_v4", "packages": 8, "specs": 8}]
    assert "MIGRATED  x86_64_v3 -> x86_64_v4  8 packages, +8 -8, in e4s\n  8 packages are gone for x86_64_v3\n" in text


def test_few_packages_are_told_one_by_one(run: Run, tmp_path: Path) -> None:
    """Of four packages nobody says everywhere."""
    before = {name: found for name, found in packages().items() if name < "p4"}
    after = {name: found for name, found in later(compiler="gcc@13.2.0").items() if name < "p4"}
    found, text = events(run, tmp_path, catalogue(before), catalogue(after))

    assert found == []
    assert re.findall(r"^  (p\d)  gcc@11.4.0 -> gcc@13.2.0  \+1 -1  in e4s", text, re.MULTILINE) == [
        "p0",
        "p1",
        "p2",
        "p3",
    ]


def test_a_prune(run: Run, tmp_path: Path) -> None:
    """Surplus copies of many packages are one event; lost places are told all the same."""
    big = {f"big{n}": records(range(1000 * n, 1000 * n + 300)) for n in range(1, 6)}
    before = {**big, "lost": records([9000, 9001], stacks=["rare"])}
    after = {**{name: found[:20] for name, found in big.items()}, "lost": records([9009])}
    found, text = events(run, tmp_path, catalogue(before), catalogue(after))

    assert found == [{"kind": "prune", "name": "surplus copies", "packages": 5, "specs": 1400}]
    assert (
        "LOST PLACES  1 package, +1 -2\n  rare (x86_64_v3)  lost 1.0, now in e4s  +1 -2\n      an equal build is there, e4s builds it\n"
        in text
    )
    assert "PRUNED  5 packages, -1,400\n" in text
    assert "FEWER COPIES" not in text


def test_a_collapse_is_suspicious(run: Run, tmp_path: Path) -> None:
    """When more than half of the places lost their package, that is said before anything else."""
    before = {f"p{n}": [record(10 * n + t, target=f"t{t}") for t in range(4)] for n in range(6)}
    after = {name: found[:1] for name, found in before.items()}
    found, text = events(run, tmp_path, catalogue(before), catalogue(after))

    assert text.split("\n\n")[1].startswith("SUSPICIOUS  18 of 24 builds")
    assert found[0]["kind"] == "suspicious"
    assert found[0]["name"] == "18 of 24 builds of a package for a stack and target are missing"


def test_one_package_that_shrinks_is_no_collapse_of_the_tag(run: Run, tmp_path: Path) -> None:
    """Only what differs is read, but what does not is there all the same."""
    rest = {f"b{number}": records([1000 + number]) for number in range(9)}
    before, after = {"a": records(range(300)), **rest}, {"a": records(range(100)), **rest}
    found, _ = events(run, tmp_path, catalogue(before), catalogue(after))

    assert found == []
