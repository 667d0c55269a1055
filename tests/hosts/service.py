"""Cachewatch with shorter times, so that many faults take minutes: `python -m hosts.service HOST COMMAND ...`."""

import socket
import sys
from datetime import timedelta

from cachewatch.__main__ import main
from cachewatch.daemon import jobs_signals_and_health
from cachewatch.extensions.shared_state import postgresql
from cachewatch.service import recipients_and_retries

LASTING, HEARTBEAT = timedelta(seconds=4), timedelta(seconds=1)


_SHORTER = (
    (jobs_signals_and_health, "HEARTBEAT", HEARTBEAT),
    (jobs_signals_and_health, "_TICK", timedelta(seconds=1)),
    (postgresql, "_LEADERS_PAUSE", f"{LASTING.seconds}s"),
    (recipients_and_retries, "_MINUTES", (1 / 60, 2 / 60, 5 / 60)),
    (recipients_and_retries, "_WITHOUT_DEADLINE", timedelta(seconds=5)),
)


def shorten() -> None:
    """Let everything that waits for minutes wait for seconds."""
    for module, name, value in _SHORTER:
        assert hasattr(module, name), name
        setattr(module, name, value)


if __name__ == "__main__":
    socket.sethostname(sys.argv.pop(1))
    shorten()
    main()
