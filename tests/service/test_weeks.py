"""Weeks that take more than a comparison, exactly: an environment that a prune hits, and a stack that returns."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import readers
import scripted
from conftest import Golden
from helpers import Record, spec_hash, without
from station import DAY, Site, begun

CONFIG = readers.CONFIG.partition("  ml:")[0]  # without a subscription
ROCM = "ml-linux-x86_64-rocm"


def newest(site: Site) -> tuple[str, str]:
    """Return the newest digest as text and as HTML; what depends on the machine is left out."""
    rendered = next(stored.rendered for stored in reversed(site.digests()) if stored.subscription != "(operators)")
    text = f"Subject: [{rendered.subscription}] {rendered.title}\n\n{rendered.text}"
    return text.replace(str(site.folder), "/home/hpc"), rendered.html.replace(str(site.folder), "/home/hpc")


def locked(path: Path, specs: Mapping[str, Record]) -> Path:
    """Write a lock file that needs these specs, all of them as roots."""
    nodes = {}
    for name, spec in specs.items():
        arch = {"platform": "linux", "platform_os": spec["os"], "target": spec["target"]}
        node = {"name": name, "version": spec["versions"][0], "arch": arch, "parameters": {}}
        nodes[str(spec["hash"])] = node
    roots = [{"hash": spec_hash, "spec": node["name"]} for spec_hash, node in nodes.items()]
    path.write_text(json.dumps({"_meta": {"lockfile-version": 6}, "roots": roots, "concrete_specs": nodes}))
    return path


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name is as long each time: lines that name it are wrapped by its length."""
    with TemporaryDirectory(dir="/tmp", prefix="cachewatch-test-") as name:
        yield Path(name)


def test_a_prune_that_hits_an_environment(golden: Golden, folder: Path) -> None:
    """Of 48 binaries 24 are pruned; 19 have another build, and of five packages only newer versions are left."""
    current = scripted.packages()
    usable = {name: [r for r in found if r["target"] == "x86_64_v3"] for name, found in current.items()}
    names = [name for name, found in usable.items() if found][:48]
    old = {
        name: usable[name][0] | {"hash": spec_hash(5000 + n), "stacks": ["root"]} for n, name in enumerate(names[:24])
    }
    before = {name: [*found, *([old[name]] if name in old else [])] for name, found in current.items()}
    for name in names[:5]:
        current[name] = before[name] = scripted.again(current[name], versions=["9.9.9"])
        before[name] = [*before[name], old[name]]
    # Elsewhere the prune takes as much, which is how it is known for one.
    more = {name: scripted.again(before[name][:1], "d", stacks=["root"]) for name in scripted.NAMES[60:120]}
    before |= {name: [*before[name], *found] for name, found in more.items()}
    needs = old | {name: usable[name][0] for name in names[24:]}

    path = locked(folder / "spack.lock", needs)
    config = f'{CONFIG}  ml: {{channels: [files], when: each revision, match: {{environment: "{path}"}}}}\n'
    site = begun(folder, [scripted.state(before), scripted.state(current)], config)
    site.run(1, later=DAY)

    text, html = newest(site)
    assert text == golden("weeks/environment.txt", text)
    assert html == golden("weeks/environment.html", html)


@pytest.mark.slow
def test_a_stack_that_returns(golden: Golden, tmp_path: Path) -> None:
    """The stack that was gone yesterday is back, with nine of its packages."""
    before, gone = scripted.stack_lost(is_declared=True)
    had = scripted.packages()
    few = [name for name, found in had.items() if any(ROCM in r["stacks"] for r in found)][:9]
    back = without(had, ROCM) | {name: had[name] for name in few}
    states = [before, gone, scripted.state(back, *scripted.STACKS)]
    site = begun(tmp_path, states, f"{CONFIG}  ml: {{channels: [files], when: each revision}}\n")
    for number in (1, 2):
        site.run(number, later=DAY)

    text, html = newest(site)
    assert text == golden("weeks/stack-returns.txt", text)
    assert html == golden("weeks/stack-returns.html", html)
