"""Recognize documents among the text files that git (`git/trees.py`) or a folder (`sources/`) lists.

Where documents do not lie in `_cache/`, a file is one if its front matter has `spec_details`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind
from cachewatch.core.names_and_layouts import Layout, is_name
from cachewatch.documents.front_matter_and_limits import BOM, EMPTY, load_yaml
from cachewatch.errors import DocumentError

_CLOSING = re.compile(rb"^---[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(rb"^[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?[ \t]*:", re.MULTILINE)
_PLAIN = re.compile(rb'"(?P<text>[A-Za-z0-9._+@-]*)"|\[(?P<list>[A-Za-z0-9._+@ ,-]*)\]')
_DETAILS = re.compile(rb"^[\"']?spec_details[\"']?[ \t]*:", re.MULTILINE)
# How much of a file is read to recognize a document; the records, which may be long, come last in it.
MOST_BYTES = 2**20
NO_DOCUMENT = "no front matter with spec_details"
_MOST_OF_KEY = 4096  # that the title, or the categories, take


class Claim(Struct, frozen=True):
    """The package and tag that a document's front matter names (title and category); "" if it names none."""

    title: str = ""
    category: str = ""


class Recognized(Struct, frozen=True):
    """The documents found among some files, by tag and package."""

    documents: Mapping[tuple[str, str], Sequence[str]]  # the path, or those of several files that claim to be it
    replaced: Mapping[tuple[str, str], str]  # the path of a file that lies where a document would
    diagnostics: Sequence[Diagnostic] = ()


def claim_of(content: bytes) -> Claim | None:
    """Return package and tag that `content` names; None if it is no document."""
    content = content.removeprefix(BOM)
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


def recognize(layout: Layout, claims: Mapping[str, Claim | None]) -> Recognized:
    """Return the documents among some files, given the claim of each by its path, None for one that is no document."""
    documents: dict[tuple[str, str], list[str]] = {}
    diagnostics: list[Diagnostic] = []

    def add(path: str, claim: Claim) -> None:
        tag, package = layout.names(path, claim.title, claim.category)
        odd = [name for name in (tag, package) if not is_name(name.encode("utf-8", "replace"))]
        if odd:
            message = f"ignored: {odd[0][:60]!r} cannot be the name of a {'tag' if odd[0] == tag else 'package'}"
            diagnostics.append(Diagnostic(path, DiagnosticKind.UNREADABLE, message))
        else:
            documents.setdefault((tag, package), []).append(path)

    for path, claim in claims.items():
        if claim is not None:
            add(path, claim)
    others = [path for path, claim in claims.items() if claim is None]
    replaced = _replaced(documents, others)
    for path in others if layout.pattern else ():
        if path not in replaced.values():
            add(path, Claim())
    return Recognized(documents, replaced, diagnostics)


def _replaced(
    documents: Mapping[tuple[str, str], Sequence[str]], others: Iterable[str]
) -> Mapping[tuple[str, str], str]:
    """Return those of `others` that lie where a tag would have the document of a package, by tag and package.

    A tag has its documents at places such as `docs/v1/*.md`; a package counts if another tag has it and this one not.
    """
    tags, known = ({place[part] for place in documents} for part in (0, 1))
    if len(tags) < 2 or not others:
        return {}
    owners: dict[str, set[str]] = {}  # by place, in which "*" stands for the package
    for (tag, package), (path, *_) in documents.items():
        owners.setdefault(_without(package, path), set()).add(tag)
    replaced: dict[tuple[str, str], str] = {}
    for path in others:
        stem = PurePosixPath(path).stem
        names = {*path.split("/"), stem, *(stem.replace(tag, "").strip("-_.") for tag in tags if tag in stem)}
        for package in sorted(names & known):
            tag, *more = owners.get(_without(package, path), {""})
            if tag and not more and (tag, package) not in documents:
                replaced[tag, package] = path
    return replaced


def _without(package: str, path: str) -> str:
    """Return `path` with "*" instead of the package, but not where the name is part of a longer word."""
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(package)}(?![A-Za-z0-9])", "*", path)


def no_documents(files: Iterable[tuple[str, bool]], documents: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with files, each with whether it is empty, that are named like `documents` but are none."""
    ends = {PurePosixPath(path).suffix for path in documents}
    others = ((PurePosixPath(path), path, is_empty) for path, is_empty in files)
    named = sorted((path, is_empty) for name, path, is_empty in others if name.stem.islower() and name.suffix in ends)
    empty = [Diagnostic(path, DiagnosticKind.UNREADABLE, EMPTY) for path, is_empty in named if is_empty]
    found = [path for path, is_empty in named if not is_empty]
    are = f"this and {len(found) - 1:,} more are no documents" if found[1:] else "is no document"
    message = f"{are}: {NO_DOCUMENT}"
    return (*empty, *(Diagnostic(path, DiagnosticKind.INCONSISTENT, message, is_loss=False) for path in found[:1]))


def _value(front: bytes, key: bytes) -> object:
    """Return the value of one key of the front matter, without parsing the other values, which are long."""
    key_match = next((match for match in _KEY.finditer(front) if match[1] == key), None)
    if key_match is None:
        return None
    after = _KEY.search(front, key_match.end())
    text = front[key_match.end() : min(after.start() if after else len(front), key_match.end() + _MOST_OF_KEY)]
    plain = _PLAIN.fullmatch(text.strip())
    if plain is not None:
        listed = plain["list"]
        return plain["text"].decode() if listed is None else [name.strip() for name in listed.decode().split(",")]
    try:  # the indentation of a list is the same in all lines
        return load_yaml(text.decode("utf-8", "replace").strip("\r\n"))
    except DocumentError:
        return None
