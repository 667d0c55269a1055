"""Understand the addresses of build caches, and fetch their indexes from folders, web servers and registries.

A mirror has layout 3 (content-addressed, since Spack 1.0) or else layout 2. In a registry, the index is the first layer
of the tag `index.spack`, whatever its media type.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import quote, unquote, urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from cachewatch.errors import RefusedAddress, SourceError, TooLarge
from cachewatch.http.allowed_addresses import check_url, origin, shown
from cachewatch.http.client import Answer, Client, RequestLimits
from cachewatch.runtime.files_and_locks import LargeFile, NotInflated, TooMuch, inflate, read_inside

# The public index of develop has hundreds of megabytes.
LARGEST_INDEX = 4 * 2**30
LIMITS = RequestLimits(seconds=3600.0, size=LARGEST_INDEX)  # of one request to a cache
_OCI = {"oci": "https", "oci+https": "https", "oci+http": "http"}
_INSIDE = re.compile(r"/(build_cache(/index\.json)?|v3(/manifests/index/index\.manifest\.json)?)/?$")
_IMAGE = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*")
_LARGEST_CHALLENGE = 4096  # characters
_CHALLENGE = re.compile(r'\b(\w{1,100})="([^"]*)"')
_ACCEPT = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_INDEX_V3 = "v3/manifests/index/{view}index.manifest.json"
_INDEX_V2 = "build_cache/index.json"
_INDEX_MEDIA_TYPE = "application/vnd.spack.db"
_IS_CACHE = "is this a build cache, and was `spack buildcache update-index` run?"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VIEW = re.compile(r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*")
_LARGEST_MANIFEST = 4 * 2**20
_SIGNED = b"-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"
_GZIP = b"\x1f\x8b"
Value = TypeVar("Value")
# The path, sha256 and compression of a blob; if the compression is "", its first bytes tell whether it is gzip.
_Blob = tuple[str, str, str]


class Registry(Struct, frozen=True):
    """A build cache that is stored as a container image in a registry."""

    base: str  # https://host
    image: str


Place = Path | str | Registry  # a folder, a URL or an image


def root_of(address: str) -> str:
    """Return the address of a mirror; `address` may also be that of its index, or of the folder of its index."""
    return _INSIDE.sub("", address)


def parse_address(address: str) -> Place:
    """Return the folder, URL or image at `address`. Raises RefusedAddress for others, and if it has a password."""
    if not address.isprintable() or not address.strip():
        raise RefusedAddress(f"{address!a}: an address is one line of plain text")
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    if scheme in ("http", "https"):
        check_url(address)
        if urlsplit(address).query or urlsplit(address).fragment:
            raise RefusedAddress(f"{shown(address)}: the address of a build cache has no ? and no #")
        return address.rstrip("/")
    if scheme == "file":
        parts = urlsplit(address)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise RefusedAddress(f"{address}: a file:// address names a folder of this machine: file:///path")
        return Path(unquote(parts.path))
    if scheme in _OCI:
        host, _, image = rest.strip("/").partition("/")
        if _IMAGE.fullmatch(image) is None:
            raise RefusedAddress(f"{shown(address)}: write oci://HOST/IMAGE, without a tag")
        base = f"{_OCI[scheme]}://{host}"
        check_url(base)
        return Registry(base, image)
    if scheme == "s3":
        raise RefusedAddress(f"{shown(address)}: s3:// is not supported; use the bucket's address of https")
    raise RefusedAddress(f"{shown(address)}: a build cache is a folder, file://, http://, https:// or oci://")


class Validator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Values that identify the contents of an index, so that an unchanged index need not be read again."""

    layout: str = ""  # v2, v3 or oci
    etag: str = ""  # of the file that is requested first
    digest: str = ""  # sha256 of the index, in hex


class IndexFile(Struct, frozen=True):
    """The bytes of an index, checked against its checksum if the layout has one."""

    content: bytes
    where: str  # address, for messages
    fresh: Validator  # of this index, to be remembered for the next request


class MirrorFile(Struct, frozen=True):
    """A file from a mirror. If `is_unchanged`, it still has the etag of the request, and `content` is empty."""

    content: bytes
    etag: str = ""
    is_unchanged: bool = False


