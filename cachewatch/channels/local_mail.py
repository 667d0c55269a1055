"""Deliver mail on this machine: through its sendmail program, or into a Maildir.

The exit code of sendmail is the result of the delivery. In a Maildir the same message always has the same
file name, so that a retry adds nothing.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from cachewatch.channels.chats import one_line
from cachewatch.channels.files import of_error
from cachewatch.channels.mail import LOCAL, NO_ADDRESS, Mail, MailChannel, addresses, is_address
from cachewatch.config.channels import MaildirConfig, SendmailConfig
from cachewatch.report.values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
    SentHistory,
    Transport,
)
from cachewatch.runtime.files import publish

# sysexits.h; all others mean that it may work later.
_MEANINGS = {
    os.EX_DATAERR: DeliveryResult(DeliveryOutcome.DEAD),
    os.EX_NOUSER: DeliveryResult(DeliveryOutcome.DEAD, is_address=True),
    os.EX_NOHOST: DeliveryResult(DeliveryOutcome.DEAD, is_address=True),
    os.EX_USAGE: DeliveryResult(DeliveryOutcome.BLOCKED, is_channel=True),
    os.EX_NOPERM: DeliveryResult(DeliveryOutcome.BLOCKED, is_channel=True),
    os.EX_CONFIG: DeliveryResult(DeliveryOutcome.BLOCKED, is_channel=True),
}
_LATER = DeliveryResult(DeliveryOutcome.DEFERRED)
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TZ")  # no secret of ours is for another program


class SendmailChannel(MailChannel):
    """Mail through the machine's own sendmail program, which is started once for each message."""

    policy = LOCAL

    def __init__(self, config: SendmailConfig) -> None:
        super().__init__(config)
        self._config = config

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield self

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message."""
        if not is_address(message.target):
            return NO_ADDRESS
        seconds = self._config.timeout.total_seconds()
        command = [*self._config.command, "-f", self.envelope_sender, "--", message.target]
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"LC_ALL": "C"}
        with tempfile.TemporaryFile() as said:
            try:
                code = subprocess.run(  # noqa: S603  a list, from the operator's configuration
                    command,
                    input=message.payload,
                    stdout=said,
                    stderr=said,
                    env=environment,
                    timeout=seconds,
                    check=False,
                ).returncode
            except OSError as error:
                words = one_line(f"{command[0]}: {error.strerror}")
                return DeliveryResult(DeliveryOutcome.BLOCKED, words, is_channel=True)
            except subprocess.TimeoutExpired:
                words = f"{command[0]}: did not finish within {seconds:g} seconds"
                return DeliveryResult(DeliveryOutcome.DEFERRED, words, may_have_arrived=True, is_channel=True)
            said.seek(0)
            words = one_line(said.read(4096).decode("utf-8", "replace"), 250)
        if code == 0:
            return SENT
        how = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
        detail = f"{how}: {words}" if words else how
        return replace(_MEANINGS.get(code, _LATER), detail=detail, may_have_arrived=code < 0)


class MaildirChannel(MailChannel):
    """Mail put into a Maildir: one message, whoever it is for."""

    policy = LOCAL

    def __init__(self, config: MaildirConfig) -> None:
        super().__init__(config)
        self._path = config.path

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for the Maildir."""
        return [self._for_maildir(rendered)]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the mail once more, as a message of its own that refers to the first."""
        return self._for_maildir(rendered, original.message_id or "")

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield self

    def deliver(self, message: Message) -> DeliveryResult:
        """Write one message, unless it is there, read or unread; who reads a Maildir passes over hidden files."""
        folder, identity = Path(message.target), f"{message.key}\0{message.message_id}".encode()
        name = f"{int(message.created.timestamp())}.{sha256(identity).hexdigest()[:20]}.cachewatch"
        try:
            if not (folder / "new" / name).exists() and not any((folder / "cur").glob(f"{name}*")):
                publish(folder / "new" / name, message.payload, base=folder, mode=0o600)
            for other in ("tmp", "cur"):
                (folder / other).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            return of_error(error, folder)
        return SENT

    def _for_maildir(self, rendered: RenderedDigest, original: str | None = None) -> Message:
        return self.finish(Mail(rendered, addresses(rendered.to), original), str(self._path))
