"""`--format json`: every command that lists or shows something takes it, and prints JSON."""

import io
import json
import sys
from pathlib import Path

import pytest
from conftest import Run

CONFIG = "version: 1\nstate: {folder}/state\nsources: {{public: {{git: {repository}}}}}\n"


def test_objects_name_schemas(run: Run, tmp_path: Path, demo_repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "cachewatch.yaml"
    config.write_text(CONFIG.format(folder=tmp_path, repository=demo_repository))
    monkeypatch.setenv("CACHEWATCH_CONFIG", str(config))
    monkeypatch.setenv("CACHEWATCH_REPO", str(demo_repository))
    run("once")

    lists = ("show py-build", "show /2gs7so6", "packages", "stacks", "tags", "help kinds")
    for words in ("status", "status --check", "deliveries list", "config explain py-keras", "config show", *lists):
        assert json.loads(run(*words.split(), "--format", "json").output)["schema"].startswith("cachewatch."), words


def test_a_quiet_diff_prints_no_report(run: Run, demo_repository: Path) -> None:
    """Its exit code says that something differs, or what `--fail-on` says."""
    monday = ("diff", "HEAD~1", "HEAD", "--tag", "develop", "--repo", demo_repository, "--quiet")
    done = run(*monday)
    assert (done.exit_code, done.output, done.error) == (1, "", "")
    assert run("diff", "HEAD", "HEAD", "--repo", demo_repository, "-q").exit_code == 0
    assert run(*monday, "--fail-on", "downgraded").exit_code == 0
    failed = run(*monday, "--fail-on", "upgraded")
    assert (failed.exit_code, failed.output) == (1, "")
    places = "py-ml-dtypes in e4s (x86_64_v3) and 1 more place, py-build in e4s-neoverse_v1 (neoverse_v1)"
    assert failed.error == f"cachewatch: --fail-on upgraded: {places}\n"


def test_recordings(run: Run, buildcaches: Path, tmp_path: Path) -> None:
    source = buildcaches / "v2" / "1-initial"
    found = json.loads(run("record", source, "--into", tmp_path / "c.git", "--format", "json").output)

    assert len(found["commit"]) == 40
    assert [tag["tag"] for tag in found["tags"]] == ["develop"]


def test_site_counts_pages(demo_repository: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and writing both have a line, and `--no-progress` has none."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    run("site", tmp_path / "one", "--repo", demo_repository, "--jobs", "1")
    assert "\r\x1b[Kwriting pages: " in terminal.getvalue()
    terminal.truncate(0)
    run("site", tmp_path / "two", "--repo", demo_repository, "--jobs", "1", "--no-progress")
    assert "\x1b" not in terminal.getvalue()
