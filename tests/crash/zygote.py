"""Runs cachewatch many times, each a forked child of one process that has loaded everything, and lets each be killed.

Each request (see model/process.py) is {"config", "log", "hours", "trap", "mutant", "kill" or "stop": [POINT, N], "count": FILE, "command"}.
At "stop" a run stops and waits; with `trap` it stops before it begins, so that strace can follow it; `count` writes the points that it passes.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from model.process import Request, become, command, serve

import cachewatch.cli.once_daemon_preview
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import schema
from crash.mutants import MUTANTS
from crash.points import POINTS


@contextmanager
def _leading(context: Context) -> Iterator[None]:
    """Lead without a heartbeat: no process of ours could be forked beside a thread."""
    context.database.lead(context.owner)
    yield


def _run(request: Request) -> int:
    """Be one `cachewatch once`, at another hour of the clock."""
    become(request)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    later = timedelta(hours=request.get("hours", 0))
    now = schema.utc_now
    vars(cachewatch.cli.once_daemon_preview)["utc_now"] = lambda: now() + later
    if request.get("mutant"):
        MUTANTS[request["mutant"]]()
    for name, how in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
        if request.get(name):
            _end_at(request[name], how)
    if request.get("count"):
        counted = os.open(request["count"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for point in POINTS:
            _at(point, partial(os.write, counted, f"{point}\n".encode()))
    if request.get("trap"):
        os.kill(os.getpid(), signal.SIGSTOP)
    return command(request)


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
    vars(cachewatch.cli.once_daemon_preview)["leading"] = _leading
    serve(command, _run)
