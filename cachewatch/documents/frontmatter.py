"""Split a document into the lines of its front matter, without any YAML."""

import re
from dataclasses import dataclass
from typing import Any

from cachewatch.errors import UnreadableDocument

_BOM = b"\xef\xbb\xbf"
_LFS_POINTER = b"version https://git-lfs"
_KEY = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*):(?: +(.*))?", re.DOTALL)
_PLAIN_TITLE = re.compile(rb'"([^"\\]*)"|([^"\'&*!|>{\[%@`#,:][^#:]*)')
_PLAIN_CATEGORIES = re.compile(rb"\[([A-Za-z0-9._+@ ,-]*)\]")
_MARKERS = (b"<<<<<<<", b">>>>>>>")
_USUAL_KEYS = {b"title", b"layout", b"categories", b"meta", b"spec_details"}


class NotPlain(Exception):
    """The front matter is not one `key: value` a line; it has to be read as YAML."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values of a document's front matter that say something.

    `details` and `meta` are still JSON in bytes where the lines were plain, and Python
    values (all scalars text) where they were read as YAML.
    """

    title: str
    tag: str
    details: Any
    meta: Any
    is_legacy: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the document says itself that it has no specs."""
        return isinstance(self.meta, dict) and self.meta.get("num_specs") == "0"


def split(data: bytes) -> FrontMatter:
    """Cut the front matter of `data` into its lines.

    Raises NotPlain where it takes YAML to understand them, and UnreadableDocument where
    nothing would.
    """
    values: dict[bytes, bytes] = {}
    for line in front_lines(data):
        match = _KEY.fullmatch(line)
        if match is None or match[1] not in _USUAL_KEYS:
            raise NotPlain
        if match[1] in values:
            raise UnreadableDocument(f"the key {match[1].decode()!r} stands twice")
        values[match[1]] = (match[2] or b"").strip()
    return FrontMatter(
        title=_title(values.get(b"title", b'""')),
        tag=_tag(values.get(b"categories", b"[]")),
        details=_json(values.get(b"spec_details"), b"["),
        meta=_json(values.get(b"meta"), b"{"),
    )


def front_lines(data: bytes) -> list[bytes]:
    """Return the lines between the two `---`, whatever their ends; say what `data` is instead of a document."""
    if data.startswith(_LFS_POINTER):
        raise UnreadableDocument("a Git LFS pointer, not the document; fetch the content with git lfs")
    lines = [line.removesuffix(b"\r") for line in data.removeprefix(_BOM).split(b"\n")]
    if any(line.startswith(_MARKERS) for line in lines):
        raise UnreadableDocument("holds the markers of an unresolved merge conflict")
    if not data.strip():
        raise UnreadableDocument("is empty")
    if lines[0].rstrip() != b"---":
        raise UnreadableDocument("does not begin with the line --- that opens a document")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == b"---":
            return [line for line in lines[1:number] if line.strip()]
    raise UnreadableDocument("ends before the line --- that closes it; it was cut off")


def _title(value: bytes) -> str:
    match = _PLAIN_TITLE.fullmatch(value)
    if value and match is None:
        raise NotPlain
    text = (match[1] if match and match[1] is not None else value).strip()
    return _text(text)


def _tag(value: bytes) -> str:
    match = _PLAIN_CATEGORIES.fullmatch(value)
    if match is None:
        raise NotPlain
    return _text(match[1].split(b",")[1].strip()) if b"," in match[1] else ""


def _json(value: bytes | None, opening: bytes) -> bytes | None:
    if value is not None and not value.startswith(opening):
        raise NotPlain
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableDocument("is not UTF-8") from error
