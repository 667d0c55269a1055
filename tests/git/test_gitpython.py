"""GitPython starts every git, and opens every repository."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from gitservers import Faults, hostile_git, smart_http
from helpers import catalogue, history, record, records
from station import CONFIG, wait_for

from cachewatch.git.local_repository import Repository


def test_every_git_is_started_by_gitpython(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git on the PATH counts what is started at all; both counts are the same."""
    upstream = history(tmp_path / "a.git", *(catalogue({"zlib": [record(n)]}) for n in range(4)))
    (tmp_path / "bin").mkdir()
    wrapper, log = tmp_path / "bin/git", tmp_path / "log"
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = tmp_path / "cachewatch.yaml"
    config.write_text(CONFIG.replace("{folder}/upstream.git", str(upstream)).replace("{folder}", str(tmp_path)))
    started: list[Sequence[str]] = []
    ran: list[str] = []

    def noted(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append(command)
        return subprocess.Popen(command, **options)

    monkeypatch.setattr("git.cmd.safer_popen", noted)
    asked: Sequence[Sequence[object]] = (
        ("diff", "HEAD~1", "HEAD", "--repo", upstream),
        ("diff", "--repo", upstream.as_uri()),
        ("diff", "--repo", upstream.as_uri()),
        ("show", "zlib", "--repo", upstream),
        ("history", "build", "--repo", upstream, "--db", tmp_path / "index.db"),
        ("once", "--config", config),
    )
    for command in asked:
        before = len(started)
        run(*command)
        ran = log.read_text().splitlines()
        assert before <= len(started) == len(ran), (command, ran)
    assert {"version", "clone", "fetch", "ls-remote", "cat-file"} <= {word for line in ran for word in line.split()}


@pytest.mark.parametrize("text", [b"[user]\n\tname = caf\xe9\n", b'[includeIf "onbranch:main"]\n\tpath = more\n'])
def test_a_configuration_is_for_git_to_read(tmp_path: Path, text: bytes) -> None:
    """GitPython fails at such ones."""
    folder = history(tmp_path / "a.git", catalogue({"zlib": [record(1)]}))
    with (folder / "config").open("ab") as config:
        config.write(text)
    assert Repository(folder).git_dir == str(folder)


def test_ctrl_c_ends_a_clone_and_leaves_nothing(tmp_path: Path) -> None:
    history(tmp_path / "up" / "a.git", catalogue({"zlib": records(range(9))}))
    faults = Faults()
    faults.stall = True
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with smart_http(tmp_path / "up", faults) as address:
        # Whatever ran the tests in the background ignores what Ctrl-C sends.
        program = ["env", "--default-signal=INT", sys.executable, "-m", "cachewatch"]
        command = [*program, "diff", "--repo", f"{address}/a.git"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
            wait_for(lambda: faults.stalled)
            process.send_signal(signal.SIGINT)
            error = process.communicate(timeout=60)[1]
        faults.stall = False
    assert (process.returncode, b"Traceback" in error) == (130, False)
    assert [path.suffix for path in (tmp_path / "cache/cachewatch/clones").iterdir()] == [".lock"]


def test_what_a_server_says_to_a_clone_is_cut(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitPython would keep a line of any length."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    longest = 0

    def measured(line: str) -> None:
        nonlocal longest
        longest = max(longest, len(line))

    monkeypatch.setattr("cachewatch.git.git_processes._Progress.line_dropped", lambda _, line: measured(line))
    with hostile_git(error=2**20) as address:
        result = run("diff", "--repo", address)
    assert (result.exit_code, "returned error: 500" in result.error) == (3, True)
    assert 1000 < longest < 2**16
