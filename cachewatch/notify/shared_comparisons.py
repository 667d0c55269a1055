"""Two states of a tag are compared once a pass, and every stream selects from what was found."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from typing import Any, TypeVar

from cachewatch.config.model import Config, MailConfig
from cachewatch.core.changesets import Changeset, Collector
from cachewatch.core.selection import Selection
from cachewatch.core.statements import RebuiltSpecs
from cachewatch.core.tag_pairs import Comparison
from cachewatch.diff import changesets
from cachewatch.git.catalogue import CompareTrees
from cachewatch.git.remembered_trees import RememberedTrees
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision
from cachewatch.notify.compared_tags import ComparedTags
from cachewatch.notify.digest_streams import Stream
from cachewatch.notify.remembered_tags import RememberedTags
from cachewatch.runtime.isolation import INLINE, Isolation

Fact = TypeVar("Fact")
_NAME_BYTES = 8


class Comparisons:
    """The comparisons of one pass, and the repositories that they are read from."""

    def __init__(self, isolate: Callable[[str], Isolation] = lambda _: INLINE, kept: Path | None = None) -> None:
        """`isolate` says where the documents of a source are read and compared.

        What was compared is kept in the folder `kept` for other streams; without one, there is one stream.
        """
        self.isolation = isolate
        self._kept = kept
        self._compared: dict[str, ComparedTags] = {}
        self._rebuilt: dict[Hashable, tuple[RebuiltSpecs, ...]] = {}
        self._repositories: dict[str, Repository] = {}
        self._trees: dict[str, RememberedTrees] = {}
        self._facts: dict[Hashable, Any] = {}
        self.remembered = RememberedTags()

    def changeset(
        self,
        source: str,
        comparison: Comparison,
        selection: Selection,
        make_collector: Callable[[], Collector],
        go_on: Callable[[], None],
    ) -> Changeset:
        """Return what `selection` asks for of the only pair of `comparison`, two states of a tag of `source`."""
        if self._kept is not None:
            if source not in self._compared:
                file = self._kept / f"{len(self._compared)}"
                self._compared[source] = ComparedTags(file, self.isolation(source))
            found = self._compared[source].changeset(comparison, selection, make_collector, go_on)
            if found is not None:
                return found
        return self.compared_alone(source, comparison, selection, make_collector, go_on)

    def compared_alone(
        self,
        source: str,
        comparison: Comparison,
        selection: Selection,
        make_collector: Callable[[], Collector],
        go_on: Callable[[], None],
    ) -> Changeset:
        """Return the same, compared for this selection alone."""
        (found,) = changesets(
            comparison,
            selection,
            make_collector,
            progress=lambda _: go_on(),
            isolation=self.isolation(source),
        )
        return found

    def trees(self, source: str) -> CompareTrees:
        """Return what compares trees of the repository of a source, and remembers what it found."""
        return self._trees.setdefault(source, RememberedTrees())

    @contextmanager
    def opened(self, source: str, open_repository: Callable[[], Repository]) -> Iterator[Repository]:
        """Open the repository of a source once for all streams; after an error, the next one opens it again."""
        if source not in self._repositories:
            self._repositories[source] = open_repository()
        try:
            yield self._repositories[source]
        except BaseException:
            self._trees.pop(source, None)  # they read from it
            self._repositories.pop(source).close()
            raise

    def close(self) -> None:
        """Close what was opened."""
        self._trees.clear()
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


def has_table(stream: Stream, config: Config) -> bool:
    """Tell whether any channel of `stream` attaches all changes as a table."""
    channels = (config.channels[name] for name in stream.channels)
    return any(isinstance(channel, MailConfig) and channel.attach is not None for channel in channels)


@contextmanager
def kept_comparisons(state: Path, streams: Sequence[object]) -> Iterator[Path | None]:
    """Make a folder for what is compared in one pass; None where nobody shares it, or the disk takes nothing.

    What an earlier pass left there is removed.
    """
    folder = state / "compared"
    _remove(folder)
    # Another name each time: a process may remember what it read under the last one.
    kept = folder / token_hex(_NAME_BYTES)
    try:
        yield kept if len(streams) > 1 and _is_made(kept) else None
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove what passes left in `folder`; the rest is somebody else's."""
    for path in folder.glob("[0-9a-f]" * 2 * _NAME_BYTES):
        rmtree(path, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _is_made(folder: Path) -> bool:
    with suppress(OSError):
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        return True
    return False
