"""The process that becomes one run of cachewatch after the other, and what it does; see zygote.py here and in tests/crash."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from functools import cache
from typing import IO, Any, Self

from tools import finding_tests

from cachewatch.__main__ import main

Request = dict[str, Any]


class ForkingProcess:
    """A process that has loaded everything, and forks runs."""

    def __init__(self, module: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command, environment = [sys.executable, "-m", module], finding_tests()
        self._process = subprocess.Popen(command, **pipes, text=True, env=environment, start_new_session=True)
        self._pid = 0  # of the run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def warm_up(self, request: Request) -> None:
        """Let it do a pass of its own, before any other."""
        self._write(request)
        assert self._read() == {"status": 0}

    def _write(self, request: Request) -> None:
        stdin: IO[str] | None = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote ended"
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer

    def _begin(self, request: Request) -> int:
        """Let a new process begin, and return its number."""
        self._write(request)
        self._pid = int(self._read()["pid"])
        return self._pid

    def _ended(self, answer: dict[str, Any]) -> int:
        """Return the wait status of a run that ended; end what it left running, as a unit's control group would."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        return int(answer["status"])


class Zygote(ForkingProcess):
    """The process of the model."""

    def __init__(self) -> None:
        super().__init__("model.zygote")

    def run(self, request: Request) -> int:
        """Let a new process do a pass, and return its wait status; nothing that it started is left."""
        self._begin(request)
        return self._ended(self._read())

    def start(self, request: Request) -> int | None:
        """Let a new process do a pass and stay; return its wait status if it ended all the same."""
        self._begin({**request, "stays": True})
        return self._passed()

    def go_on(self, request: Request) -> int | None:
        """Let the process that stayed do another pass; return its wait status if it ended."""
        self._write(request)
        return self._passed()

    def stop(self) -> int:
        """Tell the process that stayed to end, and return its wait status."""
        self._write({"end": True})
        return self._ended(self._read())

    def _passed(self) -> int | None:
        answer = self._read()
        return None if "done" in answer else self._ended(answer)


def serve(warm_up: Callable[[Request], int], run: Callable[[Request], int]) -> None:
    """Do the first request here, so that all others inherit what it loads; each of these is `run` in a forked child.

    Reads one request a line, as JSON. Prints {"pid": N} when a child begins, and {"status": N} when it ended.
    """
    say_at()
    with redirect_stderr(io.StringIO()) as said:
        status = warm_up(json.loads(sys.stdin.readline()))
    assert status == 0, said.getvalue()
    say(status=status)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            # Taking down the interpreter would touch, and so copy, every page that was inherited.
            os._exit(run(json.loads(line)))
        say(pid=pid)
        say(status=os.waitpid(pid, 0)[1])


@cache
def say_at() -> int:
    """Return where answers go: what the commands print goes elsewhere."""
    return os.dup(1)


def say(**answer: Any) -> None:
    os.write(say_at(), f"{json.dumps(answer)}\n".encode())


def become(request: Request) -> None:
    """Be a run: lead a session, so that all of it can be ended, and write to the log of the request."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)


def command(request: Request) -> int:
    """Do what the request names, a pass if it names nothing, and return the exit code."""
    sys.argv = ["cachewatch", *request.get("command", ["once"]), "--config", request["config"]]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
