"""The disk of the state is full, or read-only, and later it is not: seen with a small disk in memory."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Run
from helpers import catalogue, records
from station import Site

_MEBI = 1 << 20
# A poll leaves 512 MiB to others.
_SIZE = 540 * _MEBI
CONFIG = """\
version: 1
state: {folder}/disk/state
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
channels: {files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: []}
subscriptions: {ml: {channels: [files], changes: [all]}}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk in memory takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def site(tmp_path: Path, disk: Path) -> Site:
    """Upstream adds a package after the first pass."""
    base = {"zlib": records([1])}
    made = Site(tmp_path, [catalogue(base), catalogue(base | {"new": records([2])})])
    made.configure(CONFIG)
    return made


def test_a_full_disk_delays_and_loses_nothing(site: Site, disk: Path, run: Run) -> None:
    config, ballast = site.folder / "cachewatch.yaml", disk / "ballast"
    assert run("once", "--config", config).exit_code == 0
    site.publish(1)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize)
    for command in (["once"], ["daemon"]):
        full = run(*command, "--config", config)
        assert (full.exit_code, "make room on its disk; nothing was lost" in full.error) == (5, True), full.error
    assert run("status", "--config", config).exit_code == 0, "whoever makes room wants to see what is going on"
    os.truncate(ballast, _SIZE - 4 * _MEBI)
    assert run("once", "--config", config).exit_code == 3, "the database has room, and a fetch would have none"
    ballast.unlink()
    assert run("once", "--config", config).exit_code == 0
    assert len(list((site.folder / "out" / "ml").glob("*.txt"))) == 1


def test_a_read_only_disk_is_named(site: Site, disk: Path, run: Run) -> None:
    config = site.folder / "cachewatch.yaml"
    assert run("once", "--config", config).exit_code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for command in (["once"], ["daemon"]):
        refused = run(*command, "--config", config)
        assert (refused.exit_code, "Read-only file system" in refused.error) == (5, True)
    assert run("status", "--config", config).exit_code == 0
    assert run("diff", "HEAD", "HEAD", "--repo", site.upstream).exit_code == 0
