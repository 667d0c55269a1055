"""Runs `cachewatch once` many times from one process that has loaded everything, and lets each be killed.

Reads one JSON request a line: {"config": FILE, "hours": N, "trap": true, "mutant": NAME, "kill": [POINT, N]}.
Each run is a forked child; with `trap` it stops itself before it begins, so that strace can take hold of
it and count from there. Prints {"pid": N} when the child is there and {"status": N} when it has ended.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import cachewatch.cli
import cachewatch.cli.running
from cachewatch.cli import main
from cachewatch.service import context
from crash.mutants import MUTANTS
from crash.points import POINTS


def serve() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(request)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": status}), flush=True)


def _run(request: dict[str, Any]) -> None:
    """Be one `cachewatch once`, at another hour of the clock."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    later = timedelta(hours=request.get("hours", 0))
    now = context.utc_now
    vars(cachewatch.cli.running)["utc_now"] = lambda: now() + later
    if request.get("mutant"):
        MUTANTS[request["mutant"]]()
    if request.get("kill"):
        _kill_at(*request["kill"])
    sys.argv = ["cachewatch", "once", "--config", request["config"], "--log-format", "json"]
    if request.get("trap"):
        os.kill(os.getpid(), signal.SIGSTOP)
    main()


def _kill_at(point: str, number: int) -> None:
    """End this process the hard way at the `number`-th time that `point` is passed."""
    module, name, is_after = POINTS[point]
    original: Callable[..., Any] = getattr(module, name)
    passed = 0

    def stop() -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapper(*arguments: Any, **options: Any) -> Any:
        if not is_after:
            stop()
        result = original(*arguments, **options)
        if is_after:
            stop()
        return result

    setattr(module, name, wrapper)


if __name__ == "__main__":
    serve()
