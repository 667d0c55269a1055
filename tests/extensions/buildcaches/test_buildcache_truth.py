"""Real build caches with the right answer worked out by hand: each state and each transition, with and without HTTP."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from caches import binaries
from conftest import Run
from servers import files, serving
from truths import STATES, TRANSITIONS, V3, History, Truth, expected, row

from cachewatch.extensions.buildcaches.indexes_and_published_tags import read_index
from cachewatch.extensions.buildcaches.mirrors_and_registries import Validator, fetch_index, open_mirror


def check(place: str | Path, truth: Truth) -> int:
    """Hold what is read at `place` to the truth, and return how many specs there are."""
    mirror = open_mirror(place, {})
    file = fetch_index(mirror, Validator())
    assert file is not None
    index = read_index(file.content, "index")
    again = fetch_index(mirror, file.fresh)
    mirror.close()

    assert index.diagnostics == ()
    assert {binary.hash: row(binary) for binary in binaries(index)} == expected(truth)
    assert {binary.platform for binary in binaries(index)} == {"linux"}
    assert again is None
    return len(list(binaries(index)))


@pytest.mark.parametrize(("kind", "state"), STATES)
def test_each_state_in_a_folder(buildcaches: Path, truths: dict[tuple[str, str], Truth], kind: str, state: str) -> None:
    """Each spec of each state, and nothing that is not in the cache; the second look finds nothing new."""
    assert check(buildcaches / kind / state, truths[kind, state]) == len(truths[kind, state].specs)


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(("kind", "state"), [("v3", V3[6]), ("v2", V3[6])])
def test_a_state_over_http(buildcaches: Path, truths: dict[tuple[str, str], Truth], kind: str, state: str) -> None:
    """The same behind a web server, where the second look is one request, or two of layout 2."""
    with serving(files(buildcaches / kind / state)) as server:
        check(server.url, truths[kind, state])
        assert len(server.asked) == {"2": 5, "3": 3}[kind[1]]
        assert server.asked[-1].path.endswith(("index.manifest.json", "index.json.hash"))


@pytest.mark.parametrize(("kind", "number"), TRANSITIONS)
def test_every_transition(
    run: Run, histories: dict[str, History], truths: dict[tuple[str, str], Truth], kind: str, number: int
) -> None:
    """What was recorded, compared: exactly the hashes that came and went, and no revision where none did."""
    before, after = V3[number - 1], V3[number]
    history, truth = histories[kind], truths[kind, after]

    ends = history.revisions[before], history.revisions[after]
    result = run("diff", *ends, "--repo", history.folder, "--format", "json")

    packages = json.loads(result.output)["changesets"][0]["packages"]
    added = sorted(spec["hash"][:7] for package in packages for spec in package["specs"]["added"])
    removed = sorted(spec["hash"][:7] for package in packages for spec in package["specs"]["removed"])
    assert (result.exit_code, added, removed) == (0, truth.added, truth.removed)
    assert (history.revisions[before] == history.revisions[after]) == (not truth.added and not truth.removed)


def test_what_was_recorded_is_a_sound_repository(histories: dict[str, History]) -> None:
    """One commit for each state that differs, nothing loose, nothing missing, stacks in the list of tags."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(histories["v3"].folder), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        return done.stdout + done.stderr

    assert len(git("log", "--format=%h").split()) == len(set(histories["v3"].revisions.values()))
    assert git("fsck", "--strict", "--no-dangling") == ""
    assert git("show", "HEAD:_data/tags.yaml") == "- name: develop\n  stacks:\n  - cache\n  - root\n"


@pytest.mark.slow_cases
@pytest.mark.parametrize("kind", ["v3", "v2"])
def test_show_takes_what_spack_prints(run: Run, histories: dict[str, History], buildcaches: Path, kind: str) -> None:
    """Each line of Spack's own list, with the machine and compiler above it, finds its spec among others."""
    history, state = histories[kind], "8-second-compiler"
    revision = ["--rev", history.revisions[state], "--repo", history.folder, "--format", "json"]
    there = {spec["hash"] for each in _shown(run("show", "*", *revision).output) for spec in each["specs"]}
    asked = set()
    arch = compiler = ""
    for line in (buildcaches / kind / "text" / f"{state}-buildcache-list-aLvN.txt").read_text().splitlines():
        if above := re.fullmatch(r"-- (\S+) / (.*?) -*", line):
            arch, compiler = above.groups()
        elif (printed := re.fullmatch(r"([a-z2-7]{32}) (.*)", line)) and printed[1] in there:
            percent = "" if compiler == "no compilers" else f"%{compiler.removeprefix('%')}"
            (package,) = _shown(run("show", f"{printed[2]} {percent} arch={arch}", *revision).output)
            asked.add(printed[1])
            alike = {f"{spec['versions']} {spec['compiler']} {spec['variants']}" for spec in package["specs"]}
            assert printed[1] in {spec["hash"] for spec in package["specs"]}
            assert len(alike) == 1
    assert asked == there


def _shown(output: str) -> list[dict[str, Any]]:
    return list(json.loads(output)["packages"])
