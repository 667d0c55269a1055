"""What was seen of each revision while documents were followed one by one.

Statements are about a whole tag, and documents are followed each through all revisions; so what
each of them showed is kept, small, until all are through.
"""

import pickle
import zlib
from collections import defaultdict
from collections.abc import Mapping

from cachewatch.core.changeset_totals import Tally
from cachewatch.core.model import Document, PackageChange
from cachewatch.core.statements import items_of

Parts = Mapping[int, bytes]


class Sightings:
    """What some documents showed, by revision; only of revisions from `first` on."""

    def __init__(self, first: int = 1) -> None:
        """Begin with nothing."""
        self._first = first
        self._tallies: defaultdict[int, Tally] = defaultdict(Tally)

    def note(self, revision: int, change: PackageChange | None, after: Document | None) -> None:
        """Note what `revision` changed of one document; of some, nothing but the form changed."""
        if revision < self._first:
            return
        tally = self._tallies[revision]
        if change is not None:
            tally.observe(change, items_of(change))
            tally.note(change)
            tally.add(change)
        elif after is not None:
            tally.witness(after)

    def packed(self) -> Parts:
        """Return all that was noted, in few bytes."""
        return {revision: zlib.compress(pickle.dumps(tally, 5), 1) for revision, tally in self._tallies.items()}


class Revisions:
    """What all documents showed, by revision."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._parts: defaultdict[int, list[bytes]] = defaultdict(list)

    def add(self, parts: Parts) -> None:
        """Take what some documents showed."""
        for revision, part in parts.items():
            self._parts[revision].append(part)

    def tally(self, revision: int) -> Tally:
        """Return what `revision` changed of all documents, and forget it."""
        found = Tally()
        for part in self._parts.pop(revision, ()):
            found.join(pickle.loads(zlib.decompress(part)))  # noqa: S301  this program made it
        return found
