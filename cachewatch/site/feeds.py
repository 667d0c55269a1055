"""Atom feeds: one of the tag, of every package and of every stack."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from cachewatch.history import TagHistory
from cachewatch.site.page_names import file_name, shown
from cachewatch.site.page_values import Happening, Link, PackagePage, StackPage
from cachewatch.site.revision_stories import Story
from cachewatch.site.revisions import revision_path
from cachewatch.site.shared_phrases import Times

_MOST_ENTRIES = 20
# XML has no place for these, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class FeedEntry(Struct, frozen=True):
    """One change."""

    id: str
    title: str
    updated: str  # RFC 3339
    address: str  # relative to the feed
    paragraphs: tuple[str, ...]


class Feed(Struct, frozen=True):
    """One feed; relative addresses start where it lies."""

    id: str
    title: str
    home: str
    updated: str
    entries: tuple[FeedEntry, ...]


def tag_feed(past: TagHistory, stories: Sequence[Story], times: Times, title: str) -> Feed:
    """Return the feed of all revisions that did anything."""
    told = [n for n, story in enumerate(stories) if story.facts][::-1][:_MOST_ENTRIES]
    entries = [
        FeedEntry(
            id=_urn("revision", past.tag, past.revisions[n][0]),
            title=_clean("; ".join(fact.text for fact in stories[n].facts[:3])),
            updated=_time(times.times[n]),
            address=revision_path(past.revisions[n][0]),
            paragraphs=tuple(_clean(fact.text) for fact in stories[n].facts),
        )
        for n in told
    ]
    return _feed(("tag", past.tag), f"{title}: {shown(past.tag)}", "index.html", entries, times)


def package_feed(package: str, told: PackagePage, times: Times) -> Feed:
    """Return the feed of one package: what came and what went, but not what was merely rebuilt."""
    home = f"{file_name(package)}.html"
    return _feed(
        ("package", package),
        f"{told.name} in {told.tag}",
        home,
        list(_entries(("package", package), told.name, home, told.happenings, times)),
        times,
    )


def stack_feed(stack: str, told: StackPage, times: Times) -> Feed:
    """Return the feed of one stack."""
    home = f"{file_name(stack)}.html"
    return _feed(
        ("stack", stack),
        f"{told.name} in {told.tag}",
        home,
        list(_entries(("stack", stack), told.name, home, told.happenings, times)),
        times,
    )


def _feed(name: Sequence[str], title: str, home: str, entries: Sequence[FeedEntry], times: Times) -> Feed:
    # Only a change makes another feed: without one, it is as old as the history.
    updated = entries[0].updated if entries else _time(times.times[0])
    return Feed(_urn(*name), _clean(title), home, updated, tuple(entries))


def _entries(
    name: Sequence[str], called: str, home: str, happened: Iterable[Happening], times: Times
) -> Iterator[FeedEntry]:
    when = dict(zip(times.moments, times.times, strict=True))
    told = [one for one in happened if one.came or one.went][:_MOST_ENTRIES]
    for one in told:
        paragraphs = tuple(
            filter(None, (_side("added", one.came, one.more_came), _side("removed", one.went, one.more_went)))
        )
        yield FeedEntry(
            id=_urn(*name, one.moment.commit),
            title=_clean(f"{called}: {'; '.join(paragraphs)}")[:200],
            updated=_time(when[one.moment]),
            address=home,
            paragraphs=paragraphs,
        )


def _side(word: str, links: Sequence[Link], more: int) -> str:
    texts = ", ".join(link.text for link in links)
    return _clean(f"{word} {texts}{f' and {more:,} more' if more else ''}") if texts else ""


def _urn(*name: str) -> str:
    """Return an id that is the same in every build."""
    digest = hashlib.sha256("\0".join(("cachewatch.site", *name)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"urn:uuid:{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _time(time: datetime | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ") if time else "1970-01-01T00:00:00Z"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
