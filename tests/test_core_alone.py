"""The core works without `cachewatch/extensions/`, and says which extension it needs for what."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

# Some tests of each room.
SAMPLE = (
    "tests/channels/test_local_channels.py",
    "tests/cli/test_formats.py",
    "tests/core/test_place_verdicts.py",
    "tests/documents/test_documents.py",
    "tests/service/test_silences.py",
    "tests/store/test_store.py",
)
# Not those of build caches, of a state in PostgreSQL, and of the site.
_OF_CORE = "not test_recordings and not postgresql and not test_site_counts"
CONFIG = """
state: state
sources: {demo: {git: demo.git, first_run: report}}
channels: {files: {type: file, path: "out/{subscription}-{period}.{ext}"}}
subscriptions: {all: {channels: [files], changes: [all]}}
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of cachewatch without its extensions, with a demo repository and a configuration."""
    folder = tmp_path_factory.mktemp("core")
    for name in ("cachewatch", "config", "demo", "docs", "templates", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "extensions"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    assert not (folder / "cachewatch/extensions").exists()
    (folder / "work").mkdir()
    (folder / "work/cachewatch.yaml").write_text(CONFIG)
    _cachewatch(folder, "demo", "demo.git")
    return folder


def _run(core: Path, *command: str, here: str = "work") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(core)}
    return subprocess.run(
        [sys.executable, *command], cwd=core / here, env=environment, text=True, capture_output=True, check=False
    )


def _cachewatch(core: Path, *arguments: str) -> str:
    done = _run(core, "-m", "cachewatch", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_and_the_first_digest(core: Path) -> None:
    """As the README begins: `demo`, then `init` and `once`."""
    assert "cachewatch diff HEAD~1 HEAD" in _cachewatch(core, "demo")
    version, _, _, *of_extensions = _cachewatch(core, "--version", "--verbose").splitlines()
    assert (version, of_extensions) == (_cachewatch(core, "--version").strip(), [])
    _cachewatch(core, "init", "first.yaml", "--state", "first", "--source", "demo.git", "--to", "you@example.org")
    _cachewatch(core, "once", "--config", "first.yaml")
    _cachewatch(core, "once")
    (digest,) = (core / "work/out").iterdir()
    assert "py-" in digest.read_text()


def test_the_daemon(core: Path) -> None:
    """It polls, sends a digest, and ends when it is told to."""
    (core / "work/daemon.yaml").write_text(CONFIG.replace("state: state", "state: daemon"))
    log = core / "work/daemon.log"
    with log.open("w") as file:
        command = [sys.executable, "-m", "cachewatch", "daemon", "--config", "daemon.yaml"]
        daemon = subprocess.Popen(command, cwd=core / "work", env=os.environ | {"PYTHONPATH": str(core)}, stderr=file)
    deadline = time.monotonic() + 60
    while "delivery.sent" not in log.read_text() and daemon.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(60)
    said = log.read_text()
    assert "delivery.sent" in said
    assert "failed" not in said
    assert daemon.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "--repo", "demo.git", "--why"], "--why needs the extension `causes`, which is not installed"),
        (["status", "--config", "database.yaml"], "needs the extension `shared_state`, which is not installed"),
        (["log"], "there is no command log"),
    ],
    ids=["causes", "state", "command"],
)
def test_what_needs_an_extension_says_so(core: Path, arguments: list[str], said: str) -> None:
    """In one sentence, with the exit code of a mistake."""
    database = CONFIG.replace("state: state", "state: postgresql://cachewatch@localhost/cachewatch")
    (core / "work/database.yaml").write_text(database)
    done = _run(core, "-m", "cachewatch", *arguments)
    assert done.returncode in (2, 5)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_tests_of_the_core(core: Path) -> None:
    """Some tests of each room pass, which loads no extension."""
    done = _run(
        core, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-k", _OF_CORE, *SAMPLE, here="."
    )
    assert done.returncode == 0, done.stdout[-5000:]
