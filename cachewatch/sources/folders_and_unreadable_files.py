"""List the documents in a file or folder, and record those in a folder as a revision of a git repository.

A folder may have documents as `_cache/<tag>/<package>/specs.md`, like upstream; otherwise every file that is a document
counts. Links are followed, because a user named the folder. A file that cannot be read is not missing: it is listed,
and the comparison reports the reason; a recording keeps the last state that was recorded of it.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from cachewatch.core.changesets import Blob, Content, Listing
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind, Side
from cachewatch.core.names_and_layouts import (
    ANYWHERE,
    CATALOGUE,
    DOCUMENT,
    ENDINGS,
    TAGS_FILE,
    Layout,
    is_name,
    not_compared,
    why_contested,
)
from cachewatch.documents import recognition_and_front_matter as front_matter
from cachewatch.documents.recognition_and_front_matter import (
    MAX_BYTES,
    MAX_ENTRIES,
    Claim,
    claim_of,
    ignored_entries_note,
    no_documents,
    recognize,
)
from cachewatch.documents.records_parsing_diagnostics import TOO_LARGE
from cachewatch.errors import SourceError, UsageError, explained
from cachewatch.runtime.files_and_locks import read_beginning, read_inside

if TYPE_CHECKING:
    from cachewatch.git.writing_revisions import Recording

STDIN = "-"
_MAY_BE_REVISION = re.compile(r"[^/.~][^/.:~^]*(/[^/.:~^]+)*")
_HASH = re.compile(r"/[a-z2-7]{7,32}")
_GIT_NAME = re.compile(r"([A-Z]+_)?HEAD")
_LARGEST_TAGS = 2**20
_NOWHERE = "is a link that leads nowhere"
_KEPT_AS_RECORDED = "what was recorded of it stays: now it is no document, or not the only one of its package and tag"


class FileReader(Struct, frozen=True):
    """Reads documents from files."""

    # By file name: the content of a pipe, which can be read only once, or the reason why a file is refused.
    known: Mapping[str, Content] = field(default_factory=dict)

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield the bytes of each file, cut one byte above the size limit; if it cannot be read, the reason as text."""
        for blob in blobs:
            try:
                yield self.known[blob.name] if blob.name in self.known else read_beginning(blob.name, MAX_BYTES + 1)
            except OSError as error:
                yield _why_unread(error)

    def reopened(self) -> "FileReader":
        """Return this reader, because it keeps nothing open."""
        return self


def _why_unread(error: OSError) -> str:
    return _NOWHERE if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror or error}"


def is_documents(name: str) -> bool:
    """Tell whether `name` is a file, folder or pipe that exists, or "-" (standard input), and so no revision."""
    # A bare repository has files of such names.
    return name == STDIN or (_GIT_NAME.fullmatch(name) is None and os.path.lexists(name))


def is_plain(folder: Path) -> bool:
    """Tell whether `folder` is a folder and not a git repository."""
    return folder.is_dir() and not _is_bare(folder) and not (folder / ".git").exists()


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def check_path(name: str) -> None:
    """Raise UsageError if `name` is empty, or looks like a path and does not exist."""
    if not name.strip():
        raise UsageError("a name is empty; write a revision, a date or a path, such as `cachewatch diff HEAD~1 HEAD`")
    has_ending = name.endswith((*ENDINGS, ".lock")) and ":" not in name
    if (has_ending or name.startswith(("/", "./", "../", "~/"))) and not os.path.lexists(name):
        hint = f"; if it is a hash, `cachewatch show {name}` shows that spec, and `diff` takes two"
        raise UsageError(f"{name}: there is no such file or folder{hint if _HASH.fullmatch(name) else ''}")


def holds_document(file: Path) -> bool:
    """Tell whether `file` is a document, by its name and content."""
    return file.name.endswith(ENDINGS) and not isinstance(_claim(str(file)), str | None)


def is_build_cache(folder: Path) -> bool:
    """Tell whether `folder` is a build cache of Spack, with binaries, which `cachewatch record` can read."""
    return (folder / "build_cache").is_dir() or (folder / "v3" / "manifests").is_dir()


