"""What fuzzing begins with, and what it found: each input is read or refused in a sentence."""

from pathlib import Path

import pytest

from fuzz.targets import TARGETS, attempt

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CORPUS)))
def test_input(path: Path) -> None:
    refusal = attempt(TARGETS[path.parent.name], path.read_bytes())

    assert "Traceback" not in refusal
