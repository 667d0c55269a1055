"""`cachewatch coverage` says why specs of an environment have other hashes, on recorded caches of a real Spack."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import Run
from truths import V3, History


@pytest.fixture
def lock(buildcaches: Path, tmp_path: Path) -> Path:
    """The lock file of the environment that filled the cache up to state 4."""
    return Path(shutil.copy(buildcaches / "v3/env/4/spack.lock", tmp_path))


def test_coverage_names_the_cause_of_another_hash(run: Run, histories: dict[str, History], lock: Path) -> None:
    """State 7 has another zlib, and so other hashes of what depends on it; the JSON has the way there."""
    history = histories["v3"]
    at = ("--repo", history.folder, "--rev", history.revisions[V3[6]])
    text, found = run("coverage", lock, *at), run("coverage", lock, *at, "--format", "json")

    assert text.exit_code == 0, text.error
    line = next(line for line in text.output.splitlines() if line.strip().startswith("hdf5@1.14.6/j356z5g"))
    assert line.split("there is ")[1] == "/m5ebs4r because of zlib 1.3 -> 1.3.1"
    specs = {one["package"]: one for one in json.loads(found.output)["specs"]}
    (cause,) = specs["cw-stack"]["causes"]
    assert (cause["package"], cause["what"], cause["before"], cause["after"]) == ("zlib", "version", "1.3", "1.3.1")
    assert (cause["path"][0], cause["path"][-1]) == ("cw-stack", "zlib")
    assert specs["zlib"]["class"] == "other"
    assert specs["zlib"]["causes"] == []


def test_a_manifest_has_no_causes(run: Run, histories: dict[str, History], lock: Path, tmp_path: Path) -> None:
    """A manifest has no hashes, and so no graph."""
    history = histories["v3"]
    manifest = tmp_path / "other" / "spack.yaml"
    manifest.parent.mkdir()
    manifest.write_text("spack: {specs: [hdf5]}\n")

    result = run("coverage", manifest, "--repo", history.folder, "--rev", history.revisions[V3[6]])

    assert result.exit_code == 0, result.error
    assert "because" not in result.output
