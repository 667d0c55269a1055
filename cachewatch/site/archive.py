"""Digests that were sent, as the site shows them; whoever keeps them hands them over as these values."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from msgspec import Struct


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
