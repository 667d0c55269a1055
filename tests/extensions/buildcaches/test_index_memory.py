"""What reading an index takes of memory and disk, and how what its specs were made of is kept."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from caches import edge, installs, node, write_v3
from conftest import Run
from helpers import spec_hash

from cachewatch.extensions.buildcaches.index import read_index

KEY = "z" * 32


def compact(found: dict[str, Any], version: object = "8") -> bytes:
    """Return an index without blanks, as Spack 1.0 writes it."""
    return json.dumps({"database": {"version": version, "installs": found}}, separators=(",", ":")).encode()


FOUR = installs(
    node("hdf5", dependencies=[edge("zlib", spec_hash(1))]), node(), node("cmake", "3", external={}), node()
)


def test_reading_takes_a_fraction_of_the_size() -> None:
    """The specs are in a temporary file, and their records are not copied out of the index."""
    content = compact(installs(*(node(f"p{number % 300}", annotations={"a": "b" * 300}) for number in range(6000))))
    read_index(compact(FOUR), "x", wants_graph=True)
    tracemalloc.start()
    index = read_index(content, "x", wants_graph=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(index.specs) == 6000
    assert peak < 0.6 * len(content)


def test_no_room_for_the_temporary_file(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence that says where there is none."""
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **options: Path("/dev/full").open("r+b", **options))  # noqa: SIM115
    write_v3(tmp_path / "mirror", compact(FOUR))
    found = run("record", tmp_path / "mirror", "--into", tmp_path / "catalogue.git")

    assert (found.exit_code, "Traceback" in found.error) == (3, False)
    assert "No space left on device, so the index cannot be read; TMPDIR names another" in found.error
