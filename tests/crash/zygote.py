"""Runs cachewatch many times, each a forked child of one process that has loaded everything, and lets each be killed.

Reads one JSON request a line: {"config", "hours", "trap", "mutant", "kill" or "stop": [POINT, N], "count": FILE, "command"}. At "stop"
a run stops and waits; with `trap` it stops before it begins, so that strace can follow it; `count` writes the points that it passes.
Prints {"pid": N} and {"status": N}. The process itself does the first request, so that all others inherit what it loaded.
"""

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import timedelta
from functools import partial
from typing import Any

import cachewatch.cli
import cachewatch.cli.once_daemon_preview
from cachewatch.cli import main
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import schema
from crash.mutants import MUTANTS
from crash.points import POINTS


def serve() -> None:
    """Answer requests until there are no more."""
    _warm_up(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run(request)
        print(json.dumps({"pid": pid}), flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": status}), flush=True)


def _warm_up(request: dict[str, Any]) -> None:
    """Do a pass here, and outlive it."""
    vars(cachewatch.cli.once_daemon_preview)["leading"] = _leading
    _set_arguments(request)
    with redirect_stderr(io.StringIO()) as said:
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    assert status == 0, said.getvalue()
    print(json.dumps({"status": status}), flush=True)


def _run(request: dict[str, Any]) -> None:
    """Be one `cachewatch once`, at another hour of the clock."""
    os.setsid()
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    later = timedelta(hours=request.get("hours", 0))
    now = schema.utc_now
    vars(cachewatch.cli.once_daemon_preview)["utc_now"] = lambda: now() + later
    if request.get("mutant"):
        MUTANTS[request["mutant"]]()
    if request.get("kill"):
        _end_at(request["kill"], signal.SIGKILL)
    if request.get("stop"):
        _end_at(request["stop"], signal.SIGSTOP)
    if request.get("count"):
        _count(request["count"])
    _set_arguments(request)
    if request.get("trap"):
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        main()
    except SystemExit as ended:
        # Taking down the interpreter would touch, and so copy, every page that was inherited.
        os._exit(int(ended.code or 0))


@contextmanager
def _leading(context: Context) -> Iterator[None]:
    """Lead without a heartbeat: no process of ours could be forked beside a thread."""
    context.database.lead(context.owner)
    yield


def _set_arguments(request: dict[str, Any]) -> None:
    sys.argv = ["cachewatch", *request.get("command", ["once"]), "--config", request["config"]]


def _end_at(place: tuple[str, int], how: int) -> None:
    """Send this process a signal at the so-manieth time that a point is passed."""
    point, number = place
    passed = 0

    def end() -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), how)

    _at(point, end)


def _count(file: str) -> None:
    """Write down each passing of each point."""
    counted = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for point in POINTS:
        _at(point, partial(os.write, counted, f"{point}\n".encode()))


def _at(point: str, act: Callable[[], object]) -> None:
    module, name, is_after = POINTS[point]
    original: Callable[..., Any] = getattr(module, name)

    def wrapper(*arguments: Any, **options: Any) -> Any:
        if not is_after:
            act()
        result = original(*arguments, **options)
        if is_after:
            act()
        return result

    setattr(module, name, wrapper)


if __name__ == "__main__":
    serve()
