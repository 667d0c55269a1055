"""What happened to a package, worked out from two documents alone, one spec at a time, from docs/laws.md and nothing else."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache, cmp_to_key
from pathlib import Path
from typing import Any

import yaml

Spec = dict[str, Any]
Specs = dict[str, Spec]

RENAMED = {
    "clang": "llvm",
    "oneapi": "intel-oneapi-compilers",
    "dpcpp": "intel-oneapi-compilers",
    "intel": "intel-oneapi-compilers-classic",
    "rocmcc": "llvm-amdgpu",
    "arm": "acfl",
}
WORDS = ["stable", "nightly", "trunk", "head", "master", "main", "develop"]
EARLY = ["alpha", "beta", "rc"]
VANISHED = ("pruned", "lost", "replaced", "retired", "dropped", "surplus")
NEW = ("unreferenced_new", "gained", "successor", "extended", "new_combination", "extra_copy")


def read(path: Path) -> list[Spec]:
    return list(yaml.safe_load(path.read_text("utf-8").split("---")[1])["spec_details"])


def specs_of(records: Iterable[Spec]) -> Specs:
    return {record["hash"]: spelled(record) for record in records}


def spelled(record: Spec) -> Spec:
    """Return a record in one spelling."""
    name, at, version = (record.get("compiler") or "none").partition("@")
    variants = set()  # each with its values in one order, and with checksums of patches in their short form
    for variant in record["variants"]:
        key, equals, values = re.sub(r"^-", "~", variant).replace(":=", "=").partition("=")
        variants.add(key + equals + ",".join(sorted({v[:7] if key == "patches" else v for v in values.split(",")})))
    return {
        "versions": tuple(record["versions"]),
        "compiler": RENAMED.get(name, name) + at + version.lstrip("="),
        "os": record["os"],
        "platform": record["platform"],
        "target": record["target"],
        "variants": tuple(sorted(variants, key=lambda v: (v.lstrip("+~"), v))),
        "stacks": tuple(sorted(set(record["stacks"]) - {"root"})),
    }


def form(records: Iterable[Spec]) -> str:
    """Tell how compilers are written: as before Spack 1.0, as since, or not at all."""
    written = [record.get("compiler") or "" for record in records]
    if written and not any(written):
        return "missing"
    return "old" if any("@=" in one for one in written) else "new"


@cache
def age(version: str) -> list[Any]:
    """Return the parts of a version, each as something that `older` can compare."""
    if version.startswith("git.") or "=" in version[1:]:
        version = version.partition("=")[2]
        if not version:
            return [(9,)]
    parts: list[tuple[int, Any]] = [
        (1, int(part)) if part.isdigit() else (2, WORDS.index(part)) if part in WORDS else (0, part)
        for part in re.findall(r"[0-9]+|[A-Za-z]+", version)
    ]
    early: list[int] = [len(EARLY)]
    if len(parts) > 1 and parts[-1][0] == 0 and parts[-1][1] in EARLY:
        early = [EARLY.index(parts.pop()[1])]
    elif len(parts) > 2 and parts[-1][0] == 1 and parts[-2][1] in EARLY:
        number = parts.pop()[1]
        early = [EARLY.index(parts.pop()[1]), number]
    return [(0,), parts, early]


@cache
def older(one: str, other: str) -> int:
    """Return -1 if `one` is older than `other`, 1 if it is newer, 0 if neither is."""
    a, b = age(one), age(other)
    return (a > b) - (a < b)


@cache
def is_same(one: str, other: str) -> bool:
    """Tell whether Spack calls two versions equal."""
    references = [v.removeprefix("git.").partition("=")[0] if re.match("git\\.|.+=", v) else "" for v in (one, other)]
    return older(one, other) == 0 and references[0] == references[1]


def newest(versions: Iterable[str]) -> str:
    found: str = max(versions, key=cmp_to_key(older))
    return found


def respelled(before: Specs, after: Specs) -> tuple[Specs, Specs]:
    """Return both sides with equal versions called alike."""
    names = sorted(
        {v for side in (before, after) for s in side.values() for v in s["versions"]},
        key=lambda v: (v.count("_") + v.count("-"), v),
    )

    def name(version: str) -> str:
        return str(next(other for other in names if is_same(version, other)))

    def side(specs: Specs) -> Specs:
        return {h: s | {"versions": tuple(dict.fromkeys(map(name, s["versions"])))} for h, s in specs.items()}

    return side(before), side(after)


def told(before: list[Spec], after: list[Spec]) -> dict[str, Any]:
    """Return the verdicts of places and the number of specs of each class."""
    old, new = respelled(specs_of(before), specs_of(after))
    is_blind = form(before) != form(after)
    unwritten = not_written(old, new, is_blind=is_blind)
    kept = {h for h in old.keys() & new.keys() if is_one_spec(old[h], new[h], unwritten)}
    for spec_hash in kept:
        # Only the stacks of a kept hash can change; of everything else, the side counts that says more.
        one = {name: fuller(old[spec_hash][name], new[spec_hash][name]) for name in old[spec_hash]}
        old[spec_hash], new[spec_hash] = (one | {"stacks": side[spec_hash]["stacks"]} for side in (old, new))
    verdicts = judge(old, new, is_blind=is_blind)
    vanished, came = ({h: s for h, s in side.items() if h not in kept} for side in (old, new))
    pair_off(vanished, came, verdicts, is_blind=is_blind)
    classes: Counter[str] = Counter()
    for specs, names, side in ((vanished, VANISHED, 0), (came, NEW, 1)):
        for spec in specs.values():
            classes[names[rank(spec, old, new, verdicts, side, is_blind=is_blind)]] += 1
    return {
        "places": {place: verdict for place, verdict in verdicts.items() if verdict[2] != "same"},
        "classes": {name: classes[name] for name in VANISHED + NEW},
    }


def is_one_spec(before: Spec, after: Spec, unwritten: set[str]) -> bool:
    """Tell whether two records of a hash say the same; what a side does not write in any record is `unwritten`."""
    for name in ("os", "platform", "target", "variants"):
        if before[name] != after[name] and not (name in unwritten and not (before[name] and after[name])):
            return False
    if "none" in (before["compiler"], after["compiler"]):
        if before["compiler"] != after["compiler"] and "compiler" not in unwritten:
            return False
    else:
        old, new = (side["compiler"].split("@") for side in (before, after))
        is_short = len(old) != len(new) and "@" in unwritten
        if old[0] != new[0] or (old != new and not is_short):
            return False
    versions = before["versions"], after["versions"]
    if not all(versions):
        return versions[0] == versions[1] or "versions" in unwritten
    return all(any(may_be(v, other) for other in versions[1]) for v in versions[0]) and all(
        any(may_be(v, other) for other in versions[0]) for v in versions[1]
    )


def not_written(old: Specs, new: Specs, *, is_blind: bool) -> set[str]:
    """Return what one side does not write in any record."""
    found = {"compiler"} if is_blind else set()
    for side in (old, new):
        given = {name for spec in side.values() for name, value in spec.items() if value and value != "none"}
        found |= {"os", "platform", "target", "variants", "versions", "compiler"} - given
        if not any("@" in spec["compiler"] for spec in side.values()):
            found.add("@")
    return found


def may_be(one: str, other: str) -> bool:
    """Tell whether two versions are equal, or one of them says which git reference has the number of the other."""
    has_reference = [v.startswith("git.") for v in (one, other)]
    return is_same(one, other) or (older(one, other) == 0 and not all(has_reference))


def fuller(one: Any, other: Any) -> Any:
    """Return which of two values says more; the same whichever is first."""
    if "none" in (one, other):
        return other if one == "none" else one
    return max(one, other)


def contents(specs: Specs, stack: str, target: str, *, is_blind: bool) -> set[tuple[Any, ...]]:
    """Return what one place has."""
    there = [s for s in specs.values() if stack in s["stacks"] and s["target"] == target]
    facts = [(s, ("" if is_blind else s["compiler"], s["os"], s["platform"], s["variants"])) for s in there]
    return {(version, *rest) for s, rest in facts for version in s["versions"] or ("",)}


def judge(old: Specs, new: Specs, *, is_blind: bool) -> dict[tuple[str, str], tuple[Any, Any, str]]:
    """Return versions before and after of every place there ever was, and its verdict."""
    places = {(stack, s["target"]) for side in (old, new) for s in side.values() for stack in s["stacks"]}
    found = {}
    for stack, target in places:
        had, has = (contents(side, stack, target, is_blind=is_blind) for side in (old, new))
        versions = [{c[0] for c in side} for side in (had, has)]
        found[stack, target] = (versions[0] - {""}, versions[1] - {""}, verdict(had, has, *versions))
    return found


def verdict(had: set[Any], has: set[Any], old: set[str], new: set[str]) -> str:
    """Return the first verdict that holds."""
    if not had:
        return "gained"
    if not has:
        return "lost"
    first, last = newest(old), newest(new)
    way = older(last, first) if first and last else 0
    if way:
        return "upgraded" if way > 0 else "downgraded"
    if old - new - {""}:
        return "retired"
    if new - old - {""}:
        return "extended"
    return "narrowed" if had - has else "widened" if has - had else "same"


def rank(spec: Spec, old: Specs, new: Specs, verdicts: dict[Any, Any], side: int, *, is_blind: bool) -> int:
    """Return which class holds first for an unpaired spec of one side."""
    if not spec["stacks"]:
        return 0
    here, there = ((old, new), (new, old))[side]
    replaced = retired = dropped = False
    for stack in spec["stacks"]:
        how = verdicts[stack, spec["target"]][2]
        if how == ("lost", "gained")[side]:
            return 1
        own, others = (contents(specs, stack, spec["target"], is_blind=is_blind) for specs in (here, there))
        mine = contents({"": spec}, stack, spec["target"], is_blind=is_blind)
        if {c[0] for c in mine} - {c[0] for c in others} - {""}:
            replaced |= how in ("upgraded", "downgraded")
            retired = True
        dropped |= bool(mine & own - others)
    return 2 if replaced else 3 if retired else 4 if dropped else 5


RUNGS: tuple[tuple[str, ...], ...] = (
    *((), ("stacks",), ("versions",), ("compiler",), ("variants",), ("variants", "compiler")),
)


def pair_off(vanished: Specs, came: Specs, verdicts: dict[Any, Any], *, is_blind: bool) -> None:
    """Take off both sides what matches; where one version replaced another everywhere, before it matches elsewhere."""

    def replaces(before: Spec, after: Spec) -> bool:
        found = [verdicts[stack, before["target"]] for stack in before["stacks"]]
        old, new = {*before["versions"]}, {*after["versions"]}
        is_so = [how in ("upgraded", "downgraded") and old <= had - has and new <= has - had for had, has, how in found]
        return bool(is_so) and all(is_so)

    for left_out in RUNGS:
        if left_out == ("stacks",):
            take(vanished, came, ("versions",), replaces)
        if left_out and left_out[0] in ("stacks", "variants") and left_out != ("variants",):
            take_nearest(vanished, came, left_out)
        take(vanished, came, left_out, lambda *_: True)
        if is_blind:
            some = {"compiler", *left_out}
            take(vanished, came, some, lambda b, a: b["compiler"] == "none" != a["compiler"])
            take(vanished, came, some, lambda b, a: a["compiler"] == "none" != b["compiler"])


def take_nearest(vanished: Specs, came: Specs, left_out: tuple[str, ...]) -> None:
    """Pair what is equal but for some attributes, first what differs in the fewest values of the first of them."""
    pairs = [
        (sorted((b[left_out[0]], a[left_out[0]])), sorted((b["compiler"], a["compiler"])), h, g)
        for h, b in vanished.items()
        for g, a in came.items()
    ]
    for *_, gone, new in sorted(pairs, key=lambda pair: (len({*pair[0][0]} ^ {*pair[0][1]}), *pair[:2])):
        before, after = vanished.get(gone), came.get(new)
        if before and after and all(before[name] == after[name] for name in before if name not in left_out):
            del vanished[gone], came[new]


def take(vanished: Specs, came: Specs, left_out: Iterable[str], may: Callable[[Spec, Spec], bool]) -> None:
    """Pair what is equal but for some attributes, newest first."""
    for gone in in_order(vanished):
        for new in in_order(came):
            before, after = vanished[gone], came[new]
            if all(before[name] == after[name] for name in before if name not in left_out) and may(before, after):
                if "versions" in left_out and not differ(before["versions"], after["versions"]):
                    continue
                del vanished[gone], came[new]
                break


def differ(before: Iterable[str], after: Iterable[str]) -> bool:
    one, other = (sorted(map(age, side), reverse=True) for side in (before, after))
    return bool(one and other) and one != other


def in_order(specs: Specs) -> list[str]:
    """Return hashes, newest versions first, then by all attributes."""
    hashes = sorted(specs, key=lambda h: list(specs[h].values()))
    return sorted(
        hashes, key=lambda h: sorted(([*age(v), v] for v in specs[h]["versions"]), reverse=True), reverse=True
    )
