"""The packed data of the tests."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archives import DATA, pack, unpack


@pytest.mark.parametrize("name", ["documents", "buildcaches"])
def test_the_same_content_gives_the_same_archive(tmp_path: Path, name: str) -> None:
    """What is unpacked and packed again has the same bytes, so nothing of the machine is in it."""
    pack(unpack(name, tmp_path), tmp_path / "again.tar.xz")

    assert (tmp_path / "again.tar.xz").read_bytes() == (DATA / f"{name}.tar.xz").read_bytes()


def test_processes_that_unpack_at_the_same_time(tmp_path: Path) -> None:
    """All of them get one whole folder."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: (unpack("documents", tmp_path) / "TRUTH.md").is_file(), range(8)))

    assert found == [True] * 8


def test_the_data_is_small() -> None:
    """A clone stays quick."""
    assert sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file()) < 5_000_000
