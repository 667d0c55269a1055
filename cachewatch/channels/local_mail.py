"""Deliver mail on this machine: through its sendmail program, or into a Maildir.

The exit code of sendmail is the result of the delivery. In a Maildir the same message always has the same
file name, so that a retry adds nothing.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

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
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            words = f"{command[0]}: did not finish within {self._config.timeout.total_seconds():g} seconds"
            return DeliveryResult(
                outcome=DeliveryOutcome.DEFERRED, detail=words, may_have_arrived=True, is_channel=True
            )
        return _meaning(code, _words(said))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"LC_ALL": "C"}


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


_FOLDERS = ("tmp", "new", "cur")
_LEFTOVER = 36 * 3600.0  # seconds after which, by Maildir's rules, a file in tmp is nobody's


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
        yield _MaildirTransport()

    def _for_maildir(self, rendered: RenderedDigest, original: str | None = None) -> Message:
        return self.finish(Mail(rendered, addresses(rendered.to), original), str(self._path))


class _MaildirTransport:
    """Writes messages the way Maildir wants it: into tmp, and from there into new."""

    def deliver(self, message: Message) -> DeliveryResult:
        """Write one message, unless it is there, read or unread."""
        folder = Path(message.target)
        name = _name(message)
        try:
            _prepare(folder)
            if not _is_there(folder, name):
                _write(folder, name, message.payload)
        except OSError as error:
            return of_error(error, folder)
        return SENT


def _name(message: Message) -> str:
    mark = sha256(f"{message.key}\0{message.message_id}".encode()).hexdigest()[:20]
    return f"{int(message.created.timestamp())}.{mark}.cachewatch"


def _prepare(folder: Path) -> None:
    for name in _FOLDERS:
        (folder / name).mkdir(mode=0o700, parents=folder.parent.is_dir(), exist_ok=True)
    oldest = time.time() - _LEFTOVER
    for path in (folder / "tmp").glob("*.cachewatch"):
        with suppress(OSError):
            if path.lstat().st_mtime < oldest:
                path.unlink()


def _is_there(folder: Path, name: str) -> bool:
    if (folder / "new" / name).exists():
        return True
    return any(found.name.partition(":")[0] == name for found in (folder / "cur").iterdir())


def _write(folder: Path, name: str, data: bytes) -> None:
    temporary = folder / "tmp" / name
    temporary.unlink(missing_ok=True)  # of a run that was cut off
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        temporary.rename(folder / "new" / name)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync(folder / "new")


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
