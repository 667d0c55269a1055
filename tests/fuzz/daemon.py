"""Feed a daemon with the worst documents that we know of, one after the other, and see whether it answers, and tells the rest.

    PYTHONPATH=tests python -m fuzz.daemon [--minutes 10]

Each revision brings a new version of a good package and another hostile document, as large as may be. Meanwhile
/healthz is asked ten times a second. Prints what was published and told, how long answers took, and what memory was used;
exits with 1 if a version was not told, an answer took longer than a second, or the daemon did not end in time.
"""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from socket import create_server
from typing import NamedTuple

import click
from helpers import catalogue, document, history, record
from test_scaling import STATES, TEXTS

_TEXT_BYTES = 31 * 2**20
_YAML_BYTES = 2**20 - 400
_SPECS = 4_900
_NAMES = 990
_CONFIG = """\
version: 1
state: {folder}/state
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d, poll: {every: 1s, jitter: 0s}}}
channels: {files: {type: file, path: "{folder}/out/{subscription}/{key}.{ext}", formats: [txt]}}
operators: {channels: []}
monitor: {listen: "127.0.0.1:{port}"}
subscriptions: {all: {channels: [files], changes: [all], limit: {hold_above: 10000000}}}
"""


class Hostile(NamedTuple):
    """What one revision brings."""

    name: str
    content: bytes


class Answers(threading.Thread):
    """Asks a daemon whether it is well, again and again."""

    def __init__(self, port: int) -> None:
        """Ask the daemon at a port of this machine."""
        super().__init__(daemon=True)
        self._port = port
        self.seconds: list[float] = []
        self.failed = 0
        self.is_over = False

    def run(self) -> None:
        """Ask until it is over."""
        while not self.is_over:
            begun = time.monotonic()
            try:
                client = HTTPConnection("127.0.0.1", self._port, timeout=60)
                client.request("GET", "/healthz")
                self.failed += client.getresponse().status != 200
                client.close()
            except OSError:
                self.failed += 1
            self.seconds.append(time.monotonic() - begun)
            time.sleep(0.1)


@click.command()
@click.option("--minutes", default=10.0, help="For how long.")
def main(minutes: float) -> None:
    """Feed a daemon with hostile documents."""
    with tempfile.TemporaryDirectory(prefix="cachewatch-test-") as name:
        sys.exit(_feed(Path(name), minutes * 60))


def _feed(folder: Path, seconds: float) -> int:
    history(folder / "upstream.git", catalogue({"good": [record(1, versions=["7.0"])]}))
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "cachewatch.yaml"
    config.write_text(_CONFIG.replace("{folder}", str(folder)).replace("{port}", str(port)), "utf-8")
    config.chmod(0o600)
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([sys.executable, "-m", "cachewatch", "daemon", "--config", str(config)], stderr=log)
        try:
            _wait(lambda: "stream.begun" in _text(folder / "log"))
            answers = Answers(port)
            answers.start()
            published, megabytes, slowest = _publish_all(folder, daemon.pid, seconds)
            answers.is_over = True
            begun = time.monotonic()
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(60)
            ending = time.monotonic() - begun
        finally:
            daemon.kill()
    told = [number for number in range(1, published + 1) if _version(number) in _told(folder)]
    click.echo(f"{published} revisions, {len(told)} told; the slowest took {slowest[0]:.0f} s: {slowest[1]}")
    click.echo(f"{len(answers.seconds):,} answers, {answers.failed} bad, the slowest took {max(answers.seconds):.2f} s")
    click.echo(f"at most {megabytes[0]:.0f} MB in the daemon, {megabytes[1]:.0f} MB with all that it started")
    click.echo(f"it ended with {code} after {ending:.1f} s")
    is_well = len(told) == published and not answers.failed and max(answers.seconds) < 1
    return int(not (is_well and code == 0))


def _publish_all(folder: Path, pid: int, seconds: float) -> tuple[int, tuple[float, float], tuple[float, str]]:
    """Publish one document after the other, each when the one before was told."""
    end, peak, slowest = time.monotonic() + seconds, (0.0, 0.0), (0.0, "")
    number = 0
    for number, hostile in enumerate(_hostile(), 1):
        begun = time.monotonic()
        _commit(folder / "upstream.git", number, hostile)
        while _version(number) not in _told(folder) and time.monotonic() < begun + 600:
            time.sleep(0.2)
            now = _megabytes(pid)
            peak = max(peak[0], now[0]), max(peak[1], now[1])
        slowest = max(slowest, (time.monotonic() - begun, hostile.name))
        click.echo(f"{number:4} {time.monotonic() - begun:6.1f} s  {hostile.name}", err=True)
        if time.monotonic() > end:
            break
    return number, peak, slowest


def _hostile() -> Iterator[Hostile]:
    while True:
        for name, text in TEXTS.items():
            yield Hostile(f"{name}, 31 MiB", text(_TEXT_BYTES))
            yield Hostile(f"{name}, 1 MiB", text(_YAML_BYTES))
        for name, states in STATES.items():
            before, after = states(_NAMES if "of one" in name or name == "long names" else _SPECS)
            yield Hostile(f"{name}, before", document(before, package="hostile"))
            yield Hostile(f"{name}, after", document(after, package="hostile"))


def _version(number: int) -> str:
    return f"7.{number:04}"  # none is the beginning of another


def _commit(upstream: Path, number: int, hostile: Hostile) -> None:
    files = catalogue({"good": [record(1 + number, versions=[_version(number)])]})
    files["_cache/develop/hostile/specs.md"] = hostile.content
    stream = b"commit refs/heads/main\ncommitter x <x@x> %d +0000\ndata 1\n.\nfrom refs/heads/main^0\n" % int(
        time.time()
    )
    for path, content in files.items():
        stream += b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
    subprocess.run(["git", f"--git-dir={upstream}", "fast-import", "--quiet"], input=stream, check=True)


def _told(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in (folder / "out").glob("*/*.txt"))


def _megabytes(pid: int) -> tuple[float, float]:
    """Return what a process has in memory, and what it and all that it started have together."""
    own = _resident(pid)
    return own, own + sum(map(_resident, _descendants(pid)))


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                for child in map(int, (task / "children").read_text().split()):
                    yield child
                    yield from _descendants(child)


def _resident(pid: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _wait(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.1)


if __name__ == "__main__":
    main()
