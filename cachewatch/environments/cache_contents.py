"""What there is of some packages: in a recorded revision, or in a live cache right now."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from cachewatch.core import spack_spellings, tag_names
from cachewatch.core.environment_coverage import Holdings
from cachewatch.core.model import Diagnostic, DiagnosticKind, Document, Signature
from cachewatch.core.tag_pairs import Blob, Content, Listing
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.parsing import parse
from cachewatch.documents.records import Known
from cachewatch.documents.writing import Listed
from cachewatch.errors import DocumentError, SourceError, UsageError
from cachewatch.git.catalogue import list_revision
from cachewatch.git.resolving_revisions import resolve
from cachewatch.sources.buildcache.opening import Cache, CacheSource, Failed

if TYPE_CHECKING:
    from cachewatch.git.repository import Repository


class CacheContents(Struct, frozen=True):
    """The specs of some packages, and where they are from."""

    holdings: Holdings
    where: str
    is_pruned: bool
    diagnostics: tuple[Diagnostic, ...] = ()
    revision: str | None = None
    tag: str | None = None


def recorded_in(opened: "Repository", repository: str, revision: str, packages: Collection[str]) -> CacheContents:
    """Return what a revision, or one tag of it, has of `packages` in a repository that is open."""
    found = resolve(opened, revision)
    listing = list_revision(
        opened, found, wanted_tag=lambda _: True, wanted_package=lambda package: package in packages
    )
    return listed(listing, repository)


def published(cache: Cache, packages: Collection[str]) -> CacheContents:
    """Return what a live cache has of `packages` right now."""
    with CacheSource(cache) as source:
        for found in source.read({}):
            if isinstance(found, Failed):
                raise SourceError(f"{found.tag}: {found.message}")
            if found.tag == cache.tag:
                holdings = {
                    package: {spec.binary.hash: _signature(spec) for spec in found.specs.read(package).listed}
                    for package in found.specs.packages
                    if package in packages
                }
                where = f"{cache.address} as it is now"
                return CacheContents(holdings, where, tag_names.is_mutable(cache.tag), found.diagnostics)
    raise UsageError(f"{cache.address}: has no tag {cache.tag}")


def _signature(spec: Listed) -> Signature:
    binary = spec.binary
    return Signature(
        versions=(binary.version,),
        compiler=spack_spellings.compiler(binary.compiler),
        os=binary.os,
        platform=binary.platform,
        target=binary.target,
        variants=spack_spellings.variants(binary.variants),
        stacks=spack_spellings.stacks(spec.stacks),
    )


def listed(listing: Listing, name: str) -> CacheContents:
    """Return what the documents of one tag hold; `name` says in messages where they are."""
    known = Known()
    holdings: dict[str, Mapping[str, Signature]] = {}
    diagnostics = list(listing.diagnostics)
    blobs = {package: blob for package, blob in listing.blobs.items() if blob.size <= MAX_BYTES}
    for (package, blob), content in zip(blobs.items(), listing.reader.read(blobs.values()), strict=True):
        document = _parse(content, blob, known)
        if isinstance(document, Diagnostic):
            diagnostics.append(document)
        else:
            holdings[package] = document.specs
            diagnostics += document.diagnostics
    side = listing.side
    where = " ".join(filter(None, (name, side.tag, side.revision and f"at {side.revision[:10]}")))
    return CacheContents(
        holdings, where, tag_names.is_mutable(side.tag), tuple(diagnostics), revision=side.revision, tag=side.tag
    )


def _parse(content: Content, blob: Blob, known: Known) -> Document | Diagnostic:
    if isinstance(content, str):
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, content)
    try:
        return parse(content, blob.path, known)
    except DocumentError as error:
        return Diagnostic(blob.path, DiagnosticKind.UNREADABLE, str(error))
