"""An Atom feed per subscription, which is written anew from its newest entries whenever one is added."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

from cachewatch import __version__
from cachewatch.channels.chats import markup, one_line
from cachewatch.channels.files import PublishedChannel, of_error
from cachewatch.config.channels import FeedConfig
from cachewatch.report.values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    RenderedDigest,
)
from cachewatch.runtime.files import publish, read

_ATOM = "http://www.w3.org/2005/Atom"
_MOST_BYTES = 4 * 2**20  # of a whole feed: readers fetch it again and again
_LONGEST_SUMMARY = 1_000  # characters
ET.register_namespace("", _ATOM)


class FeedChannel(PublishedChannel):
    """Writes an Atom feed for each subscription."""

    def __init__(self, config: FeedConfig) -> None:
        super().__init__(config)
        self._config = config

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one entry, which includes the metadata of its feed."""
        urls = (
            url and url.replace("{subscription}", rendered.subscription)
            for url in (self._config.url, self._config.page)
        )
        message = Message(
            key=rendered.key,
            target=str(self._place.path(subscription=rendered.subscription)),
            payload=_serialised(_entry(rendered, *urls)),
            content_type="application/atom+xml; type=entry; charset=utf-8",
            created=rendered.created,
        )
        return [message]

    def deliver(self, message: Message) -> DeliveryResult:
        """Write the feed with this entry and those that were sent before."""
        path, most = Path(message.target), self._config.entries
        try:
            feed = _feed(message, self._sent_history(message.target, most), most)
        except ET.ParseError as error:
            return DeliveryResult(DeliveryOutcome.DEAD, f"the entry is not XML: {error}")
        try:
            if read(path) != feed:
                publish(path, feed, base=self._place.base_of(path), mode=self._config.mode)
        except OSError as error:
            return of_error(error, path)
        return SENT


def _entry(rendered: RenderedDigest, url: str | None, page: str | None) -> ET.Element:
    """Return the entry of a digest; `url` is the address of the feed, `page` that of its web page.

    Its id follows from the digest's key, so a repeated entry has the same id.
    """
    feed_id = url or _urn(f"cachewatch:{rendered.subscription}")
    entry = ET.Element(_name("entry"))
    _add(entry, "id", _urn(f"{feed_id}#{rendered.key}"))
    _add(entry, "title", one_line(rendered.title))
    _add(entry, "updated", _time(rendered.created))
    _add(entry, "published", _time(rendered.created))
    _add(ET.SubElement(entry, _name("author")), "name", "cachewatch")
    for tag in rendered.tags:
        ET.SubElement(entry, _name("category"), term=one_line(tag))
    if rendered.archive_url:
        _link(entry, "alternate", rendered.archive_url)
    if rendered.bullets:
        sentences = [line if line.endswith((".", "!", "?")) else f"{line}." for line in rendered.bullets]
        _add(entry, "summary", one_line(" ".join(sentences), _LONGEST_SUMMARY), type="text")
    html = rendered.feed or _body(rendered.html)
    _add(entry, "content", markup(html or rendered.text), type="html" if html else "text")
    entry.append(_source(rendered, feed_id, url, page))
    return entry


def _source(rendered: RenderedDigest, feed_id: str, url: str | None, page: str | None) -> ET.Element:
    """Return the element `source` of an entry, with the metadata of its feed."""
    source = ET.Element(_name("source"))
    _add(source, "id", feed_id)
    _add(source, "title", f"cachewatch {one_line(rendered.subscription)}")
    _add(source, "updated", _time(rendered.created))
    if url:
        _link(source, "self", url)
    if page:
        _link(source, "alternate", page)
    return source


def _feed(message: Message, older: Iterable[Message], most: int) -> bytes:
    """Return the whole feed of a new entry and `older` ones; raises ParseError if the entry or the feed is not XML."""
    new = ET.fromstring(message.payload)  # noqa: S314  we wrote it, and expat refuses what would blow it up
    entries = {_text(new, "id"): (message, new)}
    for sent in older:
        try:
            entry = ET.fromstring(sent.payload)  # noqa: S314
        except ET.ParseError:
            continue  # it was readable when it was sent; the feed has the other entries
        entries.setdefault(_text(entry, "id"), (sent, entry))
    # The new one always, and the newest of the others up to the limits of number and size.
    newest, size, count = [], len(message.payload), 1
    for sent, entry in sorted(entries.values(), key=lambda each: (each[0].created, each[0].key), reverse=True):
        if sent is not message:
            size, count = size + len(sent.payload), count + 1
        if sent is message or (size <= _MOST_BYTES and count <= most):
            newest.append(entry)
    feed = _head(new, newest[0], max(_text(entry, "updated") for _, entry in entries.values()))
    for entry in newest:
        if (source := entry.find(_name("source"))) is not None:
            entry.remove(source)  # it says what the head of the feed says
        feed.append(entry)
    data = _serialised(feed)
    ET.fromstring(data)  # noqa: S314  nobody shall get what cannot be parsed
    return data


def _head(entry: ET.Element, newest: ET.Element, updated: str) -> ET.Element:
    """Return the feed without entries, with the metadata in `entry`; without a page, it links to the newest digest."""
    feed = ET.Element(_name("feed"))
    source = entry.find(_name("source"))
    for child in list(source) if source is not None else []:
        if child.tag == _name("updated"):
            child.text = updated
        feed.append(child)
    page = newest.find(f"{_name('link')}[@rel='alternate']")
    if page is not None and feed.find(f"{_name('link')}[@rel='alternate']") is None:
        _link(feed, "alternate", page.get("href", ""))
    _add(feed, "generator", "cachewatch", version=__version__)
    return feed


def _body(html: str) -> str:
    """Return the content of the body of an HTML document, since an entry is shown inside another page."""
    start = html.lower().find("<body")
    start = html.find(">", start) + 1 if start >= 0 else 0
    end = html.lower().rfind("</body")
    return html[start : end if end >= 0 else len(html)].strip()


def _serialised(element: ET.Element) -> bytes:
    ET.indent(element)
    data: bytes = ET.tostring(element, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _add(parent: ET.Element, name: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, _name(name), attributes).text = text


def _link(parent: ET.Element, rel: str, address: str) -> None:
    ET.SubElement(parent, _name("link"), rel=rel, href=one_line(address, 2000))


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(_name(name)) or ""


def _name(local: str) -> str:
    return f"{{{_ATOM}}}{local}"


def _urn(text: str) -> str:
    return uuid5(NAMESPACE_URL, text.encode("ascii", "backslashreplace").decode()).urn


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
