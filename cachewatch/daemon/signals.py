"""Signals of the daemon: SIGTERM and SIGINT stop it, SIGHUP reloads the configuration."""

import os
import signal
from collections.abc import Callable
from typing import Any

Handler = Callable[[int, Any], None]


def handle(*, stop: Handler, reload: Handler) -> int:
    """Handle the signals, and return a file descriptor that is readable once one arrived.

    The daemon waits for it instead of for a lock: a handler may take no lock that a waiter holds.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number, handler in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        signal.signal(number, handler)
    return reader
