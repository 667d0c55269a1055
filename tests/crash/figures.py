"""What a row of crashes came to."""

import json
from pathlib import Path
from typing import NamedTuple

from crash.faults import Fault, everywhere, injection
from crash.world import Case, World, Zygote, recover


class Found(NamedTuple):
    """What a row of cases came to."""

    ended: int  # passes that did not end by themselves
    problems: dict[int, list[str]]  # broken promises, by the number of the case
    explained: str


def crash(world: World, faults: list[Fault], what: str) -> Found:
    """Let each of these faults happen in a pass of its own, and the world recover."""

    def one(zygote: Zygote, fault: Fault) -> tuple[Case, int]:
        case = world.case()
        status = zygote.run(case, inject=injection(fault))
        recover(zygote, case)
        return case, int(status != 0)

    return report(what, world, everywhere(world, faults, one))


def report(what: str, world: World, done: list[tuple[Case, int]]) -> Found:
    """Print the figures of cases, each with how many passes ended, and remove them."""
    problems = {case.number: found for case, _ in done if (found := list(case.problems()))}
    copies = [world.post.taken[reader] for case, _ in done for reader in case.readers]
    duplicates = sum(len(taken) - len(set(taken)) for taken in copies)
    ended = sum(count for _, count in done)
    counts = f"{len(done)} cases, {ended} passes ended by it, {duplicates} second copies, {len(problems)} problems"
    print(f"\n{what}: {counts}")
    logs = {case.number: log(case)[-2000:] for case, _ in done if case.number in problems}
    for case, _ in done:
        case.remove()
    return Found(ended, problems, json.dumps([problems, dict(list(logs.items())[:3])], indent=1))


def log(case: Case) -> str:
    """Return what the passes of a case said."""
    return Path(case.folder / "log").read_text("utf-8", "replace")
