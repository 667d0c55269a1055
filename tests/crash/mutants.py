"""Wrong ways of doing it, which the crash test must find: they show that it has teeth."""

import os
import re
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from cachewatch.config.settings_and_subscriptions import Config
from cachewatch.report.digest_and_message_values import Message, open_channel
from cachewatch.service import deciding_and_storing, digest_assembly_and_hold_times, sending_and_channel_faults
from cachewatch.service.context_and_source_copies import Context
from cachewatch.store import cursors_and_remembered as cursors


def _cursor_first() -> None:
    """Move the cursor in a transaction of its own, before the digest is stored."""
    pin = Context.pin

    def pin_and_move(self: Context, advances: Any) -> None:
        pin(self, advances)
        with self.database.write() as connection:
            cursors.advance(connection, advances, self.clock())

    Context.pin = pin_and_move  # type: ignore[method-assign]


def _send_first() -> None:
    """Send while the digest is made, and store afterwards that it was sent."""
    pack = digest_assembly_and_hold_times.pack_messages

    def pack_and_send(config: Config, *others: Any) -> Any:
        packed = pack(config, *others)
        for each in packed:
            with open_channel(config.channels[each.channel]).open(lambda *_: ()) as transport:
                for message in each.messages:
                    transport.deliver(message)
        return packed

    vars(deciding_and_storing)["pack_messages"] = pack_and_send


def _random_id() -> None:
    """Give every attempt a Message-ID of its own."""
    attempt = sending_and_channel_faults._attempt

    def attempt_anew(transport: Any, message: Message) -> Any:
        header = f"Message-ID: <{uuid4()}@example.org>".encode()
        return attempt(transport, replace(message, payload=re.sub(rb"Message-ID:\s+<[^>]*>", header, message.payload)))

    sending_and_channel_faults._attempt = attempt_anew


def _no_flush() -> None:
    """Rename files into their places without having flushed them."""
    vars(os)["fsync"] = lambda _: None


MUTANTS = {"cursor first": _cursor_first, "send first": _send_first, "random id": _random_id, "no flush": _no_flush}
