"""The table `spec` has every hash of every interval, however it is filled."""

from pathlib import Path

import pytest

from cachewatch.extensions.history.schema import open_for_writing
from cachewatch.extensions.history.values import pack, prefixes
from cachewatch.extensions.history.write import fill_specs


def _hashes(count: int, start: int = 0) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    return [
        "".join(letters[(number * 7 + place * number) % 32] for place in range(28))
        + f"{number:04}".translate(_TO_BASE32)
        for number in range(start, start + count)
    ]


_TO_BASE32 = str.maketrans("01289", "abcde")


@pytest.mark.parametrize(
    "sets",
    [
        [],
        [_hashes(3)],
        [_hashes(1), _hashes(999, 5), _hashes(1000), _hashes(1001), _hashes(2500)],
        [_hashes(2), ["of another form"], [*_hashes(1200), "of another form"]],
        [["a" * 32, "a" * 31 + "b"]],
    ],
    ids=["none", "few", "many", "unusual", "one prefix"],
)
def test_all_hashes_are_found_again(tmp_path: Path, sets: list[list[str]]) -> None:
    connection = open_for_writing(tmp_path / "h.db")
    for hashes in sets:
        connection.execute(
            "INSERT INTO interval(tag, package, build, stacks, first, size, hashes) VALUES (1, 1, 1, 1, 0, ?, ?)",
            (len(hashes), pack(hashes)),
        )
    fill_specs(connection)
    wanted = {(prefix, number) for number, hashes in enumerate(sets, 1) for prefix in prefixes(pack(hashes))}
    assert set(connection.execute("SELECT prefix, interval FROM spec")) == wanted
    connection.close()
