"""Write digests to files that others read: an archive, the latest digest of each subscription, or Atom feeds."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from errno import EACCES, EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM, EROFS
from hashlib import sha256
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Struct

from cachewatch import __version__
from cachewatch.config.sources_and_channels import FeedConfig, FileConfig
from cachewatch.core.escaping_and_mentions import file_name, markup, one_line, plain_lines
from cachewatch.report.digest_and_message_values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    OneByOne,
    RenderedDigest,
)
from cachewatch.report.template_rendering import render
from cachewatch.runtime.files_and_locks import publish, read

_FIELD = re.compile(r"\{([^{}]*)\}")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# One day, perhaps with a time, or two days; then a suffix that distinguishes digests of the same period.
_SHAPES = {"period": rf"{_DAY}(?:T[0-9]{{4,6}}Z?|\.\.{_DAY})?(?:-urgent)?(?:-[0-9a-f]{{8}})?"}
_PART = r"[A-Za-z0-9._+~-]+"


class OutputPlace:
    """A template of paths, such as /srv/www/{subscription}/{period}.{ext}."""

    def __init__(self, template: str) -> None:
        self.template = template
        self.fields = frozenset(_FIELD.findall(template))
        constant = Path(template.partition("{")[0] + "x" if self.fields else template)
        self.base = constant.absolute().parent  # the folder above the first part with a field

    def path(self, **values: str) -> Path:
        """Return the absolute path with `values` in place of the fields; no value can lead to another folder."""
        safe = {name: file_name(value) for name, value in values.items()}
        return Path(self.template.format_map(safe)).absolute()

    def base_of(self, path: Path) -> Path:
        """Return the folder above all fields of the template; the parent of `path` if an older template made `path`."""
        return self.base if path.is_relative_to(self.base) else path.parent

    def made(self) -> Iterator[Path]:
        """Yield the existing files whose paths fit the template, whoever wrote them."""
        template = str(Path(self.template).absolute())
        pieces = enumerate(_FIELD.split(template))  # every second one is the name of a field
        shapes = (_SHAPES.get(each, _PART) if number % 2 else re.escape(each) for number, each in pieces)
        shape = re.compile("".join(shapes))
        steps = _FIELD.sub("*", str(Path(template).relative_to(self.base)))
        for path in self.base.glob(steps):
            if shape.fullmatch(str(path)) and path.parent.resolve().is_relative_to(self.base.resolve()):
                yield path


# Errors that somebody has to repair, so that waiting does not help.
_OURS = {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, ELOOP, EISDIR, ENAMETOOLONG}


def of_error(error: OSError, path: Path) -> DeliveryResult:
    """Return the result of a delivery that failed to write `path`: blocked if a person must act, else deferred."""
    message = one_line(f"{path}: {error.strerror or error}", 300)
    if error.errno in _OURS:
        return DeliveryResult(DeliveryOutcome.BLOCKED, f"{message}; create the folder and give cachewatch write access")
    return DeliveryResult(DeliveryOutcome.DEFERRED, message)


# The type and the content of a file, by its ending.
_FORMS: Mapping[str, tuple[str, Callable[[RenderedDigest], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", lambda rendered: markup(rendered.markdown).encode()),
    "html": ("text/html; charset=utf-8", lambda rendered: markup(rendered.page or rendered.html).encode()),
    "json": ("application/json", lambda rendered: rendered.json),
    "txt": ("text/plain; charset=utf-8", lambda rendered: plain_lines(f"{rendered.title}\n\n{rendered.text}").encode()),
}


class PublishedChannel(OneByOne):
    """A base class for channels that write files for others to read."""

    def __init__(self, config: FileConfig | FeedConfig) -> None:
        self.name = config.name
        self._config = config
        self._place = OutputPlace(config.path)

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:  # noqa: ARG002  the contract of a channel
        """Return `original` itself, so that its file is written again."""
        return original


class FileChannel(PublishedChannel):
    """Writes digests to files."""

    _config: FileConfig

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message, the content of a file, for each configured format."""
        values = {"subscription": rendered.subscription, "period": rendered.period, "key": rendered.key}
        return [
            rendered.message(str(self._place.path(ext=ext, **values)), content(rendered), content_type)
            for ext in self._config.formats
            for content_type, content in [_FORMS[ext]]
        ]

    def end(self) -> None:
        """Remove the files that are older than the configured `keep`, if that is set."""
        if self._config.keep is not None:
            oldest = time.time() - self._config.keep.total_seconds()
            with suppress(OSError):  # the next run tries again
                for path in self._place.made():
                    if path.lstat().st_mtime < oldest and not path.is_symlink():
                        path.unlink()

    def deliver(self, message: Message) -> DeliveryResult:
        """Write the file of one message, unless it already has the same content, and return the result.

        A file that holds only the latest digest is not replaced by an older one; an archive keeps all digests.
        """
        path, content, fields = Path(message.target), message.payload, self._place.fields & {"period", "key"}
        try:
            if read(path) == content:
                return SENT
            # Without these fields, the file holds only the latest digest, and a later one may already be written.
            if not fields and any(sent.created > message.created for sent in self._sent_history(message.target, 1)):
                return SENT
            # In an archive, no other digest of the same period is overwritten.
            if fields == {"period"} and read(path) is not None:
                digits = sha256(message.key.encode()).hexdigest()[:8]
                path = path.with_name(f"{path.stem}-{digits}{path.suffix}")
            publish(path, content, base=self._place.base_of(path), mode=self._config.mode)
        except OSError as error:
            return of_error(error, path)
        return SENT


