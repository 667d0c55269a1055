"""Where the documents of a revision lie: in `_cache/`, in another folder like it, or elsewhere.

A folder like `_cache/` is read as git stores it. Elsewhere, all files of a revision that may be documents are listed,
and the beginning of each is read once. The documents are also given as the trees that a `_cache/` would have, with git's
ids, so documents that were moved compare as equal.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from itertools import islice
from pathlib import PurePosixPath

from msgspec import Struct

from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, Layout, is_name, not_compared
from cachewatch.documents import recognizing_documents as recognition
from cachewatch.documents.recognizing_documents import Claim
from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git import trees
from cachewatch.git.local_repository import Repository, object_id
from cachewatch.git.trees import CONTESTED, FILES, FOLDER, ODD, MadeTree, TreeEntry, is_odd, listing, make_tree

_MOST_KEPT = 250_000  # how many entries are kept for the next revisions; what was dropped is read again
_REVISIONS_AT_ONCE = 16
_LONGEST_PATH = 4096
_MOST_BESIDE = 100

# The document of each tag and package, as the tree of a package: its entry has the id and path of the document.
Places = dict[tuple[str, str], MadeTree]


class Located(Struct, frozen=True):
    """Where the documents of one revision lie that has no folder like `_cache/`."""

    places: Places = {}
    files: dict[str, str] = {}  # the id of each file that may be a document, by path
    others: frozenset[str] = frozenset()  # paths of those that are none
    catalogue: MadeTree | None = None  # `places` as trees; None without documents
    diagnostics: tuple[Diagnostic, ...] = ()  # on documents that name no valid package or tag

    @property
    def no_documents(self) -> tuple[Diagnostic, ...]:
        """Diagnostics about files that have the name of documents but are none: empty ones, and a note on others."""
        places = {path for tree in self.places.values() for _, _, (path, *_) in tree.entries.values()}
        ids = ((path, self.files[path]) for path in self.others - places)
        return recognition.no_documents(((path, key == object_id("blob", b"", key)) for path, key in ids), places)


# How many entries a folder has; name and id of each file in it that may be a document; and the trees of its folders.
_Folder = tuple[int, frozenset[tuple[str, str]], dict[str, str]]


class _KnownDocuments(Struct):
    """What is known of a layout. The keys are ids of git, so it serves any repository."""

    stored: dict[str, str | None] = {}  # the tree that git stores, by commit
    located: dict[str, Located] = {}  # by commit
    claims: dict[str, Claim | None] = {}  # by id of the file
    folders: dict[str, _Folder] = {}  # by id of the tree
    kept: int = 0  # the entries in `located` and `folders`


@cache
def memory_of(layout: Layout) -> _KnownDocuments:  # noqa: ARG001
    """Return what is known of `layout` in this process."""
    return _KnownDocuments()


def stored_catalogue(repository: Repository, commit: str) -> str | None:
    """Return the id of the catalogue tree that git itself stores for `commit`; None if documents lie elsewhere.

    A `_cache/` that no layout names must contain a document.
    """
    layout, stored = repository.layout, memory_of(repository.layout).stored
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
        is_odd(entry) or (entry[0] == FOLDER and _has_document(repository, entry[1], depth - 1))
        for name, entry in listing(repository, tree).items()
        if is_name(name)
    )


def catalogue_of(repository: Repository, commit: str, others: Collection[str] = ()) -> str | None:
    """Return the id of the catalogue tree of `commit` (a folder for each tag, as `_cache/`); None without documents.

    A document that only the revisions `others` have counts as unreadable, not as removed, if something else is in its
    file now, or if a link or module took its place or that of a folder above.
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
            if mode == CONTESTED or path in was.others or is_another:
                continue  # it was unknown, or it is now another document
            if instead := path if path in here.others else called.get(place[1]):
                found[place] = _package(FILES[0], here.files[instead], (instead,))
            elif odd := _odd_at(repository, commit, path):
                found[place] = _package(*odd, (path,))
    return _as_trees(here.places | found, commit) if found else here.catalogue


