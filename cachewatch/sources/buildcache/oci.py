"""Find the index in a registry: the first layer of the tag `index.spack`, whatever its label says."""

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urljoin, urlsplit

import msgspec
from msgspec import Struct

from cachewatch.errors import HttpError, SourceError
from cachewatch.http import Answer, Client, Limits, Request, origin
from cachewatch.sources.buildcache import Fresh, IndexFile
from cachewatch.sources.buildcache.address import Registry, patience
from cachewatch.sources.buildcache.layouts import verify

_INDEX_TAG = "index.spack"
_LARGEST_MANIFEST = 4 * 2**20
_LARGEST_INDEX = 4 * 2**30
_ACCEPT = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class Layer(Struct, frozen=True):
    """A blob that a manifest names."""

    digest: str
    size: int = -1


class ImageManifest(Struct, frozen=True, rename="camel"):
    """A manifest of an image."""

    layers: tuple[Layer, ...]


class _Token(Struct):
    token: str = ""
    access_token: str = ""


_decode_manifest = msgspec.json.Decoder(ImageManifest).decode
_decode_token = msgspec.json.Decoder(_Token).decode


class Image:
    """An image whose registry is asked with whatever token it wants."""

    def __init__(self, registry: Registry, headers: Mapping[str, str], limits: Limits | None = None) -> None:
        self.where = registry.where
        self._registry = registry
        self._own = dict(headers)  # what the user gave; the registry may want it changed for a token
        self._headers = dict(headers)
        self._client = Client(limits or patience())

    def fetch_index(self, known: Fresh) -> IndexFile | None:
        """Return the index, or None where it is the one that is `known`."""
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
        layers = self._manifest(answer.body).layers
        match = _DIGEST.fullmatch(layers[0].digest) if layers else None
        if match is None:
            raise SourceError(f"{self.where}:{_INDEX_TAG}: names no layer by its sha256")
        if is_known and match[1] == known.digest:
            return None
        blob = self._get(f"blobs/{match[0]}", {}, expected=(404,), size=_LARGEST_INDEX)
        if blob.status == 404:
            raise SourceError(f"{self.where}: the layer of {_INDEX_TAG} is not there; it may be half published")
        content = verify(blob.body, match[1], f"{self.where}:{_INDEX_TAG}")
        return IndexFile(content, self.where, Fresh(layout="oci", etag=answer.headers.get("etag", ""), digest=match[1]))

    def sizes(self, tags: list[str]) -> list[int | None]:
        """Return the bytes of the tarball of each tag; None where that cannot be known."""
        requests = [
            Request(self._at(f"manifests/{tag}"), {**self._headers, "Accept": _ACCEPT}, size=_LARGEST_MANIFEST)
            for tag in tags
            if _TAG.fullmatch(tag)
        ]
        answers = self._client.get_all(requests)
        return [self._size(next(answers)) if _TAG.fullmatch(tag) else None for tag in tags]

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _size(self, answer: Answer | HttpError) -> int | None:
        if isinstance(answer, HttpError):
            return None
        try:
            layers = self._manifest(answer.body).layers
        except SourceError:
            return None
        # Those of its dependencies come before it.
        return layers[-1].size if layers and layers[-1].size >= 0 else None

    def _manifest(self, content: bytes) -> ImageManifest:
        try:
            return _decode_manifest(content)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SourceError(f"{self.where}: the registry answered with what is no manifest ({error})") from error

    def _at(self, path: str) -> str:
        return f"{self._registry.base}/v2/{self._registry.image}/{path}"

    def _get(self, path: str, headers: Mapping[str, str], *, expected: tuple[int, ...], size: int) -> Answer:
        """Ask the registry, if need be once more with the token that it asked for."""
        url = self._at(path)
        answer = self._client.get(url, headers={**self._headers, **headers}, expected=(*expected, 401), size=size)
        if answer.status == 401:
            self._headers = {"Authorization": f"Bearer {self._token(answer.headers.get('www-authenticate', ''))}"}
            answer = self._client.get(url, headers={**self._headers, **headers}, expected=expected, size=size)
        return answer

    def _token(self, challenge: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        said = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in said:
            raise SourceError(f"{self.where}: the registry wants credentials; give it a file with a token or a login")
        realm = urljoin(self._registry.base, said["realm"])
        query = {name: said[name] for name in ("service", "scope") if name in said}
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(query)}"
        # As every client of registries does, credentials go to whom the registry names, but never in the clear
        # to another server.
        is_safe = realm.startswith("https:") or origin(realm) == origin(self._registry.base)
        answer = self._client.get(url, headers=self._own if is_safe else {}, size=_LARGEST_MANIFEST)
        try:
            found = _decode_token(answer.body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise SourceError(f"{self.where}: the registry's token cannot be read") from error
        if not (token := found.token or found.access_token) or not token.isascii() or not token.isprintable():
            raise SourceError(f"{self.where}: the registry gave no token")
        return token
