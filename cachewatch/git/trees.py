"""Where the documents of a revision lie, as git trees (folders), and which documents differ between two trees.

A folder like `_cache/` is read as git's binary trees, at a fixed depth: tag, package, document. Nothing beside or below
is looked at, so a tree of a hundred million files costs nothing.

If there is no such folder, all files of a revision that may be documents are listed, and the beginning of each is read
once. The trees that a `_cache/` would have are made of them, with git's ids, so that moved documents compare as equal.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import PurePosixPath
from sys import intern

from msgspec import Struct

from cachewatch.core.changesets import USUAL_BYTES, Blob, Difference, DocumentPair
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, Unreadable
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, Layout, Wanted, is_name, not_compared, why_contested
from cachewatch.documents import recognition_and_front_matter as front_matter
from cachewatch.documents.recognition_and_front_matter import MAX_ENTRIES, ignored_entries_note
from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.local_repository import FULL_ID, Repository, object_id

_FOLDER, _FILES = b"40000", (b"100644", b"100755", b"100664")
_ODD = (b"120000", b"160000")  # links and modules
_CONTESTED = b"contested"  # the mode of a document that several files claim to be
REPLACED = "its folder is a link or a module, or is listed twice"

_TREES_AT_ONCE = 1024


class MadeTree(str):
    """The id of a tree that cachewatch made, and the entries of the tree; git does not have this tree."""

    __slots__ = ("entries",)
    entries: "TreeEntries"


# The mode and id of an entry in a tree, and, if the tree was made here, the paths of the files that it stands for.
TreeEntry = tuple[bytes, str, tuple[str, ...]]
TreeEntries = Mapping[bytes, TreeEntry]
_TWICE: TreeEntry = (b"twice", "", ())  # stands for all entries of a name that its tree has twice


def make_tree(entries: TreeEntries, like: str) -> MadeTree:
    """Return a tree with these entries, and the id that git would give it; `like`, any id, tells the kind of hash."""
    ordered = sorted(entries.items(), key=lambda item: item[0] + b"/")  # as git sorts folders
    content = b"".join(b"%b %b\0%b" % (mode, name, bytes.fromhex(key)) for name, (mode, key, _) in ordered)
    made = MadeTree(object_id("tree", content, like))
    made.entries = entries
    return made


def folder_of(repository: Repository, tag: str) -> str:
    """Return the path of the folder of a tag in the repository, for messages."""
    return f"{repository.layout.catalogue or CATALOGUE}/{tag}"


def _entries(content: bytes, id_bytes: int) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield name and TreeEntry of each entry in a tree; `content` is git's form of it, with ids of `id_bytes` bytes."""
    position = 0
    while position < len(content):
        space = content.index(b" ", position)
        end = content.index(b"\0", space)
        mode = content[position:space].lstrip(b"0") or b"0"  # old tools wrote leading zeros
        position = end + 1 + id_bytes
        yield content[space + 1 : end], (mode, content[end + 1 : position].hex(), ())


class Folders(Struct, frozen=True):
    """The ids of a tree's subfolders with valid names, by name; and `odd` entries, such as links meant as folders."""

    ids: Mapping[str, str]
    odd: TreeEntries


def folders(repository: Repository, name: str | None) -> Folders:
    """Return the subfolders of the tree that `name` means to git; no folders if `name` is None or means no tree."""
    listed = listing(repository, name)
    return Folders(
        {n.decode(): key for n, (mode, key, _) in listed.items() if mode == _FOLDER and is_name(n)},
        {n: entry for n, entry in listed.items() if is_odd(entry) or (entry[0] == _FOLDER and not is_name(n))},
    )


