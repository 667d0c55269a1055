"""A damaged index: every command names the file and what to do about it, and none ends with a traceback."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from conftest import Result, Run
from helpers import catalogue, history, lock, records
from indexes import build

from cachewatch.extensions.history.schema_and_location import NAME

_PAGE = 4096
_HASH = str(records([1])[0]["hash"])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    states = [{f"p{n}": records(range(10 * n + night, 10 * n + night + 8)) for n in range(4)} for night in range(4)]
    folder = history(tmp_path / "c.git", *(catalogue({"zlib": records(range(1, 4)), **state}) for state in states))
    build(folder, folder / NAME)
    return folder


@pytest.fixture
def commands(repository: Path, tmp_path: Path) -> list[tuple[str, ...]]:
    lockfile = lock(tmp_path / "spack.lock", ("zlib", "1.0", _HASH))
    questions = ("history when zlib", f"history blame {_HASH}", "log", "log p1", f"history best {lockfile}")
    lines = (*questions, "history churn", "history churn --by stack", "history build")
    asked = [tuple(line.split()) for line in lines]
    return [(*command, "--repo", str(repository)) for command in asked]


def test_every_page_may_be_damaged(repository: Path, commands: list[tuple[str, ...]], run: Run) -> None:
    path = repository / NAME
    whole = path.read_bytes()
    named = 0
    for start in range(0, len(whole), _PAGE):
        for command in [*commands, *commands][start // _PAGE % len(commands) :][:3]:
            _write(path, whole[:start] + bytes(_PAGE) + whole[start + _PAGE :])
            told = run(*command)  # raises what would be a traceback
            is_named = _names_what_to_do(path, told)
            assert told.exit_code in (0, 1, 2) or is_named, (command, told)
            named += is_named
    assert named


@pytest.mark.slow_cases
@pytest.mark.parametrize("seed", range(12))
def test_any_bytes_may_be_damaged(repository: Path, commands: list[tuple[str, ...]], run: Run, seed: int) -> None:
    path, random = repository / NAME, Random(seed)
    found = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 20, 400))):
        found[random.randrange(100, len(found))] = random.randrange(256)
    for command in commands:
        _write(path, bytes(found))
        told = run(*command)  # raises what would be a traceback
        assert told.exit_code in (0, 1, 2) or _names_what_to_do(path, told), (command, told)


def _write(path: Path, content: bytes) -> None:
    for beside in path.parent.glob(f"{path.name}-*"):
        with suppress(FileNotFoundError):
            beside.unlink()
    path.write_bytes(content)


def _names_what_to_do(path: Path, told: Result) -> bool:
    return str(path) in told.error and ("history drop --db" in told.error or "name another file" in told.error)
