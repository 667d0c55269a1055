"""What `make test` leaves out."""

import subprocess
import sys
from pathlib import Path

from conftest import ROOT, SLOW
from tools import finding_tests

CASES = """
import pytest

@pytest.mark.slow_cases
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_cases(case):
    pass

def test_quick():
    pass
"""


def test_the_first_case_is_quick(tmp_path: Path) -> None:
    """Of tests with the marker `slow_cases` the others are slow."""
    (tmp_path / "test_these.py").write_text(CASES)
    for marker, count in (("slow", 2), ("not slow", 2)):
        command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-m", marker, "."]
        done = subprocess.run(command, cwd=tmp_path, env=finding_tests(), capture_output=True, text=True, check=False)
        assert f"{count} passed, 2 deselected" in done.stdout


def test_slow_folders_are_there() -> None:
    """A folder that is renamed stays slow."""
    assert all((ROOT / "tests" / name).is_dir() for name in SLOW)