class FolderMirror:
    """A mirror in a folder of this machine; `where` is its address for messages."""

    def __init__(self, path: Path, max_index: int = LARGEST_INDEX) -> None:
        self._path, self.where, self.max_index = path, str(path), max_index
        if not path.is_dir():
            raise SourceError(f"{path}: there is no such folder")

    def get(self, path: str, *, etag: str = "", size: int | None = None) -> MirrorFile | None:  # noqa: ARG002
        """Return the file at `path`; None if missing. Ignore `etag`. Raises TooLarge above `size` or `max_index`."""
        try:
            return MirrorFile(read_inside(self._path, _relative(path), most=size or self.max_index))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except LargeFile as error:
            raise _too_large(f"{self._path / path}: {error.strerror}", size, self.max_index) from error
        except OSError as error:
            raise SourceError(f"{self._path / path}: {error.strerror}") from error

    def close(self) -> None:
        """Do nothing: a folder needs no closing."""


class WebMirror:
    """A mirror behind a web server; `where` is its address for messages."""

    # Object stores answer with 403 instead of 404 if the client may not list files.
    _missing: tuple[int, ...] = (403, 404)

    def __init__(self, url: str, headers: Mapping[str, str], limits: RequestLimits, max_index: int) -> None:
        """Send `headers` with every request, within `limits`; refuse files of more than `max_index` bytes."""
        self._url, self._headers, self._client = url, dict(headers), Client(limits)
        self.where, self.max_index = shown(url), max_index

    def get(self, path: str, *, etag: str = "", size: int | None = None) -> MirrorFile | None:
        """Return the file at `path`, empty if it still has `etag`; None if missing. Raises TooLarge above `size`."""
        headers, expected = ({"If-None-Match": etag}, (*self._missing, 304)) if etag else ({}, self._missing)
        url = f"{self._url}/{quote(_relative(path), safe='/:')}"
        try:
            answer = self._ask(url, headers, expected, size or self.max_index)
        except TooLarge as error:
            raise _too_large(str(error), size, self.max_index) from error
        if answer.status in self._missing:
            return None
        return MirrorFile(answer.body, answer.headers.get("etag", ""), is_unchanged=answer.status == 304)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, url: str, headers: Mapping[str, str], expected: Collection[int], size: int) -> Answer:
        return self._client.get(url, headers={**self._headers, **headers}, expected=expected, size=size)


class _Token(Struct):
    token: str = ""
    access_token: str = ""


class Image(WebMirror):
    """A mirror in a container image of a registry; it obtains an access token if the registry requires one."""

    _missing = (404,)

    def __init__(
        self, registry: Registry, headers: Mapping[str, str], limits: RequestLimits, max_index: int = LARGEST_INDEX
    ) -> None:
        """Send `headers` with every request; once the registry demands a token, send the token instead."""
        url = f"{registry.base}/v2/{registry.image}"
        super().__init__(url, {"Accept": _ACCEPT, **headers}, limits, max_index)
        self.where = f"{registry.base}/{registry.image}"
        self._base, self._own = registry.base, dict(headers)

    def _ask(self, url: str, headers: Mapping[str, str], expected: Collection[int], size: int) -> Answer:
        """Send the request, and repeat it once with a token if the registry demands one."""
        answer = super()._ask(url, headers, (*expected, 401), size)
        if answer.status != 401:
            return answer
        if origin(answer.url) != origin(self._base):  # which could name itself as the realm
            raise SourceError(
                f"{self.where}: redirects to {shown(answer.url)}, which wants credentials; "
                "only the server that was asked may ask for a login; name the other one in the address if you trust it"
            )
        self._headers["Authorization"] = f"Bearer {self._token(answer.headers.get('www-authenticate', ''))}"
        return super()._ask(url, headers, expected, size)

    def _token(self, challenge: str) -> str:
        scheme, _, rest = challenge[:_LARGEST_CHALLENGE].partition(" ")
        parameters = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in parameters:
            raise SourceError(f"{self.where}: the registry wants credentials; give it a file with a token or a login")
        realm = urljoin(self._base, parameters["realm"])
        query = {name: parameters[name] for name in ("service", "scope") if name in parameters}
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(query)}"
        # As in all clients of registries, credentials go to whom the registry names, but elsewhere never in the clear.
        is_safe = realm.startswith("https:") or origin(realm) == origin(self._base)
        headers = self._own if is_safe else {}
        answer = self._client.get(url, headers=headers, size=_LARGEST_MANIFEST, named_by=self._base)
        granted = decoded(answer.body, _Token, f"{self.where}: the registry's token cannot be read")
        if not (token := granted.token or granted.access_token) or not token.isascii() or not token.isprintable():
            raise SourceError(f"{self.where}: the registry gave no token")
        return token


