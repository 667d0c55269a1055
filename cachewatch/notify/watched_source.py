"""The local copy of a source, of whatever type: a clone, or the recorded history of a build cache."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from cachewatch.git.repository import Repository


class Sharing(Struct, frozen=True, kw_only=True):
    """What became of the history that hosts share."""

    fetched: str | None = None  # the newest revision that another host had recorded, if it is new here
    pushed: str | None = None
    problem: str = ""  # what operators should hear of as long as it lasts


class News(Struct, frozen=True, kw_only=True):
    """What a source has now."""

    revision: str
    time: datetime | None  # when it was published
    warnings: tuple[str, ...]  # what operators should hear once
    problem: str = ""  # what they should hear of as long as it lasts, though there may be news
    no_documents: str = ""  # what was looked for and found instead, if there are none
    sharing: Sharing | None = None  # None where the source is not shared


class Watched(Protocol):
    """A copy of a source in a folder of the state."""

    def update(self) -> News:
        """Fetch what is new; raises SourceError where that fails, and nothing is lost."""

    def open(self) -> Repository:
        """Open the copy to read it."""

    def pin(self, revisions: Collection[str]) -> None:
        """Keep these revisions whole, whatever becomes of the source."""

    def lacking(self, revisions: Collection[str]) -> frozenset[str]:
        """Return those of these revisions that are not in the copy."""

    def recall(self, revisions: Collection[str]) -> frozenset[str]:
        """Get those of these revisions that are lacking, and keep them; return those that cannot be had any more.

        Raises SourceError if that cannot be known now.
        """

    def tidy(self, used: Collection[str]) -> None:
        """Let go of pins but those in use, and keep the copy small."""