def catalogues_of(repository: Repository, commits: Sequence[str]) -> Iterator[str | None]:
    """Yield the id of each commit's catalogue tree, as `catalogue_of` does; files of many are read at once."""
    for start in range(0, len(commits), _REVISIONS_AT_ONCE):
        some = commits[start : start + _REVISIONS_AT_ONCE]
        _locate(repository, [commit for commit in some if not stored_catalogue(repository, commit)])
        for commit in some:
            yield catalogue_of(repository, commit)


def locate(repository: Repository, commit: str) -> Located:
    """Return where the documents of `commit` lie; of one that has a folder like `_cache/`, nothing is known."""
    return Located() if stored_catalogue(repository, commit) else _locate(repository, [commit])[0]


def _locate(repository: Repository, commits: Sequence[str]) -> list[Located]:
    """Return where the documents of revisions lie; files are read once, and missing ones are fetched in one go."""
    layout, memory = repository.layout, memory_of(repository.layout)
    if memory.kept > _MOST_KEPT or len(memory.claims) > _MOST_KEPT:
        memory.located, memory.claims, memory.folders, memory.kept = {}, {}, {}, 0
    known, located = memory.claims, memory.located  # another thread may drop them meanwhile
    new = {commit: dict(_files(repository, commit)) for commit in commits if commit not in located}
    memory.kept += sum(map(len, new.values()))
    every = dict.fromkeys(key for files in new.values() for key in files.values()) if layout.reads_contents else {}
    unread = [key for key in every if key not in known]
    repository.obtain(unread)
    beginnings = repository.objects().beginnings(unread, most=recognition.MOST_BYTES)
    known |= zip(unread, map(recognition.claim_of, beginnings), strict=True)
    for commit, files in new.items():
        claims = {path: known[files[path]] if every else Claim() for path in sorted(files)}
        recognized = recognition.recognize(layout, claims)
        if not recognized.documents and not layout.pattern and _odd_at(repository, commit, CATALOGUE):
            raise BrokenSource(
                f"{repository.path}: in revision {commit[:10]}, {CATALOGUE} is a link or a module, and what it leads to"
                " is not read; it has to be a folder"
            )
        places = {place: _package(FILES[0], files[path], (path,)) for place, path in recognized.replaced.items()}
        for place, paths in recognized.documents.items():
            if len(paths) == 1:
                places[place] = _package(FILES[0], files[paths[0]], tuple(paths))
            else:  # an id of the contents, too, so that an edit of one of them is a difference
                names = "\0".join(f"{path}\0{files[path]}" for path in paths).encode("utf-8", "surrogateescape")
                places[place] = _package(CONTESTED, sha256(names).hexdigest()[: len(commit)], tuple(paths))
        others = frozenset(path for path, claim in claims.items() if claim is None)
        made = _as_trees(places, commit)
        located[commit] = Located(places, files, others, made, tuple(recognized.diagnostics))
    return [located[commit] for commit in commits]


@lru_cache(_MOST_KEPT)
def _package(*entry: *TreeEntry) -> MadeTree:
    """Return the tree of a package with this document; revisions that have the same share it, to save memory."""
    return make_tree({DOCUMENT.encode(): entry}, entry[1])


def _as_trees(places: Places, like: str) -> MadeTree | None:
    """Return the catalogue tree that `_cache/` would have of these documents; None without documents."""
    tags: defaultdict[bytes, dict[bytes, TreeEntry]] = defaultdict(dict)
    for (tag, package), tree in places.items():
        tags[tag.encode()][package.encode()] = FOLDER, tree, ()
    folders = {tag: (FOLDER, make_tree(packages, like), ()) for tag, packages in tags.items()}
    return make_tree(folders, like) if folders else None


def _odd_at(repository: Repository, commit: str, path: str) -> tuple[bytes, str] | None:
    """Return mode and id of the link or module at `path` or at one of its folders; None if there is none."""
    tree, mode = f"{commit}:", FOLDER
    for part in path.encode("utf-8", "surrogateescape").split(b"/"):
        if mode == FOLDER:
            mode, tree, _ = listing(repository, tree).get(part, (b"", "", ()))
    return (mode, tree) if mode in ODD else None


def _files(repository: Repository, commit: str) -> Iterator[tuple[str, str]]:
    """Return path and id of each file of `commit` that may be a document, judged by its path."""
    layout = repository.layout
    root = _tree_at(repository, commit, layout.folder)
    found = _differing(repository, f"{layout.folder}/" if layout.folder else "", None, root)
    return ((path, key) for path, key in found if layout.may_be(path))


