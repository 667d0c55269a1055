"""A live build cache: its recorded history, as a source that subscriptions can watch, and what it has now."""

from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from cachewatch.core import names as tag_names
from cachewatch.core import spack
from cachewatch.core.model import Signature
from cachewatch.core.selection import Globs
from cachewatch.documents.writing import ListedSpec
from cachewatch.environments.contents import CacheContents
from cachewatch.errors import SourceError, UnknownRevision, UsageError
from cachewatch.extensions.buildcaches.address import LARGEST_INDEX, patience
from cachewatch.extensions.buildcaches.opening import Cache, CacheSource, Failed, is_catalogue
from cachewatch.extensions.buildcaches.recorder import record
from cachewatch.extensions.buildcaches.settings import CatalogueSource
from cachewatch.git.revisions import resolve
from cachewatch.service.context import News, RecordedSource


class RecordedHistory(RecordedSource):
    """The history that we record of a build cache."""

    def __init__(self, source: CatalogueSource, folder: Path) -> None:
        files = {name: Path(file) for name, file in source.credentials.items()}
        named = {name: getattr(source, name, None) for name in ("tag", "stack", "view")}
        seconds = source.poll.timeout.total_seconds()
        self._cache = Cache(
            address=source.address,
            is_catalogue=source.type == "catalogue",
            wanted_tag=Globs(source.tags),
            limits=replace(patience(seconds), total=seconds),
            token_file=files.get("token_file"),
            login_file=files.get("login_file"),
            max_index=source.max_index or LARGEST_INDEX,
            **{name: value for name, value in named.items() if value is not None},
        )
        super().__init__(folder, source.address)

    def update(self) -> News:
        """Record what the cache publishes now, unless it is what it was."""
        done = record(self._cache, self._folder)
        said = [f"{held.tag} is held back: {held.reason}." for held in done.held]
        said += [f"{failed.tag} was not recorded: {failed.message}." for failed in done.failed]
        with closing(self.open()) as repository:
            try:
                newest = resolve(repository, "HEAD")
            except UnknownRevision as error:
                raise SourceError(" ".join(said) or f"{self._address}: nothing was recorded yet") from error
        warnings = tuple(f"{diagnostic.path}: {diagnostic.message}." for diagnostic in done.diagnostics)
        return News(revision=newest.commit, time=newest.time, warnings=warnings, problem=" ".join(said))


def holdings(
    address: str,
    packages: Collection[str],
    *,
    tag: str | None = None,
    view: str = "",
    token_file: Path | None = None,
    login_file: Path | None = None,
) -> CacheContents:
    """Return what a live cache, or one tag of a catalogue, has of `packages` right now."""
    wanted = tag or "develop"
    cache = Cache(
        address=address,
        is_catalogue=is_catalogue(address),
        tag=wanted,
        wanted_tag=lambda name: name == wanted,
        view=view,
        token_file=token_file,
        login_file=login_file,
    )
    with CacheSource(cache) as source:
        for found in source.read({}):
            if isinstance(found, Failed):
                raise SourceError(f"{found.tag}: {found.message}")
            if found.tag == wanted:
                held = {
                    package: {spec.binary.hash: _signature(spec) for spec in found.specs.read(package).listed}
                    for package in found.specs.packages
                    if package in packages
                }
                return CacheContents(held, f"{address} as it is now", tag_names.is_mutable(wanted), found.diagnostics)
    raise UsageError(f"{address}: has no tag {wanted}")


def _signature(spec: ListedSpec) -> Signature:
    binary = spec.binary
    return Signature(
        versions=(binary.version,),
        compiler=spack.compiler(binary.compiler),
        os=binary.os,
        platform=binary.platform,
        target=binary.target,
        variants=spack.variants(binary.variants),
        stacks=spack.stacks(spec.stacks),
    )