class TreeDifference:
    """The documents that differ between two trees of packages; `chosen` returns those of selected packages."""

    def __init__(
        self,
        repository: Repository,
        tags: tuple[str, str],
        before: str | None,
        after: str | None,
        *,
        is_of_changes: bool = False,  # leaves out a document for which the same files compete in both trees
    ) -> None:
        """Compare the packages of two `tags`; `before` and `after` are ids of their trees, None means an empty one."""
        old, new = listing(repository, before), listing(repository, after)
        kept = {n for n, entry in new.items() if old.get(n) == entry}
        if not is_of_changes:
            made = {n: tree.entries for n in kept if isinstance(tree := new[n][1], MadeTree)}
            kept -= {n for n, entries in made.items() if entries[DOCUMENT.encode()][0] == _CONTESTED}
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
        """The number of packages in this object, as a measure of its memory."""
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
        """Record differing and unreadable documents of the packages `names`; return the packages with equal ones."""
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
    """Return the documents of the packages in `trees`, pairs of a name and a tree's id; `folder` is the tag's path."""
    entries = _document_entries(repository, (tree for _, tree in trees))
    found = zip(trees, entries, strict=False)
    named = (blob_of(folder, name.decode(), entry) for (name, _), entry in found if not problem_of(entry))
    blobs = [blob for blob in named if blob]
    repository.obtain(blob.name for blob in blobs)
    return blobs


def document_of(repository: Repository, folder: str, tree: str | None, package: str) -> Blob | str | None:
    """Return the document of `package` in `tree` (a tag, at `folder`); None if missing; the reason if unreadable."""
    entry = listing(repository, tree).get(package.encode("utf-8", "replace"))
    if is_odd(entry):
        return REPLACED
    (found,) = _document_entries(repository, iter([tree_of_entry(entry)]))
    return problem_of(found) or blob_of(folder, package, found)


def listing(repository: Repository, name: str | None, *, is_limited: bool = True) -> TreeEntries:
    """Return the entries, by file name, of the tree `name`: an id, or an expression of git such as `v1.0:folder`.

    Return {} if `name` is None or names no tree. Raises SourceError if `name` is an id and the object is missing, or if
    the tree has too many entries and `is_limited`.
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
    """Yield the entry of the document in each of the packages' `trees`; None for one without a document."""
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
    """Return why the document `entry` is unusable; "" if it is usable, or if `entry` is None."""
    mode, _, paths = entry or (_FILES[0], "", ())
    if mode in _FILES:
        return ""
    if mode == _CONTESTED:
        return why_contested(paths)
    return "stands twice in its folder" if entry == _TWICE else f"is not a regular file (mode {mode.decode()})"


def blob_of(folder: str, package: str, entry: TreeEntry | None) -> Blob | None:
    """Return the document that `entry` stands for; None if `entry` is None. `folder` is the path of the tag."""
    if entry is None:
        return None
    _, key, paths = entry
    return Blob(key, USUAL_BYTES, paths[0]) if paths else Blob(key, USUAL_BYTES, folder, package)


def tree_of_entry(entry: TreeEntry | None) -> str | None:
    """Return the id of the tree of `entry`; None if `entry` is None or no folder."""
    return entry[1] if entry is not None and entry[0] == _FOLDER else None


def is_odd(entry: TreeEntry | None) -> bool:
    """Tell whether `entry` is a link, a git submodule, or listed twice: no plain folder, but perhaps meant as one."""
    return entry is not None and (entry[0] in _ODD or entry == _TWICE)


def _too_many(repository: Repository) -> SourceError:
    return SourceError(f"{repository.path}: a tree has more than {MAX_ENTRIES:,} entries, which no catalogue has")


_MOST_KEPT = 250_000  # how many entries are kept for the next revisions; what was dropped is read again
_REVISIONS_AT_ONCE = 16
_LONGEST_PATH = 4096
_MOST_BESIDE = 100

# The tree of each package, by tag and package; its only entry is the document, with id and path.
Places = dict[tuple[str, str], MadeTree]


class Located(Struct, frozen=True):
    """Where documents lie in one revision that has no folder like `_cache/`."""

    places: Places = {}
    files: dict[str, str] = {}  # the id of each file that may be a document, by path
    others: frozenset[str] = frozenset()  # paths of those that are none
    catalogue: MadeTree | None = None  # `places` as trees; None without documents
    diagnostics: tuple[Diagnostic, ...] = ()  # on documents that name no valid package or tag

    @property
    def no_documents(self) -> tuple[Diagnostic, ...]:
        """Diagnostics on files that only have names of documents: one for each empty file, one on all others."""
        places = {path for tree in self.places.values() for _, _, (path, *_) in tree.entries.values()}
        ids = ((path, self.files[path]) for path in self.others - places)
        return front_matter.no_documents(((path, key == object_id("blob", b"", key)) for path, key in ids), places)


