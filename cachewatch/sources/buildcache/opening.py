"""What a source publishes now: for each tag that may have changed, the specs of all its stacks."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from msgspec import Struct

from cachewatch.core.model import Diagnostic, DiagnosticKind
from cachewatch.core.repository_layout import is_name
from cachewatch.core.spack_spellings import UNION_STACK
from cachewatch.documents.writing import Binary
from cachewatch.errors import SourceError, TooLarge, UsageError
from cachewatch.http import Limits, basic, bearer, check_secrecy
from cachewatch.sources.buildcache import IndexFile, Mirror, Validator
from cachewatch.sources.buildcache.address import LARGEST_INDEX, Registry, open_mirror, parse_address, root_of
from cachewatch.sources.buildcache.catalogue import CatalogueEntry, CatalogueListing, fetch_listing
from cachewatch.sources.buildcache.index import Index, read_indexes
from cachewatch.sources.buildcache.layouts import fetch_index
from cachewatch.sources.buildcache.oci import Image
from cachewatch.sources.buildcache.published_specs import PublishedSpecs
from cachewatch.sources.buildcache.sizes import sizes_in_mirror, tag_of

# What the list of Spack's public caches is called.
CATALOGUE_FILE = "cache_spack_io_index.json"


class Cache(Struct, frozen=True, kw_only=True):
    """A build cache, or the catalogue of many, and how it is to be read."""

    address: str
    is_catalogue: bool = False
    tag: str = "develop"  # of a single cache; a catalogue names its own
    stack: str = "cache"  # of a single cache; a catalogue names its own
    view: str = ""  # a named index of layout 3
    wanted_tag: Callable[[str], bool] = lambda _: True  # of a catalogue
    token_file: Path | None = None
    login_file: Path | None = None
    limits: Limits | None = None
    max_index: int = LARGEST_INDEX  # bytes, unpacked


class Published(Struct, frozen=True):
    """One tag as it is published now."""

    tag: str
    stacks: tuple[str, ...]
    specs: PublishedSpecs
    fresh: Mapping[str, Validator]  # by what to know the tag's indexes again
    diagnostics: tuple[Diagnostic, ...] = ()
    other_nodes: Mapping[str, bytes] = MappingProxyType({})  # what is no binary, encoded, by hash


class Failed(Struct, frozen=True):
    """A tag that could not be read, while others can."""

    tag: str
    message: str


# By what everything was known that was read before.
Remembered = Mapping[str, Validator]


def is_catalogue(address: str) -> bool:
    """Tell whether `address` names the catalogue of many caches: a file of JSON that is no index."""
    return root_of(address).endswith(".json")


class CacheSource:
    """A cache that was opened; close it in the end."""

    def __init__(self, cache: Cache, *, wants_graph: bool = False) -> None:
        """Open `cache`; `wants_graph` asks for what each spec was made of, too."""
        self._cache = cache
        self._wants_graph = wants_graph
        self._is_list = cache.is_catalogue or is_catalogue(cache.address)
        for name in (cache.tag, cache.stack):
            if not is_name(name.encode()):
                raise UsageError(f"{name!a}: a tag and a stack have letters, digits and . _ + @ - in their names")
        if cache.stack == UNION_STACK:
            raise UsageError(f"{UNION_STACK}: is what the union of all stacks is called; name the stack otherwise")
        place = parse_address(root_of(cache.address))
        headers = _headers(cache)
        if headers and not isinstance(place, Path):
            check_secrecy(place.base if isinstance(place, Registry) else place)
        self._image: Image | None = None
        self._mirror: Mirror | None = None
        self._list_name = ""
        if isinstance(place, Registry):
            self._image = Image(place, headers, cache.limits, max_index=cache.max_index)
        else:
            folder, self._list_name = _split(place) if self._is_list else (place, "")
            self._mirror = open_mirror(folder, headers, cache.limits, max_index=cache.max_index)

    def __enter__(self) -> "CacheSource":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        for opened in (self._image, self._mirror):
            if opened is not None:
                opened.close()

    def read(self, remembered: Remembered) -> Iterator[Published | Failed]:
        """Yield each tag of which anything may have changed since what is `remembered`."""
        if self._mirror is not None and self._is_list:
            yield from self._read_list(self._mirror, remembered)
        elif (published := self._read_one(remembered)) is not None:
            yield published

    def sizes(self, binaries: Sequence[Binary]) -> list[int | None]:
        """Return the bytes of each tarball, None where that cannot be known; a catalogue knows none."""
        if self._image is not None:
            return self._image.sizes([tag_of(binary) for binary in binaries])
        if self._mirror is not None and not self._is_list:
            return sizes_in_mirror(self._mirror, binaries)
        return [None] * len(binaries)

    def _read_one(self, remembered: Remembered) -> Published | None:
        key = f"{self._cache.tag}/{self._cache.stack}/{self._cache.view}"
        known = remembered.get(key, Validator())
        if self._image is not None:
            file = self._image.fetch_index(known)
        else:
            assert self._mirror is not None
            file = fetch_index(self._mirror, known, view=self._cache.view)
        if file is None:
            return None
        return _publish(self._cache.tag, {self._cache.stack: self._read_file(file)}, {key: file.fresh})

    def _read_list(self, mirror: Mirror, remembered: Remembered) -> Iterator[Published | Failed]:
        key = "catalogue"
        listing = fetch_listing(mirror, self._list_name, remembered.get(key, Validator()))
        if listing is None:
            return
        is_all_read = True
        for tag, entries in listing.tags.items():
            if not self._cache.wanted_tag(tag):
                continue
            try:
                published = self._read_tag(mirror, tag, entries, remembered)
            except SourceError as error:
                is_all_read = False
                yield Failed(tag, str(error))
                continue
            if published is not None:
                yield published
        if is_all_read:
            yield Published("", (), PublishedSpecs(()), {key: listing.fresh}, _ignored(mirror, listing))

    def _read_tag(
        self, mirror: Mirror, tag: str, entries: Sequence[CatalogueEntry], remembered: Remembered
    ) -> Published | None:
        """Read all indexes of a tag if any of them changed."""
        keys = {entry.label: f"{tag}/{entry.label}" for entry in entries}
        listed_before = {key for key in remembered if key.startswith(f"{tag}/")}
        read: dict[str, _Read] = {}
        for entry in entries:
            file = entry.fetch(mirror, remembered.get(keys[entry.label], Validator()))
            if file is not None:
                read[entry.label] = self._read_file(file)
        if not read and listed_before == set(keys.values()):
            return None
        for entry in entries:
            if entry.label not in read:
                file = entry.fetch(mirror, Validator())
                assert file is not None  # nothing is unchanged to whom nothing is known
                read[entry.label] = self._read_file(file)
        return _publish(tag, read, {keys[label]: fresh for label, (_, fresh) in read.items()})

    def _read_file(self, file: IndexFile) -> "_Read":
        """Read an index at once, because the file itself may have hundreds of megabytes."""
        return _read(file, wants_graph=self._wants_graph)


_Read = tuple[tuple[Index, ...], Validator]


def _read(file: IndexFile, *, wants_graph: bool) -> _Read:
    try:
        return read_indexes(file, wants_graph=wants_graph), file.fresh
    except MemoryError as error:
        raise TooLarge(
            f"{file.where}: the index takes more memory than there is; a lower `max_index` refuses it"
        ) from error


def _publish(tag: str, read: Mapping[str, _Read], fresh: Mapping[str, Validator]) -> Published:
    """Put the indexes of a tag together: a spec is in the tag if it is in any of them."""
    diagnostics: list[Diagnostic] = []
    other_nodes: dict[str, bytes] = {}
    for indexes, _ in read.values():
        diagnostics += dict.fromkeys(diagnostic for index in indexes for diagnostic in index.diagnostics)
        for index in indexes:
            other_nodes |= index.other_nodes
    specs = PublishedSpecs([(label, index.specs) for label, (indexes, _) in read.items() for index in indexes])
    return Published(tag, tuple(sorted({*read, UNION_STACK})), specs, fresh, tuple(diagnostics), other_nodes)


def _ignored(mirror: Mirror, listing: CatalogueListing) -> tuple[Diagnostic, ...]:
    if not listing.ignored:
        return ()
    names = ", ".join(ascii(name)[1:-1][:60] for name in listing.ignored[:5])
    message = f"{len(listing.ignored)} entries cannot be understood: {names}"
    return (Diagnostic(mirror.where, DiagnosticKind.UNREADABLE, message),)


def _headers(cache: Cache) -> Mapping[str, str]:
    if cache.token_file and cache.login_file:
        raise UsageError("a cache takes a token or a login, not both")
    if cache.token_file:
        return bearer(cache.token_file)
    return basic(cache.login_file) if cache.login_file else {}


def _split(place: Path | str) -> tuple[Path | str, str]:
    """Split the address of a catalogue into the folder and the name of its list."""
    if isinstance(place, Path):
        return (place, CATALOGUE_FILE) if place.is_dir() else (place.parent, place.name)
    if not place.endswith(".json"):
        return place, CATALOGUE_FILE
    path = PurePosixPath(place)
    return re.sub(r"/[^/]*$", "", place), path.name
