"""Runs cachewatch many times, each a forked child of one process that has loaded everything.

Each request (see process.py) is {"config", "log", "moment", "seed", "kill": N, "locked": [N, COUNT], "mutant", "command", "stays"}.
With `kill` the process ends at its N-th call into service, state or channels, or at its first call of "store/FILE.py:FUNCTION"; with
`locked` the N-th writing transaction, and COUNT - 1 after it, find the database locked. A process that `stays` does a pass a request
until it is killed or reads {"end": true}, and prints {"done": true} after each.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

import cachewatch
from cachewatch.cli import config_commands, once_daemon_preview
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.errors import CachewatchError
from cachewatch.service.context_and_source_copies import Context
from cachewatch.service.passes_and_leadership import clean_up, create_digests, poll, resume
from cachewatch.service.sending_and_channel_faults import deliver
from cachewatch.store.transactions_and_sqlite import only_one
from model.mutants import MUTANTS
from model.process import Request, become, command, say, serve

_ROOT = Path(cachewatch.__file__).parent
_KILLED_IN = tuple(f"{_ROOT / room}{os.sep}" for room in ("service", "store", "channels"))


def _be_a_run(request: Request) -> int:
    become(request)
    if request.get("mutant"):
        MUTANTS[request["mutant"]]()
    if request.get("stays"):
        return _stay(request)
    _prepare(request)
    return _once(request)


def _prepare(request: Request) -> None:
    """Get ready for a pass, and for what shall go wrong in it."""
    random.seed(request["seed"])
    _FAULTS.writes = count(1)
    _FAULTS.locked = range(request["locked"][0], sum(request["locked"]))
    sys.setprofile(_killer(request["kill"]) if request["kill"] else None)


def _once(request: Request) -> int:
    _CLOCK.now = datetime.fromisoformat(request["moment"])
    return command(request)


def _stay(request: Request) -> int:
    """Do pass after pass without being started again; a job that fails is left to the next pass."""
    config = read_config(Path(request["config"]))
    _CLOCK.now = datetime.fromisoformat(request["moment"])
    with only_one(config.folder):
        context = once_daemon_preview._opened(config, "text")
        resume(context)
        while "end" not in request:
            _CLOCK.now = datetime.fromisoformat(request["moment"])
            _prepare(request)
            for job in _jobs(context):
                try:
                    job()
                except CachewatchError as error:
                    context.log.error("job.failed", error=str(error))
            sys.setprofile(None)
            say(done=True)
            request = json.loads(sys.stdin.readline())
        context.database.close()
    return 0


def _jobs(context: Context) -> Iterator[Callable[[], object]]:
    """Yield what a daemon does when all of it is due at once."""
    for source in context.config.sources.values():
        yield partial(poll, context, source)
    yield partial(create_digests, context)
    for channel in context.config.channels:
        yield partial(deliver, context, channel)
    yield partial(clean_up, context)


def _killer(place: int | str) -> Callable[[FrameType, str, Any], None]:
    """Return what ends this process the hard way: at its so-manieth call into what may be interrupted, or of a function."""
    calls = count(1)

    def look(frame: FrameType, what: str, _: Any) -> None:
        code = frame.f_code
        if what != "call" or not code.co_filename.startswith(_KILLED_IN):
            return
        if place in (next(calls), f"{Path(code.co_filename).relative_to(_ROOT)}:{code.co_name}"):
            os.kill(os.getpid(), signal.SIGKILL)

    return look


class _Clock:
    """A clock on which a millisecond passes whenever it is looked at, and on which one can sleep."""

    now = datetime(2025, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the present moment."""
        self.sleep(0.001)
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.now += timedelta(seconds=seconds)


class _Faults:
    """Which transactions that write find the database locked, as if another process held it for longer than we wait."""

    writes = count(1)
    locked = range(0)

    def meet(self, _1: object, _2: object, statement: str, *_: object) -> None:
        """Fail if that is one of them."""
        if statement == "BEGIN IMMEDIATE" and next(self.writes) in self.locked:
            raise OperationalError(statement, None, sqlite3.OperationalError("database is locked"))


_CLOCK = _Clock()
vars(once_daemon_preview)["utc_now"] = _CLOCK
vars(config_commands)["Context"] = partial(Context, clock=_CLOCK)
vars(time)["sleep"] = _CLOCK.sleep
_FAULTS = _Faults()
event.listen(Engine, "before_cursor_execute", _FAULTS.meet)

if __name__ == "__main__":
    # Whatever a pass forks is not what its calls are counted in.
    os.register_at_fork(after_in_child=lambda: sys.setprofile(None))
    serve(_once, _be_a_run)
