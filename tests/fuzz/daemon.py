"""Feed a daemon with hostile documents: `PYTHONPATH=tests python -m fuzz.daemon [--minutes 10]`.

Each revision brings a version of a good package, alone and beside a hostile document; hostile environments, repositories, servers,
caches and registries are there all the time. Prints what was reported, times and memory. Exits with 1 if a version was not reported
(that of the healthy source within a minute), /healthz took longer than a second, or the daemon did not end in time.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import click
from gitservers import hostile_git
from helpers import catalogue, commit, document, history, record
from mailservers import free_port
from servers import Asked, Says, Server, ask, serving
from station import wait_for
from test_scaling import INDEXES, LOCKS, STATES, TEXTS, names
from upstream import descendants

_TEXT_BYTES = 31 * 2**20
_YAML_BYTES = 2**20 - 400
_SPECS = 4_900
_NAMES = 990
# Within how many seconds the healthy source is told, and all that is good in the repository of hostile documents.
_HEALTHY, _PATIENCE = 60, 600
_SUBSCRIPTION = {"channels": ["files"], "changes": ["all"], "limit": {"hold_above": 10_000_000}}


# The name of what one revision brings, and its files.
Hostile = tuple[str, Mapping[str, bytes]]


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
                self.failed += ask(f"127.0.0.1:{self._port}", "/healthz")[0] != 200
            except OSError:
                self.failed += 1
            self.seconds.append(time.monotonic() - begun)
            time.sleep(0.1)


@click.command()
@click.option("--minutes", default=10.0, help="For how long.")
def main(minutes: float) -> None:
    """Feed a daemon with hostile documents."""
    with tempfile.TemporaryDirectory(prefix="cachewatch-test-") as name:
        try:
            sys.exit(_feed(Path(name), minutes * 60))
        finally:
            subprocess.run(["rm", "-rf", Path(name) / "deep.git"], check=False)  # too deep for Python


def _feed(folder: Path, seconds: float) -> int:
    port = free_port()
    config = folder / "cachewatch.yaml"
    with ExitStack() as stack, (folder / "log").open("wb") as log:
        config.write_text(json.dumps(_configuration(folder, port, stack)), "utf-8")
        config.chmod(0o600)
        daemon = subprocess.Popen([sys.executable, "-m", "cachewatch", "daemon", "--config", str(config)], stderr=log)
        try:
            # What is published before both streams have begun is never told.
            streams = [f"stream.begun subscription={name} " for name in ("healthy", "theirs")]
            wait_for(lambda: all(each in _text(folder / "log") for each in streams), seconds=_PATIENCE)
            answers = Answers(port)
            answers.start()
            published, megabytes, slowest, healthy = _publish_all(folder, daemon.pid, seconds)
            answers.is_over = True
            begun = time.monotonic()
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(60)
            ending = time.monotonic() - begun
        finally:
            daemon.kill()
    texts = [_told(folder, name) for name in ("healthy", "theirs")]
    told = [number for number in range(1, published + 1) if all(_version(number) in text for text in texts)]
    click.echo(f"{published} revisions, {len(told)} told; the slowest took {slowest[0]:.0f} s: {slowest[1]}")
    click.echo(f"the healthy source was told within {healthy[0]:.0f} s; the slowest beside: {healthy[1]}")
    click.echo(f"{len(answers.seconds):,} answers, {answers.failed} bad, the slowest took {max(answers.seconds):.2f} s")
    click.echo(f"at most {megabytes[0]:.0f} MB in the daemon, {megabytes[1]:.0f} MB with all that it started")
    click.echo(f"it ended with {code} after {ending:.1f} s")
    is_well = len(told) == published and healthy[0] < _HEALTHY and not answers.failed and max(answers.seconds) < 1
    is_well = is_well and (folder / "mine").exists()
    return int(not (is_well and code == 0))


def _configuration(folder: Path, port: int, stack: ExitStack) -> dict[str, object]:
    """Return a configuration with all that is hostile, whose servers run until `stack` ends."""
    (folder / "mine").write_text("of the user")
    sources: dict[str, dict[str, object]] = {
        "healthy": {"git": _repository(folder / "healthy.git")},
        "theirs": {"git": _repository(folder / "theirs.git")},
        "no-end": {"git": stack.enter_context(hostile_git(refs=2**40))},
        "error": {"git": stack.enter_context(hostile_git(error=2**20))},
        **{name: {"git": path} for name, path in _repositories(folder).items()},
        **_caches(stack.enter_context(serving(_hostile_server))),
    }
    for source in sources.values():
        source |= {"stale_after": "4000d", "poll": {"every": "1s", "jitter": "0s", "timeout": "5s"}}
    sources["theirs"]["poll"] = {"every": "1s", "jitter": "0s"}
    matches: dict[str, dict[str, object]] = {name: {"sources": [name]} for name in ("healthy", "theirs")}
    matches |= {name: {"environment": path} for name, path in _environments(folder).items()}
    matches["others"] = {"sources": [f"!{name}" for name in ("healthy", "theirs")]}
    return {
        "state": str(folder / "state"),
        "sources": sources,
        "channels": {
            "files": {"type": "file", "path": f"{folder}/out/{{subscription}}/{{key}}.{{ext}}", "formats": ["txt"]}
        },
        "operators": {"channels": []},
        "monitor": {"listen": f"127.0.0.1:{port}"},
        "subscriptions": {name: {**_SUBSCRIPTION, "match": match} for name, match in matches.items()},
    }


def _repository(folder: Path) -> str:
    return str(history(folder, catalogue({"good": [record(1, versions=["7.0"])]})))


def _repositories(folder: Path) -> dict[str, str]:
    """Make repositories on which git would hang, say too much or run deep, and one with the index of a stranger."""
    names = ("alternates", "includes", "pipe", "deep", "index")
    made = {name: Path(_repository(folder / f"{name}.git")) for name in names}
    (made["alternates"] / "objects/info").mkdir(exist_ok=True)
    lines = "".join(f"/nowhere/{'a' * 100}/{number}\n" for number in range(3_000))
    (made["alternates"] / "objects/info/alternates").write_text(lines)
    with (made["includes"] / "config").open("a", newline="") as config:
        config.write("[include]\n" + "".join(f"\tpath = file-{number}\n" for number in range(101)))
    os.mkfifo(made["pipe"] / "more")
    with (made["pipe"] / "config").open("a", newline="") as config:
        config.write("[include]\r\n\tpath = \\\r\nmore\r\n")
    subprocess.run(["mkdir", "-p", made["deep"] / "objects" / "/".join("a" * 1500)], check=True)
    (made["index"] / "cachewatch-history.db").symlink_to(folder / "mine")
    (made["index"] / "cachewatch-history.db-journal").symlink_to(folder / "mine")
    return {name: str(path) for name, path in made.items()}


def _environments(folder: Path) -> dict[str, str]:
    """Write a manifest that expands to gigabytes, and lock files that are large and that were read in the square of it."""
    contents = {
        "matrix/spack.yaml": LOCKS["matrices in matrices"](900_000),
        "large/spack.lock": LOCKS["nodes"](40 * 2**20),
        "propagate/spack.lock": LOCKS["propagated variants"](4 * 2**20),
    }
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir()
        path.write_bytes(content)
    return {Path(name).parent.name: str(folder / name) for name in contents}


def _caches(server: Server) -> dict[str, dict[str, object]]:
    """Return an index, a list of slow ones, images that name each other, and a registry that asks for a long login."""
    host = server.url.partition("//")[2]
    return {
        "cache": {"type": "buildcache", "url": f"{server.url}/cache"},
        "list": {"type": "catalogue", "url": f"{server.url}/cache_spack_io_index.json"},
        "images": {"type": "buildcache", "url": f"oci+http://{host}/a/images"},
        "login": {"type": "buildcache", "url": f"oci+http://{host}/a/login"},
    }


def _hostile_server(asked: Asked) -> Says:
    if asked.path.startswith("/v2/a/login/"):
        return Says(401, headers={"WWW-Authenticate": "Bearer " + "a" * 60_000})
    if asked.path.startswith("/v2/a/images/"):
        return Says(body=_IMAGES.get(asked.path.rpartition("/")[2], b"{}"))
    if asked.path.endswith("cache_spack_io_index.json"):
        listed = {f"v{n}": [{"label": "root", "url": f"s3://x/v{n}/build_cache/index.json"}] for n in range(20)}
        return Says(body=json.dumps(listed).encode())
    if asked.path == "/cache/build_cache/index.json":
        return Says(body=_INDEX)
    return Says(404, wait=4.0 if asked.path.endswith("/index.json") else 0)


def _images() -> dict[str, bytes]:
    content = json.dumps({"layers": [{"digest": f"sha256:{'0' * 64}"}]}).encode()
    found = {}
    for _ in range(3):
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        found[digest] = content
        content = json.dumps({"manifests": [{"digest": digest}] * 64}).encode()
    return {**found, "index.spack": content}


_IMAGES = _images()
_INDEX = b'{"database": {"version": "7", "installs": {' + INDEXES["propagated variants"](4 * 2**20) + b"}}}"


def _publish_all(
    folder: Path, pid: int, seconds: float
) -> tuple[int, tuple[float, float], tuple[float, str], tuple[float, str]]:
    """Publish one revision after the other, each when the one before was told."""
    end, peak, slowest, healthy = time.monotonic() + seconds, (0.0, 0.0), (0.0, ""), (0.0, "")
    number = 0
    for number, (name, files) in enumerate(_hostile(), 1):
        begun = time.monotonic()
        good = catalogue({"good": [record(1 + number, versions=[_version(number)])]})
        commit(folder / "theirs.git", {**good, **files}, time.time())
        commit(folder / "healthy.git", good, time.time())
        waiting = {"healthy", "theirs"}
        while waiting and time.monotonic() < begun + _PATIENCE:
            time.sleep(0.2)
            now = _megabytes(pid)
            peak = max(peak[0], now[0]), max(peak[1], now[1])
            told = {each for each in waiting if _version(number) in _told(folder, each)}
            if "healthy" in told:
                healthy = max(healthy, (time.monotonic() - begun, name))
            waiting -= told
        if "healthy" in waiting:
            healthy = max(healthy, (time.monotonic() - begun, name))
        slowest = max(slowest, (time.monotonic() - begun, name))
        click.echo(f"{number:4} {time.monotonic() - begun:6.1f} s  {name}", err=True)
        if time.monotonic() > end:
            break
    return number, peak, slowest, healthy


def _hostile() -> Iterator[Hostile]:
    while True:
        for count in (140, 400):
            one = document([record(1, stacks=names("s", count), versions=names("1.", count))])
            files = {f"_cache/develop/p{number}/specs.md": one for number in range(40)}
            yield f"{count} versions in {count} stacks, 40 times", files
        for state in ("before", "after"):
            one = document([record(3 + len(state))])
            tags = {f"_cache/v1.{number}/zlib/specs.md": one for number in range(8_000)}
            yield f"8,000 tags, {state}", tags
        for name, text in TEXTS.items():
            yield _document(f"{name}, 31 MiB", text(_TEXT_BYTES))
            yield _document(f"{name}, 1 MiB", text(_YAML_BYTES))
        for name, states in STATES.items():
            before, after = states(_NAMES if "of one" in name or name == "long names" else _SPECS)
            yield _document(f"{name}, before", document(before, package="hostile"))
            yield _document(f"{name}, after", document(after, package="hostile"))


def _document(name: str, content: bytes) -> Hostile:
    return name, {"_cache/develop/hostile/specs.md": content}


def _version(number: int) -> str:
    return f"7.{number:04}"  # none is the beginning of another


def _told(folder: Path, subscription: str) -> str:
    return "".join(path.read_text("utf-8") for path in (folder / "out").glob(f"{subscription}/*.txt"))


def _megabytes(pid: int) -> tuple[float, float]:
    """Return what a process has in memory, and what it and all that it started have together."""
    own = _resident(pid)
    return own, own + sum(map(_resident, descendants(pid)))


def _resident(pid: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


if __name__ == "__main__":
    main()
