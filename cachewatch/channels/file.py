"""Digests as files: an archive by period, or the latest one of each subscription."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

from cachewatch.channels.digest_pages import DigestPages
from cachewatch.channels.escaping import markup, plain_lines
from cachewatch.channels.path_templates import Place
from cachewatch.channels.write_failures import of_error
from cachewatch.config.model import FileConfig
from cachewatch.core.delivery import SENT, DeliveryResult, Message, RenderedDigest, SentHistory, Transport
from cachewatch.runtime.atomic_files import publish, read

_TYPES = {"md": "text/markdown", "html": "text/html", "json": "application/json", "txt": "text/plain"}


class FileChannel:
    """Digests as files."""

    def __init__(self, config: FileConfig) -> None:
        self.name = config.name
        self._config = config
        self._place = Place(config.path)

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one file for each format."""
        return [self._message(rendered, ext) for ext in self._config.formats]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:  # noqa: ARG002  the contract of a channel
        """Return the same file: it is put into its place once more."""
        return original

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:
        """Begin a run; at its end, files are removed that are older than `keep`."""
        transport = _FileTransport(self._config, self._place, sent_history)
        yield transport
        if self._config.keep is not None and transport.has_written:
            _remove(self._place, DigestPages(self._place, self._config.mode), self._config.keep)

    def _message(self, rendered: RenderedDigest, ext: str) -> Message:
        path = self._place.path(subscription=rendered.subscription, period=rendered.period, key=rendered.key, ext=ext)
        kind = _TYPES[ext]
        return Message(
            key=rendered.key,
            target=str(path),
            payload=_content(rendered, ext),
            content_type=kind if ext == "json" else f"{kind}; charset=utf-8",
            created=rendered.created,
        )


class _FileTransport:
    """Puts files into their places."""

    def __init__(self, config: FileConfig, place: Place, sent_history: SentHistory) -> None:
        self._config = config
        self._place = place
        self._shelf = sent_history
        self._pages = DigestPages(place, config.mode)
        self.has_written = False

    def deliver(self, message: Message) -> DeliveryResult:
        """Write one file, unless it is there already."""
        path = Path(message.target)
        try:
            if not self._is_there(path, message) and not self._is_outdated(message):
                path = self._free(path, message)
                self._write(path, message.payload)
            if self._pages.is_page(path, message.payload):
                self._pages.link_neighbours(path)
        except OSError as error:
            return of_error(error, path)
        return SENT

    def _is_there(self, path: Path, message: Message) -> bool:
        content = read(path)
        if content is not None and self._pages.is_page(path, message.payload):
            content = self._pages.unlinked(content)
        return content == message.payload

    def _write(self, path: Path, content: bytes) -> None:
        if self._pages.is_page(path, content):
            content = self._pages.linked(path, content)
        publish(path, content, base=self._base(path), mode=self._config.mode)
        self.has_written = True

    def _free(self, path: Path, message: Message) -> Path:
        """Return where the message goes: beside what another digest of the same period has there, never over it."""
        is_archive = "period" in self._place.fields and "key" not in self._place.fields
        if not is_archive or read(path) is None:
            return path
        return path.with_name(f"{path.stem}-{sha256(message.key.encode()).hexdigest()[:8]}{path.suffix}")

    def _is_outdated(self, message: Message) -> bool:
        """Return whether the place is for the latest digest, and a later one is there."""
        if self._place.fields & {"period", "key"}:
            return False
        return any(sent.created > message.created for sent in self._shelf(message.target, 1))

    def _base(self, path: Path) -> Path:
        """Return the folder that the operator named; a message of an earlier configuration has its own."""
        return self._place.base if path.is_relative_to(self._place.base) else path.parent


def _content(rendered: RenderedDigest, ext: str) -> bytes:
    match ext:
        case "json":
            return rendered.json
        case "html":
            return markup(rendered.page or rendered.html).encode()
        case "md":
            return markup(rendered.markdown).encode()
        case _:
            return plain_lines(rendered.text).encode()


def _remove(place: Place, pages: DigestPages, keep: timedelta) -> None:
    oldest = time.time() - keep.total_seconds()
    with suppress(OSError):  # the next run tries again
        for path in place.made():
            about = path.lstat()
            if about.st_mtime < oldest and not path.is_symlink():
                path.unlink()
                pages.link_neighbours(path)