def stacks_of(name: str) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag, as the tags file in the folder `name` lists them; {} if there is no such file."""
    file = Path(name) / TAGS_FILE
    if not file.is_file():
        return {}
    with explained(SourceError, str(file)):
        return front_matter.read_tags_file(read_inside(Path(name), TAGS_FILE, most=_LARGEST_TAGS))


def list_path(name: str, layout: Layout = ANYWHERE) -> list[Listing]:
    """Return listings, by tag, of the documents at `name` that `layout` allows. Raises UsageError if there are none."""
    folder = Path(name)
    if not folder.is_dir():
        return [_list_file(name)]
    if not os.access(folder, os.R_OK | os.X_OK):
        raise SourceError(f"{name}: the folder cannot be read: Permission denied") from PermissionError()
    found = [] if layout.pattern else _list_catalogue(name)
    return found or _list_anywhere(name, layout)


def _list_file(name: str) -> Listing:
    if name == os.devnull:
        return Listing(Side(name=name), {}, FileReader(), ())
    is_stream = name == STDIN or Path(name).is_fifo()
    if not is_stream and not Path(name).is_file():
        raise UsageError(f"{name}: {'not a regular file or a folder' if Path(name).exists() else _NOWHERE}")
    if Path(name).suffix == ".lock":
        raise UsageError(
            f"{name}: a lock file is no document; `cachewatch diff` compares it with another lock file, "
            f"and `cachewatch coverage {name}` says which of its binaries a cache has"
        )
    with explained(SourceError, name):
        if name == STDIN:
            content = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""
        elif is_stream:
            with Path(name).open("rb") as pipe:
                content = pipe.read(MAX_BYTES + 1)
        else:
            content = read_beginning(name, MAX_BYTES)
    reader = FileReader({name: content} if is_stream else {})
    package, tag = identified(name, content)
    blob = Blob(name, len(content))
    return Listing(Side(name=name, tag=tag), {package: blob}, reader, (), is_one_document=True)


def identified(name: str, content: bytes) -> tuple[str, str | None]:
    """Return the package (from the text, else from the path `name`) and tag of a document; ("", None) if it is none."""
    path, claim = Path(name), claim_of(content)
    if claim is None:
        return "", None
    return claim.title or (path.parent.name if path.name == DOCUMENT else path.stem), claim.category or None


def title_of(listing: Listing) -> str:
    """Return the package that the one document in `listing` names in its text; "" if it names none or is unreadable."""
    contents = list(listing.reader.read(listing.blobs.values()))
    claim = claim_of(contents[0]) if contents and isinstance(contents[0], bytes) else None
    return claim.title if claim else ""


def _list_catalogue(name: str) -> list[Listing]:
    """Return listings, by tag, of `_cache/` if `name` is that folder, contains it or is a tag in it; otherwise []."""
    whole = Path(os.path.abspath(name))  # noqa: PTH100  a link may be called as it likes
    if whole.parent.name == CATALOGUE:
        listing = _list_tag(name, name, whole.name, is_one_tag=True)
        return [listing] if listing.blobs else []
    root = name if whole.name == CATALOGUE else os.path.join(name, CATALOGUE)  # noqa: PTH118  it begins as `name` does
    if not Path(root).is_dir():
        return []
    tags = [tag for tag in _entries(root) if is_name(os.fsencode(tag.name)) and tag.is_dir()]
    listings = [listing for tag in tags if (listing := _list_tag(name, tag.path, tag.name)).blobs]
    if listings:
        folders = sorted({name, root, *(tag.path for tag in tags)})
        files = (Path(entry.path) for folder in folders for entry in _entries(folder) if not entry.is_dir())
        if ignored := list(map(str, filter(holds_document, files))):
            listings[0] = with_note(listings[0], name, not_compared(f"{_counted(ignored)} "))
    return listings


def with_note(listing: Listing, path: str, message: str) -> Listing:
    """Return a copy of `listing` with one more diagnostic: the note `message` about `path`."""
    note = Diagnostic(path, DiagnosticKind.INCONSISTENT, message, is_loss=False)
    return replace(listing, diagnostics=(*listing.diagnostics, note))


def _list_tag(name: str, folder: str, tag: str, *, is_one_tag: bool = False) -> Listing:
    entries = [(entry.name, file) for entry in _entries(folder) if (file := _document_in(entry))]
    blobs = {package: Blob(file, _size(file)) for package, file in entries if is_name(os.fsencode(package))}
    note = ignored_entries_note(folder, [os.fsencode(package) for package, _ in entries if package not in blobs])
    return Listing(Side(name=name, tag=tag), blobs, FileReader(), tuple(note), is_one_tag=is_one_tag)


def _list_anywhere(name: str, layout: Layout) -> list[Listing]:
    """Return listings of documents below `name` that `layout` allows; if none, raise an error on what is there."""
    root = f"{name.rstrip('/')}/"
    unread: dict[str, str] = {}
    entries = sorted(_walk(root, unread))
    reads = layout.reads_contents
    claims = {path: _claim(root + path) if reads else Claim() for path in filter(layout.may_be, entries)}
    unread |= {path: claim for path, claim in claims.items() if isinstance(claim, str)}
    other_files = [path for path, claim in claims.items() if claim is None]  # that could be documents and are none
    known = recognize(layout, {path: None if isinstance(claim, str) else claim for path, claim in claims.items()})
    contested = [paths for paths in known.documents.values() if len(paths) > 1]
    refused = {root + paths[0]: why_contested(paths, root) for paths in contested}
    blobs: dict[str, dict[str, Blob]] = {}
    for (tag, package), paths in known.documents.items():
        path = root + paths[0]
        blobs.setdefault(tag, {})[package] = Blob(path) if paths[1:] else Blob(path, _size(path))
    if not blobs:
        refused_names = {each.path: f"is {each.message}" for each in known.diagnostics}
        raise _nothing(name, layout, unread | refused_names, other_files or entries)
    reader = FileReader(refused | {root + path: why for path, why in unread.items()})
    replaced = sorted({*known.replaced.values()} - unread.keys())
    diagnostics = (
        *(replace(each, path=root + each.path) for each in known.diagnostics),
        *(Diagnostic(root + path, DiagnosticKind.UNREADABLE, why) for path, why in sorted(unread.items())),
        *(Diagnostic(root + path, DiagnosticKind.UNREADABLE, front_matter.NO_DOCUMENT) for path in replaced),
        *_renamed(name, {paths[0]: place[1] for place, paths in known.documents.items() if not paths[1:]}),
    )
    others = {**dict.fromkeys((*other_files, *chain(*contested)), ""), **unread}
    listings = [Listing(Side(name=name, tag=tag), blobs[tag], reader, (), others=others) for tag in sorted(blobs)]
    return [replace(listings[0], diagnostics=diagnostics), *listings[1:]]


def with_unread(mine: list[Listing], theirs: list[Listing]) -> list[Listing]:
    """Return `mine` plus documents of `theirs` that unreadable files of `mine` may be; else these seem removed."""
    others = mine[0].others
    if not others:
        return mine
    unread = {path for path, why in others.items() if why and why != _NOWHERE}
    closed = [path for path in others if path.endswith("/")]
    # Files that are no documents, by names: one may replace the document of the package of its name.
    called = {name: path for path in others for name in (Path(path).stem, Path(path).parent.name)}
    root, their_root = (f"{side[0].side.name.rstrip('/')}/" for side in (mine, theirs))
    is_pair = len(mine) == len(theirs) == 1
    blobs = {listing.side.tag: dict(listing.blobs) for listing in mine}
    unknown: list[tuple[str | None, str]] = []
    places: set[str] = set()
    for listing in theirs:
        tag = mine[0].side.tag if is_pair else listing.side.tag
        for package, blob in listing.blobs.items():
            path, is_missing = blob.path.removeprefix(their_root), package not in blobs.get(tag, {})
            place = path if path in others else next((each for each in closed if path.startswith(each)), "")
            place = place or (called.get(package, "") if is_missing else "")
            places.add(place)
            if is_missing and place:
                blobs.setdefault(tag, {})[package] = Blob(root + place)
            elif is_missing:
                unknown.append((tag, package))
    # All other missing documents may be in an unreadable file of which it is not known what document it was.
    for place in sorted(unread - places)[:1]:
        for tag, package in unknown:
            blobs.setdefault(tag, {})[package] = Blob(root + place)
        places.add(place)
    unread_paths = {root + place for place in places}
    diagnostics = tuple(each for each in mine[0].diagnostics if each.path not in unread_paths)
    side, reader = mine[0].side, mine[0].reader
    return [
        Listing(replace(side, tag=tag), of, reader, diagnostics if tag == side.tag else (), others=others)
        for tag, of in blobs.items()
    ]


def _nothing(name: str, layout: Layout, unread: Mapping[str, str], there: Sequence[str]) -> SourceError | UsageError:
    """Return the error that `name` has no documents: what `layout` expects, and which files are `unread` or `there`."""
    folder = Path(name)
    closed = [path for path in unread if path.endswith("/")]
    if unread and not (there and len(closed) == len(unread)):
        path, why = next(iter(unread.items()))
        more = f", and {len(unread) - 1:,} more" if len(unread) > 1 else ""
        return SourceError(f"{name}: none of its documents can be read: {path} {why}{more}")
    if is_build_cache(folder):
        return UsageError(
            f"{name}: is a build cache and holds no documents; `cachewatch record {folder} --into catalogue.git` records it, "
            "and `cachewatch diff HEAD~1 --repo catalogue.git` compares what was recorded"
        )
    if _is_bare(folder):
        command = f"`cachewatch diff HEAD~1 HEAD --repo {name}`"
        return UsageError(f"{name}: is a git repository; name its revisions: {command}")
    content = f"only {_counted(there)}" if there else "nothing"
    if closed:
        content += f"; {_counted(closed)} cannot be read"
    if _MAY_BE_REVISION.fullmatch(name):
        content += f"; if you mean a branch or tag of git, write refs/heads/{name} or refs/tags/{name}"
    return UsageError(f"{name}: there are no documents; looked for {layout.wanted}; found {content}")


def _counted(paths: Sequence[str]) -> str:
    first = min(paths)
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1:,} more files"


def _renamed(name: str, documents: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield a note if some, at most half, of `documents` (packages by path) are not called like their packages."""
    places = [(Path(path), package) for path, package in sorted(documents.items())]
    odd = [(path, package) for path, package in places if package not in (path.name, path.stem, path.parent.name)]
    if odd and 2 * len(odd) <= len(documents):  # if most differ, names of files are not meant as names of packages
        path, package = odd[0]
        more = f"; {len(odd) - 1:,} more {'file is' if len(odd) == 2 else 'files are'} not called so" if odd[1:] else ""
        message = f"{path} is of the package {package}, as its title says{more}"
        yield Diagnostic(name, DiagnosticKind.INCONSISTENT, message, is_loss=False)


