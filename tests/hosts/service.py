"""Cachewatch with shorter times, so that many faults take minutes: `python -m hosts.service HOST COMMAND ...`."""

import socket
import sys
from datetime import timedelta

import cachewatch.daemon.jobs_signals_and_health
from cachewatch.__main__ import main
from cachewatch.extensions.shared_state import postgresql
from cachewatch.service import recipients_and_retries

LASTING, HEARTBEAT = timedelta(seconds=4), timedelta(seconds=1)


def shorten() -> None:
    """Let everything that waits for minutes wait for seconds."""
    vars(cachewatch.daemon.jobs_signals_and_health)["HEARTBEAT"] = HEARTBEAT
    vars(postgresql)["_LEADERS_PAUSE"] = f"{LASTING.seconds}s"
    vars(cachewatch.daemon.jobs_signals_and_health)["_TICK"] = timedelta(seconds=1)
    vars(recipients_and_retries)["_MINUTES"] = (1 / 60, 2 / 60, 5 / 60)


if __name__ == "__main__":
    socket.sethostname(sys.argv.pop(1))
    shorten()
    main()
