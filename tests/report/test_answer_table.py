"""Tables of answers: aligned, as CSV and as Markdown, harmless whatever the names are."""

import pytest

from cachewatch.report.tables import Table, write_table
from cachewatch.report.text import Palette

PLAIN = Palette(is_on=False)
TABLE = Table(
    ("name", "specs", "stacks"),
    [("zlib", 1_200, ("a", "b", "c", "d")), ("py-x|y", None, ())],
    before=("one", ""),
    after=("", "end"),
)


def written(table: Table, form: str) -> str:
    """Return what is written."""
    return b"".join(write_table(table, form, PLAIN)).decode()


def test_text() -> None:
    """Numbers stand right, long lists are cut, and what is not there is a dash."""
    assert written(TABLE, "text").splitlines() == [
        "one",
        "",
        "name    specs  stacks",
        "zlib    1,200  a, b, c and 1 more",
        "py-x|y      -  -",
        "",
        "end",
    ]


def test_csv() -> None:
    """Lists are whole, and sentences are left out."""
    assert written(TABLE, "csv") == "name,specs,stacks\r\nzlib,1200,a b c d\r\npy-x|y,,\r\n"


def test_markdown() -> None:
    """Lists are whole, and nothing in a name ends its cell."""
    assert written(TABLE, "markdown").splitlines() == [
        "one",
        "",
        "| name | specs | stacks |",
        "| --- | ---: | --- |",
        "| zlib | 1,200 | a, b, c, d |",
        "| py-x\\|y | - | - |",
        "",
        "end",
    ]


@pytest.mark.parametrize("form", ["text", "csv", "markdown"])
def test_without_rows(form: str) -> None:
    """No heading stands above nothing, but CSV has its columns."""
    found = written(Table(("name",), [], after=("end",)), form)
    assert found == ("name\r\n" if form == "csv" else "end\n")


@pytest.mark.parametrize("form", ["text", "csv", "markdown"])
def test_hostile_names(form: str) -> None:
    """No name moves the cursor, and none is a formula."""
    found = written(Table(("name",), [("\x1b[31mred",), ("=1+1",), ("a\nb",)]), form)
    assert "\x1b" not in found
    assert "\\x1b[31mred" in found.replace("\\\\", "\\").replace("\\[", "[")
    assert len(found.splitlines()) == (5 if form == "markdown" else 4)
    assert form != "csv" or "'=1+1" in found
