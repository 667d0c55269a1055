"""Find all versions of all documents of a branch: the revisions that added, changed or removed them, in every tag.

Only trees of first parents are read, level by level. An entry that cannot be a document (a link, a submodule, a name
that occurs twice) is reported, and the document before it is remembered, to be compared with the next one.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cachewatch.core.names_and_layouts import DOCUMENT, is_name
from cachewatch.git.layouts import catalogue_of, catalogues_of, stored_catalogue
from cachewatch.git.local_repository import Repository
from cachewatch.git.trees import REPLACED, TreeEntry, is_odd, listing, problem_of, tree_of_entry

_LOOKED_BACK = 50  # revisions, for documents that were overwritten before the first one


class ChainRevision(NamedTuple):
    """One revision of the first-parent chain."""

    commit: str
    time: int | None  # of the committer, in seconds since 1970


class Version(NamedTuple):
    """One version of a document."""

    revision: int  # the number of the revision in the chain, from 0
    blob: str | None  # None if it removed the document, or if there is a problem
    problem: str = ""  # why the entry is not a document


class _Uncertain(Exception):
    """The first revision read has a link in place of a folder, so that the folder before it is unknown."""


def first_parents(repository: Repository, end: str = "HEAD") -> list[ChainRevision]:
    """Return the first-parent chain that ends with the revision `end`, oldest first."""
    printed = repository.run(["rev-list", "--first-parent", "--reverse", "--timestamp", end, "--"]).decode()
    chain = []
    for line in printed.splitlines():
        seconds, _, commit = line.partition(" ")
        # SQLite has 64 bits, and a forged commit may have more.
        is_time = seconds.isdigit() and int(seconds).bit_length() < 64
        chain.append(ChainRevision(commit, int(seconds) if is_time else None))
    return chain


def find_versions(
    repository: Repository, commits: Sequence[str], start: int = 0
) -> Mapping[tuple[str, str], tuple[Version, ...]]:
    """Return the versions of each document (tag and package) in `commits`, beginning with number `start`."""
    try:
        versions_of = _find(repository, commits, start)
    except _Uncertain:
        versions_of = {
            key: [version for version in versions if version.revision >= start]
            for key, versions in _find(repository, commits, 0).items()
        }
    return {key: tuple(versions) for key, versions in sorted(versions_of.items()) if versions}


def _find(repository: Repository, commits: Sequence[str], start: int) -> Mapping[tuple[str, str], list[Version]]:
    by_document: defaultdict[tuple[str, str], list[Version]] = defaultdict(list)
    names = _FolderNames(start)
    for number, *catalogues in _trees(repository, commits, start):
        for tag, had_tag, has_tag in _changes(repository, *catalogues):
            trees = names.pair((tag,), had_tag, has_tag)
            for package, had, has in _changes(repository, *trees) if trees else ():
                folders = names.pair((tag, package), had, has)
                if folders is None:
                    by_document[tag, package].append(Version(number, None, REPLACED))
                    continue
                for name, _, entry in _changes(repository, *folders):
                    if name == DOCUMENT:
                        problem = problem_of(entry)
                        blob = None if problem or entry is None else entry[1]
                        by_document[tag, package].append(Version(number, blob, problem))
    return by_document


def _trees(repository: Repository, commits: Sequence[str], start: int) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield each revision that changed the tree of all tags: its number, the tree before, and its own.

    A file that replaced a document and is none counts as an unreadable document, until it is readable again or removed.
    """
    first = max(start - 1, 0)
    if commits[first:] and not stored_catalogue(repository, commits[first]):
        first = max(first - _LOOKED_BACK, 0)
    wanted = commits[first:]
    witnesses: list[str] = []  # revisions in which a file was a document last
    previous: str | None = None
    for number, catalogue in enumerate(catalogues_of(repository, wanted), first):
        others = dict.fromkeys((*witnesses, commits[max(number - 1, first)]))
        witnesses = [other for other in others if catalogue_of(repository, commits[number], [other]) != catalogue]
        tree = catalogue_of(repository, commits[number], witnesses)
        if number >= start and tree != previous:
            yield number, previous, tree
        previous = tree


class _FolderNames:
    """Remembers names at which links or the like temporarily replaced folders, with the trees from before."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._before: dict[tuple[str, ...], str | None] = {}

    def pair(
        self, name: tuple[str, ...], before: TreeEntry | None, after: TreeEntry | None
    ) -> tuple[str | None, str | None] | None:
        """Return the trees of `name` to compare; None if `name` is no folder any more."""
        if is_odd(before) and name not in self._before and self._start:
            raise _Uncertain
        tree = self._before.pop(name) if name in self._before else tree_of_entry(before)
        if is_odd(after):
            self._before[name] = tree
            return None
        return tree, tree_of_entry(after)


def _changes(
    repository: Repository, before: str | None, after: str | None
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    """Yield the names that differ between two trees, with their entries in both."""
    old, new = (listing(repository, tree) if tree else {} for tree in (before, after))
    for name in sorted(old.keys() | new.keys()):
        had, has = old.get(name), new.get(name)
        if (had or ())[:2] != (has or ())[:2] and is_name(name):
            yield name.decode(), had, has
