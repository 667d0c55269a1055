"""Find the documents that differ between two trees, without reading any document.

Trees are read in git's binary form, at a fixed depth: tag, package, document. Nothing beside or below is looked at, so
a tree of a hundred million files costs nothing. Where documents lie elsewhere, the trees are made (layouts.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from sys import intern

from msgspec import Struct

from cachewatch.core.changesets import USUAL_BYTES, Blob, Difference, DocumentPair
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, Unreadable
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, Wanted, is_name, why_contested
from cachewatch.errors import SourceError
from cachewatch.git.local_repository import FULL_ID, Repository, object_id

FOLDER, FILES = b"40000", (b"100644", b"100755", b"100664")
ODD = (b"120000", b"160000")  # links and modules
CONTESTED = b"contested"  # the mode of a document that several files claim to be
REPLACED = "its folder is a link or a module, or is listed twice"
MAX_ENTRIES = 200_000

_TREES_AT_ONCE = 1024


class MadeTree(str):
    """The id of a tree that git does not have, with its entries: what a folder like `_cache/` would have."""

    __slots__ = ("entries",)
    entries: "TreeEntries"


# Mode and id of an entry of a tree, and the paths of the files that it stands for in a tree that was made here.
TreeEntry = tuple[bytes, str, tuple[str, ...]]
TreeEntries = Mapping[bytes, TreeEntry]
_TWICE: TreeEntry = (b"twice", "", ())  # stands for all entries of a name that its tree has twice


def make_tree(entries: TreeEntries, like: str) -> MadeTree:
    """Make a tree of documents, or of folders, with the id that git gives it; `like` is any id of the repository."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/")  # as git sorts folders
    content = b"".join(b"%b %b\0%b" % (mode, name, bytes.fromhex(key)) for name, (mode, key, _) in ordered)
    made = MadeTree(object_id("tree", content, like))
    made.entries = entries
    return made


def folder_of(repository: Repository, tag: str) -> str:
    """Return the path of the folder of a tag in the catalogue, for messages."""
    return f"{repository.layout.catalogue or CATALOGUE}/{tag}"


def _entries(content: bytes, id_bytes: int) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield name and entry of each entry of a tree in git's form, whose ids have `id_bytes` bytes."""
    position = 0
    while position < len(content):
        space = content.index(b" ", position)
        end = content.index(b"\0", space)
        mode = content[position:space].lstrip(b"0") or b"0"  # old tools wrote leading zeros
        position = end + 1 + id_bytes
        yield content[space + 1 : end], (mode, content[end + 1 : position].hex(), ())


class Folders(Struct, frozen=True):
    """The valid subfolders of a tree, as ids by name, and other entries that may be meant as folders."""

    ids: Mapping[str, str]
    odd: TreeEntries


def folders(repository: Repository, name: str | None) -> Folders:
    """Return the folders in the tree that `name` means; none if it is None or means no tree."""
    listed = listing(repository, name)
    return Folders(
        {n.decode(): key for n, (mode, key, _) in listed.items() if mode == FOLDER and is_name(n)},
        {n: entry for n, entry in listed.items() if is_odd(entry) or (entry[0] == FOLDER and not is_name(n))},
    )