CacheMirror = FolderMirror | WebMirror  # or an Image


def open_mirror(
    place: Place, headers: Mapping[str, str], limits: RequestLimits = LIMITS, max_index: int = LARGEST_INDEX
) -> CacheMirror:
    """Open the mirror at `place`; `headers` and `limits` are for HTTP, `max_index` is the most bytes of a file."""
    if isinstance(place, Path):
        return FolderMirror(place, max_index)
    if isinstance(place, Registry):
        return Image(place, headers, limits, max_index)
    return WebMirror(place, headers, limits, max_index)


def _relative(path: str) -> str:
    """Return `path`, which a file of the mirror names, unchanged. Raises SourceError if it leads out of the mirror."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts or not path.isprintable():
        raise SourceError(f"{path!a}: leads out of the mirror")
    return path


def _too_large(said: str, size: int | None, max_index: int) -> TooLarge:
    return TooLarge(said if size else f"{said}; if that is right, raise `max_index`, which is {max_index:,} bytes")


class _ListedBlob(Struct, frozen=True, rename="camel"):
    checksum: str
    checksum_algorithm: str = "sha256"
    media_type: str = ""
    compression: str = "none"


class BlobManifest(Struct, frozen=True):
    """A manifest of layout 3: JSON that names blobs by their checksums."""

    data: tuple[_ListedBlob, ...]


class _Layer(Struct, frozen=True):
    digest: str


class _ImageManifest(Struct, frozen=True):
    layers: tuple[_Layer, ...]


class _NotThere(SourceError):
    """The mirror lacks the files of this layout."""


def fetch_index(mirror: CacheMirror, known: Validator, *, view: str = "") -> IndexFile | None:
    """Return the index of `mirror`, or None if it still has the validator `known`. Raises SourceError if there is none.

    `view` is the name of an index of layout 3; "" means the main index.
    """
    if isinstance(mirror, Image):
        return _fetch_listed(mirror, "oci", "manifests/index.spack", known, _layer_of)
    if view and (_VIEW.fullmatch(view) is None or ".." in view):
        raise SourceError(f"{mirror.where}: {view!a} is not the name of a view")
    path = _INDEX_V3.format(view=f"{view}/" if view else "")
    with suppress(_NotThere):
        return _fetch_listed(mirror, "v3", path, known, _blob_of)
    if not view:
        with suppress(_NotThere):
            return fetch_v2_at(mirror, _INDEX_V2, known)
    hidden = ", or none that may be read (HTTP 403 or 404)" if isinstance(mirror, WebMirror) else ""
    raise SourceError(f"{mirror.where}: there is no index here{hidden}, neither {path} nor {_INDEX_V2}; {_IS_CACHE}")


def _fetch_listed(
    mirror: CacheMirror, layout: str, path: str, known: Validator, blob_of: Callable[[bytes, str], _Blob]
) -> IndexFile | None:
    """Return the index that the manifest at `path` names; None if the index still has the validator `known`.

    `layout` is "oci" or "v3". `blob_of` decodes the manifest, given the bytes and the address of the manifest.
    """
    known = known if known.layout == layout else Validator()
    file = mirror.get(path, etag=known.etag, size=_LARGEST_MANIFEST)
    if file is None:
        raise _NotThere(f"{mirror.where}: has no tag index.spack; {_IS_CACHE}")
    if file.is_unchanged:
        return None
    place, checksum, compression = blob_of(file.content, f"{mirror.where}/{path}")
    if checksum == known.digest:
        return None
    content = fetch_blob(mirror, place, checksum, compression)
    return IndexFile(content, mirror.where, Validator(layout=layout, etag=file.etag, digest=checksum))


def _blob_of(content: bytes, where: str) -> _Blob:
    listed = read_manifest(content, where).data
    blob = next((each for each in listed if each.media_type.startswith(_INDEX_MEDIA_TYPE)), None)
    if blob is None:
        raise SourceError(f"{where}: names no index")
    if blob.checksum_algorithm != "sha256" or not _SHA256.fullmatch(blob.checksum):
        raise SourceError(f"{where}: names a blob by {blob.checksum_algorithm!a}, not by sha256")
    return f"blobs/sha256/{blob.checksum[:2]}/{blob.checksum}", blob.checksum, blob.compression or "none"


def _layer_of(content: bytes, where: str) -> _Blob:
    layers = decoded(content, _ImageManifest, f"{where}: the registry answered with what is no manifest").layers
    algorithm, _, digest = (layers[0].digest if layers else "").partition(":")
    if algorithm != "sha256" or not _SHA256.fullmatch(digest):
        raise SourceError(f"{where}: names no layer by its sha256")
    return f"blobs/sha256:{digest}", digest, ""


def read_manifest(content: bytes, where: str) -> BlobManifest:
    """Decode the manifest `content` from `where`; a signature is cut off unchecked, as nothing is installed from it."""
    if content.lstrip().startswith(_SIGNED):
        content = b"{" + content.partition(b"{")[2].partition(_SIGNATURE)[0]
    return decoded(content, BlobManifest, f"{where}: is not a manifest of a build cache")


def decoded(content: bytes, kind: type[Value], refusal: str) -> Value:
    """Return `content` (JSON) as a value of type `kind`. Raises SourceError, which says `refusal` and the reason."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{refusal} ({error})") from error


