"""Mail put into a Maildir; the same parcel always under the same name, so that a retry adds nothing."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from cachewatch.channels.headers import LOCAL
from cachewatch.channels.mail import MailChannel, addresses
from cachewatch.channels.message import Mail
from cachewatch.channels.publish import of_error
from cachewatch.config.model import MaildirConfig
from cachewatch.core.delivery import SENT, Answer, Carrier, Letter, Parcel, Shelf

_FOLDERS = ("tmp", "new", "cur")
_LEFTOVER = 36 * 3600.0  # seconds after which, by Maildir's rules, a file in tmp is nobody's


class MaildirChannel(MailChannel):
    """Mail put into a Maildir: one message, whoever it is for."""

    policy = LOCAL

    def __init__(self, config: MaildirConfig) -> None:
        super().__init__(config)
        self._path = config.path

    def pack(self, letter: Letter) -> Sequence[Parcel]:
        """Return one message for the Maildir."""
        return [self._message(letter)]

    def repack(self, letter: Letter, original: Parcel) -> Parcel:
        """Return the mail once more, as a message of its own that refers to the first."""
        return self._message(letter, original.message_id or "")

    @contextmanager
    def open(self, shelf: Shelf) -> Iterator[Carrier]:  # noqa: ARG002  the contract of a channel
        """Begin a run."""
        yield _MaildirCarrier()

    def _message(self, letter: Letter, original: str | None = None) -> Parcel:
        return self.finish(Mail(letter, addresses(letter.to), original), str(self._path))


class _MaildirCarrier:
    """Writes messages the way Maildir wants it: into tmp, and from there into new."""

    def deliver(self, parcel: Parcel) -> Answer:
        """Write one message, unless it is there, read or unread."""
        folder = Path(parcel.target)
        name = _name(parcel)
        try:
            _prepare(folder)
            if not _is_there(folder, name):
                _write(folder, name, parcel.payload)
        except OSError as error:
            return of_error(error, folder)
        return SENT


def _name(parcel: Parcel) -> str:
    mark = sha256(f"{parcel.key}\0{parcel.message_id}".encode()).hexdigest()[:20]
    return f"{int(parcel.created.timestamp())}.{mark}.cachewatch"


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