# The number of entries in a folder, name and id of each file that may be a document, and the subfolders' ids by name.
_Folder = tuple[int, frozenset[tuple[str, str]], dict[str, str]]


class _KnownDocuments(Struct):
    """A cache of where documents of one layout lie; all repositories share it, since the keys are ids of git."""

    stored: dict[str, str | None] = {}  # the tree that git stores, by commit
    located: dict[str, Located] = {}  # by commit
    claims: dict[str, front_matter.Claim | None] = {}  # by id of the file
    folders: dict[str, _Folder] = {}  # by id of the tree
    kept: int = 0  # the entries in `located` and `folders`


KNOWN: defaultdict[Layout, _KnownDocuments] = defaultdict(_KnownDocuments)  # in this process


def stored_catalogue(repository: Repository, commit: str) -> str | None:
    """Return the id of the tree of `commit` that is the catalogue, such as `_cache/`; None if documents lie elsewhere.

    If no layout was given, `_cache/` is the catalogue only if it contains a document.
    """
    layout, stored = repository.layout, KNOWN[repository.layout].stored
    if commit not in stored:
        tree = _tree_at(repository, commit, layout.catalogue) if layout.catalogue else None
        stored[commit] = tree if tree and (layout.pattern or _has_document(repository, tree, 2)) else None
    return stored[commit]


def _tree_at(repository: Repository, commit: str, path: str) -> str | None:
    found = repository.objects().get(f"{commit}:{path}")
    return found.id if found is not None and found.type == "tree" else None


def _has_document(repository: Repository, tree: str, depth: int) -> bool:
    """Tell whether a document lies `depth` folders below `tree`, or may lie there because of a link."""
    if not depth:
        return DOCUMENT.encode() in listing(repository, tree)
    return any(
        is_odd(entry) or (entry[0] == _FOLDER and _has_document(repository, entry[1], depth - 1))
        for name, entry in listing(repository, tree).items()
        if is_name(name)
    )


def catalogue_of(repository: Repository, commit: str, others: Collection[str] = ()) -> str | None:
    """Return the id of the catalogue's tree in `commit` (with a folder for each tag); None if it has no documents.

    A document that only the commits `others` have may be a file here that is no document any more, a link or a module;
    then it counts as unreadable, not as removed.
    """
    if (tree := stored_catalogue(repository, commit)) is not None:
        return tree  # where a file is a document by its name
    elsewhere = [other for other in others if not stored_catalogue(repository, other)]
    here, *were = _locate(repository, [commit, *elsewhere])
    found: Places = {}
    for was in were if repository.layout.reads_contents else ():
        # A new file that is no document but is called like a package may be the document that was moved.
        new = sorted(here.others - was.files.keys())
        called = {name: path for path in new for name in (PurePosixPath(path).stem, PurePosixPath(path).parent.name)}
        for place in was.places.keys() - here.places.keys() - found.keys():
            mode, _, (path, *_) = was.places[place].entries[DOCUMENT.encode()]
            is_another = path in here.files and path not in here.others
            if mode == _CONTESTED or path in was.others or is_another:
                continue  # it was unknown, or it is now another document
            if instead := path if path in here.others else called.get(place[1]):
                found[place] = _package(_FILES[0], here.files[instead], (instead,))
            elif odd := _odd_at(repository, commit, path):
                found[place] = _package(*odd, (path,))
    return _as_trees(here.places | found, commit) if found else here.catalogue


def catalogues_of(repository: Repository, commits: Sequence[str]) -> Iterator[str | None]:
    """Yield, for each of `commits`, the id of the catalogue's tree, or None if it has no documents."""
    for start in range(0, len(commits), _REVISIONS_AT_ONCE):
        some = commits[start : start + _REVISIONS_AT_ONCE]
        _locate(repository, [commit for commit in some if not stored_catalogue(repository, commit)])
        for commit in some:
            yield catalogue_of(repository, commit)


