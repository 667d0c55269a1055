"""An Atom feed per subscription, made anew of all its newest entries whenever one is added."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET

from cachewatch import __version__
from cachewatch.channels.clean import markup, one_line
from cachewatch.channels.places import Place
from cachewatch.channels.publish import of_error
from cachewatch.config.model import FeedConfig
from cachewatch.core.delivery import SENT, Answer, Carrier, Letter, Parcel, Shelf, Verdict
from cachewatch.runtime.files import publish, read

_ATOM = "http://www.w3.org/2005/Atom"
_MOST_BYTES = 4 * 2**20  # of a whole feed: readers fetch it again and again
ET.register_namespace("", _ATOM)


class FeedChannel:
    """An Atom feed per subscription."""

    def __init__(self, config: FeedConfig) -> None:
        self.name = config.name
        self._config = config
        self._place = Place(config.path)

    def pack(self, letter: Letter) -> Sequence[Parcel]:
        """Return one entry, which knows the feed that it belongs to."""
        parcel = Parcel(
            key=letter.key,
            target=str(self._place.path(subscription=letter.subscription)),
            payload=_serialised(_entry(letter, self._url(letter))),
            content_type="application/atom+xml; type=entry; charset=utf-8",
            created=letter.created,
        )
        return [parcel]

    def repack(self, letter: Letter, original: Parcel) -> Parcel:  # noqa: ARG002  the contract of a channel
        """Return the same entry: the feed is written once more."""
        return original

    @contextmanager
    def open(self, shelf: Shelf) -> Iterator[Carrier]:
        """Begin a run."""
        yield _FeedCarrier(self._config, self._place, shelf)

    def _url(self, letter: Letter) -> str | None:
        return self._config.url and self._config.url.replace("{subscription}", letter.subscription)


class _FeedCarrier:
    """Writes feeds."""

    def __init__(self, config: FeedConfig, place: Place, shelf: Shelf) -> None:
        self._config = config
        self._place = place
        self._shelf = shelf

    def deliver(self, parcel: Parcel) -> Answer:
        """Write the feed with this entry and those that were sent before."""
        path = Path(parcel.target)
        older = self._shelf(parcel.target, self._config.entries)
        try:
            feed = _feed(parcel, older, self._config.entries)
        except ET.ParseError as error:
            return Answer(verdict=Verdict.DEAD, said=f"the entry is not XML: {error}")
        try:
            if read(path) != feed:
                base = self._place.base if path.is_relative_to(self._place.base) else path.parent
                publish(path, feed, base=base, mode=self._config.mode)
        except OSError as error:
            return of_error(error, path)
        return SENT


def _entry(letter: Letter, url: str | None) -> ET.Element:
    """Return the entry of a letter. Its id follows from the key, so a repeated entry is the same one."""
    feed_id = url or _urn(f"cachewatch:{letter.subscription}")
    entry = ET.Element(_name("entry"))
    _add(entry, "id", _urn(f"{feed_id}#{letter.key}"))
    _add(entry, "title", one_line(letter.title))
    _add(entry, "updated", _time(letter.created))
    _add(entry, "published", _time(letter.created))
    _add(ET.SubElement(entry, _name("author")), "name", "cachewatch")
    for tag in letter.tags:
        ET.SubElement(entry, _name("category"), term=one_line(tag))
    if letter.archive_url:
        ET.SubElement(entry, _name("link"), rel="alternate", href=one_line(letter.archive_url, 2000))
    _add(entry, "content", _body(markup(letter.html)) or markup(letter.text), type="html" if letter.html else "text")
    source = ET.SubElement(entry, _name("source"))
    _add(source, "id", feed_id)
    _add(source, "title", f"cachewatch {one_line(letter.subscription)}")
    _add(source, "updated", _time(letter.created))
    if url:
        ET.SubElement(source, _name("link"), rel="self", href=one_line(url, 2000))
    return entry


def _feed(parcel: Parcel, older: Iterable[Parcel], most: int) -> bytes:
    """Return the whole feed; raises ParseError if the entry, or what came of it, cannot be read again."""
    new = ET.fromstring(parcel.payload)  # noqa: S314  we wrote it, and expat refuses what would blow it up
    entries = {_text(new, "id"): (parcel, new)}
    for sent in older:
        try:
            entry = ET.fromstring(sent.payload)  # noqa: S314
        except ET.ParseError:
            continue  # it was readable when it was sent; one that no longer is takes none of the others along
        entries.setdefault(_text(entry, "id"), (sent, entry))
    feed = _head(new, max(_text(entry, "updated") for _, entry in entries.values()))
    for entry in _newest(list(entries.values()), parcel, most):
        feed.append(entry)
    data = _serialised(feed)
    ET.fromstring(data)  # noqa: S314  nobody shall get what cannot be parsed
    return data


def _newest(entries: list[tuple[Parcel, ET.Element]], new: Parcel, most: int) -> Iterator[ET.Element]:
    """Yield the newest entries, the one to be added always among them, as far as the feed stays of a size."""
    size, count = len(new.payload), 1
    for parcel, entry in sorted(entries, key=lambda found: (found[0].created, found[0].key), reverse=True):
        if parcel is not new:
            size, count = size + len(parcel.payload), count + 1
            if size > _MOST_BYTES or count > most:
                continue
        source = entry.find(_name("source"))
        if source is not None:
            entry.remove(source)  # it says what the head of the feed says
        yield entry


def _head(entry: ET.Element, updated: str) -> ET.Element:
    feed = ET.Element(_name("feed"))
    source = entry.find(_name("source"))
    for child in list(source) if source is not None else []:
        if child.tag == _name("updated"):
            child.text = updated
        feed.append(child)
    _add(feed, "generator", "cachewatch", version=__version__)
    return feed


def _body(html: str) -> str:
    """Return what is inside the body of an HTML document: an entry is shown inside another page."""
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


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(_name(name)) or ""


def _name(local: str) -> str:
    return f"{{{_ATOM}}}{local}"


def _urn(text: str) -> str:
    return uuid5(NAMESPACE_URL, text.encode("ascii", "backslashreplace").decode()).urn


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
