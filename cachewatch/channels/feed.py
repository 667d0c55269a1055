"""Atom feeds, one for each subscription: each is rewritten with its newest entries when one is added."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

import msgspec
from msgspec import Struct

from cachewatch import __version__
from cachewatch.channels.digest_files import PublishedChannel, of_error
from cachewatch.config.channels import FeedConfig
from cachewatch.core.escaping_and_mentions import markup, one_line
from cachewatch.report.digest_and_message_values import SENT, DeliveryOutcome, DeliveryResult, Message, RenderedDigest
from cachewatch.report.template_rendering import render
from cachewatch.runtime.files_and_locks import publish, read

TEMPLATE = "feed.xml.j2"
_MOST_BYTES = 4 * 2**20  # of a whole feed: readers fetch it again and again
_LONGEST_SUMMARY = 1_000  # characters


class Feed(Struct, frozen=True, kw_only=True):
    """The metadata of a feed."""

    id: str
    title: str
    updated: str
    url: str = ""  # its own address
    page: str = ""  # the address of the page that it belongs to
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
    """The stored message of a digest: its entry, and the feed's metadata."""

    feed: Feed
    entry: FeedEntry


_decode = msgspec.json.Decoder(_DigestEntry).decode


class FeedChannel(PublishedChannel):
    """Writes an Atom feed for each subscription."""

    def __init__(self, config: FeedConfig) -> None:
        super().__init__(config)
        self._config = config

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one entry, with the metadata of its feed."""
        target = str(self._place.path(subscription=rendered.subscription))
        payload = msgspec.json.encode(_entry(rendered, self._config))
        return [rendered.message(target, payload, "application/json")]

    def deliver(self, message: Message) -> DeliveryResult:
        """Write the feed with this entry and those sent before."""
        path, most = Path(message.target), self._config.entries
        try:
            feed = _feed(message, self._sent_history(message.target, most), most)
        except msgspec.DecodeError as error:
            return DeliveryResult(DeliveryOutcome.DEAD, f"the entry cannot be read: {error}")
        except ET.ParseError as error:
            return DeliveryResult(DeliveryOutcome.DEAD, f"the feed is not XML: {error}")
        try:
            if read(path) != feed:
                publish(path, feed, base=self._place.base_of(path), mode=self._config.mode)
        except OSError as error:
            return of_error(error, path)
        return SENT


def _entry(rendered: RenderedDigest, config: FeedConfig) -> _DigestEntry:
    """Return the entry of a digest; its id depends only on the digest's key, so a repeated entry has the same id."""
    url, page = (
        one_line((address or "").replace("{subscription}", rendered.subscription), 2000)
        for address in (config.url, config.page)
    )
    feed_id, updated = url or urn(f"cachewatch:{rendered.subscription}"), timestamp(rendered.created)
    sentences = [line if line.endswith((".", "!", "?")) else f"{line}." for line in rendered.bullets]
    html = rendered.feed or _body(rendered.html)
    entry = FeedEntry(
        id=urn(f"{feed_id}#{rendered.key}"),
        title=one_line(rendered.title),
        updated=updated,
        link=one_line(rendered.archive_url or "", 2000),
        tags=tuple(map(one_line, rendered.tags)),
        summary=one_line(" ".join(sentences), _LONGEST_SUMMARY),
        content=markup(html or rendered.text),
        is_html=bool(html),
    )
    title = f"cachewatch {one_line(rendered.subscription)}"
    return _DigestEntry(Feed(id=feed_id, title=title, updated=updated, url=url, page=page), entry)


def _feed(message: Message, older: Iterable[Message], most: int) -> bytes:
    """Return the whole feed with a new entry and `older` ones; its page is by default that of the newest digest."""
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
    feed = msgspec.structs.replace(
        new.feed, updated=max(entry.updated for _, entry in known.values()), page=new.feed.page or entries[0].link
    )
    data = render(TEMPLATE, feed=feed, entries=entries).encode()
    ET.fromstring(data)  # noqa: S314  nobody shall get what cannot be parsed; we wrote it
    return data


def _body(html: str) -> str:
    """Return the content of the body of an HTML document, since feed readers show an entry inside another page."""
    start = html.lower().find("<body")
    start = html.find(">", start) + 1 if start >= 0 else 0
    end = html.lower().rfind("</body")
    return html[start : end if end >= 0 else len(html)].strip()


def urn(text: str) -> str:
    """Return an id in the form that Atom requires; equal texts give equal ids."""
    return uuid5(NAMESPACE_URL, text.encode("ascii", "backslashreplace").decode()).urn


def timestamp(moment: datetime) -> str:
    """Return a time in the form of Atom."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