def locate(repository: Repository, commit: str) -> Located:
    """Return where the documents of `commit` lie; nothing (an empty Located) if it has a folder like `_cache/`."""
    return Located() if stored_catalogue(repository, commit) else _locate(repository, [commit])[0]


def _locate(repository: Repository, commits: Sequence[str]) -> list[Located]:
    """Return where the documents of each of `commits` lie. Reads each file once, and fetches all missing contents."""
    layout, memory = repository.layout, KNOWN[repository.layout]
    if memory.kept > _MOST_KEPT or len(memory.claims) > _MOST_KEPT:
        memory.located, memory.claims, memory.folders, memory.kept = {}, {}, {}, 0
    known, located = memory.claims, memory.located  # another thread may drop them meanwhile
    new = {commit: dict(_files(repository, commit)) for commit in commits if commit not in located}
    memory.kept += sum(map(len, new.values()))
    every = dict.fromkeys(key for files in new.values() for key in files.values()) if layout.reads_contents else {}
    unread = [key for key in every if key not in known]
    repository.obtain(unread)
    beginnings = repository.objects().beginnings(unread, most=front_matter.MOST_BYTES)
    known |= zip(unread, map(front_matter.claim_of, beginnings), strict=True)
    for commit, files in new.items():
        claims = {path: known[files[path]] if every else front_matter.Claim() for path in sorted(files)}
        recognized = front_matter.recognize(layout, claims)
        if not recognized.documents and not layout.pattern and _odd_at(repository, commit, CATALOGUE):
            raise BrokenSource(
                f"{repository.path}: in revision {commit[:10]}, {CATALOGUE} is a link or a module, and what it leads to"
                " is not read; it has to be a folder"
            )
        places = {place: _package(_FILES[0], files[path], (path,)) for place, path in recognized.replaced.items()}
        for place, paths in recognized.documents.items():
            if len(paths) == 1:
                places[place] = _package(_FILES[0], files[paths[0]], tuple(paths))
            else:  # an id of the contents, too, so that an edit of one of them is a difference
                names = "\0".join(f"{path}\0{files[path]}" for path in paths).encode("utf-8", "surrogateescape")
                places[place] = _package(_CONTESTED, sha256(names).hexdigest()[: len(commit)], tuple(paths))
        others = frozenset(path for path, claim in claims.items() if claim is None)
        made = _as_trees(places, commit)
        located[commit] = Located(places, files, others, made, tuple(recognized.diagnostics))
    return [located[commit] for commit in commits]


@lru_cache(_MOST_KEPT)
def _package(*entry: *TreeEntry) -> MadeTree:
    """Return the tree of a package with the document `entry`; equal ones are one object, to save memory."""
    return make_tree({DOCUMENT.encode(): entry}, entry[1])


def _as_trees(places: Places, like: str) -> MadeTree | None:
    """Return the tree of a `_cache/` with the documents `places`; None if there are none. `like`: see `make_tree`."""
    tags: defaultdict[bytes, dict[bytes, TreeEntry]] = defaultdict(dict)
    for (tag, package), tree in places.items():
        tags[tag.encode()][package.encode()] = _FOLDER, tree, ()
    folders = {tag: (_FOLDER, make_tree(packages, like), ()) for tag, packages in tags.items()}
    return make_tree(folders, like) if folders else None


def _odd_at(repository: Repository, commit: str, path: str) -> tuple[bytes, str] | None:
    """Return mode and id of the link or module that is at `path` or at a folder above; None if there is none."""
    tree, mode = f"{commit}:", _FOLDER
    for part in path.encode("utf-8", "surrogateescape").split(b"/"):
        if mode == _FOLDER:
            mode, tree, _ = listing(repository, tree).get(part, (b"", "", ()))
    return (mode, tree) if mode in _ODD else None


def _files(repository: Repository, commit: str) -> Iterator[tuple[str, str]]:
    """Return the path and id of each file of `commit` that may be a document, judging by its path."""
    layout = repository.layout
    root = _tree_at(repository, commit, layout.folder)
    found = _differing(repository, f"{layout.folder}/" if layout.folder else "", None, root)
    return ((path, key) for path, key in found if layout.may_be(path))


