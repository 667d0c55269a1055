"""Streams that request the same of two revisions share one comparison: ten that want everything cost as much as one.

Such streams are dealt with one after the other, so that only what was found last has to be kept.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

from cachewatch.config.model import Match
from cachewatch.core.model import Kind
from cachewatch.core.statements import RebuiltSpecs
from cachewatch.diff import Judgements
from cachewatch.git.catalogue import Bases
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision
from cachewatch.notify.comparison_notes import TagNotes
from cachewatch.notify.digest_streams import Stream
from cachewatch.report.digest import TagDigest
from cachewatch.runtime.isolation import INLINE, Isolation

Fact = TypeVar("Fact")


class Question(Struct, frozen=True, kw_only=True):
    """All that decides what a stream is told of two revisions."""

    match: Match
    changes: frozenset[Kind]


class TagDiffs(Struct, frozen=True):
    """What is told of each tag, and how many packages silences kept from it, by their names."""

    tags: tuple[TagDigest, ...]
    notes: tuple[TagNotes, ...]  # of the same tags
    hidden: Counter[str]
    bases: Bases  # packages that were compared with another version than that of the revision told last


class Comparisons:
    """The comparisons that were made for one question; those for the one before are forgotten."""

    def __init__(self, isolate: Callable[[str], Isolation] = lambda _: INLINE) -> None:
        """`isolate` says where the documents of a source are read and compared."""
        self.isolation = isolate
        self._question: Question | None = None
        self._found: dict[Hashable, TagDiffs] = {}
        self._judgements: dict[str, Judgements] = {}
        self._rebuilt: dict[Hashable, tuple[RebuiltSpecs, ...]] = {}
        self._repositories: dict[str, Repository] = {}
        self._facts: dict[Hashable, Any] = {}

    def judgements(self, source: str) -> Judgements:
        """Return what happened to whole tags of a source between two of its states, as far as somebody asked."""
        return self._judgements.setdefault(source, {})

    @contextmanager
    def opened(self, source: str, open_repository: Callable[[], Repository]) -> Iterator[Repository]:
        """Open the repository of a source once for all streams; after an error, the next one opens it again."""
        if source not in self._repositories:
            self._repositories[source] = open_repository()
        try:
            yield self._repositories[source]
        except BaseException:
            self._repositories.pop(source).close()
            raise

    def close(self) -> None:
        """Close what was opened."""
        while self._repositories:
            self._repositories.popitem()[1].close()

    def of_revisions(
        self,
        find: Callable[[Repository, Revision, Revision], Fact],
        repository: Repository,
        before: Revision,
        after: Revision,
    ) -> Fact:
        """Return what `find` finds of two revisions, which never changes, without asking git again."""
        key = (find, repository.git_dir, before.commit, after.commit)
        if key not in self._facts:
            self._facts[key] = find(repository, before, after)
        found: Fact = self._facts[key]
        return found

    def rebuilt(self, of: Hashable, find: Callable[[], tuple[RebuiltSpecs, ...]]) -> tuple[RebuiltSpecs, ...]:
        """Return what was rebuilt between the states that `of` names, which `find` finds if nobody asked before."""
        if of not in self._rebuilt:
            self._rebuilt[of] = find()
        return self._rebuilt[of]

    def find(self, question: Question, of: Hashable) -> TagDiffs | None:
        """Return what was found between the revisions that `of` names; forget what another question found."""
        if question != self._question:
            self._question, self._found = question, {}
        return self._found.get(of)

    def keep(self, of: Hashable, found: TagDiffs) -> None:
        """Keep what was found for the question that was asked last."""
        self._found[of] = found


def question_of(stream: Stream) -> Question:
    """Return what `stream` asks, whichever sources it asks and whatever it says beside."""
    subscription = stream.subscription
    return Question(
        match=subscription.match.model_copy(update={"sources": (), "pinned": None}),
        changes=stream.changes,
    )


def grouped(streams: Iterable[Stream]) -> Iterator[Stream]:
    """Yield the streams in their order, but each with those behind it that ask the same."""
    groups: dict[Question, list[Stream]] = {}
    for stream in streams:
        groups.setdefault(question_of(stream), []).append(stream)
    for group in groups.values():
        yield from group