def _claim(path: str) -> Claim | str | None:
    """Return the package and tag that the file `path` names; None if it is no document; why, if it is unreadable."""
    try:
        return claim_of(read_beginning(path, MAX_BYTES, opening=b"---"))
    except OSError as error:
        return _why_unread(error)


def _walk(root: str, unread: dict[str, str]) -> Iterator[str]:
    """Yield the relative path of each file below `root`; add unreadable folders, with reasons, to `unread` in place."""
    waiting, seen, entries = [""], set[tuple[int, int]](), 0
    while waiting:
        inside = waiting.pop()
        try:
            about = Path(root + inside).stat()
            listed = [] if (about.st_dev, about.st_ino) in seen else _entries(root + inside)
        except OSError as error:
            unread[inside] = _why_unread(error)
            continue
        seen.add((about.st_dev, about.st_ino))  # links may lead in circles
        entries += len(listed)
        if entries > MAX_ENTRIES:
            raise _too_many(root)
        for entry in (entry for entry in listed if entry.name != ".git"):
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link to something unreadable may be one
                is_folder = True
            if is_folder:
                waiting.append(f"{inside}{entry.name}/")
            else:
                yield inside + entry.name


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name. Raises UsageError if there are too many."""
    with os.scandir(folder) as entries:
        listed = sorted(islice(entries, MAX_ENTRIES + 1), key=attrgetter("name"))
    if len(listed) > MAX_ENTRIES:
        raise _too_many(folder)
    return listed


def _too_many(folder: str) -> UsageError:
    return UsageError(
        f"{folder}: has more than {MAX_ENTRIES:,} files and folders; name the folder in which the documents are"
    )


def _document_in(package: os.DirEntry[str]) -> str:
    """Return the path of the document in the folder `package`, even if it cannot be read; "" if there is none."""
    file = f"{package.path}/{DOCUMENT}"
    try:
        if package.is_dir():
            os.lstat(file)
            return file
        is_broken_link = package.is_symlink() and not os.path.exists(package.path)  # noqa: PTH110
    except FileNotFoundError:
        return ""
    except OSError:
        return file
    return file if is_broken_link else ""


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0  # reading it raises the error


def record_folder(name: str, repository: Path, layout: Layout = ANYWHERE) -> tuple[Diagnostic, ...]:
    """Commit the documents in the folder `name` to `repository`; return problems. Raises an error if none is read."""
    from cachewatch.git.writing_revisions import open_recording  # noqa: PLC0415  a comparison of folders needs no git

    listings = list_path(name, layout)
    blobs = [blob for listing in listings for blob in listing.blobs.values()]
    reader, others = listings[0].reader, listings[0].others
    diagnostics = [each for listing in listings for each in listing.diagnostics]
    reported = {each.path for each in diagnostics}
    root = f"{name.rstrip('/')}/"
    unnamed = (root + path for path, why in others.items() if not why and root + path not in reported)
    none = ((path, not _size(path)) for path in unnamed if _claim(path) is None)
    diagnostics += no_documents(none, (blob.name for blob in blobs))
    with open_recording(repository) as recording:
        before = recording.files()
        present: set[str] = set()
        for blob, content in zip(blobs, reader.read(blobs), strict=True):
            path = blob.name.removeprefix(root)
            present.add(path)
            problem = content if isinstance(content, str) else TOO_LARGE if len(content) > MAX_BYTES else ""
            if not path.isprintable():
                problem = problem or "the name of the file has control characters, or is not UTF-8"
            if isinstance(content, bytes) and not problem:
                _put(recording, before, path, content)
            elif blob.name not in reported:
                diagnostics.append(Diagnostic(blob.name, DiagnosticKind.UNREADABLE, problem))
        if not before and present <= {each.path.removeprefix(root) for each in diagnostics}:
            unread = {each.path.removeprefix(root): each.message.removeprefix(f"{each.path} ") for each in diagnostics}
            raise _nothing(name, layout, unread, ())
        with suppress(OSError):  # the file of stacks only helps to name them
            _put(recording, before, TAGS_FILE, read_beginning(f"{name}/{TAGS_FILE}", _LARGEST_TAGS))
        for path in sorted(before.keys() - present - {TAGS_FILE}):
            if path not in others and not any(each.endswith("/") and path.startswith(each) for each in others):
                recording.remove(path)
            elif path in others and not others[path] and root + path not in reported:
                diagnostics.append(Diagnostic(root + path, DiagnosticKind.UNREADABLE, _KEPT_AS_RECORDED))
        changed = {path for blob in blobs for path in (Path(blob.name), Path(blob.name).parent, Path(name))}
        # The time of the last change, so that recording the same folder again makes the same revision.
        newest = max([0.0, *(path.stat().st_mtime for path in changed if path.exists())])
        moment = min(datetime.fromtimestamp(newest, UTC), datetime.now(UTC))
        recording.commit(f"Record {name}\n".encode("utf-8", "replace").decode(), moment)
    return tuple(diagnostics)


def _put(recording: "Recording", before: Mapping[str, str], path: str, content: bytes) -> None:
    if before.get(path) != recording.id_of(content):
        recording.write(path, content)
