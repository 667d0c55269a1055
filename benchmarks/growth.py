"""Let a daemon see 2,000 commits, one after the other, and fit a line to the memory that it takes.

    python -m benchmarks.growth [--commits 2000] [--folder FOLDER]

The daemon polls a git repository, writes its state, mails two readers and writes files and a feed. It polls as soon as there is a
commit, and the next commit comes when all of it arrived. Prints memory at every hundredth commit, and what a commit adds to
it in the second half, by least squares. Exits with 1 if that is 2 kB or more, or if something did not arrive.
"""

import argparse
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import linear_regression
from typing import Any, NamedTuple

from aiosmtpd.controller import Controller

from benchmarks.soak import commit

_LIMIT_BYTES = 2_000
_EVERY = 10
_READERS = 2
_SECONDS = 120
_CONFIG = """\
version: 1
state: {folder}/state
sources: {{upstream: {{git: {folder}/upstream.git, poll: {{every: 1h}}}}}}
channels:
  mail:
    type: email
    from: cachewatch@example.org
    smtp: {{host: 127.0.0.1, port: {port}, security: none}}
  files: {{type: file, path: "{folder}/out/{{subscription}}-{{key}}.{{ext}}", formats: [json]}}
  feed: {{type: feed, path: "{folder}/out/{{subscription}}.atom", entries: 20}}
subscriptions:
  everything: {{to: [ann@example.org, bob@example.org], channels: [mail, files, feed], changes: [all]}}
"""


class Sample(NamedTuple):
    """What the daemon takes after so many commits: resident memory, and the part of it that is no file."""

    commits: int
    resident: int
    anonymous: int


class _Sink:
    def __init__(self) -> None:
        self.messages = 0

    async def handle_DATA(self, *_: object) -> str:  # noqa: N802  aiosmtpd's name for it
        self.messages += 1
        return "250 taken"


def main() -> int:
    """Run the daemon, and say whether its memory grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return _serve(options.serve)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        return _measure(Path(name), options.commits)


def _serve(path: Path) -> int:
    """Be the daemon; SIGUSR1 lets it poll, and keep house at every hundredth time."""
    from cachewatch.cli import once_daemon_preview as once_and_daemon  # noqa: PLC0415
    from cachewatch.config.reading_showing_warnings import read_config  # noqa: PLC0415
    from cachewatch.daemon.jobs_signals_and_health import Daemon  # noqa: PLC0415
    from cachewatch.store.transactions_and_sqlite import only_one  # noqa: PLC0415

    config = read_config(path)
    with only_one(config.folder):
        context = vars(once_and_daemon)["_opened"](config, "json")
        daemon = Daemon(context, lambda: read_config(path))
        waker, times = vars(daemon)["_waker"], count(1)

        def poll(*_: Any) -> None:
            waker.wake("poll upstream")
            if next(times) % 100 == 0:
                waker.wake("house")

        signal.signal(signal.SIGUSR1, poll)
        code = daemon.run()
        context.database.close()
    return code


def _measure(folder: Path, commits: int) -> int:
    upstream, sink = folder / "upstream.git", _Sink()
    subprocess.run(["git", "init", "-q", "--bare", "--initial-branch=main", str(upstream)], check=True)
    commit(upstream, 0)
    (folder / "out").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    controller = Controller(sink, hostname="127.0.0.1", port=port)
    controller.start()
    config, log = folder / "cachewatch.yaml", folder / "log"
    config.write_text(_CONFIG.format(folder=folder, port=port), "utf-8")
    config.chmod(0o600)
    command = [sys.executable, "-m", "benchmarks.growth", "--serve", str(config)]
    with log.open("wb") as file, subprocess.Popen(command, stderr=file) as daemon:
        try:
            _wait(daemon, lambda: '"source.polled"' in log.read_text("utf-8"), "the first poll")
            samples = list(_watch(daemon, upstream, sink, commits))
        finally:
            daemon.terminate()
            daemon.wait(60)
            controller.stop()
    errors = [line for line in log.read_text("utf-8").splitlines() if '"level":"info"' not in line.replace(" ", "")]
    print("\n".join(errors[:5]))
    return _judge(samples, sink, commits, daemon.returncode, len(errors))


def _watch(daemon: "subprocess.Popen[bytes]", upstream: Path, sink: _Sink, commits: int) -> Iterator[Sample]:
    begin = time.monotonic()
    for number in range(1, commits + 1):
        commit(upstream, number)
        daemon.send_signal(signal.SIGUSR1)
        _wait(daemon, lambda: sink.messages >= _READERS * number, f"commit {number}")  # noqa: B023  it is called here
        if number % _EVERY == 0:
            sample = _sample(daemon.pid, number)
            yield sample
            if number % 100 == 0:
                print(f"{time.monotonic() - begin:6.0f} s  {_line(sample)}", flush=True)


def _wait(daemon: "subprocess.Popen[bytes]", is_done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _SECONDS
    while not is_done():
        if daemon.poll() is not None:
            sys.exit(f"the daemon ended with {daemon.returncode} before {what}")
        if time.monotonic() > end:
            sys.exit(f"{what} did not arrive within {_SECONDS} seconds")
        time.sleep(0.02)


def _sample(pid: int, number: int) -> Sample:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    resident, anonymous = (int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
    return Sample(number, resident, anonymous)


def _line(sample: Sample) -> str:
    return (
        f"{sample.commits:5} commits  {sample.resident / 1e6:6.2f} MB, {sample.anonymous / 1e6:6.2f} MB of it no file"
    )


def _judge(samples: list[Sample], sink: _Sink, commits: int, code: int, errors: int) -> int:
    first, second = samples[: len(samples) // 2], samples[len(samples) // 2 :]
    for name, part in (("first", first), ("second", second)):
        print(f"{name} half: {_slope(part):8,.0f} bytes a commit, {_slope(part, 2):8,.0f} of them no file")
    print(f"{commits} commits, {sink.messages} mails, exit code {code}, {errors} lines of warnings and errors")
    return int(_slope(second) >= _LIMIT_BYTES or sink.messages != _READERS * commits or code != 0)


def _slope(samples: list[Sample], field: int = 1) -> float:
    return linear_regression([each.commits for each in samples], [each[field] for each in samples]).slope


if __name__ == "__main__":
    sys.exit(main())
