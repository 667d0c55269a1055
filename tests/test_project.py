"""The files around the package: workflows, hooks, templates and decisions are what they claim to be."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from tools import finding_tests

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _load(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def _jobs(path: Path) -> dict[str, dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = _load(path)["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_do_little(path: Path) -> None:
    """They read the repository; only what publishes gets a token; none keeps git's credentials or runs forever."""
    assert _load(path)["permissions"] == {"contents": "read"}
    for name, job in _jobs(path).items():
        assert job.get("permissions", {}) == ({"id-token": "write"} if name == "publish" else {})
        assert job["timeout-minutes"]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned(path: Path) -> None:
    """To one release, not to a branch or to whatever a major version is at present."""
    used = [step["uses"] for job in _jobs(path).values() for step in job["steps"] if "uses" in step]

    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []
    text = path.read_text()
    assert text.count("uses: ") == len(re.findall(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_make_what_can_be_made(path: Path) -> None:
    """Every target of make that they name is one."""
    makefile = (ROOT / "Makefile").read_text().replace("$(READY)", ".venv/ready")
    commands = "\n".join(step.get("run", "") for job in _jobs(path).values() for step in job["steps"])
    for target in re.findall(r"^make (\S+)", commands, re.MULTILINE):
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def test_every_python_is_tested() -> None:
    claimed = [c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: \d\.\d+$", c)]

    assert _jobs(ROOT / ".github/workflows/test.yml")["test"]["strategy"]["matrix"]["python"] == claimed


def test_hooks_download_nothing() -> None:
    """They are the tools that `make check` runs."""
    config = _load(ROOT / ".pre-commit-config.yaml")
    entries = [hook["entry"] for repo in config["repos"] for hook in repo["hooks"]]
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]

    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert {hook["language"] for repo in config["repos"] for hook in repo["hooks"]} == {"system"}
    tools = {entry.split()[0].removeprefix(".venv/bin/") for entry in entries}
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", check))


def test_the_changelog_has_its_form() -> None:
    """Versions, newest first, each with the sections of Keep a Changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)

    assert all(re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", version) for version in versions)
    assert versions.index("Unreleased") == 0
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= {"Added", "Changed", "Fixed", "Removed", "Security"}
    for part in text.split("\n## ")[1:]:
        sections = re.findall(r"^### (.*)$", part, re.MULTILINE)
        assert sections == sorted(set(sections)), "each section once, in the order of the alphabet"


TESTS = """
import pytest
from tools import program

def test_one():
    program("no-such-browser")

def test_another():
    program("no-such-browser")

def test_passes():
    pass
"""
SAID = "2 tests were skipped because tools are missing (no-such-browser); `make test-tools` installs them"


@pytest.mark.parametrize(
    ("is_ci", "processes"),
    [
        pytest.param(True, "0", id="in CI"),
        pytest.param(False, "2", marks=[pytest.mark.slow, pytest.mark.nightly], id="at home"),
    ],
)
def test_missing_tools_are_one_line(tmp_path: Path, is_ci: bool, processes: str) -> None:
    """Tests that need them are skipped; only CI fails."""
    (tmp_path / "test_these.py").write_text(TESTS)
    environment = {name: value for name, value in finding_tests().items() if not name.startswith(("CI", "PYTEST"))}
    environment |= {"CI": "true"} if is_ci else {}
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-n", processes, "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.stdout.count("no-such-browser") == done.stdout.count(SAID) == 1
    assert "1 passed, 2 skipped" in done.stdout
    assert done.returncode == (1 if is_ci else 0)


def test_the_container_has_the_scripts_that_install_the_tools() -> None:
    """What `install-tools` calls beside itself is copied before it runs."""
    lines = "\n".join(re.findall(r"^COPY (.*)", (ROOT / "Containerfile").read_text(), re.MULTILINE))
    copied = re.findall(r"tests/[\w./-]+[\w-]", lines)
    called = re.findall(r"^tests/[\w./-]+", (ROOT / "tests/install-tools").read_text(), re.MULTILINE)

    assert len(called) >= 2
    assert set(called) <= set(copied)
