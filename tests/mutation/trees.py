"""Copies of the project in which tests run while one module of it is another."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mutation import watching


@dataclass(frozen=True)
class End:
    """How pytest ended: its exit code, None if it had to be killed; and the outcome of each test, and what it took."""

    code: int | None
    tests: Mapping[str, tuple[str, float]]

    @property
    def failed(self) -> list[tuple[str, str]]:
        """The tests that failed, and how."""
        return [(test, outcome) for test, (outcome, _) in self.tests.items() if outcome in ("failed", "timeout")]


class Tree:
    """One copy."""

    def __init__(self, project: Path, folder: Path) -> None:
        """Copy what git would commit of `project` to `folder`."""
        self.folder = folder
        listed = _output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], project)
        self.files = sorted(path for path in listed.split("\0") if path and (project / path).is_file())
        shutil.rmtree(folder, ignore_errors=True)
        for path in self.files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project / path, folder / path)
        self._environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'tests'}"}
        # By their hashes: two changes within a second, of one size, would be taken for one.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "cachewatch"]
        _output(compiling, folder, self._environment)
        script = "import cachewatch; print(cachewatch.__file__)"
        found = _output([sys.executable, "-c", script], Path("/"), self._environment)
        if not found.startswith(f"{folder}/"):
            raise RuntimeError(f"{found} is imported, not what is in {folder}")

    @property
    def fingerprint(self) -> str:
        """Two trees with one fingerprint have the same code."""
        code = [(self.folder / path).read_bytes() for path in self.files if path.endswith(".py")]
        return hashlib.sha256(b"\0".join(code)).hexdigest()[:16]

    @contextmanager
    def changed(self, path: Path, code: str) -> Iterator[str]:
        """Put other code into a module for a time, and say what it was."""
        original = (self.folder / path).read_text("utf-8")
        (self.folder / path).write_text(code, "utf-8")
        try:
            yield original
        finally:
            (self.folder / path).write_text(original, "utf-8")

    def measure(self, files: Sequence[str], settings: Path) -> End:
        """Run all tests of these files under coverage."""
        return self._pytest(["-m", "coverage", "run", f"--rcfile={settings}"], files, {})

    def run(self, tests: Sequence[str], seconds: Mapping[str, float], *options: str) -> End:
        """Run these tests in their order, each for some times the seconds that it took before."""
        if not tests:
            return End(0, {})
        # Whatever else the machine does meanwhile: a test that is merely slow must not be taken for one that hangs.
        plan = {test: max(120, 30 * seconds[test]) for test in tests}
        return self._pytest([], sorted({test.partition("::")[0] for test in tests}), plan, *options)

    def _pytest(self, under: Sequence[str], files: Sequence[str], plan: Mapping[str, float], *options: str) -> End:
        report, plans = (self.folder.with_suffix(suffix) for suffix in (".report", ".plan"))
        scratch = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}-", dir=self.folder.parent))
        report.write_text("{}", "utf-8")
        plans.write_text(json.dumps(plan), "utf-8")
        plugins = ["-p", "no:cacheprovider", "-p", "mutation.watching"]
        pytest = ["-m", "pytest", "-q", *plugins, f"--basetemp={scratch / 'tests'}"]
        command = [sys.executable, *under, *pytest, *options, *files]
        environment = self._environment | {watching.REPORT: str(report), watching.PLAN: str(plans)}
        with (
            self.folder.with_suffix(".log").open("wb") as log,
            subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            ) as process,
        ):
            with suppress(subprocess.TimeoutExpired):
                process.wait(60 + sum(plan.values()) if plan else None)
            code = process.poll()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what a test may have left
        _clear(scratch)
        return End(code, json.loads(report.read_text("utf-8")))


def _clear(scratch: Path) -> None:
    """Remove what tests wrote, and first what they mounted: the next ones would fail for it, whatever was changed."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    for place in mounted:
        if place.startswith(f"{scratch}/"):
            subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(scratch, ignore_errors=True)


def _output(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
