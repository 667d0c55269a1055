"""Documents known by what they are: text files whose front matter has `spec_details`, wherever they lie.

Git (`git/trees.py`) and folders (`sources/folders.py`) list files; here they become documents of packages
and tags.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Generic, TypeVar

from msgspec import Struct

from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.names import Layout, is_name
from cachewatch.documents.yaml import load_yaml
from cachewatch.errors import DocumentError

_BOM = b"\xef\xbb\xbf"
_CLOSING = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(rb"^[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?[ \t]*:", re.MULTILINE)
_PLAIN = re.compile(rb'"(?P<text>[A-Za-z0-9._+@-]*)"|\[(?P<list>[A-Za-z0-9._+@ ,-]*)\]')
_DETAILS = re.compile(rb"^[\"']?spec_details[\"']?[ \t]*:", re.MULTILINE)
# How much of a file is looked at; the records, which may be long, come last.
MOST_BYTES = 2**20
_MOST_OF_KEY = 4096  # that the title, or the categories, take

Key = TypeVar("Key")


class Claim(Struct, frozen=True):
    """What a document says of itself; empty where it says nothing."""

    title: str = ""
    category: str = ""


class Recognized(Struct, Generic[Key], frozen=True):
    """The documents among some files."""

    documents: Mapping[str, Mapping[str, tuple[str, Key]]]  # path and key of the file, by tag and package
    contested: Mapping[str, Mapping[str, tuple[str, ...]]]  # the paths of several files that are of one tag and package
    diagnostics: tuple[Diagnostic, ...] = ()


def claim_of(content: bytes) -> Claim | None:
    """Return what a document says that it is of; None if `content` is no document."""
    content = content.removeprefix(_BOM)
    if not content.startswith(b"---"):
        return None
    start = content.find(b"\n") + 1
    closing = _CLOSING.search(content, start) if start else None
    end = closing.start() if closing else len(content)
    if not start or _DETAILS.search(content, start, end) is None:
        return None
    front = content[start:end]
    return Claim(_title(front), _category(front))


def recognize(
    layout: Layout, files: Iterable[tuple[str, Key]], claims: Callable[[Sequence[Key]], Iterable[Claim | None]]
) -> Recognized[Key]:
    """Return the documents among these files, each a path from the root on and a key by which `claims` reads it.

    Names that no package or tag can have are faults, and so are two files that are of one package and tag; the
    other documents are returned.
    """
    candidates = [(path, key) for path, key in files if layout.may_be(path)]
    keys = [key for _, key in candidates]
    said = claims(keys) if layout.reads_contents else (Claim() for _ in keys)
    found: dict[str, dict[str, list[tuple[str, Key]]]] = {}
    diagnostics: list[Diagnostic] = []
    for (path, key), claim in zip(candidates, said, strict=True):
        if claim is None and not layout.pattern:
            continue
        tag, package = layout.names(path, claim.title, claim.category) if claim else layout.names(path)
        odd = [name for name in (tag, package) if not is_name(name.encode("utf-8", "replace"))]
        if odd:
            message = f"ignored: {odd[0][:60]!r} cannot be the name of a {'tag' if odd[0] == tag else 'package'}"
            diagnostics.append(Diagnostic(path, DiagnosticKind.UNREADABLE, message))
        else:
            found.setdefault(tag, {}).setdefault(package, []).append((path, key))
    documents = {
        tag: {package: places[0] for package, places in packages.items() if len(places) == 1}
        for tag, packages in found.items()
    }
    contested = {
        tag: {package: tuple(path for path, _ in places) for package, places in packages.items() if len(places) > 1}
        for tag, packages in found.items()
    }
    return Recognized(documents, contested, tuple(diagnostics))


def no_documents(paths: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return a note on files that are called as documents of packages are and are none: not on README.md."""
    found = sorted(path for path in paths if PurePosixPath(path).stem.islower())
    are = f"this and {len(found) - 1:,} more are no documents" if found[1:] else "is no document"
    message = f"{are}: no front matter with spec_details"
    return tuple(Diagnostic(path, DiagnosticKind.UNREADABLE, message, is_loss=False) for path in found[:1])


def _title(front: bytes) -> str:
    title = _value(front, b"title")
    return str(title).strip() if isinstance(title, str | int | float) else ""


def _category(front: bytes) -> str:
    categories = _value(front, b"categories")
    names = categories if isinstance(categories, list) else []
    return next((str(name).strip() for name in names if name != "package"), "")


def _value(front: bytes, key: bytes) -> object:
    """Return the value of one key, without reading the others, which are long."""
    found = next((match for match in _KEY.finditer(front) if match[1] == key), None)
    if found is None:
        return None
    after = _KEY.search(front, found.end())
    text = front[found.end() : min(after.start() if after else len(front), found.end() + _MOST_OF_KEY)]
    plain = _PLAIN.fullmatch(text.strip())
    if plain is not None:
        listed = plain["list"]
        return plain["text"].decode() if listed is None else [name.strip() for name in listed.decode().split(",")]

    try:
        return load_yaml(text.decode("utf-8", "replace").strip())
    except DocumentError:
        return None
