"""Documents that lie in files: one, a folder of them, one tag, or a whole catalogue."""

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cachewatch.core.model import Diagnostic, DiagnosticKind, Side
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT, TAGS_FILE, Wanted, is_name
from cachewatch.core.tag_pairs import Blob, Content, Listing
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import identify
from cachewatch.documents.tagsfile import read_tags_file
from cachewatch.errors import SourceError, UnreadableDocument, UsageError
from cachewatch.runtime.untrusted_files import read_inside

_LARGEST_TAGS = 2**20


STDIN = "-"
_SUFFIXES = (".md", ".markdown", ".txt")
_GIT_NAME = re.compile(r"([A-Z]+_)?HEAD")


class _Streamed:
    """The document that standard input or a pipe held, which can be read only once."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield the document, of which there is one."""
        return (self.content for _ in blobs)

    def again(self) -> "_Streamed":
        """Return this reader, which keeps nothing open."""
        return self


def _read_stream(name: str) -> bytes:
    try:
        if name == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""
        with Path(name).open("rb") as pipe:
            return pipe.read(MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror}") from error


def _is_stream(name: str) -> bool:
    return name == STDIN or Path(name).is_fifo()


class FileReader:
    """Reads documents from files."""

    def read(self, blobs: Iterable[Blob]) -> Iterator[Content]:
        """Yield the content of each file, up to a little more than a document can have."""
        for blob in blobs:
            try:
                with Path(blob.name).open("rb") as file:
                    yield file.read(MAX_BYTES + 1)
            except OSError as error:
                yield f"cannot be read: {error.strerror}"

    def again(self) -> "FileReader":
        """Return this reader, which keeps nothing open."""
        return self


def is_documents(name: str) -> bool:
    """Tell whether `name` is a file, a folder, a pipe or standard input, and so no revision."""
    # A bare repository has files of such names.
    return name == STDIN or (_GIT_NAME.fullmatch(name) is None and os.path.lexists(name))


def check_path(name: str) -> None:
    """Raise UsageError if `name` is empty, or can only mean a file or folder, and there is none."""
    if not name.strip():
        raise UsageError("a name is empty; write a revision, a date or a path, such as `cachewatch diff HEAD~1 HEAD`")
    looks_like_path = name.startswith(("/", "./", "../", "~/")) or (name.endswith(_SUFFIXES) and ":" not in name)
    if looks_like_path and name != STDIN and not os.path.lexists(name):
        raise UsageError(f"{name}: there is no such file or folder")


def is_build_cache(folder: Path) -> bool:
    """Tell whether binaries lie in `folder`, which `cachewatch record` reads."""
    return (folder / "build_cache").is_dir() or (folder / "v3" / "manifests").is_dir()


def list_path(name: str, *, wanted_package: Wanted) -> list[Listing]:
    """List the documents at `name`, one listing for each tag."""
    path = Path(name)
    if not path.is_dir():
        return [_list_file(name)]
    root = path / CATALOGUE if (path / CATALOGUE).is_dir() else path
    if _holds_documents(root):
        return [_list_tag(name, root, None if root.parent.name != CATALOGUE else root.name, wanted_package)]
    tag_folders = [folder for folder in _folders(root) if is_name(folder.name.encode()) and _holds_documents(folder)]
    if tag_folders:
        return [_list_tag(name, folder, folder.name, wanted_package) for folder in tag_folders]
    return [_list_flat(name, root, wanted_package)]


def stacks_of(name: str) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag, where the folder `name` is a whole catalogue."""
    file = Path(name) / TAGS_FILE
    if not file.is_file():
        return {}
    try:
        return read_tags_file(read_inside(Path(name), TAGS_FILE, most=_LARGEST_TAGS))
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}") from error


def _list_file(name: str) -> Listing:
    if name == os.devnull:
        return Listing(Side(name=name), {}, FileReader(), ())
    reader = _Streamed(_read_stream(name)) if _is_stream(name) else FileReader()
    content = reader.content if isinstance(reader, _Streamed) else _read_file(name)
    package, tag = _claims(name, content)
    blob = Blob(name, len(content))
    return Listing(Side(name=name, tag=tag), {package: blob}, reader, (), is_one_document=True)


def _claims(name: str, content: bytes) -> tuple[str, str | None]:
    """Return the package and the tag that a single document says it is of; "" where it cannot be read."""
    path = Path(name)
    try:
        title, tag = identify(content)
    except UnreadableDocument:
        return "", None
    return title or (path.parent.name if path.name == DOCUMENT else path.stem), tag or None


def title_of(listing: Listing) -> str:
    """Return the package that a single document itself says it is of; "" where it does not say."""
    contents = list(listing.reader.read(listing.blobs.values()))
    try:
        return identify(contents[0])[0] if contents and isinstance(contents[0], bytes) else ""
    except UnreadableDocument:
        return ""


def _read_file(name: str) -> bytes:
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: not a regular file or a folder")
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror}") from error


def _list_tag(name: str, folder: Path, tag: str | None, wanted: Wanted) -> Listing:
    blobs: dict[str, Blob] = {}
    diagnostics: list[Diagnostic] = []
    for package in _folders(folder):
        if is_name(os.fsencode(package.name)) and wanted(package.name):
            _add(package / DOCUMENT, package.name, blobs, diagnostics)
    return Listing(Side(name=name, tag=tag), blobs, FileReader(), tuple(diagnostics))


def _list_flat(name: str, folder: Path, wanted: Wanted) -> Listing:
    blobs: dict[str, Blob] = {}
    diagnostics: list[Diagnostic] = []
    for file in sorted(folder.glob("*.md")):
        if is_name(os.fsencode(file.stem)) and wanted(file.stem):
            _add(file, file.stem, blobs, diagnostics)
    return Listing(Side(name=name), blobs, FileReader(), tuple(diagnostics))


def _add(file: Path, package: str, blobs: dict[str, Blob], diagnostics: list[Diagnostic]) -> None:
    try:
        status = file.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        blobs[package] = Blob(str(file), status.st_size)
    else:
        diagnostics.append(Diagnostic(str(file), DiagnosticKind.UNREADABLE, "is not a regular file"))


def _holds_documents(folder: Path) -> bool:
    return any(os.path.lexists(child / DOCUMENT) for child in _folders(folder))


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror}") from error
