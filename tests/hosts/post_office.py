"""A mail server as a process of its own: `python -m hosts.post_office FOLDER SECONDS`.

Each message that it took is a file `NUMBER RECIPIENT` in FOLDER. It answers at most so many SECONDS after that, as servers do
that write to a slow disk: whoever dies meanwhile does not know that it was taken.
"""

# ruff: noqa: N802  aiosmtpd names its hooks after the commands of SMTP

import asyncio
import random
import sys
from itertools import count
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP

PORT = 25
READY = "ready"


class PostOffice:
    """Takes everything."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._numbers = count(1)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Take a message."""
        (recipient,) = envelope.rcpt_tos
        made = self._folder / f".{recipient}"
        made.write_bytes(envelope.content)
        made.rename(self._folder / f"{next(self._numbers):06} {recipient}")
        await asyncio.sleep(random.uniform(0, self._seconds))
        return "250 taken"


async def serve(folder: Path, seconds: float) -> None:
    """Listen everywhere, for ever."""
    office = PostOffice(folder, seconds)
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(office, hostname="mail"), "0.0.0.0", PORT)
    (folder / READY).touch()
    await server.serve_forever()


def taken(folder: Path, recipient: str) -> list[bytes]:
    """Return what was taken for somebody, in order."""
    return [path.read_bytes() for path in sorted(folder.glob(f"[0-9]* {recipient}"))]


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
