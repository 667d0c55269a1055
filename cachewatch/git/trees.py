"""Find the documents that differ between two trees, without reading any document.

Trees are read in git's binary form, at a fixed depth: tag, package, document. Nothing beside or below is read, so a
tree of a hundred million files costs nothing. Where documents do not lie in `_cache/` or a folder like it, the trees of
such a `_cache/` are made in memory, with the ids that git would give them: so documents that were moved compare as
equal. The trees of compared packages are cached for the next comparison.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from sys import intern

from msgspec import Struct

from cachewatch.core.changesets import USUAL_BYTES, Blob, Difference, DocumentPair
from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.model import Diagnostic, DiagnosticKind, Unreadable
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, Layout, Wanted, is_name, not_compared, why_contested
from cachewatch.documents.front_matter_and_limits import EMPTY
from cachewatch.documents.recognizing_documents import (
    MOST_BYTES,
    NO_DOCUMENT,
    Claim,
    claim_of,
    no_documents,
    recognize,
)
from cachewatch.errors import BrokenSource, SourceError
from cachewatch.git.local_repository import Repository

FOLDER, FILES = b"40000", (b"100644", b"100755", b"100664")
ODD = (b"120000", b"160000")  # links and modules
# These replace the mode of an entry that its tree lists twice, and of a document that several files claim to be.
TWICE, CONTESTED = b"twice", b"contested"
# The ids that git gives to an empty file.
EMPTY_FILES = frozenset(
    hashlib.new(name, b"blob 0\0", usedforsecurity=False).hexdigest() for name in ("sha1", "sha256")
)
REPLACED = "its folder is a link or a module, or is listed twice"
MAX_ENTRIES = 200_000

# Limits of the caches, which serve all revisions; what was dropped from them is made again.
_MOST_TREE_BYTES = 64 * 2**20
_MOST_CLAIMS = 500_000
_MOST_LISTED = 500_000
_LONGEST_PATH = 4096
_MOST_BESIDE = 100
_TREES_AT_ONCE = 1024

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MODES = {mode: mode for mode in (FOLDER, *FILES)}

# Mode and id of an entry of a tree, in git's binary form; an entry that is listed twice has no id.
TreeEntry = tuple[bytes, bytes]
Listing = dict[bytes, TreeEntry]


class _Listed(Struct, frozen=True):
    """The relevant entries of one folder: their number, subfolders, and possible documents, with ids."""

    entries: int = 0
    folders: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()


class DocumentLocations:
    """A cache of where documents lie in each revision, for one layout. Keys are ids, valid in any repository."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.catalogues: dict[str, str | None] = {}  # the id of the tree of tags of each commit
        self.diagnostics: dict[str, tuple[Diagnostic, ...]] = {}  # by commit
        self.replaced: dict[
            str, frozenset[str]
        ] = {}  # by commit, paths of files that are listed as unreadable documents
        self.paths: dict[tuple[str, str], str] = {}  # paths of documents outside `_cache/`, by package and object id
        self.contested: dict[
            str, tuple[str, ...]
        ] = {}  # the paths of files that claim to be one document, by an id of ours
        self._filled: dict[bytes, bool] = {}  # whether a tree of `_cache/` contains a document
        self._claims: dict[str, Claim | None] = {}
        self._listed: dict[str, _Listed] = {}
        self._listed_entries = 0
        self._packages: dict[str, bytes] = {}  # the contents of package trees made here, by id
        self._trees: dict[str, bytes] = {}
        self._tree_bytes = 0
        self._origins: dict[str, tuple[str, ...]] = {}  # the commits of which each of these trees was made

    def add(self, repository: Repository, commits: Iterable[str]) -> None:
        """Find the documents of the revisions `commits`; missing files that must be read are fetched together."""
        trees = {commit: self.stored(repository, commit) for commit in commits}
        elsewhere = [commit for commit, tree in trees.items() if tree is None]
        self.catalogues |= {commit: tree for commit, tree in trees.items() if tree}
        if self.layout.reads_contents:
            self._read(repository, (key for commit in elsewhere for _, key in self.files(repository, commit)))
        for commit in elsewhere:
            self._arrange(repository, commit)

    def tree(self, repository: Repository, name: str) -> bytes | None:
        """Return the content of a tree that was made in memory, by its id `name`; None if there is none."""
        content = self._packages.get(name) or self._trees.get(name)
        if content is None and name in self._origins:
            commit, *others = self._origins[name]
            self.add(repository, [commit])
            self.completed(repository, commit, others)
            return self._trees.get(name)
        return content

    def completed(self, repository: Repository, commit: str, others: Collection[str]) -> str | None:
        """Return the catalogue tree of `commit`, with an unreadable entry for documents that only `others` have.

        Their files were overwritten with something else, or a link or module took their place or that of a folder
        above: the document cannot be read, but its package was not removed.
        """
        catalogue = self.catalogues[commit]
        if not self.layout.reads_contents or commit not in self.diagnostics:
            return catalogue  # in git's own tree, a file is a document by its name
        lacking: dict[tuple[str, str], tuple[str, bytes, str]] = {}
        for other in others:
            if other != commit and other in self.diagnostics:
                for tag, package, path, mode, key in self._overwritten(repository, other, commit):
                    lacking.setdefault((tag, package), (path, mode, key))
        if not lacking:
            return catalogue
        tags = self._made_folders(repository, catalogue, commit)
        changed = {tag: self._made_folders(repository, tags.get(tag.encode()), commit) for tag, _ in lacking}
        for (tag, package), (path, mode, key) in lacking.items():
            if package.encode() not in changed[tag]:
                self._add_package(changed[tag], package, path, key, mode)
        for tag, packages in changed.items():
            tags[tag.encode()] = self._keep(packages, commit, *others)
        return self._keep(tags, commit, *others)

    def stored(self, repository: Repository, commit: str) -> str | None:
        """Return the id of the catalogue tree that git itself stores for `commit`; None if there is none.

        A `_cache/` that the layout does not name must contain a document.
        """
        folder = self.layout.catalogue
        tree = repository.objects().get(f"{commit}:{folder}") if folder else None
        if tree is None or tree.type != "tree":
            return None
        return tree.id if self.layout.pattern or self._has_document(repository, bytes.fromhex(tree.id), 2) else None

    def is_made(self, package: str) -> bool:
        """Tell whether the tree of a package, given by its id, was made in memory."""
        return package in self._packages

    def is_no_document(self, key: str) -> bool:
        """Tell whether the file with the id `key` was read and is no document."""
        return self._claims.get(key, self) is None

    def path(self, repository: Repository, commit: str, key: str) -> str | None:
        """Return the path of the document with the id `key` in `commit`; None if it lies in a stored catalogue tree."""
        if self.stored(repository, commit):
            return None
        return min((path for path, found in self.files(repository, commit) if found == key), default=None)

    def no_documents(self, repository: Repository, commit: str) -> tuple[Diagnostic, ...]:
        """Return a note about files with the name of documents that are none, if documents may lie anywhere."""
        if commit not in self.diagnostics or not self.layout.reads_contents:
            return ()
        replaced = self.replaced[commit]
        files = ((path, key) for path, key in self.files(repository, commit) if path not in replaced)
        return no_documents((path, key in EMPTY_FILES) for path, key in files if self.is_no_document(key))

    def files(self, repository: Repository, commit: str) -> Iterator[tuple[str, str]]:
        """Yield path and id of each file of `commit` that may be a document by its path."""
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

    def _overwritten(self, repository: Repository, old: str, new: str) -> Iterator[tuple[str, str, str, bytes, str]]:
        """Yield tag, package, path, mode and id of what replaced documents of `old` that are no documents in `new`.

        If nothing has the old path, a new file that is named like its package counts as the replacement.
        """
        keys: defaultdict[str, dict[bool, str]] = defaultdict(dict)
        for path, is_new, key in self.differing(repository, old, new):
            if self.layout.may_be(path):
                keys[path][is_new] = key
        self._read(repository, (key for each in keys.values() for key in each.values()))
        is_document = {path: self._claims[each[True]] is not None for path, each in keys.items() if True in each}
        called = {
            name: path
            for path, each in keys.items()
            if False not in each and not is_document[path]
            for name in (Path(path).stem, Path(path).parent.name)
        }
        for path, ids in keys.items():
            claim = self._claims[ids[False]] if False in ids else None
            if claim is None or is_document.get(path):
                continue
            tag, package = self.layout.names(path, claim.title, claim.category)
            if not (is_name(tag.encode()) and is_name(package.encode("utf-8", "replace"))):
                continue
            place = path if True in ids else called.get(package, "")
            instead = (FILES[0], keys[place][True]) if place else self._odd_at(repository, new, path)
            if instead:
                yield tag, package, place or path, *instead

    def _odd_at(self, repository: Repository, commit: str, path: str) -> tuple[bytes, str] | None:
        """Return mode and id of a link or module at `path` or at a folder above it; None if there is none."""
        tree, mode, key = f"{commit}:", b"", ""
        for part in path.encode("utf-8", "surrogateescape").split(b"/"):
            found = repository.objects().get(tree)
            entries = tree_entries(found.content, len(found.id) // 2) if found else ()
            mode, key = next(((mode.lstrip(b"0"), key.hex()) for mode, name, key in entries if name == part), (b"", ""))
            if mode != FOLDER:
                break
            tree = key
        return (mode, key) if mode in ODD else None

    def differing(self, repository: Repository, *commits: str) -> Iterator[tuple[str, bool, str]]:
        """Yield path, `is_new` and id of each possible document outside `_cache/` that only one revision has.

        `is_new` tells whether it is the later one. With one revision, all of its files are yielded, as old ones.
        """
        roots = [root.id for commit in commits if (root := repository.objects().get(f"{commit}:"))]
        waiting: list[tuple[str, str | None, str | None]] = []
        if roots and len(roots) == len(commits):
            waiting = [("", roots[0], roots[1] if roots[1:] else None)]
        entries = 0
        while waiting and entries < MAX_ENTRIES:
            place, *trees = waiting.pop()
            had, has = (self._list(repository, tree) if tree else _Listed() for tree in trees)
            entries += had.entries + has.entries
            for is_new, (files, others) in enumerate(((had.files, has.files), (has.files, had.files))):
                yield from ((place + name, bool(is_new), key) for name, key in {*files}.difference(others))
            were, are = dict(had.folders), dict(has.folders)
            waiting += [
                (f"{place}{name}/", were.get(name), are.get(name))
                for name in sorted(were.keys() | are.keys())
                if were.get(name) != are.get(name) and place + name != CATALOGUE
            ]

    def is_document(self, repository: Repository, key: str) -> bool:
        """Tell whether the file with the id `key` is a document; False if a partial clone lacks its content."""
        if key not in self._claims:
            try:
                stored = repository.objects().get(key)
            except SourceError:
                return False  # it is larger than any document
            if stored is None:
                return False
            self._claims[key] = claim_of(stored.content)
        return self._claims[key] is not None

    def _has_document(self, repository: Repository, tree: bytes, depth: int) -> bool:
        """Tell whether a document lies, or may lie, `depth` folders below `tree`.

        A link may replace a tag or package that was there, and a missing tree is reported when it is read. Most
        revisions share folders with one that was read before, whose result is cached.
        """
        stored = repository.objects().get(tree.hex())
        entries = tree_entries(stored.content, len(tree)) if stored else iter(())
        if not depth or stored is None:
            return stored is None or any(name == DOCUMENT.encode() for _, name, _ in entries)
        named = [(mode.lstrip(b"0"), key) for mode, name, key in entries if is_name(name)]
        below = [key for mode, key in named if mode == FOLDER]
        self._filled[tree] = (
            any(self._filled.get(key) for key in below)
            or any(mode in ODD for mode, _ in named)
            or any(self._filled.get(key, True) and self._has_document(repository, key, depth - 1) for key in below)
        )
        return self._filled[tree]

    def _arrange(self, repository: Repository, commit: str) -> None:
        files = dict(self.files(repository, commit))
        result = recognize(self.layout, sorted(files.items()), lambda keys: [self._claims[key] for key in keys])
        if not result.documents and not self.layout.pattern and self._odd_at(repository, commit, CATALOGUE):
            raise BrokenSource(
                f"{repository.path}: in revision {commit[:10]}, {CATALOGUE} is a link or a module, and what it leads to"
                " is not read; it has to be a folder"
            )
        tags: dict[bytes, str] = {}
        for tag in result.documents.keys() | result.contested.keys():
            packages: dict[bytes, str] = {}
            for package, (path, key) in (
                *result.documents.get(tag, {}).items(),
                *result.replaced.get(tag, {}).items(),
            ):
                self._add_package(packages, package, path, key)
            for package, paths in result.contested.get(tag, {}).items():
                # With the contents, so that an edit of one of them is a difference.
                names = "\0".join(f"{path}\0{files[path]}" for path in paths)
                key = _id_of(names.encode("utf-8", "surrogateescape"), commit)
                self.contested[key] = paths
                self._add_package(packages, package, paths[0], key, CONTESTED)
            tags[tag.encode()] = self._keep(packages, commit)
        self.catalogues[commit] = self._keep(tags, commit) if tags else None
        self.replaced[commit] = frozenset(
            path for packages in result.replaced.values() for path, _ in packages.values()
        )
        self.diagnostics[commit] = result.diagnostics

    def _add_package(
        self, packages: dict[bytes, str], package: str, path: str, key: str, mode: bytes = FILES[0]
    ) -> None:
        content = mode + b" " + DOCUMENT.encode() + b"\0" + bytes.fromhex(key)
        packages[package.encode()] = name = _id_of(content, key)
        self._packages[name] = content
        self.paths[package, key] = path

    def _keep(self, folders: Mapping[bytes, str], *commits: str) -> str:
        """Make a tree of `folders` in git's form, sorted as if names ended in a slash; cache it and return its id."""
        ordered = sorted(folders.items(), key=lambda item: item[0] + b"/")
        content = b"".join(FOLDER + b" " + name + b"\0" + bytes.fromhex(key) for name, key in ordered)
        name = _id_of(content, commits[0])
        if name not in self._trees:
            self._trees[name], self._origins[name] = content, commits
            self._tree_bytes += len(content)
            while self._tree_bytes > _MOST_TREE_BYTES and len(self._trees) > 2:
                self._tree_bytes -= len(self._trees.pop(next(iter(self._trees))))
        return name

    def _made_folders(self, repository: Repository, tree: str | None, like: str) -> dict[bytes, str]:
        content = self.tree(repository, tree) if tree else None
        return {name: key.hex() for _, name, key in tree_entries(content or b"", len(like) // 2)}

    def _read(self, repository: Repository, keys: Iterable[str]) -> None:
        """Read which package and tag the files `keys` name in their text; each content is read once."""
        if len(self._claims) > _MOST_CLAIMS:
            self._claims.clear()
        wanted = [key for key in dict.fromkeys(keys) if key not in self._claims]
        if wanted:
            repository.obtain(wanted)
        for key, content in zip(wanted, repository.objects().beginnings(wanted, most=MOST_BYTES), strict=True):
            self._claims[key] = claim_of(content)

    def _list(self, repository: Repository, tree: str) -> _Listed:
        if tree in self._listed:
            return self._listed[tree]
        stored = repository.objects().get(tree)
        if stored is None:
            raise _missing_tree(repository, tree)
        entries = list(tree_entries(stored.content, len(tree) // 2))
        named = [(mode.lstrip(b"0"), name.decode("utf-8", "surrogateescape"), key.hex()) for mode, name, key in entries]
        listed = _Listed(
            len(entries),
            tuple((name, key) for mode, name, key in named if mode == FOLDER),
            tuple((name, key) for mode, name, key in named if mode in FILES and self.layout.may_be_called(name)),
        )
        if self._listed_entries > _MOST_LISTED:
            self._listed.clear()
            self._listed_entries = 0
        self._listed[tree] = listed
        self._listed_entries += len(listed.folders) + len(listed.files) + 1
        return listed


@cache
def locations_of(layout: Layout) -> DocumentLocations:
    """Return the cache of document locations for `layout`; all callers share it."""
    return DocumentLocations(layout)


def catalogues_of(repository: Repository, commits: Sequence[str]) -> list[str | None]:
    """Return the id of each commit's catalogue tree, which has a folder for each tag; None without documents."""
    locations = locations_of(repository.layout)
    locations.add(repository, [commit for commit in commits if commit not in locations.catalogues])
    return [locations.catalogues[commit] for commit in commits]


def catalogue_of(repository: Repository, commit: str, others: Collection[str] = ()) -> str | None:
    """Return the id of the catalogue tree of `commit`; None if it has no documents.

    A document of the revisions `others` whose file was replaced by something else counts as an unreadable document.
    """
    found, *_ = catalogues_of(repository, [commit, *others])
    return locations_of(repository.layout).completed(repository, commit, others) if others else found


def nothing_found(repository: Repository, commit: str, name: str) -> str:
    """Return the message that `commit`, called `name`, has no documents: what was expected, and what is there."""
    candidates = sorted(path for path, _ in locations_of(repository.layout).files(repository, commit))
    if candidates:
        are = "are not" if candidates[1:] else "is not one"
        there = f"{candidates[0]}{_and_more(len(candidates) - 1)}, which {are}"
    else:
        root = repository.objects().get(f"{commit}:")
        entries = tree_entries(root.content, len(root.id) // 2) if root else ()
        names = [f"{each.decode('utf-8', 'replace')}{'/' if mode == FOLDER else ''}" for mode, each, _ in entries]
        there = f"{', '.join(names[:3])}{_and_more(len(names) - 3)}" if names else "nothing"
    return f"{name!r} has no documents: looked for {repository.layout.wanted}; found {there}"


def ignored_documents_note(repository: Repository, before: str, after: str) -> list[Diagnostic]:
    """Return a note if there are documents that are ignored because `_cache/` exists, too."""
    locations = locations_of(repository.layout)
    sides = [] if repository.layout.pattern else [before, after]
    # Those that differ between the two revisions; if only one of them has `_cache/`, all of its files.
    files = locations.differing(repository, *(side for side in sides if locations.stored(repository, side)))
    found = sorted({path for path, _, key in islice(files, _MOST_BESIDE) if locations.is_document(repository, key)})
    are = f"this and {len(found) - 1} more are " if found[1:] else ""
    return [Diagnostic(path, DiagnosticKind.INCONSISTENT, not_compared(are), is_loss=False) for path in found[:1]]


def folder_of(repository: Repository, tag: str) -> str:
    """Return the path of the folder of a tag in the catalogue, for messages."""
    return f"{repository.layout.catalogue or CATALOGUE}/{tag}"


def tree_entries(content: bytes, id_bytes: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield mode, name and binary id of each entry of a tree in git's form, whose ids have `id_bytes` bytes."""
    position = 0
    while position < len(content):
        space = content.index(b" ", position)
        end = content.index(b"\0", space)
        yield content[position:space], content[space + 1 : end], content[end + 1 : end + 1 + id_bytes]
        position = end + 1 + id_bytes


def _and_more(count: int) -> str:
    return f" and {count:,} more" if count > 0 else ""


def _id_of(content: bytes, like: str) -> str:
    """Return the id that git gives to a tree with this content; `like` is any id of the same repository."""
    algorithm = "sha256" if len(like) == 64 else "sha1"
    return hashlib.new(algorithm, b"tree %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Folders(Struct, frozen=True):
    """The valid subfolders of a tree, as ids by name, and other entries that may be meant as folders."""

    ids: Mapping[str, str]
    odd: Listing


def folders(repository: Repository, name: str) -> Folders:
    """Return the folders in the tree that `name` means; none if it means no tree."""
    listed = listing(repository, name)
    return Folders(
        {n.decode(): i.hex() for n, (mode, i) in listed.items() if mode == FOLDER and is_name(n)},
        {n: entry for n, entry in listed.items() if _is_odd(entry) or (entry[0] == FOLDER and not is_name(n))},
    )


class TreeDifference:
    """The differences between two trees of packages, before a selection of packages."""

    def __init__(self, repository: Repository, tags: tuple[str, str], old: Listing, new: Listing) -> None:
        """Compare the entries of a tag on both sides."""
        differing = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        self._repository = repository
        self._had_folder, self._folder = (folder_of(repository, tag) for tag in tags)
        self._odd = [n for n in differing if not is_name(n) or _is_odd(old.get(n)) or _is_odd(new.get(n))]
        self._replaced = [
            Unreadable(package=n.decode(), reason=REPLACED, before=_is_odd(old.get(n)), after=_is_odd(new.get(n)))
            for n in self._odd
            if is_name(n)
        ]
        self._documents: list[DocumentPair] = []
        self._unreadable: list[tuple[Unreadable, str]] = []  # each with its path
        odd = frozenset(self._odd)
        same = self._compare([name for name in differing if name not in odd], old, new)
        # A list, so that the functions that are called later do not keep both listings in memory.
        self._same = [
            (name, _tree(entry))
            for name, entry in new.items()
            if (old.get(name) == entry and is_name(name)) or name in same
        ]
        repository.obtain(blob.name for pair in self._documents for blob in (pair.before, pair.after) if blob)

    @property
    def size(self) -> int:
        """The number of packages kept, as a measure of the memory used."""
        return len(self._documents) + len(self._same)

    def chosen(self, wanted: Wanted) -> Difference:
        """Return the difference for the packages that `wanted` selects; other packages are in lists of their own."""
        unreadable = [(each, path) for each, path in self._unreadable if wanted(each.package)]
        return Difference(
            documents=tuple(pair for pair in self._documents if wanted(pair.package)),
            count_unchanged=lambda: sum(map(wanted, self._unchanged_packages)),
            diagnostics=(
                *ignored_entries_note(self._folder, self._odd),
                *(
                    Diagnostic(path, DiagnosticKind.UNREADABLE, each.reason, side=each.side)
                    for each, path in unreadable
                ),
            ),
            unreadable=(*(each for each in self._replaced if wanted(each.package)), *(each for each, _ in unreadable)),
            others=tuple(pair for pair in self._documents if not wanted(pair.package)),
            count_other_unchanged=lambda: sum(not wanted(package) for package in self._unchanged_packages),
            unchanged=lambda: blobs_of(self._repository, self._folder, self._same),
            takes=wanted,
        )

    @cached_property
    def _unchanged_packages(self) -> tuple[str, ...]:
        """The packages whose document is the same on both sides."""
        entries = _document_entries(self._repository, (tree for _, tree in self._same))
        return tuple(
            intern(name.decode()) for (name, _), entry in zip(self._same, entries, strict=False) if entry is not None
        )

    def _compare(self, names: Sequence[bytes], old: Listing, new: Listing) -> frozenset[bytes]:
        """Record differing and unreadable documents of the packages `names`; return those with equal documents."""
        repository, same = self._repository, []
        entries = _document_entries(repository, (_tree(side.get(name)) for name in names for side in (old, new)))
        for name, before, after in zip(names, entries, entries, strict=False):
            package = name.decode()
            had, has = problem_of(repository, before), problem_of(repository, after)
            old_blob = _blob(repository, self._had_folder, package, before)
            new_blob = _blob(repository, self._folder, package, after)
            if had or has:
                blob = new_blob if has else old_blob
                unreadable = Unreadable(package=package, reason=has or had, before=bool(had), after=bool(has))
                self._unreadable.append((unreadable, blob.path if blob else self._folder))
            elif before != after:
                self._documents.append(DocumentPair(package, old_blob, new_blob))
            elif after is not None:
                same.append(name)
        return frozenset(same)


def compare_trees(
    repository: Repository, tags: tuple[str, str], before: str | None, after: str | None
) -> TreeDifference:
    """Compare the trees of packages of two tags, given by their ids; None is an empty tree."""
    old, new = (listing(repository, tree) if tree else {} for tree in (before, after))
    return TreeDifference(repository, tags, old, new)


def blobs_of(repository: Repository, folder: str, trees: Sequence[tuple[bytes, str | None]]) -> list[Blob]:
    """Return the documents in trees of packages, which are pairs of name and tree id; `folder` is their tag's."""
    entries = _document_entries(repository, (tree for _, tree in trees))
    blobs = [
        blob
        for (name, _), entry in zip(trees, entries, strict=False)
        if not problem_of(repository, entry) and (blob := _blob(repository, folder, name.decode(), entry))
    ]
    repository.obtain(blob.name for blob in blobs)
    return blobs


def document_of(repository: Repository, folder: str, tree: str | None, package: str) -> Blob | str | None:
    """Return the document of `package` in a tree of packages; None if there is none, or why it cannot be read."""
    entry = listing(repository, tree).get(package.encode("utf-8", "replace")) if tree else None
    if _is_odd(entry):
        return REPLACED
    (found,) = _document_entries(repository, iter([_tree(entry)]))
    return problem_of(repository, found) or _blob(repository, folder, package, found)


def listing(repository: Repository, name: str) -> Listing:
    """Return mode and id of each entry of the tree that `name` means, by entry name.

    An entry that is listed twice has no id. Raises SourceError if a tree named by id is missing or has too many
    entries.
    """
    content = locations_of(repository.layout).tree(repository, name)
    if content is None:
        stored = repository.objects().get(name)
        if stored is None and _ID.fullmatch(name):
            raise _missing_tree(repository, name)
        if stored is None or stored.type != "tree":
            return {}
        name, content = stored.id, stored.content
    entries: Listing = {}
    for mode, entry, object_id in tree_entries(content, len(name) // 2):
        entries[entry] = (mode_of(mode), object_id) if entry not in entries else (TWICE, b"")
    if len(entries) > MAX_ENTRIES:
        raise too_many(repository)
    return entries


def unread_documents(repository: Repository, tag: str, tree: str) -> dict[str, Diagnostic]:
    """Return those documents in the tree of a tag that cannot be read, by package, as far as that is known unread.

    It is known of empty files, of what lies where a document belongs and is none, and of several files for one package.
    """
    locations, folder = locations_of(repository.layout), folder_of(repository, tag)
    empty_files = (bytes.fromhex(key) for key in EMPTY_FILES if len(key) == len(tree))
    empty = {_id_of(FILES[0] + b" " + DOCUMENT.encode() + b"\0" + key, tree) for key in empty_files}
    packages = folders(repository, tree).ids
    perhaps = {package: key for package, key in packages.items() if key in empty or locations.is_made(key)}
    found = {}
    for package, entry in zip(perhaps, _document_entries(repository, iter(perhaps.values())), strict=True):
        key = entry[1].hex() if entry else ""
        none = EMPTY if key in EMPTY_FILES else NO_DOCUMENT if locations.is_no_document(key) else ""
        reason, blob = problem_of(repository, entry) or none, _blob(repository, folder, package, entry)
        if reason and blob:
            found[package] = Diagnostic(blob.path, DiagnosticKind.UNREADABLE, reason)
    return found


def _document_entries(repository: Repository, trees: Iterator[str | None]) -> Iterator[TreeEntry | None]:
    """Yield mode and id of the document in each package tree; None if it has none."""
    entries, locations = 0, locations_of(repository.layout)
    while run := list(islice(trees, _TREES_AT_ONCE)):
        made = [locations.tree(repository, tree) if tree else b"" for tree in run]
        stored = [tree for tree, content in zip(run, made, strict=True) if tree and content is None]
        contents = repository.objects().stream(stored, kind="tree")
        for tree, ours in zip(run, made, strict=True):
            content, id_bytes = next(contents) if ours is None else ours, len(tree or "") // 2
            document = None
            for mode, name, object_id in tree_entries(content, id_bytes):
                entries += 1
                if entries > MAX_ENTRIES:
                    raise too_many(repository)
                if name == DOCUMENT.encode():
                    document = (mode_of(mode), object_id) if document is None else (TWICE, b"")
            yield document
        next(contents, None)


def problem_of(repository: Repository, entry: TreeEntry | None) -> str:
    """Return why a tree entry cannot be a document; "" if it can, or if there is no entry."""
    mode, key = entry or (FILES[0], b"")
    if mode in FILES:
        return ""
    if mode == CONTESTED:
        return why_contested(locations_of(repository.layout).contested[key.hex()])
    return "stands twice in its folder" if mode == TWICE else f"is not a regular file (mode {mode.decode()})"


def _blob(repository: Repository, folder: str, package: str, entry: TreeEntry | None) -> Blob | None:
    if entry is None:
        return None
    key = entry[1].hex()
    path = locations_of(repository.layout).paths.get((package, key))
    return Blob(key, USUAL_BYTES, folder, package) if path is None else Blob(key, USUAL_BYTES, path)


def _tree(entry: TreeEntry | None) -> str | None:
    return entry[1].hex() if entry is not None and entry[0] == FOLDER else None


def _is_odd(entry: TreeEntry | None) -> bool:
    return entry is not None and (entry[0] in ODD or entry[0] == TWICE)


def _missing_tree(repository: Repository, tree: str) -> SourceError:
    return SourceError(f"{repository.path}: tree {tree} is missing; the repository is damaged or incomplete")


def too_many(repository: Repository) -> SourceError:
    """Return the error that a tree has too many entries."""
    return SourceError(f"{repository.path}: a tree has more than {MAX_ENTRIES:,} entries, which no catalogue has")


def mode_of(text: bytes) -> bytes:
    """Return the mode without the leading zeros of old tools; equal modes are one object, to save memory."""
    mode = text.lstrip(b"0") or b"0"
    return _MODES.get(mode, mode)


def ignored_entries_note(label: str, names: Collection[bytes]) -> list[Diagnostic]:
    """Return the diagnostic that the entries `names` of the folder `label` are ignored; none without names."""
    if not names:
        return []
    first = min(names)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    reason = (
        "a link, a module, or listed twice"
        if is_name(first)
        else "names may have only letters of ASCII, digits and ._+@-"
    )
    named = safe(first[:60].decode("utf-8", "backslashreplace"))
    return [Diagnostic(label, DiagnosticKind.UNREADABLE, f"ignored '{named}'{more}: {reason}")]
