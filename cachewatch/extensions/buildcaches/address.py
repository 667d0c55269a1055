"""The configuration of sources that are build caches, how their addresses are parsed, and how files are fetched."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from cachewatch.config.section import key
from cachewatch.config.sources import Address, LiveSource
from cachewatch.config.types import Size, Text
from cachewatch.errors import HttpError, RefusedAddress, SourceError, TooLarge
from cachewatch.http.addresses import check_url, shown
from cachewatch.http.client import Client, RequestLimits
from cachewatch.runtime.files import LargeFile, read_inside


class Validator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What identifies an index, so that an unchanged index need not be read again."""

    layout: str = ""  # v2, v3 or oci
    etag: str = ""  # of the file that is requested first
    digest: str = ""  # sha256 of the index, in hex


class IndexFile(Struct, frozen=True):
    """The bytes of an index, checked against its checksum if the layout has one."""

    content: bytes
    where: str  # address, for messages
    fresh: Validator  # of this index, to be remembered


class MirrorFile(Struct, frozen=True):
    """A file from a mirror, or the answer that it is unchanged."""

    content: bytes
    etag: str = ""
    is_unchanged: bool = False  # since the version with the etag that was sent along; there is no content then


# The public index of develop has hundreds of megabytes.
LARGEST_INDEX = 4 * 2**30

_OCI = {"oci": "https", "oci+https": "https", "oci+http": "http"}
_INSIDE = re.compile(r"/(build_cache(/index\.json)?|v3(/manifests/index/index\.manifest\.json)?)/?$")
_IMAGE = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*")


def request_limits(seconds: float = 3600.0) -> RequestLimits:
    """Return the limits of one request to a cache: at most `seconds`, and no file larger than LARGEST_INDEX."""
    return RequestLimits(seconds=seconds, size=LARGEST_INDEX)


class Registry(Struct, frozen=True):
    """A container image in a registry that holds a build cache."""

    base: str  # https://host
    image: str

    @property
    def where(self) -> str:
        """The address of the image, for messages."""
        return f"{self.base}/{self.image}"


def root_of(address: str) -> str:
    """Return the address of the mirror if `address` is the address of its index or of the folder of the index."""
    return _INSIDE.sub("", address)


def parse_address(address: str) -> Path | str | Registry:
    """Return the location that `address` names: a folder, a URL of http or https, or an image in a registry.

    Raises RefusedAddress for every other address, and for a URL that contains a password.
    """
    if not address.isprintable() or not address.strip():
        raise RefusedAddress(f"{address!a}: an address is one line of plain text")
    scheme, separator, _ = address.partition("://")
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
        return _registry(address, _OCI[scheme])
    if scheme == "s3":
        raise RefusedAddress(f"{shown(address)}: s3:// is not supported; use the bucket's address of https")
    raise RefusedAddress(f"{shown(address)}: a build cache is a folder, file://, http://, https:// or oci://")


@contextmanager
def oversized() -> Iterator[None]:
    """Turn the HttpError of a file that is larger than the limit into TooLarge."""
    try:
        yield
    except HttpError as error:
        if error.is_too_large:
            raise TooLarge(str(error)) from error
        raise


class FolderMirror:
    """A mirror in a folder of this machine."""

    def __init__(self, path: Path, max_index: int = LARGEST_INDEX) -> None:
        self._path = path
        self.max_index = max_index
        if not path.is_dir():
            raise SourceError(f"{path}: there is no such folder")

    @property
    def where(self) -> str:
        """The path of the folder, for messages."""
        return str(self._path)

    def get(self, path: str, *, etag: str = "", size: int | None = None) -> MirrorFile | None:  # noqa: ARG002
        """Return the file at `path`, of at most `size` bytes, or None if there is none; `etag` is ignored."""
        try:
            return MirrorFile(read_inside(self._path, _relative(path), most=LARGEST_INDEX if size is None else size))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except LargeFile as error:
            raise TooLarge(f"{self._path / path}: {error.strerror}") from error
        except OSError as error:
            raise SourceError(f"{self._path / path}: {error.strerror}") from error

    def close(self) -> None:
        """Do nothing: a folder needs no closing."""


class WebMirror:
    """A mirror behind a web server."""

    def __init__(
        self, url: str, headers: Mapping[str, str], limits: RequestLimits | None = None, max_index: int = LARGEST_INDEX
    ) -> None:
        self._url = url
        self.max_index = max_index
        self._headers = headers
        self._client = Client(limits or request_limits())

    @property
    def where(self) -> str:
        """The URL without secrets, for messages."""
        return shown(self._url)

    def get(self, path: str, *, etag: str = "", size: int | None = None) -> MirrorFile | None:
        """Return the file at `path`, of at most `size` bytes, or None if the server gives none.

        If the file still has the given `etag`, the result has no content and `is_unchanged` is true.
        """
        headers = {**self._headers, **({"If-None-Match": etag} if etag else {})}
        # Object stores answer with 403 instead of 404 if the client may not list files.
        expected = (403, 404, 304) if etag else (403, 404)
        url = f"{self._url}/{quote(_relative(path))}"
        with oversized():
            answer = self._client.get(url, headers=headers, expected=expected, size=size)
        if answer.status in (403, 404):
            return None
        return MirrorFile(answer.body, answer.headers.get("etag", ""), is_unchanged=answer.status == 304)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


CacheMirror = FolderMirror | WebMirror


def open_mirror(
    place: Path | str,
    headers: Mapping[str, str],
    limits: RequestLimits | None = None,
    *,
    max_index: int = LARGEST_INDEX,
) -> CacheMirror:
    """Open the mirror in a folder or at a URL; `headers` are sent with every request to the URL."""
    return FolderMirror(place, max_index) if isinstance(place, Path) else WebMirror(place, headers, limits, max_index)


def _relative(path: str) -> str:
    """Return `path`, which a file of the mirror may have named; raise SourceError if it leads out of the mirror."""
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts or not path.isprintable():
        raise SourceError(f"{path!a}: leads out of the mirror")
    return path


def _registry(address: str, scheme: str) -> Registry:
    host, slash, image = address.partition("://")[2].strip("/").partition("/")
    if not slash or _IMAGE.fullmatch(image) is None:
        raise RefusedAddress(f"{shown(address)}: write oci://HOST/IMAGE, without a tag")
    base = f"{scheme}://{host}"
    check_url(base)
    return Registry(base, image)


class CatalogueSource(LiveSource):
    """A catalogue of several build caches, as cache.spack.io has one."""

    address: Address = key("URL or path of the catalogue of build caches, as cache.spack.io has one", name="url")
    max_index: Size | None = key(
        "maximum unpacked size of an index; a larger index is not read, nor is one that unpacks to more than 200 times"
        " its size",
        None,
        if_left_out="`4GiB`",
    )


class BuildCacheSource(CatalogueSource):
    """A live build cache."""

    address: Address = key("URL or path of the build cache", name="url")
    tag: Text | None = key("name for the tag", None, if_left_out="`develop`")
    stack: Text | None = key("name for the stack", None, if_left_out="`cache`")
    view: Text | None = key("named index to read", None, if_left_out="the main index")
