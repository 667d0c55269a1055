"""Fetch the index of a build cache in a registry: the first layer of the tag `index.spack`, whatever its media type."""

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from cachewatch.errors import SourceError
from cachewatch.extensions.buildcaches.address import (
    LARGEST_INDEX,
    IndexFile,
    Registry,
    Validator,
    oversized,
    request_limits,
)
from cachewatch.extensions.buildcaches.layouts import inflated, limited_to, verify
from cachewatch.http.addresses import origin, shown
from cachewatch.http.client import Answer, Client, RequestLimits

_INDEX_TAG = "index.spack"
_LARGEST_MANIFEST = 4 * 2**20
_LARGEST_CHALLENGE = 4096  # characters
_GZIP = b"\x1f\x8b"
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_CHALLENGE = re.compile(r'\b(\w{1,100})="([^"]*)"')


class Layer(Struct, frozen=True):
    """A blob that a manifest of an image lists."""

    digest: str


class ImageManifest(Struct, frozen=True):
    """The manifest of an image."""

    layers: tuple[Layer, ...]


class _Token(Struct):
    token: str = ""
    access_token: str = ""


_decode_manifest = msgspec.json.Decoder(ImageManifest).decode
_decode_token = msgspec.json.Decoder(_Token).decode


class Image:
    """A container image in a registry. Obtains an access token if the registry requires one."""

    def __init__(
        self,
        registry: Registry,
        headers: Mapping[str, str],
        limits: RequestLimits | None = None,
        *,
        max_index: int = LARGEST_INDEX,
    ) -> None:
        self.max_index = max_index
        self.where = registry.where
        self._registry = registry
        self._own = dict(headers)  # what the user gave; the registry may require a token instead
        self._headers = dict(headers)
        self._client = Client(limits or request_limits())

    def fetch_index(self, known: Validator) -> IndexFile | None:
        """Return the index, or None if it is still the one with the validator `known`."""
        is_known = known.layout == "oci"
        answer = self._get(
            f"manifests/{_INDEX_TAG}",
            {"Accept": _ACCEPT, **({"If-None-Match": known.etag} if is_known and known.etag else {})},
            expected=(304, 404),
            size=_LARGEST_MANIFEST,
        )
        if answer.status == 404:
            raise SourceError(
                f"{self.where}: has no tag {_INDEX_TAG}; is this a build cache, and was `spack buildcache update-index` run?"
            )
        if answer.status == 304:
            return None
        try:
            layers = _decode_manifest(answer.body).layers
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SourceError(f"{self.where}: the registry answered with what is no manifest ({error})") from error
        match = _DIGEST.fullmatch(layers[0].digest if layers else "")
        if match is None:
            raise SourceError(f"{self.where}:{_INDEX_TAG}: names no layer by its sha256")
        if is_known and match[1] == known.digest:
            return None
        fresh = Validator(layout="oci", etag=answer.headers.get("etag", ""), digest=match[1])
        return IndexFile(self._layer(match[1]), self.where, fresh)

    def _layer(self, digest: str) -> bytes:
        """Return the content of a layer. It is decompressed if it is gzip, whatever its media type."""
        where = f"{self.where}:{_INDEX_TAG}"
        with limited_to(self.max_index):
            with oversized():
                answer = self._get(f"blobs/sha256:{digest}", {}, expected=(404,), size=self.max_index)
            if answer.status == 404:
                raise SourceError(f"{self.where}: the layer of {_INDEX_TAG} is not there; it may be half published")
            content = verify(answer.body, digest, where)
            return inflated(content, self.max_index, where) if content.startswith(_GZIP) else content

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _get(self, path: str, headers: Mapping[str, str], *, expected: tuple[int, ...], size: int) -> Answer:
        """Send a GET request for `path` of the image, and repeat it once with a token if the registry demands one.

        `expected` are further accepted status codes, and `size` is the greatest number of bytes to read.
        """
        url = f"{self._registry.base}/v2/{self._registry.image}/{path}"
        answer = self._client.get(url, headers={**self._headers, **headers}, expected=(*expected, 401), size=size)
        if answer.status == 401:
            if origin(answer.url) != origin(self._registry.base):  # which could name itself as the realm
                raise SourceError(
                    f"{self.where}: redirects to {shown(answer.url)}, which wants credentials; "
                    "only the server that was asked may ask for a login; name the other one in the address if you trust it"
                )
            self._headers = {"Authorization": f"Bearer {self._token(answer.headers.get('www-authenticate', ''))}"}
            answer = self._client.get(url, headers={**self._headers, **headers}, expected=expected, size=size)
        return answer

    def _token(self, challenge: str) -> str:
        scheme, _, rest = challenge[:_LARGEST_CHALLENGE].partition(" ")
        said = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in said:
            raise SourceError(f"{self.where}: the registry wants credentials; give it a file with a token or a login")
        realm = urljoin(self._registry.base, said["realm"])
        query = {name: said[name] for name in ("service", "scope") if name in said}
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(query)}"
        # As every client of registries does, credentials go to whom the registry names, but never in the clear
        # to another server.
        is_safe = realm.startswith("https:") or origin(realm) == origin(self._registry.base)
        answer = self._client.get(
            url, headers=self._own if is_safe else {}, size=_LARGEST_MANIFEST, named_by=self._registry.base
        )
        try:
            found = _decode_token(answer.body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SourceError(f"{self.where}: the registry's token cannot be read") from error
        if not (token := found.token or found.access_token) or not token.isascii() or not token.isprintable():
            raise SourceError(f"{self.where}: the registry gave no token")
        return token
