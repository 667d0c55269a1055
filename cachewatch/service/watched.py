"""Our copy of a source, whatever kind of source it is: a clone, or the history that we record of a build cache."""

from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from cachewatch.config.model import Source
from cachewatch.select import Globs
from cachewatch.sources.access import Access
from cachewatch.sources.git import Repository
from cachewatch.sources.mirror import Mirror, Update
from cachewatch.sources.revisions import resolve


class News(Struct, frozen=True, kw_only=True):
    """What a source has now."""

    revision: str
    time: datetime | None  # when it was published
    warnings: tuple[str, ...] = ()  # what operators should hear once
    trouble: str = ""  # what they should hear of as long as it lasts, though there may be news


class Watched(Protocol):
    """A copy of a source in a folder of the state."""

    def update(self) -> News:
        """Fetch what is new; raises SourceError where that fails, and nothing is lost."""

    def open(self) -> Repository:
        """Open the copy to read it."""

    def pin(self, revisions: Collection[str]) -> None:
        """Keep these revisions whole, whatever becomes of the source."""

    def tidy(self, used: Collection[str]) -> None:
        """Let go of pins but those in use, and keep the copy small."""


def open_watched(source: Source, folder: Path) -> Watched:
    """Return our copy of `source`, which need not be there yet."""
    if source.type != "git":
        from cachewatch.service.recorded import History  # noqa: PLC0415  what asks servers is slow to load

        return History(source, folder)
    return _Clone(
        Mirror(
            folder,
            source.address,
            branch=source.branch,
            timeout=source.poll.timeout.total_seconds(),
            access=Access.named(source.credentials) if source.credentials else None,
            wanted_tag=Globs(source.tags),
        )
    )


class _Clone:
    """A clone of a git repository."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def update(self) -> News:
        update = self._mirror.update()
        with closing(self._mirror.open()) as repository:
            newest = resolve(repository, update.after)
        return News(revision=update.after, time=newest.time, warnings=tuple(_warnings(update)))

    def open(self) -> Repository:
        return self._mirror.open()

    def pin(self, revisions: Collection[str]) -> None:
        kept = set(self._mirror.pins().values())
        for revision in revisions:
            if revision not in kept:
                self._mirror.pin(revision, revision)

    def tidy(self, used: Collection[str]) -> None:
        for name, revision in self._mirror.pins().items():
            if revision not in used:
                self._mirror.unpin(name)


def _warnings(update: Update) -> Iterator[str]:
    if update.rewritten:
        yield f"Upstream rewrote the history of {update.branch}; digests compare the states all the same."
    if update.set_aside is not None:
        yield f"Our clone was damaged and was made anew; the damaged one is {update.set_aside}."
    if update.lost_pins:
        yield f"{len(update.lost_pins)} revisions that digests start from exist nowhere any more."
