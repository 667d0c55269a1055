"""Every lost place and machine is in one statement, with the class that follows from the two documents alone."""

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from helpers import Packages, Record, record, two_folders
from verdicts import ancestors

from cachewatch.core.versions_spellings_targets import is_newer, newest

ORDER = ["kept", "equal", "going", "other", "gone"]
# Kinds of statement that may own a place of each verdict, or a machine.
_OF_BOTH = {"stack-merged", "stack-removed", "suspicious", "migration", "no-longer", "package-removed"}
OWNERS = {
    "lost": {*_OF_BOTH, "tag-removed", "place-lost"},
    "renamed": {"stack-merged", "upgraded", "downgraded"},
    "upgraded": {"upgraded"},
    "downgraded": {"downgraded"},
    "machine": {*_OF_BOTH, "machine-lost"},
}
VALUES: dict[str, list[Any]] = {
    "versions": [["1.9"], ["1.10"], ["1.11"], ["2.0"]],
    "compiler": ["gcc@11.4.0", "gcc@13.2.0"],
    "os": ["ubuntu22.04", "ubuntu22.04", "rhel8"],
    "platform": ["linux"],
    "target": ["x86_64_v2", "x86_64_v3", "x86_64_v4", "neoverse_v1"],
    "variants": [["+a"], ["~a"], ["+a", "patches=abc"], ["+a", "+b"]],
    "stacks": [["e4s"], ["e4s", "hep"], ["hep", "ml"], ["ml"], []],
}

MANY = (pytest.mark.slow, pytest.mark.nightly)


def some_states(chance: random.Random, names: dict[str, str]) -> tuple[Packages, Packages]:
    """Return two states in which specs are shared by stacks, copied, kept, moved, replaced or gone; stacks get new names."""
    before: Packages = {}
    after: Packages = {}
    number = 0
    for name in (f"p{n:02}" for n in range(chance.choice((1, 3, 9, 14)))):
        choices = {
            key: chance.sample(found, min(len(found), chance.choice((1, 1, 2, 3)))) for key, found in VALUES.items()
        }
        specs = []
        for _ in range(chance.randrange(1, 8)):
            number += 1
            specs.append((number, {key: chance.choice(found) for key, found in choices.items()}))
        kept = [(n, dict(values)) for n, values in specs if chance.random() < 0.6]
        for _, values in kept:
            if chance.random() < 0.5:
                values["stacks"] = chance.choice([*choices["stacks"], []])
        for _ in range(chance.randrange(4)):
            number += 1
            kept.append((number, {key: chance.choice(found) for key, found in choices.items()}))
        if chance.random() < 0.95:
            before[name] = [record(n, **values) for n, values in specs]
        if chance.random() < 0.9 and kept:
            after[name] = [record(n, **values) for n, values in kept]
    many = 150 if names else chance.choice((1, 12))  # nine tenths of a renamed stack only moved
    same = {f"same{n}": [record(9000 + n, stacks=["e4s", "hep", "ml"])] for n in range(many)}
    return before | same, renamed(after | same, names)


def renamed(packages: Packages, names: dict[str, str]) -> Packages:
    """Return the packages with the new names of stacks."""
    return {
        package: [one | {"stacks": sorted(names.get(stack, stack) for stack in one["stacks"])} for one in found]
        for package, found in packages.items()
    }


def places(records: list[Record], chosen: Any) -> dict[tuple[str, str], list[Record]]:
    """Return the chosen specs of each stack and target."""
    found: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for one in filter(chosen, records):
        for stack in one["stacks"]:
            found[stack, one["target"]].append(one)
    return found


def bare(one: Record) -> frozenset[str]:
    return frozenset(v for v in one["variants"] if not v.startswith(("patches=", "build_system=")))


def class_of(lost: list[Record], after: list[Record], target: str) -> str:
    """Return the worst class of what a place or machine lost, sentence by sentence."""
    worst = "kept"
    for system in {(one["platform"], one["os"]) for one in lost}:
        own = [one for one in lost if (one["platform"], one["os"]) == system]
        version = newest({v for one in own for v in one["versions"]})
        own = [one for one in own if version in one["versions"]]
        for variants in {bare(one) for one in own}:
            hashes = {one["hash"] for one in own if bare(one) == variants}
            same = [one for one in after if one["hash"] in hashes]
            built = [one for one in after if one["stacks"] and (one["platform"], one["os"]) == system]
            serving = [one for one in built if one["target"] == target or one["target"] in ancestors(target)]
            if any(one["stacks"] for one in same) and len(same) == len(hashes):
                found = "kept"
            elif any(version in one["versions"] and bare(one) == variants for one in serving):
                found = "equal"
            elif same:
                found = "going"
            elif any(v == version or is_newer(v, version) for one in serving for v in one["versions"]):
                found = "other"
            else:
                found = "gone"
            worst = max(worst, found, key=ORDER.index)
    return worst


