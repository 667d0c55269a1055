"""What strangers make git read, print and say is bounded: in memory, in bytes and in time."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Run
from gitservers import hostile_git
from helpers import catalogue, history, record

from cachewatch.errors import SourceError
from cachewatch.git import git_processes, local_repository
from cachewatch.git.git_processes import Git
from cachewatch.git.local_repository import ObjectPipe
from cachewatch.git.remote_urls_and_fetch_errors import Remote


def test_refs_without_end_do_not_use_up_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The git that keeps them is ended by its limit, not by that of the machine."""
    monkeypatch.setattr(git_processes, "MEMORY", 64 * 2**20)
    with hostile_git(refs=300 * 2**20) as address, pytest.raises(SourceError, match="Out of memory"):
        Remote(address).tip("main")


def test_what_a_server_says_of_an_error_is_kept_in_part() -> None:
    with hostile_git(error=2**20) as address, pytest.raises(SourceError, match="returned error: 500") as raised:
        Remote(address).tip("main")
    assert len(str(raised.value)) < 2_000


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script in the place of git."""

    def make(script: str) -> None:
        (tmp_path / "git").write_text(f'#!/bin/sh\n[ "$1" != version ] || exec echo git version 2.45.0\n{script}\n')
        (tmp_path / "git").chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return make


def test_output_messages_and_time_have_limits(fake: Callable[[str], None]) -> None:
    """The last messages are kept; also a git that closed what it prints on is ended."""
    fake("head -c 1000000 /dev/zero | tr '\\0' a >&2; printf 'the end' >&2; echo b")
    answer = Git().ask(["status"])
    assert (len(answer.error), answer.error[-7:], answer.output) == (65536, "the end", b"b\n")
    fake("yes")
    answer = Git().ask(["status"], most=10**6)
    assert (answer.code != 0, answer.output) == (True, b"")
    assert "printed more than 1,000,000 bytes" in answer.error
    fake("exec >&- 2>&-; sleep 1000")
    assert Git(seconds=0.2).ask(["status"]).code != 0


def test_thousands_of_messages_about_a_repository_stop_nobody(tmp_path: Path) -> None:
    """Git names each folder of alternates that is missing, and would wait until that is read."""
    folder = history(tmp_path / "a.git", catalogue({"zlib": [record(1)]}), catalogue({"zlib": [record(2)]}))
    alternates = folder / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text("".join(f"/nowhere/{'a' * 100}/{number}\n" for number in range(3_000)))
    command = [sys.executable, "-m", "cachewatch", "diff", "HEAD~1", "HEAD", "--stat", "--repo", str(folder)]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False)

    assert (done.returncode, b"zlib" in done.stdout) == (0, True)


def test_a_git_without_an_answer(fake: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_repository, "_ANSWER_SECONDS", 0.1)
    fake("sleep 1000")
    with closing(ObjectPipe(Git(), tmp_path)) as pipe, pytest.raises(SourceError, match="did not answer"):
        pipe.get("HEAD")


def test_what_git_says_last_is_the_reason(fake: Callable[[str], None], tmp_path: Path) -> None:
    fake("read name; echo fatal: the disk is gone >&2; exit 128")
    with closing(ObjectPipe(Git(), tmp_path)) as pipe:
        for _ in range(2):  # whoever asks again
            with pytest.raises(SourceError, match="the disk is gone"):
                pipe.get("HEAD")


def test_a_configuration_includes_a_hundred_files_at_most(run: Run, tmp_path: Path) -> None:
    """Among more, there could be one on which git would hang."""
    folder = history(tmp_path / "a.git", catalogue({"zlib": [record(1)]}))
    with (folder / "config").open("a") as config:
        config.write("[include]\n" + "".join(f"\tpath = file-{number}\n" for number in range(101)))
    assert "includes more than 100 files" in run("diff", "HEAD", "--repo", folder).error_of(3)


def test_folders_in_a_repository_may_be_deep(run: Run, tmp_path: Path) -> None:
    folder = history(tmp_path / "a.git", catalogue({"zlib": [record(1)]}), catalogue({"zlib": [record(2)]}))
    subprocess.run(["mkdir", "-p", folder / "objects" / "/".join("a" * 1500)], check=True)
    try:
        result = run("diff", "HEAD~1", "HEAD", "--stat", "--repo", folder)
    finally:  # shutil.rmtree, by which pytest removes old folders, cannot
        subprocess.run(["rm", "-rf", folder / "objects/a"], check=True)

    assert (result.exit_code, "zlib" in result.output) == (0, True)
