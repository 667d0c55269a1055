"""What is said, and what fails, where tools of the tests are missing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import finding_tests

TESTS = """
import pytest
from tools import program

def test_one():
    program("no-such-browser")

def test_another():
    program("no-such-browser")

def test_passes():
    pass
"""
SAID = "2 tests were skipped because tools are missing (no-such-browser); `make test-tools` installs them"


@pytest.mark.parametrize(
    ("is_ci", "processes"),
    [
        pytest.param(True, "0", id="in CI"),
        pytest.param(False, "2", marks=[pytest.mark.slow, pytest.mark.nightly], id="at home"),
    ],
)
def test_missing_tools_are_one_line(tmp_path: Path, is_ci: bool, processes: str) -> None:
    """Tests that need them are skipped; only CI fails."""
    (tmp_path / "test_these.py").write_text(TESTS)
    environment = {name: value for name, value in finding_tests().items() if not name.startswith(("CI", "PYTEST"))}
    environment |= {"CI": "true"} if is_ci else {}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-n", processes, "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.count("no-such-browser") == done.stdout.count(SAID) == 1
    assert "1 passed, 2 skipped" in done.stdout
    assert done.returncode == (1 if is_ci else 0)


def test_the_container_has_the_scripts_that_install_the_tools() -> None:
    """What `install-tools` calls beside itself is copied before it runs."""
    copied = re.findall(
        r"tests/[\w./-]+[\w-]", "\n".join(re.findall(r"^COPY (.*)", _read("Containerfile"), re.MULTILINE))
    )
    called = re.findall(r"^tests/[\w./-]+", _read("tests/install-tools"), re.MULTILINE)

    assert len(called) >= 2
    assert set(called) <= set(copied)


def _read(name: str) -> str:
    return Path(__file__).parents[1].joinpath(name).read_text("utf-8")
