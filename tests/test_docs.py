"""What the README says is true: its output is real, its options exist, its files are there."""

import re
import runpy
import subprocess
from pathlib import Path

import click
import pytest
from conftest import ROOT
from mailservers import header, post
from tools import finding_commands, program

from cachewatch.__main__ import cli
from cachewatch.store.health_and_alerts import AlertKind

README = (ROOT / "README.md").read_text()
COMMANDS = [
    (command.strip(), output.strip("\n"))
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for command, output in re.findall(r"^\$ (.*?)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE)
]

# The commands of the tutorial until it enters the repository.
_BEFORE_THE_REPOSITORY = README.partition("\ncd my-demo.git\n")[0].splitlines()


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_every_example_is_real(demo_repository: Path, tmp_path: Path, command: str, output: str) -> None:
    """Each command of the README, run beside the repository of the demo or in it, prints what the README says."""
    if "| jq" in command:
        program("jq")
    environment = finding_commands() | {"COLUMNS": "80"}
    (tmp_path / "my-demo.git").symlink_to(demo_repository)
    for prepared in re.findall("^git -C my-demo.git show .*", README, re.MULTILINE):
        subprocess.run(prepared, shell=True, cwd=tmp_path, check=True)
    here = tmp_path if command in _BEFORE_THE_REPOSITORY else demo_repository
    done = subprocess.run(command, shell=True, cwd=here, env=environment, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().strip("\n") == output


@pytest.mark.usefixtures("loopback")
def test_the_first_digest_arrives(tmp_path: Path) -> None:
    """The commands of the README that lead to one, with a server of ours."""
    made, sent = re.findall(r"```sh\n(.*?)```", README.partition("## Your first digest\n")[2], re.DOTALL)[:2]
    environment = finding_commands()
    with post() as server:
        lines = f"{made}{sent}".replace("2525", str(server.port)).splitlines()
        commands = "\n".join(line for line in lines if not line.startswith(("cd ", "uvx ")))
        subprocess.run(["bash", "-ec", commands], cwd=tmp_path, env=environment, check=True, capture_output=True)
    (mail,) = server.received
    assert mail.recipient == "you@example.org"
    assert header(mail.content, "Subject").startswith("[all] ")

    match, preview, subject = re.search(
        r"`(match: {.*?})`.*?`cachewatch (preview .*?)`\s.*?`(.*?)`", README, re.DOTALL
    ).groups()  # type: ignore[union-attr]
    file = tmp_path / "cachewatch.yaml"
    file.write_text(re.sub(r"    match:\n(      .*\n)+", f"    {match}\n", file.read_text()))
    command = ["cachewatch", *preview.split()]
    shown = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert header(shown.stdout, "Subject") == f"[all] {subject}"


def test_every_command_is_named() -> None:
    names = cli.list_commands(click.Context(cli))
    assert [name for name in names if f"`{name}" not in README and f"cachewatch {name}" not in README] == []


def test_every_event_is_described() -> None:
    """Whoever watches the log can look up what its events mean, and no other is described."""
    rooms = ("service", "operators", "extensions", "daemon", "cli")
    code = "".join(path.read_text() for part in rooms for path in (ROOT / "cachewatch" / part).rglob("*.py"))
    logged = set(
        re.findall(r"""(?:log|_LOG|log_\w+\([^()]*\))\.(?:info|warning|error)\(\s*"([a-z]+\.[a-z]+)\"""", code)
    )
    logged |= set(re.findall(r"""event = "([a-z]+\.[a-z]+)\"""", code)) | set(
        re.findall(r'"((?:digest|operators)\.[a-z]+)"', code)
    )
    logged |= {f"delivery.{state}" for state in ("sent", "deferred", "queued", "dead")} | {"note"}
    table = (ROOT / "docs/service.md").read_text().partition("The names of events are stable:")[2]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert {cell for row in rows for cell in re.findall(r"`([a-z.]+)`", row)} == logged


def test_every_alert_is_described() -> None:
    """With what its name and part are, and how it ends."""
    section = (ROOT / "docs/service.md").read_text().partition("\n## Alerts\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall("`([a-z-]+)`", row)} == set(AlertKind)


@pytest.mark.parametrize(
    ("variables", "code", "said"),
    [
        # py-build leaves a stack, but the same binary stays.
        ({"PINNED": "develop-2025-05-25", "NEWEST": "develop-2025-06-01"}, 0, ""),
        ({"PINNED": "develop-2025-06-01", "NEWEST": "develop-2025-05-25"}, 1, "--fail-on lost: py-keras in ml-darwin-"),
        ({"ENVIRONMENT": "spack.yaml", "NEWEST": "develop-2025-06-01"}, 1, "--fail-on lost: py-build@1.2.0"),
        ({"ENVIRONMENT": "kept.yaml", "NEWEST": "develop-2025-06-01"}, 0, ""),
    ],
)
def test_the_gate_gates(demo_repository: Path, tmp_path: Path, variables: dict[str, str], code: int, said: str) -> None:
    """What a move or an environment would lose is named; a harmless event passes."""
    for name, package in (("spack.yaml", "py-build@1.2.0"), ("kept.yaml", "py-keras")):
        (tmp_path / name).write_text(f"spack:\n  specs: [{package}]\n")
    environment = finding_commands() | {"CATALOGUE": str(demo_repository)} | variables
    script = str(ROOT / "config/examples/gate.sh")
    done = subprocess.run(["sh", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, said in done.stderr) == (code, True)


def test_every_module_is_placed() -> None:
    text = (ROOT / "docs/dev/design.md").read_text()

    for path in (ROOT / "cachewatch").iterdir():
        if path.name not in ("__init__.py", "__main__.py", "__pycache__", "py.typed"):
            assert path.name in text, path.name


def test_the_tests_that_security_names_are_there() -> None:
    """docs/security.md names no test that is gone."""
    file = ""
    table = (ROOT / "docs/security.md").read_text().partition("\n## Boundaries\n")[2].partition("\n## ")[0]
    for name, test in re.findall(r"`((?:\w+/)?test_\w+\.py)?(?:::(test_\w+))?`", table):
        file = name or file
        if name or test:
            assert f"def {test or 'test_'}" in (ROOT / "tests" / file).read_text(), (file, test)


@pytest.mark.parametrize("unit", ["cachewatch.service", "cachewatch-once.service"])
def test_every_line_of_the_units_is_explained(unit: str) -> None:
    """docs/security.md has every key of the section of the service, and no other."""
    service = (ROOT / "config" / unit).read_text().partition("[Service]")[2].partition("\n[")[0]
    table = (ROOT / "docs/security.md").read_text().partition("\n## The unit, line by line\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    explained = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    keys = set(re.findall(r"^(\w+)=", service, re.MULTILINE))

    assert keys <= explained
    assert explained == keys or unit != "cachewatch.service"


DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]


def test_links_lead_somewhere() -> None:
    for page in (*PAGES, *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"))):
        for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"^([\w/]+)$", (DOCS / "index.md").read_text(), re.MULTILINE))
    assert {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES} - {"index"} == listed


def test_links_to_other_files_lead_to_the_project() -> None:
    """Pages are read where the project is hosted, too, so that their links are relative."""
    rewritten = runpy.run_path(str(DOCS / "conf.py"))["rewritten"]
    text = "[a](service.md#alerts) [b](../config/cachewatch.yaml) [c](pictures) [d](https://x.org/y) ![e](pictures/f.png) [g](#h)"
    address = "https://github.com/cachewatch/cachewatch/blob/main"

    assert rewritten(text, DOCS) == (
        f"[a](service.md#alerts) [b]({address}/config/cachewatch.yaml) [c]({address}/docs/pictures)"
        " [d](https://x.org/y) ![e](pictures/f.png) [g](#h)"
    )
    assert rewritten("[x](../../laws.md) [y](../../../README.md)", DOCS / "dev/notes") == (
        f"[x](../../laws.md) [y]({address}/README.md)"
    )


def test_the_build_is_not_kept() -> None:
    """Neither git nor, with it, the source archive takes what Sphinx writes."""
    assert "docs/_build/" in (ROOT / ".gitignore").read_text().splitlines()
