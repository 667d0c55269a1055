"""The process that becomes one run of cachewatch after the other; see zygote.py here and in tests/crash."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any, Self

from tools import finding_tests


class ForkingProcess:
    """A process that has loaded everything, and forks runs."""

    def __init__(self, module: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command, environment = [sys.executable, "-m", module], finding_tests()
        self._process = subprocess.Popen(command, **pipes, text=True, env=environment, start_new_session=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def warm_up(self, request: dict[str, Any]) -> None:
        """Let it do a pass of its own, before any other."""
        self._write(request)
        assert self._read() == {"status": 0}

    def _write(self, request: dict[str, Any]) -> None:
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


class Zygote(ForkingProcess):
    """The process of the model."""

    def __init__(self) -> None:
        super().__init__("model.zygote")
        self._pid = 0

    def run(self, request: dict[str, Any]) -> int:
        """Let a new process do a pass, and return its wait status; nothing that it started is left."""
        self._write(request)
        self._pid = self._read()["pid"]
        return self._ended(int(self._read()["status"]))

    def start(self, request: dict[str, Any]) -> int | None:
        """Let a new process do a pass and stay; return its wait status if it ended all the same."""
        self._write({**request, "stays": True})
        self._pid = self._read()["pid"]
        return self._passed()

    def go_on(self, request: dict[str, Any]) -> int | None:
        """Let the process that stayed do another pass; return its wait status if it ended."""
        self._write(request)
        return self._passed()

    def stop(self) -> int:
        """Tell the process that stayed to end, and return its wait status."""
        self._write({"end": True})
        return self._ended(int(self._read()["status"]))

    def _passed(self) -> int | None:
        answer = self._read()
        return None if "done" in answer else self._ended(int(answer["status"]))

    def _ended(self, status: int) -> int:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        return status