TEMPLATE = "feed.xml.j2"
_MOST_BYTES = 4 * 2**20  # of a whole feed: readers fetch it again and again
_LONGEST_SUMMARY = 1_000  # characters


class Feed(Struct, frozen=True, kw_only=True):
    """The metadata of a feed."""

    id: str
    title: str
    updated: str
    url: str = ""  # the address of the feed itself
    page: str = ""  # the address of the page that the feed belongs to
    version: str = __version__


class FeedEntry(Struct, frozen=True, kw_only=True):
    """An entry of a feed; it has either `content` or `sections`."""

    id: str
    title: str
    updated: str
    link: str = ""
    tags: tuple[str, ...] = ()
    summary: str = ""
    content: str = ""
    is_html: bool = False
    sections: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # heading, lines, and how many more there are


class _DigestEntry(Struct, frozen=True):
    """The content of a stored message: the feed entry of a digest, and the metadata of the feed."""

    feed: Feed
    entry: FeedEntry


_decode = msgspec.json.Decoder(_DigestEntry).decode


class FeedChannel(PublishedChannel):
    """Writes an Atom feed for each subscription: the whole file with the newest entries, whenever an entry is added."""

    _config: FeedConfig

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message: the metadata of the feed, and the entry of the digest, whose id has the digest's key."""
        name, addresses = rendered.subscription, (self._config.url, self._config.page)
        url, page = (one_line((each or "").replace("{subscription}", name), 2000) for each in addresses)
        feed_id, updated = url or urn(f"cachewatch:{name}"), timestamp(rendered.created)
        sentences = [line if line.endswith((".", "!", "?")) else f"{line}." for line in rendered.bullets]
        entry = FeedEntry(
            id=urn(f"{feed_id}#{rendered.key}"),
            title=one_line(rendered.title),
            updated=updated,
            link=one_line(rendered.archive_url or "", 2000),
            tags=tuple(map(one_line, rendered.tags)),
            summary=one_line(" ".join(sentences), _LONGEST_SUMMARY),
            content=markup(rendered.feed or rendered.text),
            is_html=bool(rendered.feed),
        )
        feed = Feed(id=feed_id, title=f"cachewatch {one_line(name)}", updated=updated, url=url, page=page)
        payload = msgspec.json.encode(_DigestEntry(feed, entry))
        return [rendered.message(str(self._place.path(subscription=name)), payload, "application/json")]

    def deliver(self, message: Message) -> DeliveryResult:
        """Write the feed of `message`, with its entry and those of the messages sent before; return the result."""
        path, most = Path(message.target), self._config.entries
        try:
            feed = _feed(message, self._sent_history(message.target, most), most)
            if read(path) != feed:
                publish(path, feed, base=self._place.base_of(path), mode=self._config.mode)
        except msgspec.DecodeError as error:
            return DeliveryResult(DeliveryOutcome.DEAD, f"the entry cannot be read: {error}")
        except OSError as error:
            return of_error(error, path)
        return SENT


def _feed(message: Message, older: Iterable[Message], most: int) -> bytes:
    """Return the feed with `message` and the newest of `older`: up to `most` entries in all, fewer if they are long."""
    new = _decode(message.payload)
    known = {new.entry.id: (message, new.entry)}
    for sent in older:
        with suppress(msgspec.DecodeError):  # it was readable when it was sent; the feed has the other entries
            entry = _decode(sent.payload).entry
            known.setdefault(entry.id, (sent, entry))
    # The new one always, and the newest of the others up to the limits of number and size.
    entries, size, count = [], len(message.payload), 1
    for sent, entry in sorted(known.values(), key=lambda each: (each[0].created, each[0].key), reverse=True):
        if sent is not message:
            size, count = size + len(sent.payload), count + 1
        if sent is message or (size <= _MOST_BYTES and count <= most):
            entries.append(entry)
    updated = max(entry.updated for _, entry in known.values())
    feed = msgspec.structs.replace(new.feed, updated=updated, page=new.feed.page or entries[0].link)
    return render(TEMPLATE, feed=feed, entries=entries).encode()


def urn(text: str) -> str:
    """Return a URN made from `text`, as Atom requires for ids; equal texts give equal ids."""
    return uuid5(NAMESPACE_URL, text.encode("ascii", "backslashreplace").decode()).urn


def timestamp(moment: datetime) -> str:
    """Return `moment` in UTC in the form that Atom requires: `2026-07-27T04:10:00Z`."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
