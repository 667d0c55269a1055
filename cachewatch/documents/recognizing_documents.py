"""Recognize documents among the text files that git (`git/trees.py`) or a folder (`sources/`) lists.

Where documents do not lie in `_cache/`, a file is one if its front matter has `spec_details`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Generic, TypeVar

from msgspec import Struct

from cachewatch.core.model import (
    Diagnostic,
    DiagnosticKind,
)
from cachewatch.core.names_and_layouts import Layout, is_name
from cachewatch.documents.front_matter_and_limits import EMPTY, load_yaml
from cachewatch.errors import DocumentError

_BOM = b"\xef\xbb\xbf"
_CLOSING = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(rb"^[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?[ \t]*:", re.MULTILINE)
_PLAIN = re.compile(rb'"(?P<text>[A-Za-z0-9._+@-]*)"|\[(?P<list>[A-Za-z0-9._+@ ,-]*)\]')
_DETAILS = re.compile(rb"^[\"']?spec_details[\"']?[ \t]*:", re.MULTILINE)
# How much of a file is read to recognize a document; the records, which may be long, come last in it.
MOST_BYTES = 2**20
NO_DOCUMENT = "no front matter with spec_details"
_MOST_OF_KEY = 4096  # that the title, or the categories, take

Key = TypeVar("Key")


class Claim(Struct, frozen=True):
    """The package and tag that a document's front matter names (title and category); "" if it names none."""

    title: str = ""
    category: str = ""


class Recognized(Struct, Generic[Key], frozen=True):
    """The documents found among some files."""

    documents: Mapping[str, Mapping[str, tuple[str, Key]]]  # by tag and package: path and key of the file
    contested: Mapping[str, Mapping[str, tuple[str, ...]]]  # the same: the paths of several files
    replaced: Mapping[str, Mapping[str, tuple[str, Key]]]  # the same: a file that lies where a document would
    diagnostics: tuple[Diagnostic, ...] = ()


def claim_of(content: bytes) -> Claim | None:
    """Return package and tag that `content` names; None if it is no document."""
    content = content.removeprefix(_BOM)
    if not content.startswith(b"---"):
        return None
    start = content.find(b"\n") + 1
    closing = _CLOSING.search(content, start) if start else None
    end = closing.start() if closing else len(content)
    if not start or _DETAILS.search(content, start, end) is None:
        return None
    title, categories = (_value(content[start:end], key) for key in (b"title", b"categories"))
    names = categories if isinstance(categories, list) else []
    category = next((str(name).strip() for name in names if name != "package"), "")
    return Claim(str(title).strip() if isinstance(title, str | int | float) else "", category)


def recognize(
    layout: Layout, files: Iterable[tuple[str, Key]], claims: Callable[[Sequence[Key]], Iterable[Claim | None]]
) -> Recognized[Key]:
    """Return the documents among `files`, which are pairs of the path from the root and a key.

    `claims` reads the files with the given keys and returns the claim of each, None for one that is no document.
    Invalid names of packages or tags become diagnostics; several files for one package and tag are returned as
    contested. A file that is no document, where one would be that other tags have, is returned as replaced.
    """
    candidates = [(path, key) for path, key in files if layout.may_be(path)]
    keys = [key for _, key in candidates]
    claimed = list(claims(keys) if layout.reads_contents else (Claim() for _ in keys))
    found: dict[str, dict[str, list[tuple[str, Key]]]] = {}
    diagnostics: list[Diagnostic] = []

    def add(path: str, key: Key, claim: Claim) -> None:
        tag, package = layout.names(path, claim.title, claim.category)
        odd = [name for name in (tag, package) if not is_name(name.encode("utf-8", "replace"))]
        if odd:
            message = f"ignored: {odd[0][:60]!r} cannot be the name of a {'tag' if odd[0] == tag else 'package'}"
            diagnostics.append(Diagnostic(path, DiagnosticKind.UNREADABLE, message))
        else:
            found.setdefault(tag, {}).setdefault(package, []).append((path, key))

    for (path, key), claim in zip(candidates, claimed, strict=True):
        if claim is not None:
            add(path, key, claim)
    no_documents = [place for place, claim in zip(candidates, claimed, strict=True) if claim is None]
    replaced = _replaced(found, no_documents)
    if layout.pattern:
        placed = {path for packages in replaced.values() for path, _ in packages.values()}
        for path, key in no_documents:
            if path not in placed:
                add(path, key, Claim())
    documents = {
        tag: {package: places[0] for package, places in packages.items() if len(places) == 1}
        for tag, packages in found.items()
    }
    contested = {
        tag: {package: tuple(path for path, _ in places) for package, places in packages.items() if len(places) > 1}
        for tag, packages in found.items()
    }
    return Recognized(documents, contested, replaced, tuple(diagnostics))


def _replaced(
    found: Mapping[str, Mapping[str, Sequence[tuple[str, Key]]]], no_documents: Iterable[tuple[str, Key]]
) -> Mapping[str, Mapping[str, tuple[str, Key]]]:
    """Return the `no_documents` that lie where a tag should have the document of a package, by tag and package.

    A tag has its documents at places such as `docs/v1/*.md`; a package counts if another tag has it and this one not.
    """
    if len(found) < 2 or not no_documents:
        return {}
    tags: dict[str, set[str]] = {}  # by place, in which "*" stands for the package
    for tag, packages in found.items():
        for package, [(path, _), *_] in packages.items():
            tags.setdefault(_without(package, path), set()).add(tag)
    known = {package for packages in found.values() for package in packages}
    replaced: dict[str, dict[str, tuple[str, Key]]] = {}
    for path, key in no_documents:
        stem = PurePosixPath(path).stem
        names = {*path.split("/"), stem, *(stem.replace(tag, "").strip("-_.") for tag in found if tag in stem)}
        for package in sorted(names & known):
            owners = tags.get(_without(package, path), set())
            for tag in owners if len(owners) == 1 else ():
                if package not in found[tag]:
                    replaced.setdefault(tag, {})[package] = path, key
    return replaced


def _without(package: str, path: str) -> str:
    """Return `path` with "*" instead of the package, but not where the name is part of a longer word."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(package)}(?![A-Za-z0-9])", "*", path)


def no_documents(files: Iterable[tuple[str, bool]]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with files that are named like packages but are no documents; README.md and the like are fine.

    `files` are pairs of the path and whether the file is empty: that is an unreadable document, others are a note.
    """
    named = sorted((path, is_empty) for path, is_empty in files if PurePosixPath(path).stem.islower())
    empty = [Diagnostic(path, DiagnosticKind.UNREADABLE, EMPTY) for path, is_empty in named if is_empty]
    found = [path for path, is_empty in named if not is_empty]
    are = f"this and {len(found) - 1:,} more are no documents" if found[1:] else "is no document"
    message = f"{are}: {NO_DOCUMENT}"
    return (*empty, *(Diagnostic(path, DiagnosticKind.INCONSISTENT, message, is_loss=False) for path in found[:1]))


def _value(front: bytes, key: bytes) -> object:
    """Return the value of one key of the front matter, without parsing the other values, which are long."""
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