class TreeDifference:
    """The differences between two trees of packages, before a selection of packages."""

    def __init__(
        self,
        repository: Repository,
        tags: tuple[str, str],
        before: str | None,
        after: str | None,
        *,
        is_of_changes: bool = False,  # what several files claim to be is not named if both trees have the same files
    ) -> None:
        """Compare the trees of packages of two tags, given by their ids; None is an empty tree."""
        old, new = listing(repository, before), listing(repository, after)
        kept = {n for n, entry in new.items() if old.get(n) == entry}
        if not is_of_changes:
            made = {n: tree.entries for n in kept if isinstance(tree := new[n][1], MadeTree)}
            kept -= {n for n, entries in made.items() if entries[DOCUMENT.encode()][0] == CONTESTED}
        differing = sorted((old.keys() | new.keys()) - kept)
        self._repository = repository
        self._had_folder, self._folder = (folder_of(repository, tag) for tag in tags)
        odd = {n: (is_odd(old.get(n)), is_odd(new.get(n))) for n in differing}
        self._odd = [n for n in differing if not is_name(n) or any(odd[n])]
        self._replaced = [
            Unreadable(package=n.decode(), reason=REPLACED, before=odd[n][0], after=odd[n][1])
            for n in self._odd
            if is_name(n)
        ]
        self._documents: list[DocumentPair] = []
        self._unreadable: list[tuple[Unreadable, str]] = []  # each with its path
        same = self._compare([n for n in differing if is_name(n) and not any(odd[n])], old, new)
        unchanged = {n for n in kept if is_name(n)} | same
        # A list, so that the functions that are called later do not keep both listings in memory.
        self._same = [(name, tree_of_entry(entry)) for name, entry in new.items() if name in unchanged]
        repository.obtain(blob.name for pair in self._documents for blob in (pair.before, pair.after) if blob)

    @property
    def size(self) -> int:
        """The number of packages kept, as a measure of the memory used."""
        return len(self._documents) + len(self._same)

    def chosen(self, wanted: Wanted) -> Difference:
        """Return the difference for the packages that `wanted` selects."""
        unreadable = [(each, path) for each, path in self._unreadable if wanted(each.package)]
        faults = (Diagnostic(path, DiagnosticKind.UNREADABLE, it.reason, side=it.side) for it, path in unreadable)
        return Difference(
            all_documents=tuple(self._documents),
            takes=wanted,
            diagnostics=(*ignored_entries_note(self._folder, self._odd), *faults),
            unreadable=(*(each for each in self._replaced if wanted(each.package)), *(each for each, _ in unreadable)),
            unchanged_packages=lambda: self._unchanged_packages,
            unchanged=lambda: blobs_of(self._repository, self._folder, self._same),
        )

    @cached_property
    def _unchanged_packages(self) -> tuple[str, ...]:
        entries = _document_entries(self._repository, (tree for _, tree in self._same))
        return tuple(intern(name.decode()) for (name, _), entry in zip(self._same, entries, strict=False) if entry)

    def _compare(self, names: Sequence[bytes], old: TreeEntries, new: TreeEntries) -> frozenset[bytes]:
        """Record differing and unreadable documents of the packages `names`; return those with equal documents."""
        same = []
        trees = (tree_of_entry(side.get(name)) for name in names for side in (old, new))
        entries = _document_entries(self._repository, trees)
        for name, before, after in zip(names, entries, entries, strict=False):
            package = name.decode()
            had, has = problem_of(before), problem_of(after)
            old_blob, new_blob = blob_of(self._had_folder, package, before), blob_of(self._folder, package, after)
            if had or has:
                blob = new_blob if has else old_blob
                unreadable = Unreadable(package=package, reason=has or had, before=bool(had), after=bool(has))
                self._unreadable.append((unreadable, blob.path if blob else self._folder))
            elif (before or ())[:2] != (after or ())[:2]:
                self._documents.append(DocumentPair(package, old_blob, new_blob))
            elif after is not None:
                same.append(name)
        return frozenset(same)


def blobs_of(repository: Repository, folder: str, trees: Sequence[tuple[bytes, str | None]]) -> list[Blob]:
    """Return the documents in trees of packages, which are pairs of name and tree id; `folder` is their tag's."""
    entries = _document_entries(repository, (tree for _, tree in trees))
    found = zip(trees, entries, strict=False)
    named = (blob_of(folder, name.decode(), entry) for (name, _), entry in found if not problem_of(entry))
    blobs = [blob for blob in named if blob]
    repository.obtain(blob.name for blob in blobs)
    return blobs


