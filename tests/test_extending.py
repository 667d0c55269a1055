"""docs/extending.md: its examples are a package that pip installs, and cachewatch takes what it adds."""

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT
from helpers import document, record

PAGE = ROOT / "docs/extending.md"
(CONFIG,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _package(folder: Path) -> Path:
    text = PAGE.read_text()
    for block in re.finditer(r"```(?:toml|python)\n(.*?)```", text, re.DOTALL):
        name = re.findall(r"`(pyproject\.toml|cachewatch_example/\w+\.py)`", text[: block.start()])[-1]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(block[1])
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip put it."""
    folder = tmp_path_factory.mktemp("extension")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", folder / "site", _package(folder / "package")], check=True)
    return folder / "site"


def _run(installed: Path, here: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "cachewatch", *arguments]
    done = subprocess.run(command, cwd=here, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_package_of_the_page_adds_a_channel_a_source_and_a_command(installed: Path, tmp_path: Path) -> None:
    """A digest of the changes in the tarball is a line in the file; the command reads what was recorded."""
    (tmp_path / "cachewatch.yaml").write_text(CONFIG)
    assert "  example (cachewatch_example)" in _run(installed, tmp_path, "--version", "--verbose")
    for version in ("1.0", "1.1"):
        (tmp_path / "zlib.md").write_bytes(document([record(1, versions=[version])]))
        with tarfile.open(tmp_path / "documents.tar", "w") as file:
            file.add(tmp_path / "zlib.md", "_cache/develop/zlib/specs.md")
        _run(installed, tmp_path, "once")
    (line,) = (tmp_path / "lines.txt").read_text().splitlines()
    assert [tag["tag"] for tag in json.loads(line)["tags"]] == ["develop"]
    recorded = _run(installed, tmp_path, "newest", "--repo", "state/sources/ours.git")
    assert re.fullmatch(r"[0-9a-f]{40} \d{4}-\d\d-\d\d\n", recorded)


@pytest.mark.parametrize("first", ["causes.commands", "history.settings"])
def test_a_submodule_that_is_called_as_a_hook_is(first: str) -> None:
    """What a package implements stays, whatever was imported of it before."""
    asked = "from cachewatch.hooks import extensions; e = extensions(); print(e.failed, len(e.commands), len(e.hook.settings()))"
    commands = [
        [sys.executable, "-c", f"{before}{asked}"] for before in ("", f"import cachewatch.extensions.{first}; ")
    ]
    said = {subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in commands}
    assert len(said) == 1
    assert said.pop().startswith("{}")
