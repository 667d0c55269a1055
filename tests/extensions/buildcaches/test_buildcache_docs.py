"""What docs/buildcaches.md shows is what happens, on a real cache that is pruned between two nights."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

PAGE = (ROOT / "docs" / "buildcaches.md").read_text()
NIGHTS = ("4-variant-flip", "6-pruned-to-current")


def plain(text: str) -> str:
    """Leave out what is another one each time: names of revisions, times, and how far apart they are, if at all."""
    text = re.sub(r"\b[0-9a-f]{10}\b", "REVISION", text)
    return re.sub(r"^(develop  )\d.*\n(  .*\n)?|\d{4}-\d\d-\d\d \d\d:\d\dZ", r"\1TIME\n", text).strip()


@pytest.mark.slow
@pytest.mark.nightly
def test_the_ten_minutes(buildcaches: Path, tmp_path: Path) -> None:
    """Each command of the page, one after the other, prints what the page says."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "80"}
    shutil.copy(buildcaches / "v3/env/2/spack.lock", tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [
        pair for block in blocks for pair in re.findall(r"^\$ (.*?)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE)
    ]
    assert len(commands) == 5
    nights = iter(NIGHTS)
    for command, output in commands:
        if command == "cachewatch record site":
            (tmp_path / "site").unlink(missing_ok=True)
            (tmp_path / "site").symlink_to(buildcaches / "v3" / next(nights))
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=False, text=True
        )
        assert all(line.startswith("cachewatch: --fail-on lost: cw-solver@2.0.0/") for line in done.stderr.splitlines())
        assert plain(done.stdout) == plain(output), command
