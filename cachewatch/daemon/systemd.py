"""Tell systemd how we are: a datagram to the socket that it names, and nothing where there is none."""

import os
import socket
from contextlib import suppress

from cachewatch.core.untrusted_text import safe


def notify(*, status: str = "", is_ready: bool = False, is_stopping: bool = False, is_alive: bool = False) -> bool:
    """Send what is known, and tell whether somebody took it; see sd_notify(3). A socket that is gone is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    lines = ["READY=1"] if is_ready else []
    lines += ["STOPPING=1"] if is_stopping else []
    lines += ["WATCHDOG=1"] if is_alive else []
    # A line break would begin another assignment.
    lines += [f"STATUS={' '.join(safe(status).split())}"] if status else []
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
        client.connect("\0" + address[1:] if address.startswith("@") else address)
        client.sendall("\n".join(lines).encode())
        return True
    return False
