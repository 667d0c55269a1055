"""How cachewatch, git and the peers are started for a measurement."""

import compileall
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import Catalogue
from benchmarks.measuring import Command

CHECKOUT = Path(__file__).parents[1]
_HERE = Path(__file__).parent
_PARTS = ("cachewatch", "config", "demo", "templates")
_CONVERT = "json.loads(next(l for l in content.decode().splitlines() if l.startswith('spec_details: '))[14:])"

Span = tuple[str, str]


class Subject:
    """cachewatch as it is now: a copy, compiled as pip does, so that edits during a long run change nothing."""

    def __init__(self, work: Path) -> None:
        self._copy = work / "subject"
        for part in _PARTS:
            shutil.copytree(CHECKOUT / part, self._copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        # pip does so too; without it, PYTHONDONTWRITEBYTECODE makes every start a compilation.
        compileall.compile_dir(self._copy / "cachewatch", quiet=1)
        self._environment = {"PYTHONPATH": str(self._copy)}

    def diff(self, catalogue: Catalogue, span: Span, *options: str, name: str, output: Path | None = None) -> Command:
        """Return `cachewatch diff` of two revisions."""
        program = Path(sys.executable).with_name("cachewatch")
        return Command(
            name=name,
            arguments=[program, "diff", *span, f"--repo={catalogue.folder}", *options],
            folder=catalogue.folder,
            environment=self._environment,
            output=output,
        )

    def command(self, catalogue: Catalogue, *options: str, name: str) -> Command:
        """Return `cachewatch` with options that need no repository."""
        program = Path(sys.executable).with_name("cachewatch")
        return Command(name=name, arguments=[program, *options], folder=catalogue.folder, environment=self._environment)

    def diffs(self, catalogue: Catalogue, spans: Sequence[Span], *options: str, name: str) -> Command:
        """Return one `cachewatch diff` after another, each a process of its own."""
        lines = [shlex.join(map(str, self.diff(catalogue, span, *options, name="").arguments)) for span in spans]
        return Command(
            name=name, arguments=["sh", "-ec", "\n".join(lines)], folder=catalogue.folder, environment=self._environment
        )

    def spied(self, catalogue: Catalogue, span: Span, *options: str, log: Path) -> Command:
        """Return `cachewatch diff` with a git that writes to `log` what it is asked to read."""
        folder = log.parent / "spy"
        folder.mkdir(exist_ok=True)
        real = shutil.which("git")
        spy = folder / "git"
        spy.write_text(
            f"""#!/bin/sh
for argument; do
  case "$argument" in --batch) tee -a {shlex.quote(str(log))} | {real} "$@"; exit;; esac
done
exec {real} "$@"
"""
        )
        spy.chmod(0o755)
        plain = self.diff(catalogue, span, *options, name="spied")
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        environment = {**plain.environment, "PATH": path}
        return Command(name=plain.name, arguments=plain.arguments, folder=plain.folder, environment=environment)

    def phases(self, catalogue: Catalogue, span: Span, *, output: Path) -> Command:
        """Return what `cachewatch diff --jobs 1` does, by phase: see phases.py."""
        return Command(
            name="phases",
            arguments=[sys.executable, _HERE / "phases.py", catalogue.folder, *span],
            folder=catalogue.folder,
            environment=self._environment,
            output=output,
        )

    def delivery(self, folder: Path, readers: int, old: int, *, output: Path) -> Command:
        """Return the delivery of one digest to `readers` after `old` others: see outbox.py."""
        return Command(
            name="delivery",
            arguments=[sys.executable, _HERE / "outbox.py", folder, str(readers), str(old)],
            folder=folder,
            environment=self._environment,
            output=output,
        )

    def import_times(self, catalogue: Catalogue, span: Span) -> Command:
        """Return `cachewatch diff` in a Python that tells how long each import takes."""
        plain = self.diff(catalogue, span, name="imports")
        return Command(
            name=plain.name,
            arguments=[sys.executable, "-X", "importtime", "-m", "cachewatch", *plain.arguments[1:]],
            folder=plain.folder,
            environment=plain.environment,
        )


def floor(catalogue: Catalogue, span: Span) -> Command:
    """Return what no program can be faster than: git finds what differs and reads it, to /dev/null."""
    return _shell(catalogue, "floor", f"{_ids(span)} | git cat-file --batch --buffer")


def bound(catalogue: Catalogue, span: Span, mode: str, name: str) -> Command:
    """Return the least that Python does: see bounds.py."""
    script = shlex.join([sys.executable, str(_HERE / "bounds.py"), mode, str(catalogue.folder)])
    return _shell(catalogue, name, f"{_ids(span)} | {script}")


def stat(catalogue: Catalogue, span: Span) -> Command:
    """Return `git diff --stat`."""
    return Command(name="git diff --stat", arguments=["git", "diff", "--stat", *span], folder=catalogue.folder)


def python(code: str, catalogue: Catalogue) -> Command:
    """Return a Python that runs one line."""
    return Command(name=f'python -c "{code}"', arguments=[sys.executable, "-c", code], folder=catalogue.folder)


def changed_documents(catalogue: Catalogue, span: Span) -> list[tuple[str, str, str]]:
    """Return the path and both ids of each document that differs; a missing side is all zeros."""
    command = ["git", f"--git-dir={catalogue.folder}", "diff-tree", "-r", "--raw", "--no-renames", *span]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.replace("\t", " ").split(" ") for line in printed.splitlines() if line.endswith("/specs.md")]
    return [(row[5], row[2], row[3]) for row in rows]


@dataclass(frozen=True, slots=True)
class Peers:
    """A Python with the libraries that cachewatch is compared to."""

    folder: Path

    @classmethod
    def install(cls, folder: Path) -> "Peers":
        """Make a virtual environment of what requirements.txt pins."""
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "--require-hashes", "-r", str(_HERE / "requirements.txt")], check=True, capture_output=True
        )
        return cls(folder)

    def versions(self) -> dict[str, str]:
        """Return what is installed."""
        listed = subprocess.run(
            [self.folder / "bin/python", "-m", "pip", "freeze", "--quiet"], check=True, capture_output=True, text=True
        ).stdout
        return dict(line.split("==") for line in listed.splitlines() if "==" in line)

    def compare(self, catalogue: Catalogue, span: Span, way: str, *, name: str, output: Path) -> Command:
        """Return one of the ways of peer.py."""
        script: list[str | Path] = [self.folder / "bin/python", _HERE / "peer.py", way, catalogue.folder, *span]
        return Command(name=name, arguments=script, folder=catalogue.folder, output=output)

    def history(self, work_tree: Path, paths: Sequence[str], databases: Path) -> Command:
        """Return git-history of some documents, one process and one database for each."""
        databases.mkdir(exist_ok=True)
        lines = []
        for number, path in enumerate(paths):
            database = str(databases / f"{number}.db")
            options = ["--repo", str(work_tree), "--id", "hash", "--convert", _CONVERT, "--silent", "--wal"]
            command = [str(self.folder / "bin/git-history"), "file", database, path, *options]
            lines += [shlex.join(["rm", "-f", database, f"{database}-wal", f"{database}-shm"]), shlex.join(command)]
        return Command(name="git-history", arguments=["sh", "-ec", "\n".join(lines)], folder=work_tree)


def _ids(span: Span) -> str:
    return f"git diff-tree -r --raw {shlex.join(span)} | cut -d' ' -f3,4 | tr ' ' '\\n'"


def _shell(catalogue: Catalogue, name: str, line: str) -> Command:
    return Command(name=name, arguments=["sh", "-c", line], folder=catalogue.folder)