def _differing(repository: Repository, start: str, before: str | None, after: str | None) -> Iterator[tuple[str, str]]:
    """Yield path and id of each file below `start` that may be a document and that only one of two trees has."""
    waiting, entries = [(start, before, after)], 0
    while waiting:
        place, *pair = waiting.pop()
        (count, had, were), (more, has, are) = (_folder(repository, tree) for tree in pair)
        entries += count + more
        if entries > trees.MAX_ENTRIES:
            raise BrokenSource(
                f"{repository.path}: has more than {trees.MAX_ENTRIES:,} files, so documents are not looked for; say"
                " where they are with --documents, or `documents:` of the source"
            )
        yield from ((place + name, key) for name, key in had ^ has)
        waiting += [
            (f"{place}{name}/", were.get(name), are.get(name))
            for name in sorted(were.keys() | are.keys())
            if were.get(name) != are.get(name) and place + name != CATALOGUE and len(place) < _LONGEST_PATH
        ]


def _folder(repository: Repository, tree: str | None) -> _Folder:
    layout, memory = repository.layout, memory_of(repository.layout)
    if tree is None:
        return 0, frozenset(), {}
    if tree not in memory.folders:
        listed = listing(repository, tree, is_limited=False).items()
        items = [(mode, name.decode("utf-8", "surrogateescape"), key) for name, (mode, key, _) in listed]
        files = [(name, key) for mode, name, key in items if mode in FILES and (layout.pattern or layout.may_be(name))]
        inner = {name: key for mode, name, key in items if mode == FOLDER}
        memory.folders[tree] = len(items), frozenset(files), inner
        memory.kept += len(items)
    return memory.folders[tree]


def documents_beside(repository: Repository, *commits: str) -> list[str]:
    """Return paths of documents outside `_cache/` that differ between two revisions, or of all of one revision."""
    roots = [root.id for commit in commits if (root := repository.objects().get(f"{commit}:"))]
    files = _differing(repository, "", *[None, *roots][-2:])
    try:
        return sorted(set(islice((path for path, key in files if _is_document(repository, key)), _MOST_BESIDE)))
    except BrokenSource:
        return []  # among so many files nobody looks for documents


def _is_document(repository: Repository, key: str) -> bool:
    """Tell whether the file with the id `key` is a document; False if a partial clone lacks it, or if it is too large."""
    claims = memory_of(repository.layout).claims
    if key not in claims:
        try:
            blob = repository.objects().get(key)
        except SourceError:
            repository.close()  # a git that misses a content ends
            return False
        if blob is None:
            return False
        claims[key] = recognition.claim_of(blob.content)
    return claims[key] is not None


def ignored_documents_note(repository: Repository, before: str, after: str) -> list[Diagnostic]:
    """Return a note if there are documents that are not compared because `_cache/` exists as well."""
    sides = [side for side in (before, after) if not repository.layout.pattern and stored_catalogue(repository, side)]
    # Those that differ between the two revisions; if only one of them has `_cache/`, all of its files.
    found = documents_beside(repository, *sides) if sides else []
    are = f"this and {len(found) - 1} more are " if found[1:] else ""
    return [Diagnostic(path, DiagnosticKind.INCONSISTENT, not_compared(are), is_loss=False) for path in found[:1]]


def nothing_found(repository: Repository, commit: str, name: str) -> str:
    """Return a message that `commit`, called `name`, has no documents: what was looked for and what there is instead."""
    there = sorted(path for path, _ in _files(repository, commit))
    most, which = (1, ", which are not" if there[1:] else ", which is not one") if there else (3, "")
    listed = listing(repository, f"{commit}:").items()
    there = there or [f"{n.decode('utf-8', 'replace')}{'/' if mode == FOLDER else ''}" for n, (mode, *_) in listed]
    more = f" and {len(there) - most:,} more" if there[most:] else ""
    found = f"{', '.join(there[:most])}{more}{which}" if there else "nothing"
    return f"{name!r} has no documents: looked for {repository.layout.wanted}; found {found}"
