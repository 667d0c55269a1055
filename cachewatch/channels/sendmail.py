"""Mail through the machine's own sendmail program: its exit code is the answer."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from cachewatch.channels.escaping import one_line
from cachewatch.channels.mail_channel import NO_ADDRESS, MailChannel, is_address
from cachewatch.channels.mail_headers import LOCAL
from cachewatch.config.model import SendmailConfig
from cachewatch.core.delivery import SENT, DeliveryOutcome, DeliveryResult, Message, SentHistory, Transport

# sysexits.h; all others mean that it may work later.
_MEANINGS = {
    os.EX_DATAERR: DeliveryResult(outcome=DeliveryOutcome.DEAD),
    os.EX_NOUSER: DeliveryResult(outcome=DeliveryOutcome.DEAD, is_address=True),
    os.EX_NOHOST: DeliveryResult(outcome=DeliveryOutcome.DEAD, is_address=True),
    os.EX_USAGE: DeliveryResult(outcome=DeliveryOutcome.BLOCKED, is_channel=True),
    os.EX_NOPERM: DeliveryResult(outcome=DeliveryOutcome.BLOCKED, is_channel=True),
    os.EX_CONFIG: DeliveryResult(outcome=DeliveryOutcome.BLOCKED, is_channel=True),
}
_LATER = DeliveryResult(outcome=DeliveryOutcome.DEFERRED)
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TZ")  # no secret of ours is for another program


class SendmailChannel(MailChannel):
    """Mail through the machine's own sendmail program."""

    policy = LOCAL

    def __init__(self, config: SendmailConfig) -> None:
        super().__init__(config)
        self._config = config

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield _SendmailTransport(self._config, self.envelope_sender)


class _SendmailTransport:
    """Starts the program once for each message."""

    def __init__(self, config: SendmailConfig, sender: str) -> None:
        self._config = config
        self._sender = sender

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message."""
        if not is_address(message.target):
            return NO_ADDRESS
        command = [*self._config.command, "-f", self._sender, "--", message.target]
        with tempfile.TemporaryFile() as content, tempfile.TemporaryFile() as said:
            content.write(message.payload)
            content.seek(0)
            return self._run(command, content, said)

    def _run(self, command: list[str], message: IO[bytes], said: IO[bytes]) -> DeliveryResult:
        try:
            process = subprocess.Popen(  # noqa: S603  a list, from the operator's configuration
                command, stdin=message, stdout=said, stderr=said, env=_environment(), start_new_session=True
            )
        except OSError as error:
            words = one_line(f"{command[0]}: {error.strerror}")
            return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=words, is_channel=True)
        try:
            code = process.wait(self._config.timeout.total_seconds())
        except subprocess.TimeoutExpired:
            _kill(process)
            words = f"{command[0]}: did not finish within {self._config.timeout.total_seconds():g} seconds"
            return DeliveryResult(
                outcome=DeliveryOutcome.DEFERRED, detail=words, may_have_arrived=True, is_channel=True
            )
        return _meaning(code, _words(said))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"LC_ALL": "C"}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _words(said: IO[bytes]) -> str:
    said.seek(0)
    return one_line(said.read(4096).decode("utf-8", "replace"), 250)


def _meaning(code: int, words: str) -> DeliveryResult:
    if code == 0:
        return SENT
    answer = _MEANINGS.get(code, _LATER)
    how = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
    return DeliveryResult(
        outcome=answer.outcome,
        detail=f"{how}: {words}" if words else how,
        is_address=answer.is_address,
        is_channel=answer.is_channel,
        may_have_arrived=code < 0,
    )
