"""The history of every document: in which revisions it changed, and to what.

Only trees are read here, level by level as in git/trees.py, so a revision costs what it touched.
The history is that of first parents: what was published, one state after the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from cachewatch.core.changesets import Blob, Reader
from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.names import DOCUMENT, Wanted, is_name
from cachewatch.errors import SourceError
from cachewatch.git.catalogue import GitReader
from cachewatch.git.repository import Repository
from cachewatch.git.revisions import Revision, commit_time
from cachewatch.git.trees import (
    FOLDER,
    REPLACED,
    TWICE,
    Folders,
    TreeChange,
    blob_of,
    catalogues_of,
    diff_trees,
    folder_of,
    folders,
    one_change,
    problem_of,
    sizes_of,
)

# How many pairs of trees one git process is given: bounds what is held at once.
_REVISIONS_AT_ONCE = 64
_PACKAGES_AT_ONCE = 10_000
_ODD = (b"120000", b"160000")  # links and modules

# A revision, a package, and its folder before and after.
_Folders = tuple[int, str, str | None, str | None]
Item = TypeVar("Item")


class FileVersion(Struct, frozen=True):
    """One revision of a history."""

    commit: str
    time: datetime | None


class FileHistory(Struct, frozen=True):
    """One document: the numbers of the revisions that changed it, and what each made of it.

    None is a revision that removed it. Numbers count from the oldest revision, which is 0.
    """

    package: str
    steps: tuple[tuple[int, Blob | None], ...]


class FileHistories(Struct, frozen=True):
    """All documents of one tag through a history, by package."""

    tag: str
    revisions: tuple[FileVersion, ...]
    trails: tuple[FileHistory, ...]
    reader: Reader
    diagnostics: tuple[Diagnostic, ...] = ()


def find_trails(
    repository: Repository, until: Revision, *, tag: str, since: Revision | None, wanted_package: Wanted
) -> FileHistories:
    """Follow every document of `tag` from `since` (or the beginning) to `until`."""
    revisions = _revisions(repository, until, since)
    trees, folder = _trees(repository, revisions, tag), folder_of(repository, tag)
    steps: defaultdict[str, list[tuple[int, str | None]]] = defaultdict(list)
    diagnostics: dict[str, Diagnostic] = {}
    for number, package, entry in _changes(repository, trees, wanted_package):
        if isinstance(entry, str):
            path = f"{folder}/{package}/{DOCUMENT}"
            diagnostics[path] = Diagnostic(
                path, DiagnosticKind.UNREADABLE, f"{entry} (revision {revisions[number].commit[:10]})"
            )
        else:
            steps[package].append((number, entry.after))
    ids = {object_id for found in steps.values() for _, object_id in found if object_id}
    repository.obtain(ids)
    sizes = sizes_of(repository, ids)
    trails = tuple(
        FileHistory(
            package,
            tuple((number, _blob(repository, object_id, sizes, folder, package)) for number, object_id in found),
        )
        for package, found in sorted(steps.items())
    )
    return FileHistories(tag, revisions, trails, GitReader(repository), tuple(diagnostics.values()))


def _revisions(repository: Repository, until: Revision, since: Revision | None) -> tuple[FileVersion, ...]:
    asked = ["rev-list", "--first-parent", "--timestamp", until.commit]
    lines = repository.run([*asked, f"^{since.commit}"] if since else asked).decode().split("\n")
    found = [_moment(line) for line in reversed(lines) if line]
    return tuple(found if since is None else [FileVersion(since.commit, since.time), *found])


def _moment(line: str) -> FileVersion:
    seconds, _, commit = line.partition(" ")
    return FileVersion(commit, commit_time(seconds))


def _trees(repository: Repository, revisions: Sequence[FileVersion], tag: str) -> list[str | None]:
    """Return the tree of `tag` in each revision."""
    found: list[str | None] = []
    for catalogue in catalogues_of(repository, [revision.commit for revision in revisions]):
        tags = folders(repository, catalogue) if catalogue else Folders({}, frozenset())
        # A link in its place keeps what was there before.
        found.append(found[-1] if found and tag.encode() in tags.odd else tags.ids.get(tag))
    return found


def _changes(
    repository: Repository, trees: Sequence[str | None], wanted: Wanted
) -> Iterator[tuple[int, str, TreeChange | str]]:
    """Yield (revision, package, change of its document, or why that cannot be used), oldest first."""
    pairs = [(number, before, after) for number, (before, after) in enumerate(zip([None, *trees], trees, strict=False))]
    differing = [(number, before, after) for number, before, after in pairs if before != after]
    for run in _runs(differing, _REVISIONS_AT_ONCE):
        folders: list[_Folders] = []
        for number, package, entry in _packages(repository, run, wanted):
            if entry is None or entry.after_mode in _ODD:
                yield number, package, REPLACED
            else:
                folders.append(
                    (number, package, _folder(entry.before, entry.before_mode), _folder(entry.after, entry.after_mode))
                )
        for some in _runs(folders, _PACKAGES_AT_ONCE):
            yield from _documents(repository, some)


def _packages(
    repository: Repository, run: Sequence[tuple[int, str | None, str | None]], wanted: Wanted
) -> Iterator[tuple[int, str, TreeChange | None]]:
    """Yield (revision, package, change of its folder) for each that differs; without the change if it stands twice."""
    entries: defaultdict[tuple[int, bytes], list[TreeChange]] = defaultdict(list)
    for place, entry in diff_trees(repository, [(before, after) for _, before, after in run]):
        if is_name(entry.name) and wanted(entry.name.decode()):
            entries[place, entry.name].append(entry)
    for (place, name), found in entries.items():
        yield run[place][0], name.decode(), one_change(found)


def _folder(object_id: str | None, mode: bytes) -> str | None:
    return object_id if mode == FOLDER else None


def _documents(repository: Repository, run: Sequence[_Folders]) -> Iterator[tuple[int, str, TreeChange | str]]:
    entries: defaultdict[int, list[TreeChange]] = defaultdict(list)
    for place, entry in diff_trees(repository, [(before, after) for _, _, before, after in run]):
        if entry.name == DOCUMENT.encode():
            entries[place].append(entry)
    for place, each in entries.items():
        number, package, *_ = run[place]
        change = one_change(each)
        if change is None:
            yield number, package, problem_of(repository, TWICE, "")
        elif change.after and (problem := problem_of(repository, change.after_mode, change.after)):
            yield number, package, problem
        else:
            yield number, package, change


def _blob(
    repository: Repository, object_id: str | None, sizes: Mapping[str, int], folder: str, package: str
) -> Blob | None:
    if object_id is None:
        return None
    blob = blob_of(repository, folder, package, object_id, sizes.get(object_id, 0))
    if object_id not in sizes:
        raise SourceError(f"{blob.path}: a version of it is not in this clone; fetch it, or give --repo the URL")
    return blob


def _runs(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    found = list(items)
    for start in range(0, len(found), most):
        yield found[start : start + most]
