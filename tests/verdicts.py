"""What a cache has of one binary, worked out one build at a time, from the sentences of docs/buildcaches.md alone.

The order of targets is read from archspec's data, not asked of archspec.
"""

import json
import re
from functools import cache
from importlib.resources import files

from oracle import Spec, Specs

_TARGETS = json.loads(files("archspec").joinpath("json/cpu/microarchitectures.json").read_text("utf-8"))


@cache
def ancestors(target: str) -> frozenset[str]:
    """Return what else machines of a target run, from the list of what each target was made from."""
    known = _TARGETS["microarchitectures"].get(target, {"from": []})["from"]
    return frozenset(known).union(*map(ancestors, known))


def verdict(spec_hash: str, wanted: Spec, builds: Specs) -> str:
    """Return what a package's `builds` have of one binary; all are spelled as oracle.py spells them."""
    if spec_hash in builds:
        return "same"
    best = "none"
    for build in builds.values():
        is_runnable = build["target"] == wanted["target"] or build["target"] in ancestors(wanted["target"])
        if not is_runnable or any(build[key] != wanted[key] for key in ("versions", "os", "platform")):
            continue
        if (
            build["target"] == wanted["target"]
            and that_matter(build) == that_matter(wanted)
            and same_compiler(build, wanted)
        ):
            return "equal"
        best = "similar"
    return best


def that_matter(spec: Spec) -> set[str]:
    """Return the variants of a spec that say what it can do."""
    return {variant for variant in spec["variants"] if not re.match("(patches|build_system):?=", variant)}


def same_compiler(one: Spec, other: Spec) -> bool:
    """Tell whether two specs are not known to have different compilers."""
    return one["compiler"] == other["compiler"] or "none" in (one["compiler"], other["compiler"])


def after_prune(spec_hash: str, wanted: Spec, builds: Specs) -> str:
    """Return the same once the specs that no stack builds are gone."""
    return verdict(spec_hash, wanted, {key: build for key, build in builds.items() if build["stacks"]})
