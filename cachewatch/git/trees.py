"""Which documents differ between two trees, found without reading any document.

Trees are read as git stores them, in bytes. The depth is fixed: tag, package, document. Nothing below
or beside that is looked at, so a tree of a hundred million files costs nothing.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from sys import intern

from msgspec import Struct

from cachewatch.core.model import Diagnostic, DiagnosticKind, Unreadable
from cachewatch.core.repository_layout import DOCUMENT, Wanted, is_name
from cachewatch.core.tag_pairs import Blob, Difference, DocumentPair
from cachewatch.errors import SourceError
from cachewatch.git.arranged_trees import (
    FILES,
    FOLDER,
    MAX_ENTRIES,
    TWICE,
    arrangement_of,
    blob_of,
    folder_of,
    made_tree,
    missing_tree,
    problem_of,
    tree_entries,
)
from cachewatch.git.repository import Repository

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_RECORD = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) [A-Z]\d*\0")
_NO_MODE, _LINK, _MODULE = b"0", b"120000", b"160000"
_MODES = {mode: mode for mode in (FOLDER, *FILES)}
_ODD_MODES = (_LINK, _MODULE, TWICE)
_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
# What stands before the id in the tree of nearly every package, which holds its document and no more.
_USUAL_MODE = b"100644"
_USUAL = _USUAL_MODE + b" " + DOCUMENT.encode() + b"\0"
REPLACED = "its folder is a link or a module, or is listed twice"
_TREES_AT_ONCE = 1024

# Mode and id of an entry of a tree, both as git stores them; one that stands twice has neither.
TreeEntry = tuple[bytes, bytes]
Listing = dict[bytes, TreeEntry]


class TreeChange(Struct, frozen=True):
    """One name that differs between two folders; an id is None on a side that lacks it."""

    name: bytes
    before_mode: bytes
    after_mode: bytes
    before: str | None
    after: str | None


class Folders(Struct, frozen=True):
    """The folders of a tree by name, and the names of what is none and could be meant as one."""

    ids: Mapping[str, str]
    odd: frozenset[bytes]


def folders(repository: Repository, name: str) -> Folders:
    """Return the folders in the tree that `name` names; of no tree, none."""
    listed = _listing(repository, name)
    return Folders(
        {n.decode(): i.hex() for n, (mode, i) in listed.items() if mode == FOLDER and is_name(n)},
        frozenset(n for n, entry in listed.items() if _is_odd(entry) or (entry[0] == FOLDER and not is_name(n))),
    )


class TreeDifference:
    """What differs between two trees of packages, before anybody chose some of them."""

    def __init__(self, repository: Repository, tag: str, old: Listing, new: Listing) -> None:
        """Compare the packages of `tag` on both sides."""
        differing = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        self._repository = repository
        self._folder = folder_of(repository, tag)
        self._odd = [n for n in differing if not is_name(n) or _is_odd(old.get(n)) or _is_odd(new.get(n))]
        odd = frozenset(self._odd)
        names = [name for name in differing if name not in odd]
        self._documents, self._unreadable, same = _documents(repository, self._folder, names, old, new)
        self._replaced = [
            Unreadable(package=n.decode(), reason=REPLACED, before=_is_odd(old.get(n)), after=_is_odd(new.get(n)))
            for n in self._odd
            if is_name(n)
        ]
        # A list: what is asked later must not keep the two states in memory until then.
        self._same = [(n, entry) for n, entry in new.items() if (old.get(n) == entry and is_name(n)) or n in same]
        repository.obtain(blob.name for pair in self._documents for blob in (pair.before, pair.after) if blob)

    @property
    def entries(self) -> int:
        """How many packages are known here, which says how much memory this takes."""
        return len(self._documents) + len(self._same)

    def chosen(self, wanted: Wanted) -> Difference:
        """Return the difference where somebody asked for the packages that `wanted` chooses."""
        unreadable = [(each, path) for each, path in self._unreadable if wanted(each.package)]
        return Difference(
            documents=tuple(pair for pair in self._documents if wanted(pair.package)),
            count_unchanged=cache(lambda: sum(map(wanted, self._unchanged_packages))),
            diagnostics=(
                *ignored(self._folder, self._odd),
                *(Diagnostic(path, DiagnosticKind.UNREADABLE, each.reason) for each, path in unreadable),
            ),
            unreadable=(*(each for each in self._replaced if wanted(each.package)), *(each for each, _ in unreadable)),
            others=tuple(pair for pair in self._documents if not wanted(pair.package)),
            count_other_unchanged=cache(lambda: sum(not wanted(package) for package in self._unchanged_packages)),
            unchanged=self._unchanged,
        )

    @cached_property
    def _unchanged_packages(self) -> tuple[str, ...]:
        """The packages that have the same document on both sides."""
        entries = _document_entries(self._repository, (_tree(entry) for _, entry in self._same))
        return tuple(
            intern(name.decode()) for (name, _), entry in zip(self._same, entries, strict=False) if entry is not None
        )

    def _unchanged(self) -> list[Blob]:
        return blobs_of(self._repository, self._folder, [(name, _tree(entry)) for name, entry in self._same])


def compare_trees(repository: Repository, tag: str, before: str | None, after: str | None) -> TreeDifference:
    """Find what differs between two trees of packages; None is a tree without any."""
    old, new = (_listing(repository, tree) if tree else {} for tree in (before, after))
    return TreeDifference(repository, tag, old, new)


def blobs_of(repository: Repository, folder: str, trees: Sequence[tuple[bytes, str | None]]) -> list[Blob]:
    """Return the documents in the trees of some packages."""
    entries = _document_entries(repository, (tree for _, tree in trees))
    found = (
        _blob(repository, folder, name.decode(), entry)
        for (name, _), entry in zip(trees, entries, strict=False)
        if not _problem(repository, entry)
    )
    blobs = [blob for blob in found if blob is not None]
    repository.obtain(blob.name for blob in blobs)
    return blobs


def _listing(repository: Repository, name: str) -> Listing:
    """Return mode and id of each entry of a tree; of an entry that stands twice, neither."""
    content = made_tree(repository, name)
    if content is None:
        found = repository.objects().get(name)
        if found is None and _ID.fullmatch(name):
            raise missing_tree(repository, name)
        if found is None or found.type != "tree":
            return {}
        name, content = found.id, found.content
    listing: Listing = {}
    for mode, entry, object_id in tree_entries(content, len(name) // 2):
        listing[entry] = (_mode(mode), object_id) if entry not in listing else (TWICE, b"")
    if len(listing) > MAX_ENTRIES:
        raise SourceError(_too_many(repository))
    return listing


def _tree(entry: TreeEntry | None) -> str | None:
    return entry[1].hex() if entry is not None and entry[0] == FOLDER else None


def _is_odd(entry: TreeEntry | None) -> bool:
    return entry is not None and entry[0] in _ODD_MODES


def _documents(
    repository: Repository, folder: str, names: Iterable[bytes], old: Listing, new: Listing
) -> tuple[list[DocumentPair], list[tuple[Unreadable, str]], frozenset[bytes]]:
    """Return the documents that differ, those that are none, with the path of each, and the packages with the same one."""
    documents: list[DocumentPair] = []
    same: list[str] = []
    unreadable: list[tuple[Unreadable, str]] = []
    entries = _document_entries(repository, (_tree(side.get(name)) for name in names for side in (old, new)))
    for name, before, after in zip((name.decode() for name in names), entries, entries, strict=False):
        had, has = _problem(repository, before), _problem(repository, after)
        blobs = _blob(repository, folder, name, before), _blob(repository, folder, name, after)
        if had or has:
            path = next(
                blob.path for blob, problem in zip(reversed(blobs), (has, had), strict=True) if problem and blob
            )
            unreadable.append((Unreadable(package=name, reason=has or had, before=bool(had), after=bool(has)), path))
        elif before != after:
            documents.append(DocumentPair(name, *blobs))
        elif after is not None:
            same.append(name)
    return documents, unreadable, frozenset(map(str.encode, same))


def document_of(repository: Repository, folder: str, tree: str | None, package: str) -> Blob | str | None:
    """Return the document of one package in a tree of packages, why it is none, or None where there is none."""
    entry = _listing(repository, tree).get(package.encode("utf-8", "replace")) if tree else None
    if _is_odd(entry):
        return REPLACED
    (found,) = _document_entries(repository, iter([_tree(entry)]))
    return _problem(repository, found) or _blob(repository, folder, package, found)


def _document_entries(repository: Repository, trees: Iterator[str | None]) -> Iterator[TreeEntry | None]:
    """Yield mode and id of the document in the tree of each package; None where there is none."""
    entries, arrangement = 0, arrangement_of(repository.layout)
    while run := list(islice(trees, _TREES_AT_ONCE)):
        made = [arrangement.tree(repository, tree) if tree else b"" for tree in run]
        stored = [tree for tree, content in zip(run, made, strict=True) if tree and content is None]
        contents = repository.objects().stream(stored, kind="tree")
        for tree, ours in zip(run, made, strict=True):
            content, id_bytes = next(contents) if ours is None else ours, len(tree or "") // 2
            found = _only_document(content, id_bytes)
            for mode, name, object_id in () if found else tree_entries(content, id_bytes):
                entries += 1
                if entries > MAX_ENTRIES:
                    raise SourceError(_too_many(repository))
                if name == DOCUMENT.encode():
                    found = (_mode(mode), object_id) if found is None else (TWICE, b"")
            yield found
        next(contents, None)


def _only_document(content: bytes, id_bytes: int) -> TreeEntry | None:
    """Return the document of a tree that holds nothing else, as nearly every one does."""
    is_usual = content.startswith(_USUAL) and len(content) == len(_USUAL) + id_bytes
    return (_USUAL_MODE, content[len(_USUAL) :]) if is_usual else None


def _problem(repository: Repository, entry: TreeEntry | None) -> str:
    return problem_of(repository, entry[0], entry[1].hex()) if entry is not None else ""


def _blob(repository: Repository, folder: str, package: str, entry: TreeEntry | None) -> Blob | None:
    return None if entry is None else blob_of(repository, folder, package, entry[1].hex())


def _too_many(repository: Repository) -> str:
    return f"{repository.path}: a tree has more than {MAX_ENTRIES:,} entries, which no catalogue has"


def diff_trees(
    repository: Repository, pairs: Sequence[tuple[str | None, str | None]]
) -> Iterator[tuple[int, TreeChange]]:
    """Yield what differs between the trees of each pair, with the number of the pair."""
    if any(tree and made_tree(repository, tree) is not None for pair in pairs for tree in pair):
        for number, (before, after) in enumerate(pairs):
            yield from ((number, change) for change in _listed_changes(repository, before, after))
        return
    empty = _EMPTY_TREE[max((len(tree) for pair in pairs for tree in pair if tree), default=40)]
    lines = [f"{before or empty} {after or empty}" for before, after in pairs]
    if not lines:
        return
    printed = repository.run(["diff-tree", "--stdin", "-z", "--raw", "--no-renames", "--no-abbrev"], lines)
    number, position, entries = -1, 0, 0
    while position < len(printed):
        if printed[position : position + 1] != b":":
            # The pair that follows, as it was asked for. Git passes over a pair that it cannot read.
            end = printed.index(b"\n", position)
            number += 1
            if number >= len(lines) or printed[position:end].decode() != lines[number]:
                raise SourceError(
                    f"{repository.path}: git could not read a tree; the repository is damaged or incomplete"
                )
            position = end + 1
            continue
        match = _RECORD.match(printed, position)
        if match is None:
            raise SourceError(f"{repository.path}: git diff-tree printed what cannot be understood")
        end = printed.index(b"\0", match.end())
        entries += 1
        if entries > MAX_ENTRIES:
            raise SourceError(_too_many(repository))
        name = printed[match.end() : end]
        yield number, TreeChange(name, _mode(match[1]), _mode(match[2]), _id(match[3]), _id(match[4]))
        position = end + 1
    if number + 1 < len(lines):
        raise SourceError(f"{repository.path}: git could not read a tree; the repository is damaged or incomplete")


def _listed_changes(repository: Repository, before: str | None, after: str | None) -> Iterator[TreeChange]:
    """Yield what differs between two trees, of which git may not have both."""
    old, new = (_listing(repository, tree) if tree else {} for tree in (before, after))
    for name in sorted(old.keys() | new.keys()):
        (old_mode, old_id), (new_mode, new_id) = (side.get(name, (_NO_MODE, b"")) for side in (old, new))
        if (old_mode, old_id) != (new_mode, new_id):
            # An entry that is there twice is as little of a folder as a link is.
            was, is_now = (_LINK if mode == TWICE else mode for mode in (old_mode, new_mode))
            yield TreeChange(name, was, is_now, old_id.hex() or None, new_id.hex() or None)


def one_change(entries: Sequence[TreeChange]) -> TreeChange | None:
    """Return the one change of a name, or None if it stands twice in a folder.

    Of a folder that replaces a link, or the other way round, git says that one went and the other came.
    """
    if len(entries) == 1:
        return entries[0]
    went = [entry for entry in entries if entry.after is None]
    came = [entry for entry in entries if entry.before is None]
    if len(entries) == 2 and len(went) == len(came) == 1:
        return TreeChange(went[0].name, went[0].before_mode, came[0].after_mode, went[0].before, came[0].after)
    return None


def _mode(text: bytes) -> bytes:
    # Old tools wrote modes with zeros before them. Thousands of entries share one of each.
    mode = text.lstrip(b"0") or _NO_MODE
    return _MODES.get(mode, mode)


def _id(text: bytes) -> str | None:
    return text.decode() if text.strip(b"0") else None


def sizes_of(repository: Repository, ids: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each of these objects that is here."""
    asked = sorted(ids)
    if not asked:
        return {}
    printed = repository.run(["cat-file", "--batch-check", "--buffer"], asked)
    fields = (line.split() for line in printed.decode().splitlines())
    return {f[0]: int(f[2]) for f in fields if len(f) == 3}


def ignored(label: str, names: Collection[bytes]) -> list[Diagnostic]:
    """Return the fault of entries below `label` that are no folders of documents, if there are any."""
    if not names:
        return []
    first = min(names)[:60].decode("ascii", "backslashreplace").encode("unicode_escape").decode()
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    reason = "a link, a module, listed twice, or of a name that nothing in a catalogue can have"
    return [Diagnostic(label, DiagnosticKind.UNREADABLE, f"ignored {first!r}{more}: {reason}")]
