"""Find all versions of all documents of a branch: the revisions that added, changed or removed them, in every tag.

Only trees of first parents are read, level by level. An entry that cannot be a document (a link, a submodule, a name
that occurs twice) is reported, and the document before it is remembered, to be compared with the next one.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from cachewatch.core.names_and_layouts import DOCUMENT, is_name
from cachewatch.errors import SourceError
from cachewatch.git.layouts import catalogue_of, catalogues_of, stored_catalogue
from cachewatch.git.local_repository import Repository
from cachewatch.git.trees import (
    FOLDER,
    MAX_ENTRIES,
    ODD,
    REPLACED,
    TWICE,
    MadeTree,
    TreeEntry,
    listing,
    mode_of,
    problem_of,
    too_many,
)

# How many pairs of trees one git process compares: this limits the memory.
_REVISIONS_AT_ONCE = 64
_TREES_AT_ONCE = 10_000
_LOOKED_BACK = 50  # revisions, for documents that were overwritten before the first one
_ODD = (*ODD, TWICE)
_NOTHING = b"0"  # the mode on a side that lacks the entry
_NO_ENTRY: TreeEntry = (_NOTHING, "", ())
_PRINTED = re.compile(rb"([0-9a-f]+ [0-9a-f]+)\n|:(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\0([^\0]+)\0")
_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

Key = TypeVar("Key", bound=tuple[object, ...])
# The key of a tag or document, and its tree before and after.
_Pair = tuple[Key, str | None, str | None]


class ChainRevision(NamedTuple):
    """One revision of the first-parent chain."""

    commit: str
    time: int | None  # of the committer, in seconds since 1970


class TreeChange(NamedTuple):
    """An entry that differs between two trees; its object id is empty on a side that lacks it."""

    name: bytes
    before_mode: bytes
    after_mode: bytes
    before: str
    after: str
    paths: tuple[str, ...] = ()  # of the files that are the document, if it lies elsewhere than in `_cache/`


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
    tags, packages = _FolderNames(start), _FolderNames(start)
    for pairs in _in_runs(_catalogues(repository, commits, start), _REVISIONS_AT_ONCE):
        trees: list[_Pair[tuple[int, str]]] = []
        for (number,), name, entry in _changes(repository, pairs):
            pair = tags.pair((number, name), (name,), entry)
            trees += [] if pair is None else [pair]
        folders: list[_Pair[tuple[int, str, str]]] = []
        for (number, tag), package, entry in _changes(repository, trees):
            folder = packages.pair((number, tag, package), (tag, package), entry)
            if folder is None:
                by_document[tag, package].append(Version(number, None, REPLACED))
            else:
                folders.append(folder)
        for run in _in_runs(folders, _TREES_AT_ONCE):
            for (number, tag, package), name, entry in _changes(repository, run):
                if name == DOCUMENT and entry.after_mode == _NOTHING:
                    by_document[tag, package].append(Version(number, None))
                elif name == DOCUMENT:
                    problem = problem_of((entry.after_mode, entry.after, entry.paths))
                    by_document[tag, package].append(Version(number, None if problem else entry.after, problem))
    for versions in by_document.values():
        versions.sort(key=lambda version: version.revision)
    return by_document


def _catalogues(repository: Repository, commits: Sequence[str], start: int) -> Iterator[_Pair[tuple[int]]]:
    """Yield the trees of all tags in each revision and in the one before it, if they differ.

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
            yield (number,), previous, tree
        previous = tree


class _FolderNames:
    """Remembers names at which links or the like temporarily replaced folders, with the trees from before."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._before: dict[tuple[str, ...], str | None] = {}

    def pair(self, key: Key, name: tuple[str, ...], entry: TreeChange) -> _Pair[Key] | None:
        """Return the trees of `name` to compare for this change; None if `name` is no folder any more."""
        if entry.after_mode in _ODD:
            if name not in self._before:
                self._before[name] = self._was(entry)
            return None
        before = self._before.pop(name) if name in self._before else self._was(entry)
        return key, before, entry.after if entry.after_mode == FOLDER else None

    def _was(self, entry: TreeChange) -> str | None:
        if entry.before_mode not in _ODD:
            return entry.before if entry.before_mode == FOLDER else None
        if self._start:
            raise _Uncertain
        return None


def _changes(repository: Repository, pairs: Sequence[_Pair[Key]]) -> Iterator[tuple[Key, str, TreeChange]]:
    """Yield the entries that differ between the two trees of each pair, with the key of the pair."""
    entries: defaultdict[tuple[int, bytes], list[TreeChange]] = defaultdict(list)
    for place, entry in _diff_trees(repository, [(before, after) for _, before, after in pairs]):
        if is_name(entry.name):
            entries[place, entry.name].append(entry)
    for (place, name), changes in entries.items():
        change = changes[0]
        if len(changes) > 1:
            # If a folder replaces a link, or the other way round, git reports one as removed and the other as added.
            old, new = sorted(changes, key=lambda each: bool(each.after))[:2]
            is_one = len(changes) == 2 and not old.after and not new.before
            change = new._replace(before_mode=old.before_mode, before=old.before)
            change = change if is_one else TreeChange(name, TWICE, TWICE, "", "")
        yield pairs[place][0], name.decode(), change


def _diff_trees(
    repository: Repository, pairs: Sequence[tuple[str | None, str | None]]
) -> Iterator[tuple[int, TreeChange]]:
    """Yield the entries that differ between the two trees of each pair, with the number of the pair."""
    if any(isinstance(tree, MadeTree) for pair in pairs for tree in pair):
        for number, trees in enumerate(pairs):  # of which git may not have both
            old, new = (listing(repository, tree) if tree else {} for tree in trees)
            for name in sorted(old.keys() | new.keys()):
                (was, had, _), (mode, has, paths) = (side.get(name, _NO_ENTRY) for side in (old, new))
                if (was, had) != (mode, has):
                    yield number, TreeChange(name, was, mode, had, has, paths)
        return
    empty = _EMPTY_TREE[max((len(tree) for pair in pairs for tree in pair if tree), default=40)]
    lines = [f"{before or empty} {after or empty}" for before, after in pairs]
    asked = ["diff-tree", "--stdin", "-z", "--raw", "--no-renames", "--no-abbrev"]
    printed = repository.run(asked, lines) if lines else b""
    number, position, entries = -1, 0, 0
    damaged = SourceError(f"{repository.path}: git could not read a tree; the repository is damaged or incomplete")
    while match := _PRINTED.match(printed, position):
        position = match.end()
        pair, was, mode, *ids, name = match.groups()
        if pair:  # git repeats each line of its input, but skips a pair that it cannot read
            number += 1
            if lines[number : number + 1] != [pair.decode()]:
                raise damaged
            continue
        entries += 1
        if entries > MAX_ENTRIES:
            raise too_many(repository)
        before, after = (text.decode() if text.strip(b"0") else "" for text in ids)
        yield number, TreeChange(name, mode_of(was), mode_of(mode), before, after)
    if position < len(printed) or number + 1 < len(lines):
        raise damaged


def _in_runs(items: Iterable[_Pair[Key]], most: int) -> Iterator[Sequence[_Pair[Key]]]:
    left = iter(items)
    while run := list(islice(left, most)):
        yield run
