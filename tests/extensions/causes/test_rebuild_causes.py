"""Digests of a live build cache say why specs were rebuilt; those of a catalogue without a graph say nothing of it."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import ROOT
from helpers import catalogue, records
from station import Site
from truths import V3

from cachewatch.errors import SourceError
from cachewatch.extensions.causes import explaining_reports_and_locks as rebuilds

CONFIG = """\
version: 1
state: {folder}/state
sources: {site: {type: buildcache, url: {folder}/mirror, stack: ours, poll: {every: 1s, jitter: 0s}}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt, json, html]}
operators: {channels: [files]}
subscriptions:
  all: {channels: [files], changes: [all]}
  usual: {channels: [files]}
  site: {channels: [files], match: {environment: {folder}/spack.lock}}
  hdf: {channels: [files], changes: [all], match: {packages: [hdf5]}}
"""


class Mirror:
    """A watched mirror that goes from one recorded state of a real Spack to the next."""

    def __init__(self, folder: Path, states: Path) -> None:
        self.site = Site(folder, [catalogue({"zlib": records([1])})])
        shutil.copy(states / "v3/env/4/spack.lock", folder)
        self.site.configure(CONFIG)
        self._states = states

    def show(self, number: int) -> None:
        """Publish a state, and run a pass."""
        mirror = self.site.folder / "mirror"
        mirror.unlink(missing_ok=True)
        mirror.symlink_to(self._states / "v3" / V3[number - 1])
        self.site.run(later=timedelta(hours=1))

    def digest(self, name: str, extension: str) -> str:
        """Return the one digest of a subscription."""
        (path,) = (self.site.folder / "out" / name).glob(f"*.{extension}")
        return path.read_text()

    def causes(self, name: str) -> list[dict[str, Any]]:
        """Return the causes in the one digest of a subscription."""
        values = json.loads(self.digest(name, "json"))
        jsonschema.validate(values, json.loads((ROOT / "config/digest.schema.json").read_text()))
        return [one for tag in values["tags"] for one in tag["causes"]]


@pytest.fixture
def mirror(tmp_path: Path, buildcaches: Path) -> Mirror:
    """State 6 was reported."""
    made = Mirror(tmp_path, buildcaches)
    made.show(6)
    return made


def test_a_digest_names_the_cause_of_rebuilds(mirror: Mirror) -> None:
    """State 7 of the real cache: another zlib rebuilt all that depends on it; counted as each subscription selects."""
    mirror.show(7)

    text = " ".join(mirror.digest("all", "txt").split())
    assert "because of zlib 1.3 -> 1.3.1" in text
    assert "nothing else about these builds changed" not in text
    assert "because of zlib 1.3\u00a0→ 1.3.1" in mirror.digest("all", "html")
    assert "because of zlib 1.3 -> 1.3.1" in " ".join(mirror.digest("usual", "txt").split())
    (cause,) = mirror.causes("hdf")
    assert (cause["packages"], cause["before"], cause["after"]) == (["zlib"], ["1.3"], ["1.3.1"])
    assert (cause["what"], cause["specs"], cause["rebuilt"]) == ("version", 1, ["hdf5"])
    text = " ".join(mirror.digest("site", "txt").split())
    assert "5 binaries of cw-solver, cw-stack, 2 more rebuilt because of zlib 1.3 -> 1.3.1" in text
    equal = json.loads(mirror.digest("site", "json"))["environment"]["equal"]
    remarks = {row["package"]: row["remark"] for row in equal["rows"]}
    assert remarks["hdf5"] == "there is /m5ebs4r because of zlib 1.3 -> 1.3.1"


def damaged(*_: object) -> None:
    """Fail as reading a repository does; workers can load it by name."""
    raise SourceError("the graph is damaged")


@pytest.mark.slow
def test_a_graph_that_cannot_be_read_costs_only_the_causes(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest goes out all the same, and the log says what is missing."""
    monkeypatch.setattr(rebuilds, "_find_rebuilt", damaged)
    mirror.show(7)

    assert mirror.causes("all") == []
    assert "rebuilt" in mirror.digest("all", "txt")
    events = [one for one in mirror.site.events() if one["event"] == "causes.unknown"]
    assert events
    assert {one["error"] for one in events} == {"the graph is damaged"}
