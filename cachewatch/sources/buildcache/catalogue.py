"""The list of all of Spack's public caches: for each tag, where the index of each stack is.

An index of layout 3 is listed by its sha256, so an address that is the same means an index
that is the same, and the list alone tells what changed.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from cachewatch.core.repository_layout import is_name
from cachewatch.errors import SourceError
from cachewatch.sources.buildcache import IndexFile, Mirror, Validator
from cachewatch.sources.buildcache.layouts import fetch_v2_at, fetch_v3_at

_LARGEST_LIST = 8 * 2**20  # of 30,000 stacks
_BLOB = re.compile(r"(?:.+/)?blobs/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_PLAIN = re.compile(r"(?:.+/)?build_cache/index\.json")


class CatalogueEntry(Struct, frozen=True):
    """The index of one stack, as the list names it."""

    label: str
    path: str  # below the folder that the list itself lies in
    digest: str  # "" for an index of layout 2, which may change where it is

    def fetch(self, mirror: Mirror, known: Validator) -> IndexFile | None:
        """Return the index, or None where it is the one that is `known`."""
        if not self.digest:
            return fetch_v2_at(mirror, self.path, known)
        return None if known.digest == self.digest else fetch_v3_at(mirror, self.path, self.digest)


class CatalogueListing(Struct, frozen=True):
    """The stacks of each tag."""

    tags: Mapping[str, tuple[CatalogueEntry, ...]]
    ignored: tuple[str, ...]  # what could not be understood
    fresh: Validator


class _Entry(Struct):
    label: str
    url: str


_decode = msgspec.json.Decoder(dict[str, list[_Entry]]).decode


def fetch_listing(mirror: Mirror, name: str, known: Validator) -> CatalogueListing | None:
    """Return the list, or None where it is the one that is `known` and all that it names stays what it is."""
    etag = known.etag if known.layout == "catalogue" else ""
    file = mirror.get(name, etag=etag, size=_LARGEST_LIST)
    if file is None:
        raise SourceError(f"{mirror.where}/{name}: is not there")
    if file.is_unchanged:
        return None
    try:
        listed = _decode(file.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{mirror.where}/{name}: is not a list of build caches ({error})") from error
    return _listing(listed, mirror.where, file.etag)


def _listing(listed: Mapping[str, list[_Entry]], where: str, etag: str) -> CatalogueListing:
    tags: dict[str, tuple[CatalogueEntry, ...]] = {}
    ignored: list[str] = []
    for tag, entries in listed.items():
        found = [_entry(entry, where) for entry in entries] if is_name(tag.encode()) else []
        ignored += [f"{tag}/{entry.label}" for entry, read in zip(entries, found, strict=False) if read is None]
        if not is_name(tag.encode()):
            ignored.append(tag)
        if usable := tuple(entry for entry in found if entry is not None):
            tags[tag] = usable
    is_fixed = all(entry.digest for entries in tags.values() for entry in entries)
    # What may change behind the same address has to be looked at every time.
    fresh = Validator(layout="catalogue", etag=etag) if is_fixed else Validator()
    return CatalogueListing(tags, tuple(ignored), fresh)


def _entry(entry: _Entry, where: str) -> CatalogueEntry | None:
    path = _path(entry.url, where)
    if path is None or not is_name(entry.label.encode()):
        return None
    if match := _BLOB.fullmatch(path):
        return CatalogueEntry(entry.label, path, match[2])
    return CatalogueEntry(entry.label, path, "") if _PLAIN.fullmatch(path) else None


def _path(url: str, where: str) -> str | None:
    """Return where `url` is below the folder of the list: a bucket's root, or a path there already."""
    if url.startswith(f"{where}/"):
        return url.removeprefix(f"{where}/")
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("s3", ""):
        return None  # a list may not send us to other servers
    return parts.path.lstrip("/")
