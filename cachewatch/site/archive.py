"""Digests that were sent, as the site shows them; whoever keeps them hands them over as these values."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from cachewatch.core.neighbours import Neighbours, with_neighbours
from cachewatch.errors import UsageError
from cachewatch.site.page_names import page, shown
from cachewatch.site.page_values import DigestRow, DigestsPage, Link
from cachewatch.store.digests import archive
from cachewatch.store.opening import open_to_read

if TYPE_CHECKING:
    from cachewatch.config.state_address import State


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


class Archive(Protocol):
    """Where digests are kept."""

    def digests(self) -> Iterable[ArchivedDigest]:
        """Return the digests that may be published, in any order."""


class NoArchive:
    """A site without any state: what there is to tell is the revisions."""

    def digests(self) -> Iterable[ArchivedDigest]:
        """Return nothing."""
        return ()


class StateArchive:
    """Digests in the state of the service: of subscriptions that are public, without notices, which are for operators."""

    def __init__(self, state: "State", is_public: Callable[[str], bool], feed_of: Callable[[str], str | None]) -> None:
        """Open `state`; both functions are asked about names of subscriptions.

        Raises StateError if the state cannot be used.
        """
        self._is_public = is_public
        self._feed_of = feed_of
        self._database = open_to_read(state)

    def digests(self) -> Iterable[ArchivedDigest]:
        """Return every digest that went out."""
        with self._database.read() as connection:
            kept = archive(connection)
        self._database.close()
        return [
            ArchivedDigest(
                key=stored.key,
                subscription=stored.subscription,
                title=stored.title,
                period=stored.period,
                created=stored.created,
                html=stored.rendered.page or stored.rendered.html,
                feed=self._feed_of(stored.subscription),
            )
            for stored in kept
            if self._is_public(stored.subscription) and not stored.rendered.is_notice
        ]


def feed_address(address: str, subscription: str) -> str:
    """Return the address of the feed of one subscription; raises UsageError where `address` is none."""
    if urlsplit(address).scheme not in ("", "http", "https"):
        raise UsageError(f"--feed {address}: neither a path from the site nor an http(s) address")
    return address.replace("{subscription}", quote(subscription, safe=""))
