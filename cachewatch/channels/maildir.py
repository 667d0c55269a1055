"""Mail put into a Maildir; the same message always under the same name, so that a retry adds nothing."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from cachewatch.channels.mail_channel import MailChannel, addresses
from cachewatch.channels.mail_headers import LOCAL
from cachewatch.channels.mail_message import Mail
from cachewatch.channels.write_failures import of_error
from cachewatch.config.model import MaildirConfig
from cachewatch.core.delivery import SENT, DeliveryResult, Message, RenderedDigest, SentHistory, Transport

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
