"""The local copy of a source, of whatever type: a clone, or the recorded history of a build cache."""

from collections.abc import Collection
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from cachewatch.core.repository_layout import ANYWHERE, Layout
from cachewatch.errors import SourceError
from cachewatch.git.recorded_repository import is_made
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import is_there


class News(Struct, frozen=True, kw_only=True):
    """What a source has now."""

    revision: str
    time: datetime | None  # when it was published
    warnings: tuple[str, ...]  # what operators should hear once
    problem: str = ""  # what they should hear of as long as it lasts, though there may be news
    no_documents: str = ""  # what was looked for and found instead, if there are none


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

    def tidy(self, used: Collection[str]) -> None:
        """Let go of pins but those in use, and keep the copy small."""


class RecordedSource:
    """The history that we record of a source without one; it is ours, so nobody rewrites it."""

    def __init__(self, folder: Path, address: str, layout: Layout = ANYWHERE) -> None:
        """Name what is recorded at `address` in `folder`."""
        self._folder, self._address, self._layout = folder, address, layout

    def open(self) -> Repository:
        """Open the history to read it."""
        if not is_made(self._folder):  # another thread may be about to make it
            raise SourceError(f"{self._address}: nothing was recorded yet")
        return Repository(self._folder, self._layout)

    def pin(self, revisions: Collection[str]) -> None:
        """Do nothing: no revision is ever taken out of it."""

    def lacking(self, revisions: Collection[str]) -> frozenset[str]:
        """Return those of these revisions that were not recorded here."""
        if not is_made(self._folder):
            return frozenset(revisions)
        with closing(Repository(self._folder)) as repository:
            return frozenset(revision for revision in revisions if not is_there(repository, revision))

    def tidy(self, used: Collection[str]) -> None:
        """Do nothing: it is packed as it is written."""
