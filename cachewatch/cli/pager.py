"""The user's pager, by git's rules: what is long and read on a terminal can be scrolled.

Git's own setting `core.pager` is not asked: it is often a program that only reads `git diff`,
and in somebody else's repository it could be any command.
"""

import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from time import monotonic

import click

from cachewatch.core.untrusted_text import safe

_VARIABLES = ("CACHEWATCH_PAGER", "GIT_PAGER", "PAGER")
_DEFAULT = "less"
# Quit if all fits the screen, pass colours on, leave the text there; where the user has not said otherwise.
_SETTINGS = {"LESS": "FRX", "LV": "-c"}

# As shells report what they cannot run.
_NOT_RUN = (126, 127)
# A pager that fails sooner has shown nobody anything.
_SOON_SECONDS = 2.0


def pager_command() -> str | None:
    """Return the pager that the user chose, a command for the shell; None if there is none."""
    chosen = next((os.environ[name] for name in _VARIABLES if name in os.environ), None)
    if chosen is None:
        return _DEFAULT if shutil.which(_DEFAULT) else None
    return None if chosen.strip() in ("", "cat") else chosen


def page(pieces: Iterable[bytes], command: str) -> Iterable[bytes]:
    """Write `pieces` into the pager as they come, and wait until its user is done.

    Returns what is still to be written because the pager failed: nothing, or all of it.
    """
    rest = iter(pieces)
    first = next(rest, None)  # no pager before there is anything to read
    if first is None:
        return ()
    begun = monotonic()
    process = _start(command)
    if process is None:
        return chain([first], rest)
    with _ending(process):
        given = _feed(process, first, rest)
    if process.returncode and (process.returncode in _NOT_RUN or monotonic() - begun < _SOON_SECONDS):
        _say_failed(command, process.returncode)
        return chain(given, rest)
    # Who quits early has seen enough; but exit codes are about all of it.
    deque(rest, maxlen=0)
    return ()


def _start(command: str) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(  # noqa: S603  the user's own setting is a command for the shell, as in git
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, env={**_SETTINGS, **os.environ}
        )
    except OSError:
        return None


def _feed(process: subprocess.Popen[bytes], first: bytes, rest: Iterator[bytes]) -> list[bytes]:
    """Write until all is written or nobody reads on; return what was written, or would have been."""
    assert process.stdin is not None
    given: list[bytes] = []
    with suppress(BrokenPipeError):
        for piece in chain([first], rest):
            given.append(piece)
            process.stdin.write(piece)
            process.stdin.flush()
    return given


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for the pager at the end, whatever happens; Ctrl-C is its own key until then."""
    assert process.stdin is not None
    try:
        yield
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()
        finally:
            signal.signal(signal.SIGINT, before)


def _say_failed(command: str, code: int) -> None:
    click.echo(
        f"cachewatch: warning: the pager {safe(command)!r} failed (exit code {code}), so the output is printed without it; "
        "set CACHEWATCH_PAGER, or use `cachewatch --no-pager`",
        err=True,
    )
