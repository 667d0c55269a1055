"""The sizes of tarballs, which an index does not have: from one small file for each spec."""

from collections.abc import Sequence

from cachewatch.documents.writing import Binary
from cachewatch.errors import SourceError
from cachewatch.sources.buildcache import File, Mirror
from cachewatch.sources.buildcache.layouts import read_manifest

_TARBALL = "application/vnd.spack.install"


def sizes_in_mirror(mirror: Mirror, binaries: Sequence[Binary]) -> list[int | None]:
    """Return the bytes of each tarball in a mirror of layout 3; None where that cannot be known."""
    return [_size(file) for file in mirror.get_all([_path(binary) for binary in binaries])]


def tag_of(binary: Binary) -> str:
    """Return the tag that a registry has for a spec."""
    return f"{binary.package}-{binary.version}-{binary.hash}.spack"


def _path(binary: Binary) -> str:
    name = f"{binary.package}-{binary.version}-{binary.hash}.spec.manifest.json"
    return f"v3/manifests/spec/{binary.package}/{name.replace('/', '_')}"


def _size(file: File | None) -> int | None:
    if file is None:
        return None
    try:
        blobs = read_manifest(file.content, "").data
    except SourceError:
        return None
    sizes = (blob.content_length for blob in blobs if blob.media_type.startswith(_TARBALL))
    size = next(sizes, -1)
    return size if size >= 0 else None