def _differing(repository: Repository, start: str, before: str | None, after: str | None) -> Iterator[tuple[str, str]]:
    """Yield the path, after `start`, and id of each file in only one tree; of a changed file, both ids are yielded."""
    waiting, entries = [(start, before, after)], 0
    while waiting:
        place, *pair = waiting.pop()
        (count, had, were), (more, has, are) = (_folder(repository, tree) for tree in pair)
        entries += count + more
        if entries > MAX_ENTRIES:
            raise BrokenSource(
                f"{repository.path}: has more than {MAX_ENTRIES:,} files, so documents are not looked for; say"
                " where they are with --documents, or `documents:` of the source"
            )
        yield from ((place + name, key) for name, key in had ^ has)
        waiting += [
            (f"{place}{name}/", were.get(name), are.get(name))
            for name in sorted(were.keys() | are.keys())
            if were.get(name) != are.get(name) and place + name != CATALOGUE and len(place) < _LONGEST_PATH
        ]


def _folder(repository: Repository, tree: str | None) -> _Folder:
    layout, memory = repository.layout, KNOWN[repository.layout]
    if tree is None:
        return 0, frozenset(), {}
    if tree not in memory.folders:
        listed = listing(repository, tree, is_limited=False).items()
        items = [(mode, name.decode("utf-8", "surrogateescape"), key) for name, (mode, key, _) in listed]
        files = [(name, key) for mode, name, key in items if mode in _FILES and (layout.pattern or layout.may_be(name))]
        inner = {name: key for mode, name, key in items if mode == _FOLDER}
        memory.folders[tree] = len(items), frozenset(files), inner
        memory.kept += len(items)
    return memory.folders[tree]


def documents_beside(repository: Repository, *commits: str) -> list[str]:
    """Return paths of documents outside `_cache/`, at most 100: all in one commit, or those that differ between two."""
    roots = [root.id for commit in commits if (root := repository.objects().get(f"{commit}:"))]
    files = _differing(repository, "", *[None, *roots][-2:])
    try:
        return sorted(set(islice((path for path, key in files if _is_document(repository, key)), _MOST_BESIDE)))
    except BrokenSource:
        return []  # among so many files nobody looks for documents


def _is_document(repository: Repository, key: str) -> bool:
    """Tell whether the file with the id `key` is a document; False if it is too large or missing here."""
    claims = KNOWN[repository.layout].claims
    if key not in claims:
        try:
            blob = repository.objects().get(key)
        except SourceError:
            repository.close()  # a git that misses a content ends
            return False
        if blob is None:
            return False
        claims[key] = front_matter.claim_of(blob.content)
    return claims[key] is not None


def ignored_documents_note(repository: Repository, before: str, after: str) -> list[Diagnostic]:
    """Return a note on documents that are not compared because there is a `_cache/`, too; [] if there are none such."""
    sides = [side for side in (before, after) if not repository.layout.pattern and stored_catalogue(repository, side)]
    # Those that differ between the two revisions; if only one of them has `_cache/`, all of its files.
    found = documents_beside(repository, *sides) if sides else []
    are = f"this and {len(found) - 1} more are " if found[1:] else ""
    return [Diagnostic(path, DiagnosticKind.INCONSISTENT, not_compared(are), is_loss=False) for path in found[:1]]


def nothing_found(repository: Repository, commit: str, name: str) -> str:
    """Return the message that `commit`, called `name`, has no documents: what was sought, and what there is."""
    there = sorted(path for path, _ in _files(repository, commit))
    most, which = (1, ", which are not" if there[1:] else ", which is not one") if there else (3, "")
    listed = listing(repository, f"{commit}:").items()
    there = there or [f"{n.decode('utf-8', 'replace')}{'/' if mode == _FOLDER else ''}" for n, (mode, *_) in listed]
    more = f" and {len(there) - most:,} more" if there[most:] else ""
    found = f"{', '.join(there[:most])}{more}{which}" if there else "nothing"
    return f"{name!r} has no documents: looked for {repository.layout.wanted}; found {found}"
