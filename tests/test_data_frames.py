"""The rows of a changeset as data frames of pandas and polars."""

import subprocess
import sys

import pandas as pd
import polars as pl
import pytest
from helpers import record, two_folders

import cachewatch

# Polars takes the type of a column from this many rows.
LOOKED_AT = 100


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Return the rows of rebuilt packages, and of an upgrade of the last one."""
    names = [f"a{n:03}" for n in range(LOOKED_AT + 20)]
    old = {name: [record(n)] for n, name in enumerate(names)} | {"zlib": [record(500)]}
    new = {name: [record(n + 200)] for n, name in enumerate(names)} | {"zlib": [record(501, versions=["2.0"])]}
    before, after = two_folders(tmp_path_factory.mktemp("states"), old, new)
    with cachewatch.open(after) as catalogue:
        (changeset,) = catalogue.diff(before)
        return changeset.to_records()


def test_pandas_takes_rows(rows: list[dict[str, object]]) -> None:
    """Columns of numbers are numbers, all others text without gaps."""
    frame = pd.DataFrame(rows)
    numbers = {name for name, kind in frame.dtypes.items() if pd.api.types.is_integer_dtype(kind)}
    assert numbers == {"count", "specs_before", "specs_after"}
    assert all(pd.api.types.infer_dtype(frame[name], skipna=False) == "string" for name in set(frame) - numbers)
    upgraded = frame[frame["change"] == "place-upgraded"]
    assert upgraded[["package", "before", "after"]].to_numpy().tolist() == [["zlib", "1.0", "2.0"]]
    assert set(frame["before"]) == {"", "1.0"}
    assert frame[frame["change"] == "rebuilt"]["count"].sum() == LOOKED_AT + 20


def test_polars_takes_rows(rows: list[dict[str, object]]) -> None:
    """As pandas does, though it takes the type of a column from the first rows, none of which is of the upgrade."""
    assert "zlib" not in {row["package"] for row in rows[:LOOKED_AT]}
    frame = pl.DataFrame(rows)
    assert {name for name, kind in frame.schema.items() if kind == pl.Int64} == {"count", "specs_before", "specs_after"}
    assert frame.rows(named=True) == rows


# A command loads none of these, which take half a second; and DeepDiff compares arrays of NumPy, as without cachewatch.
LOADED = """
import sys, cachewatch.__main__, cachewatch.core.comparison.package_changes
print(*{'numpy', 'pandas', 'polars', 'pydantic'} & sys.modules.keys())
import pandas, polars, pydantic
"""
COMPARED = """
import cachewatch; cachewatch.compare
import numpy; from deepdiff import DeepDiff
print(list(DeepDiff({'a': numpy.array([1, 2])}, {'a': numpy.array([1, 3])})['values_changed']))
"""


@pytest.mark.parametrize(("code", "said"), [(LOADED, "\n"), (COMPARED, "[\"root['a'][1]\"]\n")])
def test_libraries_for_numbers_are_as_without_cachewatch(code: str, said: str) -> None:
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == said