def expected(before: Packages, after: Packages, chosen: Any) -> tuple[dict[Any, Any], dict[Any, str]]:
    """Return the verdict and class of each place that lost, upgraded or downgraded, and the class of each lost machine."""
    verdicts: dict[Any, Any] = {}
    machines: dict[Any, str] = {}
    for package in {*before, *after}:
        old, new = before.get(package, []), after.get(package, [])
        had, has = places(old, chosen), places(new, chosen)
        there = list(filter(chosen, new))
        for place in had:
            key = (package, *place)
            if place not in has:
                verdicts[key] = ("lost", class_of(had[place], there, place[1]))
                continue
            first, last = (newest({v for one in side[place] for v in one["versions"]}) for side in (had, has))
            if first != last:
                verdicts[key] = ("upgraded" if is_newer(last, first) else "downgraded", None)
            for system in {(one["platform"], one["os"]) for one in had[place]}:
                own = [one for one in had[place] if (one["platform"], one["os"]) == system]
                if not any((one["platform"], one["os"]) == system for one in has[place]):
                    machines[package, place[0], *system, place[1]] = class_of(own, there, place[1])
    return verdicts, machines


def of_renamed(
    before: Packages, after: Packages, chosen: Any, seen: Any, names: dict[str, str]
) -> list[dict[Any, Any]]:
    """Return what is expected, and the new places of renamed stacks that rose or fell, package by package.

    If more than names and hashes differ in what is `seen`, only what is lost under the new name is a loss.
    """
    found: list[dict[Any, Any]] = [{}, {}, {}]
    for package in {*before, *after}:
        old, new = ({package: state.get(package, [])} for state in (before, after))
        named = renamed(old, names)
        verdicts, machines = expected(old, new, chosen)
        built = [Counter(str(one | {"hash": ""}) for one in side[package] if seen(one)) for side in (named, new)]
        if built[0] != built[1]:
            own, machines = expected(named, new, chosen)
            for _, stack, target in verdicts:
                if stack in names:
                    verdict, loss = own.get((package, names[stack], target), ("", None))
                    verdicts[package, stack, target] = ("lost", loss)
                    if verdict in {"upgraded", "downgraded"}:
                        found[2][package, names[stack], target] = verdict
        found[0] |= verdicts
        found[1] |= machines
    return found


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=MANY) for n in range(12, 60))])
@pytest.mark.parametrize(
    "options", [(), ("--compiler", "gcc@11.4.0"), ("--os", "rhel8"), ("--stack", "hep"), ("--target", "x86_64_v3")]
)
def test_losses_follow_from_the_documents(run: Run, tmp_path: Path, seed: int, options: tuple[str, ...]) -> None:
    """Each lost, upgraded and downgraded place and each lost machine has its class, and one statement of a fitting kind."""
    names = {"hep": "hep7"} if seed % 3 == 2 else {}
    before, after = some_states(random.Random(seed), names)
    output = run("diff", *two_folders(tmp_path, before, after), "--format", "json", *options).output
    (found,) = json.loads(output)["changesets"]
    name, value = options or ("", "")
    narrows = {"--compiler": "compiler", "--os": "os"}.get(name)

    def chosen(one: Record) -> bool:
        return narrows is None or bool(one[narrows] == value)

    # Whoever chose the old name alone does not see the new one.
    seen_names = {} if name == "--stack" else names
    verdicts, machines, regraded = of_renamed(
        before, after, chosen, lambda one: chosen(one) and (name != "--target" or one["target"] == value), seen_names
    )
    shown = {"--stack": 1, "--target": 2}.get(name)
    verdicts = {key: said for key, said in verdicts.items() if shown is None or key[shown] == value}
    regraded = {key: said for key, said in regraded.items() if shown is None or key[shown] == value}
    place = 1 if shown == 1 else 4
    machines = {key: said for key, said in machines.items() if shown is None or key[place] == value}

    kinds = {one["id"]: one["kind"] for one in found["statements"]}
    assert len(kinds) == len(found["statements"])
    told = {}
    risen = {}
    for package in found["packages"]:
        for place in package["places"]:
            if place["verdict"] in {"lost", "upgraded", "downgraded"}:
                loss = place.get("loss", {}).get("class")
                told_as_new = place["verdict"] == "lost" and loss is None
                told[package["name"], place["stack"], place["target"]] = (place["verdict"], loss)
                assert kinds[place["statement"]] in OWNERS["renamed" if told_as_new else place["verdict"]]
                assert "loss" not in place or place["loss"]["reason"]
            elif "statement" in place:
                risen[package["name"], place["stack"], place["target"]] = kinds[place["statement"]]
    assert told == verdicts
    assert risen == regraded
    lost = {(m["package"], m["stack"], m["platform"], m["os"], m["target"]): m for m in found["machines_lost"]}
    assert {key: one["loss"]["class"] for key, one in lost.items()} == machines
    assert all(kinds[one["statement"]] in OWNERS["machine"] for one in lost.values())
    specs, items = found["summary"]["specs"], [one["items"] for one in found["statements"]]
    for side, count in (("vanished", specs["removed"]), ("new", specs["added"])):
        assert options or sum(one[side] for one in items) == count
    counts = [one["losses"] for one in found["statements"]]
    lost_places = sum(said[1] is not None for said in verdicts.values())
    assert sum(sum(one.values()) for one in counts) == lost_places + len(machines)
