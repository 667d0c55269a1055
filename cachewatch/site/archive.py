"""Digests that were sent, as the site shows them; whoever keeps them hands them over as these values."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from msgspec import Struct

from cachewatch.errors import UsageError


class ArchivedDigest(Struct, frozen=True, kw_only=True):
    """One digest that was rendered for a subscription."""

    key: str  # names it for good
    subscription: str
    title: str
    period: str  # 2026-07-27 or 2026-07-27..2026-08-02
    created: datetime  # UTC
    html: str  # a whole page of its own, made by our own templates
    feed: str | None = None  # the address of the subscription's Atom feed, relative to the site or absolute


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
    """The digests in the state of the service, but for notices, which are for operators."""

    def __init__(self, folder: Path, feed: str | None = None) -> None:
        """Open the state in `folder`; `feed` is where feeds are, with {subscription} for the name of one.

        Raises StateError if it cannot be used, and UsageError where `feed` is no address.
        """
        from cachewatch.store.read_only import DatabaseToRead  # noqa: PLC0415  SQLAlchemy is slow to load

        if feed is not None and urlsplit(feed).scheme not in ("", "http", "https"):
            raise UsageError(f"--feed {feed}: neither a path from the site nor an http(s) address")
        self._feed = feed
        self._database = DatabaseToRead(folder)

    def digests(self) -> Iterable[ArchivedDigest]:
        """Return every digest that went out."""
        from cachewatch.store.digests import archive  # noqa: PLC0415

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
                feed=self._feed and self._feed.replace("{subscription}", quote(stored.subscription, safe="")),
            )
            for stored in kept
            if not stored.rendered.is_notice
        ]
