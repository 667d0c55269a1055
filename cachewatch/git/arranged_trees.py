"""The tree of the tags of a revision, wherever its documents are.

Upstream has it as `_cache/`, a layout may name another folder, and either is read as git stores it. Where documents are
elsewhere, the trees that a `_cache/` with them would have are made in memory. They have the ids that git would give
them, so that documents that were moved compare as equal, and everything that reads trees reads these too (trees.py).
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT, Layout, is_name, why_contested
from cachewatch.core.tag_pairs import USUAL_BYTES, Blob
from cachewatch.documents.recognizing import MOST_BYTES, claim_of, recognize
from cachewatch.errors import BrokenSource, SourceError

if TYPE_CHECKING:
    from cachewatch.documents.recognizing import Claim
    from cachewatch.git.repository import Repository

FOLDER, FILES = b"40000", (b"100644", b"100755", b"100664")
_ODD = (b"120000", b"160000")  # links and modules
# What stands for the mode of an entry that is there twice, and of a document that several files are.
TWICE, CONTESTED = b"twice", b"contested"
MAX_ENTRIES = 200_000

# What is kept in memory, of all revisions together; what was dropped is made once more.
_MOST_TREE_BYTES = 64 * 2**20
_MOST_CLAIMS = 500_000
_MOST_LISTED = 500_000
_LONGEST_PATH = 4096
_MOST_BESIDE = 100


class _Listed(Struct, frozen=True):
    """What matters of a folder: how many entries it has, its folders, and the files that may be documents."""

    entries: int
    folders: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]


class Arrangement:
    """What is known of documents in one layout. Everything is found by ids, which mean the same in any repository."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.catalogues: dict[str, str | None] = {}  # the trees of tags, by revision
        self.diagnostics: dict[str, tuple[Diagnostic, ...]] = {}  # by revision
        self.paths: dict[str, str] = {}  # of documents that are elsewhere, by their ids
        self.contested: dict[str, tuple[str, ...]] = {}  # the paths of several files, by an id of our own
        self._filled: dict[bytes, bool] = {}  # whether the tree of a tag has a document
        self._claims: dict[str, Claim | None] = {}
        self._listed: dict[str, _Listed] = {}
        self._listed_entries = 0
        self._packages: dict[str, bytes] = {}  # trees of ours
        self._trees: dict[str, bytes] = {}
        self._tree_bytes = 0
        self._origins: dict[str, str] = {}  # the revisions that they were made of

    def add(self, repository: "Repository", commits: Iterable[str]) -> None:
        """Find the documents of these revisions; what is not here is fetched in one go."""
        elsewhere = []
        for commit in commits:
            tree = self.stored(repository, commit)
            if tree is None:
                elsewhere.append(commit)
            else:
                self.catalogues[commit] = tree
        if self.layout.reads_contents:
            self._read(repository, (key for commit in elsewhere for _, key in self._files(repository, commit)))
        for commit in elsewhere:
            self._arrange(repository, commit)

    def tree(self, repository: "Repository", name: str) -> bytes | None:
        """Return a tree that was made here, by its id; None if this is none of ours."""
        found = self._packages.get(name) or self._trees.get(name)
        if found is None and name in self._origins:
            self.add(repository, [self._origins[name]])
            return self._trees.get(name)
        return found

    def stored(self, repository: "Repository", commit: str) -> str | None:
        """Return the tree of the tags of a revision if git has it; one that nobody named must have a document."""
        folder = self.layout.catalogue
        found = repository.objects().get(f"{commit}:{folder}") if folder else None
        if found is None or found.type != "tree":
            return None
        return found.id if self.layout.pattern or self._is_catalogue(repository, found.id, found.content) else None

    def path(self, repository: "Repository", commit: str, key: str) -> str | None:
        """Return where a revision has the document with this id; None if it is in the tree of its tag."""
        if self.stored(repository, commit):
            return None
        return min((path for path, found in self._files(repository, commit) if found == key), default=None)

    def instead(self, repository: "Repository", commit: str) -> str:
        """Say what a revision without documents has."""
        candidates = sorted(path for path, _ in self._files(repository, commit))
        if candidates:
            return f"{candidates[0]}{_and_more(len(candidates) - 1)}, which {'is not one' if not candidates[1:] else 'are not'}"
        root = repository.objects().get(f"{commit}:")
        entries = tree_entries(root.content, len(root.id) // 2) if root else ()
        names = [f"{name.decode('utf-8', 'replace')}{'/' if mode == FOLDER else ''}" for mode, name, _ in entries]
        return f"{', '.join(names[:3])}{_and_more(len(names) - 3)}" if names else "nothing"

    def beside(self, repository: "Repository", before: str, after: str) -> list[str]:
        """Return the paths of documents that are not compared because there is `_cache/`, too.

        They are those that differ between the two revisions; all, if only one of them has `_cache/`.
        """
        stored = [commit for commit in (before, after) if not self.layout.pattern and self.stored(repository, commit)]
        if not stored:
            return []
        roots = [root.id for commit in stored if (root := repository.objects().get(f"{commit}:"))]
        files = islice(self._differing(repository, roots[0], roots[1] if roots[1:] else None), _MOST_BESIDE)
        return sorted({path for path, key in files if self._is_document(repository, key)})

    def _differing(self, repository: "Repository", old: str, new: str | None) -> Iterator[tuple[str, str]]:
        """Yield path and id of each file outside of `_cache/` that may be a document and that only one of two trees has."""
        waiting: list[tuple[str, str | None, str | None]] = [("", old, new)]
        entries = 0
        while waiting and entries < MAX_ENTRIES:
            place, *trees = waiting.pop()
            had, has = (self._list(repository, tree) if tree else _Listed(0, (), ()) for tree in trees)
            entries += had.entries + has.entries
            yield from ((place + name, key) for name, key in {*had.files} ^ {*has.files})
            were, are = dict(had.folders), dict(has.folders)
            waiting += [
                (f"{place}{name}/", were.get(name), are.get(name))
                for name in sorted(were.keys() | are.keys())
                if were.get(name) != are.get(name) and place + name != CATALOGUE
            ]

    def _is_document(self, repository: "Repository", key: str) -> bool:
        """Tell whether a file is a document; what a clone left out is not fetched to know that."""
        from cachewatch.documents.recognizing import claim_of  # noqa: PLC0415  most have `_cache/`

        if key not in self._claims:
            try:
                found = repository.objects().get(key)
            except SourceError:
                return False  # it is larger than any document
            if found is None:
                return False
            self._claims[key] = claim_of(found.content)
        return self._claims[key] is not None

    def _is_catalogue(self, repository: "Repository", tree: str, content: bytes) -> bool:
        entries = list(tree_entries(content, len(tree) // 2))
        tags = [key for mode, name, key in entries if mode.lstrip(b"0") == FOLDER and is_name(name)]
        # Most revisions share tags with one that was looked at. A link may stand for a tag or package that was there.
        return (
            any(self._filled.get(tag) for tag in tags)
            or any(self._has_document(repository, tag) for tag in tags)
            or any(mode in _ODD and is_name(name) for mode, name, _ in entries)
        )

    def _has_document(self, repository: "Repository", tag: bytes) -> bool:
        if tag not in self._filled:
            found = repository.objects().get(tag.hex())
            # A tree that is missing is a fault that is found when it is read.
            self._filled[tag] = found is None or any(
                mode in _ODD or (mode.lstrip(b"0") == FOLDER and _holds_document(repository, key))
                for mode, name, key in tree_entries(found.content, len(tag))
                if is_name(name)
            )
        return self._filled[tag]

    def _arrange(self, repository: "Repository", commit: str) -> None:
        found = recognize(
            self.layout, sorted(self._files(repository, commit)), lambda keys: [self._claims[key] for key in keys]
        )
        tags: dict[bytes, str] = {}
        for tag in found.documents.keys() | found.contested.keys():
            packages: dict[bytes, str] = {}
            for package, (path, key) in found.documents.get(tag, {}).items():
                self.paths[key] = path
                packages[package.encode()] = self._package(b"100644", key)
            for package, paths in found.contested.get(tag, {}).items():
                key = _id_of("\0".join(paths).encode("utf-8", "surrogateescape"), commit)
                self.contested[key], self.paths[key] = paths, paths[0]
                packages[package.encode()] = self._package(CONTESTED, key)
            tags[tag.encode()] = self._keep(_tree_of(packages), commit)
        self.catalogues[commit] = self._keep(_tree_of(tags), commit) if tags else None
        self.diagnostics[commit] = found.diagnostics

    def _package(self, mode: bytes, key: str) -> str:
        content = mode + b" " + DOCUMENT.encode() + b"\0" + bytes.fromhex(key)
        name = _id_of(content, key)
        self._packages[name] = content
        return name

    def _keep(self, content: bytes, commit: str) -> str:
        name = _id_of(content, commit)
        if name not in self._trees:
            self._trees[name], self._origins[name] = content, commit
            self._tree_bytes += len(content)
            while self._tree_bytes > _MOST_TREE_BYTES and len(self._trees) > 2:
                self._tree_bytes -= len(self._trees.pop(next(iter(self._trees))))
        return name

    def _read(self, repository: "Repository", keys: Iterable[str]) -> None:
        """Read what these files say of themselves, each content once."""
        if len(self._claims) > _MOST_CLAIMS:
            self._claims.clear()
        wanted = [key for key in dict.fromkeys(keys) if key not in self._claims]
        if wanted:
            repository.obtain(wanted)
        for key, content in zip(wanted, repository.objects().beginnings(wanted, most=MOST_BYTES), strict=True):
            self._claims[key] = claim_of(content)

    def _files(self, repository: "Repository", commit: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of each file that may be a document."""
        start = f"{self.layout.folder}/" if self.layout.folder else ""
        root = repository.objects().get(f"{commit}:{self.layout.folder}")
        waiting = [(start, root.id)] if root is not None and root.type == "tree" else []
        entries = 0
        while waiting:
            before, tree = waiting.pop()
            listed = self._list(repository, tree)
            entries += listed.entries
            if entries > MAX_ENTRIES:
                raise BrokenSource(
                    f"{repository.path}: has more than {MAX_ENTRIES:,} files, so documents are not looked for; say where"
                    " they are with --documents, or `documents:` of the source"
                )
            waiting += [(f"{before}{name}/", key) for name, key in listed.folders if len(before) < _LONGEST_PATH]
            yield from ((path, key) for name, key in listed.files if self.layout.may_be(path := before + name))

    def _list(self, repository: "Repository", tree: str) -> _Listed:
        if tree in self._listed:
            return self._listed[tree]
        found = repository.objects().get(tree)
        if found is None:
            raise missing_tree(repository, tree)
        entries = list(tree_entries(found.content, len(tree) // 2))
        named = [(mode, name.decode("utf-8", "surrogateescape"), key) for mode, name, key in entries]
        listed = _Listed(
            len(entries),
            tuple((name, key.hex()) for mode, name, key in named if mode.lstrip(b"0") == FOLDER),
            tuple((n, k.hex()) for mode, n, k in named if mode.lstrip(b"0") in FILES and self.layout.may_be_called(n)),
        )
        if self._listed_entries > _MOST_LISTED:
            self._listed.clear()
            self._listed_entries = 0
        self._listed[tree] = listed
        self._listed_entries += len(listed.folders) + len(listed.files) + 1
        return listed


@cache
def arrangement_of(layout: Layout) -> Arrangement:
    """Return what is known of documents in `layout`."""
    return Arrangement(layout)


def catalogues_of(repository: "Repository", commits: Sequence[str]) -> list[str | None]:
    """Return the tree of the tags of each of these revisions; None where it has no documents."""
    arrangement = arrangement_of(repository.layout)
    unknown = [commit for commit in dict.fromkeys(commits) if commit not in arrangement.catalogues]
    arrangement.add(repository, unknown)
    return [arrangement.catalogues[commit] for commit in commits]


def catalogue_of(repository: "Repository", commit: str) -> str | None:
    """Return the tree of the tags of a revision; None where it has no documents."""
    return catalogues_of(repository, [commit])[0]


def nothing_found(repository: "Repository", commit: str, name: str) -> str:
    """Say of a revision without documents what was looked for, and what there is instead."""
    found = arrangement_of(repository.layout).instead(repository, commit)
    return f"{name!r} has no documents: looked for {repository.layout.wanted}; found {found}"


def beside(repository: "Repository", before: str, after: str) -> list[Diagnostic]:
    """Return a note if there are documents that are not compared because there is `_cache/`, too."""
    found = arrangement_of(repository.layout).beside(repository, before, after)
    if not found:
        return []
    message = f"not compared: where there is {CATALOGUE}/, documents are {CATALOGUE}/<tag>/<package>/{DOCUMENT}"
    more = f"{len(found) - 1} more" if found[1:] else ""
    return [
        Diagnostic(
            found[0], DiagnosticKind.INCONSISTENT, f"{f'this and {more} are ' if more else ''}{message}", is_loss=False
        )
    ]


def folder_of(repository: "Repository", tag: str) -> str:
    """Return the path of the documents of a tag, for messages; those that are elsewhere have their own."""
    return f"{repository.layout.catalogue or CATALOGUE}/{tag}"


def blob_of(repository: "Repository", folder: str, package: str, key: str, size: int = USUAL_BYTES) -> Blob:
    """Return the document of a package, of which the id is `key`."""
    path = arrangement_of(repository.layout).paths.get(key)
    return Blob(key, size, folder, package) if path is None else Blob(key, size, path)


def problem_of(repository: "Repository", mode: bytes, key: str) -> str:
    """Return why an entry cannot be a document; "" if it can."""
    if mode in FILES:
        return ""
    if mode == CONTESTED:
        return why_contested(arrangement_of(repository.layout).contested[key])
    return "stands twice in its folder" if mode == TWICE else f"is not a regular file (mode {mode.decode()})"


def made_tree(repository: "Repository", name: str) -> bytes | None:
    """Return the tree of this id if git has none, because documents are elsewhere than its folders would say."""
    return arrangement_of(repository.layout).tree(repository, name)


def missing_tree(repository: "Repository", tree: str) -> SourceError:
    """Return the error of a tree that is not there."""
    return SourceError(f"{repository.path}: tree {tree} is missing; the repository is damaged or incomplete")


def tree_entries(content: bytes, id_bytes: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield mode, name and id of each entry of a tree, as git stores them."""
    position = 0
    while position < len(content):
        space = content.index(b" ", position)
        end = content.index(b"\0", space)
        yield content[position:space], content[space + 1 : end], content[end + 1 : end + 1 + id_bytes]
        position = end + 1 + id_bytes


def _and_more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _holds_document(repository: "Repository", package: bytes) -> bool:
    found = repository.objects().get(package.hex())
    entries: Collection[tuple[bytes, bytes, bytes]] = list(tree_entries(found.content, len(package))) if found else ()
    return any(name == DOCUMENT.encode() for _, name, _ in entries)


def _tree_of(folders: dict[bytes, str]) -> bytes:
    """Return a tree of folders as git stores it, sorted as if each name ended in a slash."""
    ordered = sorted(folders.items(), key=lambda item: item[0] + b"/")
    return b"".join(FOLDER + b" " + name + b"\0" + bytes.fromhex(key) for name, key in ordered)


def _id_of(content: bytes, like: str) -> str:
    """Return the id that git gives a tree of this content, in a repository that has the id `like`."""
    algorithm = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(algorithm, b"tree %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
