"""`config check` says what only one host sees, where hosts may share a state."""

from pathlib import Path

import pytest
from conftest import Run

from cachewatch.runtime import files as filesystems

CONFIG = """\
version: 1
state: STATE
sources:
  public: {git: "https://example.org/upstream.git"}
  ours: {type: buildcache, url: "https://example.org/cache"}
channels:
  mail: {type: email, from: c@example.org, smtp: {host: localhost, port: 25, security: none}}
  box: {type: maildir, path: FOLDER/box, from: c@example.org}
  files: {type: file, path: "FOLDER/files/{subscription}/{period}.{ext}"}
  feed: {type: feed, path: "FOLDER/shared/feeds/{subscription}.atom"}
operators: {channels: [mail], to: [ops@example.org]}
subscriptions: {all: {to: [kim@example.org], channels: [mail, box, files, feed], changes: [all]}}
"""
POSTGRESQL = "postgresql://cachewatch@db.example.org/cachewatch\nstate_folder: FOLDER/state"


@pytest.fixture
def check(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "dict[str, str]":
    """What is said of sources and channels below their own line, for a state in PostgreSQL."""
    (tmp_path / "mountinfo").write_text(f"61 35 0:50 / {tmp_path}/shared rw,relatime - nfs4 files:/shared rw\n")
    monkeypatch.setattr(filesystems, "MOUNTS", tmp_path / "mountinfo")
    return _said(run, tmp_path, POSTGRESQL)


def _said(run: Run, folder: Path, state: str, config: str = CONFIG) -> dict[str, str]:
    path = folder / "cachewatch.yaml"
    path.write_text(config.replace("STATE", state).replace("FOLDER", str(folder)))
    result = run("config", "check", "--config", path)
    assert result.exit_code == 0, result.error
    lines = result.output.splitlines()
    return {
        line.partition(":")[0]: follower.strip() if follower.startswith("  ") else ""
        for line, follower in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith(("source ", "channel "))
    }


def test_what_is_written_beside_the_state_is_on_one_host_or_shared(check: dict[str, str], tmp_path: Path) -> None:
    recorded = (
        "host-local: each host records its own history; the first digest after a takeover cannot tell what changed"
    )
    assert check == {
        "source public": "",
        "source ours": recorded,
        "channel mail": "",
        "channel box": f"host-local: other hosts do not see {tmp_path}/box",
        "channel files": f"host-local: other hosts do not see {tmp_path}/files",
        "channel feed": f"on shared storage: {tmp_path}/shared/feeds (nfs4)",
    }


def test_a_state_of_one_host_needs_no_such_word(run: Run, tmp_path: Path) -> None:
    assert set(_said(run, tmp_path, "FOLDER/state").values()) == {""}
