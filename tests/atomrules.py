"""What is wrong with an Atom feed, by the MUSTs of RFC 4287 and the list of the W3C's feed validation service.

Sections are those of the RFC. What the W3C's list adds, and only warns of, is marked with its name there
(validator.w3.org/feed/docs): feeds of ours have none of these either.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

ATOM = "{http://www.w3.org/2005/Atom}"
# Section 3.3: RFC 3339 with an uppercase T and Z.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ONCE = {
    "feed": ("generator", "icon", "id", "logo", "rights", "subtitle", "title", "updated"),
    "entry": ("content", "id", "published", "rights", "source", "summary", "title", "updated"),
}
_KNOWN = {
    "feed": {*_ONCE["feed"], "author", "category", "contributor", "entry", "link"},
    "entry": {*_ONCE["entry"], "author", "category", "contributor", "link"},
}
# What readers drop, and the W3C warns of (SecurityRisk, SecurityRiskAttr, DangerousStyleAttr).
_RISKS = {"script", "style", "object", "embed", "iframe", "meta", "link", "form", "input", "base"}
_ALONE = {"br", "hr", "img"}


def problems(data: bytes) -> list[str]:
    """Return what is wrong with a feed."""
    if not data.startswith(b"<?xml version='1.0' encoding='utf-8'?>"):
        return ["section 2: XML without a declaration in UTF-8"]
    feed = ET.fromstring(data)
    if feed.tag != f"{ATOM}feed":
        return [f"section 4.1.1: {feed.tag} is not a feed"]
    entries = feed.findall(f"{ATOM}entry")
    found = [*_container(feed, "feed"), *_links(feed), *_order(feed), *_ids(feed, entries)]
    if not feed.findall(f"{ATOM}author") and not all(entry.findall(f"{ATOM}author") for entry in entries):
        found.append("section 4.1.1: neither the feed nor every entry has an author")
    if not feed.findall(f"{ATOM}link[@rel='self']"):
        found.append("section 4.1.1 (MissingSelf): no link to the feed itself")
    for entry in entries:
        found += [*_container(entry, "entry"), *_links(entry), *_entry(entry)]
    return found


def _container(element: ET.Element, kind: str) -> Iterator[str]:
    """Yield what is wrong with the children of a feed or an entry (4.1.1, 4.1.2)."""
    counted = Counter(child.tag.removeprefix(ATOM) for child in element)
    for name in ("id", "title", "updated"):
        if not counted[name]:
            yield f"section 4.1: {kind} without {name}"
        elif not (element.findtext(f"{ATOM}{name}") or "").strip():
            yield f"section 4.2 (MissingText): {kind} with an empty {name}"
    yield from (f"section 4.1: {kind} with {counted[name]} {name}" for name in _ONCE[kind] if counted[name] > 1)
    yield from (f"section 6.3: {kind} with an unknown {name}" for name in counted if name not in _KNOWN[kind])
    for name in ("updated", "published"):
        times = element.findall(f"{ATOM}{name}")
        yield from (f"section 3.3: {time.text} is no time" for time in times if not _is_time(time))
    for name in ("title", "summary", "subtitle", "rights"):
        for text in element.findall(f"{ATOM}{name}"):
            if text.get("type", "text") not in ("text", "html", "xhtml"):
                yield f"section 3.1.1: type {text.get('type')} of {name}"
            if text.get("type", "text") == "text" and len(text):
                yield f"section 3.1.1.1: elements inside of the text of {name}"
    yield from _people(element)


def _people(element: ET.Element) -> Iterator[str]:
    """Yield what is wrong with authors (3.2) and categories (4.2.2)."""
    for author in element.findall(f"{ATOM}author"):
        if len(author.findall(f"{ATOM}name")) != 1 or not (author.findtext(f"{ATOM}name") or "").strip():
            yield "section 3.2.1: an author without one name"
    categories = (each for each in element.findall(f"{ATOM}category") if not each.get("term"))
    yield from ("section 4.2.2.1: category without term" for each in categories)


def _is_time(element: ET.Element) -> bool:
    if not _TIME.fullmatch(element.text or ""):
        return False
    try:
        datetime.fromisoformat(str(element.text))
    except ValueError:
        return False
    return True


def _links(element: ET.Element) -> Iterator[str]:
    """Yield what is wrong with links (4.2.7)."""
    seen: set[tuple[str | None, str | None]] = set()
    for link in element.findall(f"{ATOM}link"):
        if not _is_address(link.get("href", "")):
            yield f"section 4.2.7.1: {link.get('href')} is no address"
        if link.get("rel", "alternate") == "alternate":
            kind = link.get("type"), link.get("hreflang")
            if kind in seen:
                yield "section 4.1: two alternates of one type and language"
            seen.add(kind)
    if not seen:
        yield "(MissingAlternate): no page that a reader can open"


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme) and bool(parts.netloc or parts.path) and not re.search(r'[\s<>"{}|\\^`]', text)


def _ids(feed: ET.Element, entries: list[ET.Element]) -> Iterator[str]:
    """Yield what is wrong with ids (4.2.6), and entries that are twice there (4.1.1)."""
    ids = [feed.findtext(f"{ATOM}id") or "", *(entry.findtext(f"{ATOM}id") or "" for entry in entries)]
    yield from (f"section 4.2.6: {each} is no address" for each in ids if not _is_address(each))
    yield from (f"section 4.1.1 (DuplicateEntries): {each} twice" for each, count in Counter(ids).items() if count > 1)
    updates = Counter(entry.findtext(f"{ATOM}updated") for entry in entries)
    yield from (f"(DuplicateUpdated): two entries of {each}" for each, count in updates.items() if count > 1)


def _order(feed: ET.Element) -> Iterator[str]:
    """Yield what stands behind the first entry, and a feed that is older than its entries."""
    names = [child.tag.removeprefix(ATOM) for child in feed]
    if "entry" in names and set(names[names.index("entry") :]) != {"entry"}:
        yield "(MisplacedMetadata): data of the feed behind an entry"
    newest = max((entry.findtext(f"{ATOM}updated") or "" for entry in feed.findall(f"{ATOM}entry")), default="")
    if newest > (feed.findtext(f"{ATOM}updated") or ""):
        yield "section 4.2.15: an entry is newer than the feed"


def _entry(entry: ET.Element) -> Iterator[str]:
    """Yield what is wrong with the content of an entry (4.1.3)."""
    content, summary = entry.find(f"{ATOM}content"), entry.findtext(f"{ATOM}summary")
    if content is None:
        yield "section 4.1.2: an entry without content"
        return
    if len(content):
        yield "section 4.1.3.3: elements inside of content that is text or html"
    if summary is not None and not summary.strip():
        yield "(MissingText): an empty summary"
    if summary is not None and summary == content.text:
        yield "section 4.2.13: a summary that repeats the content"
    if content.get("type") == "html":
        reader = _Content()
        reader.feed(content.text or "")
        reader.close()
        yield from reader.found
        yield from (f"(NotHtml): <{name}> is never closed" for name in reader.open)


class _Content(HTMLParser):
    """Notes what readers of feeds drop or resolve wrongly (SecurityRisk, ContainsRelRef, NotHtml)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _RISKS or tag in ("html", "head", "body"):
            self.found.append(f"(SecurityRisk): <{tag}>")
        if tag not in _ALONE:
            self.open.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.found.append(f"(SecurityRiskAttr): <{tag} {name}>")
            if name in ("href", "src") and not _is_address(value or ""):
                self.found.append(f"(ContainsRelRef): {value}")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.found.append(f"(NotHtml): </{tag}> closes another element")