def document_of(repository: Repository, folder: str, tree: str | None, package: str) -> Blob | str | None:
    """Return the document of `package` in a tree of packages; None if there is none, or why it cannot be read."""
    entry = listing(repository, tree).get(package.encode("utf-8", "replace"))
    if is_odd(entry):
        return REPLACED
    (found,) = _document_entries(repository, iter([tree_of_entry(entry)]))
    return problem_of(found) or blob_of(folder, package, found)


def listing(repository: Repository, name: str | None, *, is_limited: bool = True) -> TreeEntries:
    """Return the entries of the tree that `name` means, by name; none if it is None or means no tree.

    Raises SourceError if a tree named by id is missing, or has too many entries and `is_limited`.
    """
    if isinstance(name, MadeTree):
        return name.entries
    tree = repository.objects().get(name) if name else None
    if tree is None and FULL_ID.fullmatch(name or ""):
        raise SourceError(f"{repository.path}: tree {name} is missing; the repository is damaged or incomplete")
    if tree is None or tree.type != "tree":
        return {}
    entries: dict[bytes, TreeEntry] = {}
    for entry_name, entry in _entries(tree.content, len(tree.id) // 2):
        entries[entry_name] = _TWICE if entry_name in entries else entry
    if is_limited and len(entries) > MAX_ENTRIES:
        raise _too_many(repository)
    return entries


def _document_entries(repository: Repository, trees: Iterator[str | None]) -> Iterator[TreeEntry | None]:
    """Yield the entry of the document in each package tree; None if it has none."""
    entries = 0
    while run := list(islice(trees, _TREES_AT_ONCE)):
        stored = [tree for tree in run if tree and not isinstance(tree, MadeTree)]
        contents = repository.objects().stream(stored, kind="tree")
        for tree in run:
            found = tree.entries[DOCUMENT.encode()] if isinstance(tree, MadeTree) else None
            content = next(contents) if tree and found is None else b""
            for name, entry in _entries(content, len(tree or "") // 2):
                entries += 1
                if entries > MAX_ENTRIES:
                    raise _too_many(repository)
                if name == DOCUMENT.encode():
                    found = _TWICE if found else entry
            yield found
        next(contents, None)


def problem_of(entry: TreeEntry | None) -> str:
    """Return why a tree entry cannot be a document; "" if it can, or if there is no entry."""
    mode, _, paths = entry or (FILES[0], "", ())
    if mode in FILES:
        return ""
    if mode == CONTESTED:
        return why_contested(paths)
    return "stands twice in its folder" if entry == _TWICE else f"is not a regular file (mode {mode.decode()})"


def blob_of(folder: str, package: str, entry: TreeEntry | None) -> Blob | None:
    """Return the document of a package, given its entry, or None; `folder` is that of its tag."""
    if entry is None:
        return None
    _, key, paths = entry
    return Blob(key, USUAL_BYTES, paths[0]) if paths else Blob(key, USUAL_BYTES, folder, package)


def tree_of_entry(entry: TreeEntry | None) -> str | None:
    """Return the tree of a folder; None if there is no entry, or it is no folder."""
    return entry[1] if entry is not None and entry[0] == FOLDER else None


def is_odd(entry: TreeEntry | None) -> bool:
    """Tell whether an entry is a link, a module or listed twice, so that it may stand for a folder."""
    return entry is not None and (entry[0] in ODD or entry == _TWICE)


def _too_many(repository: Repository) -> SourceError:
    return SourceError(f"{repository.path}: a tree has more than {MAX_ENTRIES:,} entries, which no catalogue has")


def ignored_entries_note(label: str, names: Collection[bytes]) -> list[Diagnostic]:
    """Return the diagnostic that the entries `names` of the folder `label` are ignored; none without names."""
    if not names:
        return []
    first = min(names)
    named = safe(first[:60].decode("utf-8", "backslashreplace"))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    is_link = is_name(first)
    reason = (
        "a link, a module, or listed twice" if is_link else "names may have only letters of ASCII, digits and ._+@-"
    )
    return [Diagnostic(label, DiagnosticKind.UNREADABLE, f"ignored '{named}'{more}: {reason}")]
