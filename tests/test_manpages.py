"""The manual pages: what the commands say, in a form that roff reads without complaint."""

import re
import subprocess
import tomllib

from manpages import FOLDER, ROOT, pages
from tools import program


def test_they_are_installed() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]

    assert build["wheel"]["shared-data"] == {FOLDER.name: "share/man/man1"}
    assert build["sdist"]["artifacts"] == [f"/{FOLDER.name}/*.1"]


def test_no_line_is_a_request_by_accident() -> None:
    """A line that begins with a dot or a quote is roff's; all of them are ours."""
    requests = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
    for page in pages().values():
        for line in page.splitlines():
            assert not line.startswith("'")
            assert not line.startswith(".") or re.split(r"\s", line)[0] in requests


def test_roff_has_no_complaints() -> None:
    groff = [program("groff"), "-man", "-Tutf8", "-ww", "-z"]
    for page in pages().values():
        assert subprocess.run(groff, input=page, capture_output=True, text=True, check=True).stderr == ""
