"""A clone without file contents gets what an index needs: said first, in few fetches, and the index is the same."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from indexes import Catalogue, build, dump, write
from upstream import git

from cachewatch.git import remote_urls_and_fetching
from cachewatch.git.git_processes import Git


def test_what_is_absent_is_fetched_in_few_goes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights = Catalogue(3)
    folder = write(tmp_path / "c.git", [nights.night() for _ in range(20)], seed=3)
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git(folder, "config", key, "true")
    fetches: list[int] = []
    inner = Git.ask

    def noting(git: Git, arguments: Iterable[str], lines: Iterable[str] = (), **values: Any) -> Any:
        arguments, lines = list(arguments), list(lines)
        if "fetch" in arguments and "--stdin" in arguments:
            fetches.append(len(lines))
        return inner(git, arguments, lines, **values)

    monkeypatch.setattr(Git, "ask", noting)
    monkeypatch.setattr(remote_urls_and_fetching, "_MOST", 10)
    said = r"this clone lacks ([\d,]+) versions of documents, which are fetched now and stay in it"
    told = re.search(said, run("history", "build", "--repo", f"file://{folder}", "--db", tmp_path / "h.db").error_of(0))

    assert told
    assert fetches == [10] * (int(told[1]) // 10) + [int(told[1]) % 10] * bool(int(told[1]) % 10)
    assert dump(tmp_path / "h.db") == build(folder, tmp_path / "whole.db")
    assert "lacks" not in run("history", "build", "--repo", f"file://{folder}", "--db", tmp_path / "again.db").error
