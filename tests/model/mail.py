"""A mail server on the loopback that takes, defers, refuses, dies or is away, as it is told."""

# ruff: noqa: N802  aiosmtpd names its hooks after the commands of SMTP

import socket
from asyncio import BaseTransport
from collections import defaultdict
from enum import StrEnum
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

RELAYING_DENIED = "Relaying denied"


class Mood(StrEnum):
    """What the server does with everybody."""

    ACCEPTS = "accepts"
    DEFERS = "defers"  # everybody, with 451
    REFUSES = "refuses"  # everybody, with 550
    SWALLOWS = "swallows"  # takes each message, and dies before it says so
    CUTS = "cuts"  # takes no message, and dies instead of saying so
    AWAY = "away"
    LOCKED = "locked"  # wants a login that we do not have


class MailServer:
    """Remembers what it took from whom, in order."""

    def __init__(self) -> None:
        self.mood = Mood.ACCEPTS
        self.refused: set[str] = set()
        self.turned_away: set[str] = set()  # by the mood alone, since somebody looked
        self.taken: defaultdict[str, list[bytes]] = defaultdict(list)
        # The controller asks itself whether it is there, so it has to know its port.
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._controller = _Controller(self, hostname="127.0.0.1", port=self.port, ready_timeout=30)

    def __enter__(self) -> "MailServer":
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    def forget(self) -> None:
        """Be as at the beginning."""
        self.mood = Mood.ACCEPTS
        self.refused.clear()
        self.taken.clear()

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        """Answer to MAIL."""
        if self.mood is Mood.LOCKED:
            return "530 5.7.0 authentication required"
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        """Answer to RCPT."""
        if address in self.refused:
            return "550 5.1.1 no such user"
        if self.mood is Mood.DEFERS:
            return "451 4.7.1 greylisted"
        if self.mood is Mood.REFUSES:
            self.turned_away.add(address)
            return f"550 5.7.1 {RELAYING_DENIED}"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Answer to a whole message."""
        if self.mood is not Mood.CUTS:
            (recipient,) = envelope.rcpt_tos
            self.taken[recipient].append(envelope.content)
        if self.mood in (Mood.CUTS, Mood.SWALLOWS):
            server.transport.abort()
        return "250 taken"


class _Controller(Controller):
    def factory(self) -> SMTP:
        return _Session(self.handler)


class _Session(SMTP):
    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        if self.event_handler.mood is Mood.AWAY:
            transport.abort()  # type: ignore[attr-defined]