def fetch_blob(mirror: CacheMirror, path: str, checksum: str, compression: str = "") -> bytes:
    """Return the blob at `path`, unpacked by `compression` ("": gzip or none). Raises SourceError on bad `checksum`."""
    where = f"{mirror.where}/{path}"
    file = mirror.get(path)
    if file is None:
        raise SourceError(f"{where}: is not there, though it is listed; it may be half published")
    content, checksum_found = file.content, hashlib.sha256(file.content).hexdigest()
    if checksum_found != checksum:
        sums = f"its sha256 is {checksum_found[:12]}..., not {checksum[:12]}..."
        raise SourceError(f"{where}: is damaged or cut off: {sums} ({len(content):,} bytes)")
    compression = compression or ("gzip" if content.startswith(_GZIP) else "none")
    if compression == "none":
        return content
    if compression != "gzip":
        raise SourceError(f"{where}: the index is packed with {compression[:20]!a}, which is not known")
    try:
        return inflate(content, most=mirror.max_index)
    except TooMuch as error:
        raise _too_large(f"{where}: the index {error}", None, mirror.max_index) from error
    except NotInflated as error:
        raise SourceError(f"{where}: the index {error}") from error
    except MemoryError as error:
        raise out_of_memory(where) from error


def out_of_memory(where: str) -> TooLarge:
    """Return the error to raise if the index at `where` takes more memory than there is."""
    return TooLarge(f"{where}: the index takes more memory than there is; a lower `max_index` refuses it")


def fetch_v2_at(mirror: CacheMirror, path: str, known: Validator) -> IndexFile | None:
    """Return the index of layout 2 at `path`, or None if it still has the validator `known`."""
    known = known if known.layout == "v2" else Validator()
    where, stated = f"{mirror.where}/{path}", ""
    if (listed := mirror.get(f"{path}.hash", size=_LARGEST_MANIFEST)) is not None:
        stated = listed.content.decode("ascii", "replace").strip().lower()
        if _SHA256.fullmatch(stated) is None:
            raise SourceError(f"{where}.hash: does not hold a sha256")
    if stated and stated == known.digest:
        return None
    file = mirror.get(path, etag="" if stated else known.etag)
    if file is None:
        raise _NotThere(f"{where}: is not there, though it is listed; it may be half published")
    if file.is_unchanged:
        return None
    digest = hashlib.sha256(file.content).hexdigest()
    if not stated and digest == known.digest:
        return None
    if stated not in ("", digest):  # both files are written one after the other
        raise SourceError(f"{where}: does not have the sha256 that {path}.hash says; it may be half published")
    return IndexFile(file.content, where, Validator(layout="v2", etag=file.etag, digest=digest))
