"""The Atom feeds of a tag, its packages and its stacks, and the archive of digests, which the service hands over."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from urllib.parse import quote, urlsplit

from msgspec import Struct

from cachewatch.config.secrets import State
from cachewatch.errors import UsageError
from cachewatch.extensions.site.lists import revision_path
from cachewatch.extensions.site.past import TagHistory
from cachewatch.extensions.site.stories import RevisionStory, file_name, page, shown
from cachewatch.extensions.site.values import DigestRow, DigestsPage, Happening, Link, PackagePage, StackPage
from cachewatch.extensions.site.words import Times
from cachewatch.report.values import Neighbours, with_neighbours
from cachewatch.store.digests import archive
from cachewatch.store.opening import open_to_read

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


def tag_feed(past: TagHistory, stories: Sequence[RevisionStory], times: Times, title: str) -> Feed:
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


def page_feed(kind: str, name: str, told: PackagePage | StackPage, times: Times) -> Feed:
    """Return the feed of one package or stack: what was added and removed, but not what was merely rebuilt."""
    home = f"{file_name(name)}.html"
    entries = list(_entries((kind, name), told.name, home, told.happenings, times))
    return _feed((kind, name), f"{told.name} in {told.tag}", home, entries, times)


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


class ArchivedDigest(Struct, frozen=True, kw_only=True):
    """One digest that was rendered for a subscription."""

    key: str  # names it for good
    subscription: str
    title: str
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02
    created: datetime  # UTC
    html: str  # a whole page of its own, made by our own templates
    feed: str | None = None  # the address of the subscription's Atom feed, relative to the site or absolute


def digests_page(digests: Sequence[ArchivedDigest]) -> DigestsPage:
    """List digests, the newest first, with the feeds of their subscriptions."""
    feeds = sorted({(digest.subscription, digest.feed) for digest in digests if digest.feed})
    return DigestsPage(
        digests=tuple(
            DigestRow(
                Link(shown(digest.title, 160), page("digest", digest.key)),
                shown(digest.subscription),
                shown(digest.period),
                digest.created.date().isoformat(),
            )
            for digest in digests
        ),
        feeds=tuple(Link(shown(name), feed) for name, feed in feeds),
    )


def digest_pages(digests: Sequence[ArchivedDigest]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of the page of each digest, with links to those before and after it."""
    by_subscription: defaultdict[str, list[ArchivedDigest]] = defaultdict(list)
    for digest in digests:
        by_subscription[digest.subscription].append(digest)
    for found in by_subscription.values():
        paths = [page("digest", digest.key) for digest in found]
        names = [None, *(path.removeprefix("digest/") for path in paths), None]
        for place, digest in enumerate(found):
            # The newest comes first.
            beside = Neighbours(previous=names[place + 2], next=names[place])
            yield paths[place], with_neighbours(digest.html, beside).encode()


def archived_digests(
    state: State, is_public: Callable[[str], bool], feed_of: Callable[[str], str | None]
) -> list[ArchivedDigest]:
    """Return the digests in the state of the service that may be published: no notices, which are for operators.

    Both functions are asked about names of subscriptions. Raises StateError if the state cannot be used.
    """
    with closing(open_to_read(state)) as database, database.read() as connection:
        kept = archive(connection)
    return [
        ArchivedDigest(
            key=stored.key,
            subscription=stored.subscription,
            title=stored.title,
            period=stored.period,
            created=stored.created,
            html=stored.rendered.page or stored.rendered.html,
            feed=feed_of(stored.subscription),
        )
        for stored in kept
        if is_public(stored.subscription) and not stored.rendered.is_notice
    ]


def feed_address(address: str, subscription: str) -> str:
    """Return the address of the feed of one subscription; raises UsageError where `address` is none."""
    if urlsplit(address).scheme not in ("", "http", "https"):
        raise UsageError(f"--feed {address}: neither a path from the site nor an http(s) address")
    return address.replace("{subscription}", quote(subscription, safe=""))
