"""Fetch the index of a mirror, in layout 3 (content-addressed, since Spack 1.0) or else layout 2."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from cachewatch.errors import SourceError, TooLarge
from cachewatch.extensions.buildcaches.address import CacheMirror, IndexFile, Validator
from cachewatch.runtime.files import NotInflated, TooMuch, inflate

_INDEX_V3 = "v3/manifests/index/{view}index.manifest.json"
_INDEX_V2 = "build_cache/index.json"
_INDEX_MEDIA_TYPE = "application/vnd.spack.db"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VIEW = re.compile(r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*")
_LARGEST_MANIFEST = 2**20


class BlobOf(Struct, frozen=True, rename="camel"):
    """An entry for one blob in a manifest of layout 3."""

    checksum: str
    checksum_algorithm: str = "sha256"
    media_type: str = ""
    compression: str = "none"


class BlobManifest(Struct, frozen=True):
    """A manifest of layout 3: JSON that names blobs by their checksums."""

    data: tuple[BlobOf, ...]
    version: int = 3


_decode_manifest = msgspec.json.Decoder(BlobManifest).decode
_SIGNED = b"-----BEGIN PGP SIGNED MESSAGE-----"
_GZIP = b"\x1f\x8b"
_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"


class _NotThere(SourceError):
    """A mirror does not have the files of this layout."""


def fetch_index(mirror: CacheMirror, known: Validator, *, view: str = "") -> IndexFile | None:
    """Return the index of a mirror, or None if it is still the one with the validator `known`.

    With `view`, it is the index of this name, which only layout 3 has. Raises SourceError if there is no index.
    """
    if view and (_VIEW.fullmatch(view) is None or ".." in view):
        raise SourceError(f"{mirror.where}: {view!a} is not the name of a view")
    path = _INDEX_V3.format(view=f"{view}/" if view else "")
    file = mirror.get(path, etag=known.etag if known.layout == "v3" else "", size=_LARGEST_MANIFEST)
    if file is None:
        if not view:
            with suppress(_NotThere):
                return fetch_v2_at(mirror, _INDEX_V2, known)
        raise SourceError(
            f"{mirror.where}: there is no index here, or none that may be read (HTTP 403), neither {path} nor {_INDEX_V2}; "
            "is this a build cache, and was `spack buildcache update-index` run?"
        )
    if file.is_unchanged:
        return None
    listed = read_manifest(file.content, f"{mirror.where}/{path}").data
    blob = next((each for each in listed if each.media_type.startswith(_INDEX_MEDIA_TYPE)), None)
    if blob is None:
        raise SourceError(f"{mirror.where}/{path}: names no index")
    if known.layout == "v3" and blob.checksum == known.digest:
        return None
    if blob.checksum_algorithm != "sha256" or not _SHA256.fullmatch(blob.checksum):
        raise SourceError(f"{mirror.where}/{path}: names a blob by {blob.checksum_algorithm!a}, not by sha256")
    place = f"blobs/sha256/{blob.checksum[:2]}/{blob.checksum}"
    content = fetch_blob(mirror, place, blob.checksum, blob.compression or "none")
    return IndexFile(content, mirror.where, Validator(layout="v3", etag=file.etag, digest=blob.checksum))


def read_manifest(content: bytes, where: str) -> BlobManifest:
    """Decode a manifest, signed or not. Signatures are not checked, because nothing is installed from here."""
    if content.lstrip().startswith(_SIGNED):
        content = content.partition(b"{")[1] + content.partition(b"{")[2].partition(_SIGNATURE)[0]
    try:
        return _decode_manifest(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise SourceError(f"{where}: is not a manifest of a build cache ({error})") from error


def fetch_blob(mirror: CacheMirror, path: str, checksum: str, compression: str = "") -> bytes:
    """Return the content of the blob at `path`, checked against its sha256 `checksum` and decompressed.

    Without `compression`, the first bytes of the blob tell whether it is compressed with gzip.
    """
    where = f"{mirror.where}/{path}"
    with limited_to(mirror.max_index):
        file = mirror.get(path, size=mirror.max_index)
    if file is None:
        raise SourceError(f"{where}: is not there, though it is listed; it may be half published")
    content = verify(file.content, checksum, where)
    compression = compression or ("gzip" if content.startswith(_GZIP) else "none")
    if compression == "none":
        return content
    if compression != "gzip":
        raise SourceError(f"{where}: the index is packed with {compression[:20]!a}, which is not known")
    with limited_to(mirror.max_index):
        return inflated(content, mirror.max_index, where)


def verify(content: bytes, checksum: str, where: str) -> bytes:
    """Return `content` if its sha256 is `checksum`, else raise SourceError."""
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        raise SourceError(
            f"{where}: is damaged or cut off: its sha256 is {found[:12]}..., not {checksum[:12]}... ({len(content):,} bytes)"
        )
    return content


@contextmanager
def limited_to(most: int) -> Iterator[None]:
    """Add to a TooLarge error that the setting `max_index`, now `most` bytes, can be raised."""
    try:
        yield
    except TooLarge as error:
        raise TooLarge(f"{error}; if that is right, raise `max_index`, which is {most:,} bytes") from error


def inflated(content: bytes, most: int, where: str) -> bytes:
    """Return an index decompressed with gzip. Raises TooLarge if it has more than `most` bytes."""
    try:
        return inflate(content, most=most)
    except TooMuch as error:
        raise TooLarge(f"{where}: the index {error}") from error
    except NotInflated as error:
        raise SourceError(f"{where}: the index {error}") from error
    except MemoryError as error:
        raise SourceError(
            f"{where}: the index takes more memory than there is; a lower `max_index` refuses it"
        ) from error


def fetch_v2_at(mirror: CacheMirror, path: str, known: Validator) -> IndexFile | None:
    """Return the index of layout 2 at `path`, or None if it is still the one with the validator `known`."""
    if known.layout != "v2":
        known = Validator()
    said = ""
    if (listed := mirror.get(f"{path}.hash", size=_LARGEST_MANIFEST)) is not None:
        said = listed.content.decode("ascii", "replace").strip().lower()
        if _SHA256.fullmatch(said) is None:
            raise SourceError(f"{mirror.where}/{path}.hash: does not hold a sha256")
    if said and said == known.digest:
        return None
    with limited_to(mirror.max_index):
        file = mirror.get(path, etag="" if said else known.etag, size=mirror.max_index)
    if file is None:
        raise _NotThere(f"{mirror.where}/{path}: is not there, though it is listed; it may be half published")
    if file.is_unchanged:
        return None
    digest = hashlib.sha256(file.content).hexdigest()
    if not said and digest == known.digest:
        return None
    if said not in ("", digest):  # both files are written one after the other
        raise SourceError(
            f"{mirror.where}/{path}: does not have the sha256 that {path}.hash says; it may be half published"
        )
    return IndexFile(file.content, f"{mirror.where}/{path}", Validator(layout="v2", etag=file.etag, digest=digest))
