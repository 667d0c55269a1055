"""Leave the daemon running against a repository that gets commits every few seconds, and look for leaks.

    python -m benchmarks.soak [--minutes 10] [--seconds 3] [--folder FOLDER]

Prints one line every half minute: memory, file descriptors, children and what was delivered, then
what they were in the second and in the last fifth of the time. Exits with 1 if something grew or got lost.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.documents import Signature, document, tags_file

_TAG = "develop"
_PACKAGES = 40
_CONFIG = """\
version: 1
state: {state}
sources:
  upstream: {{git: {upstream}, poll: {{every: 2s, jitter: 0s, timeout: 1m}}}}
channels:
  files: {{type: file, path: "{out}/files/{{subscription}}-{{period}}-{{key}}.{{ext}}", formats: [json]}}
  feed: {{type: feed, path: "{out}/{{subscription}}.atom", entries: 20}}
  box: {{type: maildir, path: {out}/Maildir, from: cachewatch@example.org, list_domain: cachewatch.example.org}}
subscriptions:
  everything: {{when: each revision, channels: [files, feed, box], to: [reader@example.org], changes: [all]}}
"""


@dataclass(frozen=True)
class Sample:
    """What the daemon takes at one moment."""

    seconds: float
    kilobytes: int
    descriptors: int
    children: int
    delivered: int


def main() -> int:
    """Run the daemon for a while, and say whether anything grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=3, help="between commits")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        return _soak(Path(name), options.minutes * 60, options.seconds)


def _soak(folder: Path, seconds: float, pause: float) -> int:
    upstream, out = folder / "upstream.git", folder / "out"
    subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(upstream)], check=True)
    commit(upstream, 0)
    for part in ("files", "Maildir"):
        (out / part).mkdir(parents=True)
    config = folder / "cachewatch.yaml"
    config.write_text(_CONFIG.format(state=folder / "state", upstream=upstream, out=out), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-m", "cachewatch", "daemon", "--config", str(config), "--log-format", "json"]
        daemon = subprocess.Popen(command, stderr=log)
        try:
            samples = list(_watch(daemon, upstream, folder, seconds, pause))
        finally:
            daemon.terminate()
            code = daemon.wait(60)
    return _judge(samples, out, code, folder / "log")


def _watch(
    daemon: "subprocess.Popen[bytes]", upstream: Path, folder: Path, seconds: float, pause: float
) -> Iterator[Sample]:
    begin, number, said = time.monotonic(), 0, 0.0
    out, log = folder / "out", folder / "log"
    while (now := time.monotonic() - begin) < seconds:
        time.sleep(pause)
        number += 1
        commit(upstream, number)
        if daemon.poll() is not None:
            sys.exit(f"the daemon ended with {daemon.returncode}: {log.read_text('utf-8')[-2000:]}")
        sample = _sample(daemon.pid, now, out)
        yield sample
        if now - said > 30:
            said = now
            print(_line(sample), flush=True)
    time.sleep(15)  # for the last commits to be told


def commit(upstream: Path, number: int) -> None:
    """Change one package, so that every commit is news with a name of its own."""
    packages = range(_PACKAGES) if number == 0 else [number % _PACKAGES]
    files = {"_data/tags.yaml": tags_file([(_TAG, ["e4s"])])} if number == 0 else {}
    for package in packages:
        name = f"package-{package:02}"
        signature = Signature(
            "gcc@12.3.0", "ubuntu22.04", "linux", "x86_64_v3", ("e4s",), ("build_system=cmake",), f"1.{number}"
        )
        files[f"_cache/{_TAG}/{name}/specs.md"] = document(name, _TAG, [(signature, range(20))], seed=number)
    parent = b"" if number == 0 else b"from refs/heads/main^0\n"
    stream = (
        b"commit refs/heads/main\ncommitter soak <soak@localhost> %d +0000\ndata 1\n.\n" % int(time.time()) + parent
    )
    for path, content in files.items():
        stream += b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content)
    subprocess.run(["git", f"--git-dir={upstream}", "fast-import", "--quiet"], input=stream, check=True)


def _sample(pid: int, now: float, out: Path) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    delivered = len(list((out / "files").glob("*.json"))) if (out / "files").exists() else 0
    return Sample(now, kilobytes, len(os.listdir(f"/proc/{pid}/fd")), len(children), delivered)  # noqa: PTH208


def _line(sample: Sample) -> str:
    return (
        f"{sample.seconds:5.0f} s  {sample.kilobytes / 1024:6.1f} MB  {sample.descriptors:3} descriptors  "
        f"{sample.children:2} children  {sample.delivered:4} digests"
    )


def _judge(samples: list[Sample], out: Path, code: int, log: Path) -> int:
    fifth = max(1, len(samples) // 5)
    early, late = samples[fifth : 2 * fifth], samples[-fifth:]
    told = {name for path in (out / "files").glob("*.json") for name in _versions(path)}
    committed = {f"1.{number}" for number in range(1, len(samples) + 1)}
    errors = [line for line in log.read_text("utf-8").splitlines() if json.loads(line)["level"] == "error"]
    found = {
        "memory (MB)": [median(s.kilobytes for s in part) / 1024 for part in (early, late)],
        "descriptors": [median(s.descriptors for s in part) for part in (early, late)],
        "children": [median(s.children for s in part) for part in (early, late)],
    }
    for name, (before, after) in found.items():
        print(f"{name}: {before:.1f} -> {after:.1f}")
    print(f"commits: {len(committed)}, told: {len(committed & told)}, errors: {len(errors)}, exit code: {code}")
    print("\n".join(errors[:5]))
    (memory, memory_late), (files, files_late), (children, children_late) = found.values()
    is_flat = memory_late <= memory + 5 and files_late <= files + 2 and children_late <= children + 1
    return int(not (is_flat and committed <= told and not errors and code == 0))


def _versions(path: Path) -> set[str]:
    """Return every version that a digest speaks of, wherever it does."""
    text = path.read_text("utf-8")
    return {word.strip('",') for word in text.replace(" -> ", " ").split() if word.strip('",').startswith("1.")}


if __name__ == "__main__":
    sys.exit(main())
