"""Open a build cache, or a catalogue of build caches, and read the specs of each tag that may have changed.

The list of all of Spack's public caches names the index of each stack of a tag. An index of layout 3 is listed by its
sha256, so the list alone shows what changed. The specs of a tag are put together package by package.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind
from cachewatch.core.names_and_layouts import is_name
from cachewatch.core.versions_spellings_targets import UNION_STACK
from cachewatch.documents.spec_nodes_and_graphs import EncodedIngredients
from cachewatch.documents.writing_documents import Binary, ListedSpec
from cachewatch.errors import SourceError, UsageError
from cachewatch.extensions.buildcaches import mirrors_and_registries as mirrors
from cachewatch.extensions.buildcaches.index import CacheIndex, SpecStore, read_index
from cachewatch.http.allowed_addresses import basic, bearer, check_secrecy
from cachewatch.http.client import RequestLimits

_BLOB = re.compile(r"(?:.+/)?blobs/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_PLAIN = re.compile(r"(?:.+/)?build_cache/index\.json")


class PublishedSpecs:
    """The specs of a tag; they are read package by package, so that only one package is in memory."""

    def __init__(self, stores: Sequence[tuple[str, SpecStore]]) -> None:
        """Combine several stacks, given as pairs of a stack and the specs of its index."""
        self._stores = stores
        self.packages: Collection[str] = sorted({package for _, store in stores for package in store.packages})

    def count(self) -> Mapping[str, int]:
        """Return the number of specs in each stack and, under `root`, in their union."""
        counts: Counter[str] = Counter()
        size = 0
        for package in self.packages:
            listed, _ = self.read(package)
            counts.update(stack for spec in listed for stack in spec.stacks)
            size += len(listed)
        return {**counts, UNION_STACK: size}

    def read(self, package: str) -> tuple[Sequence[ListedSpec], Mapping[str, EncodedIngredients]]:
        """Return the specs of a package, each with all its stacks, and their ingredients by hash, if requested."""
        binaries: dict[str, Binary] = {}
        graph: dict[str, EncodedIngredients] = {}
        stacks: dict[str, dict[str, None]] = {}
        for label, store in self._stores:
            for binary, ingredients in store.read(package):
                if binary.hash not in binaries and ingredients:
                    graph[binary.hash] = ingredients
                binaries.setdefault(binary.hash, binary)
                stacks.setdefault(binary.hash, {})[label] = None
        return [ListedSpec(one, tuple(stacks[h])) for h, one in binaries.items()], graph


class CatalogueEntry(Struct, frozen=True):
    """The index of one stack, as the catalogue lists it."""

    label: str
    path: str  # relative to the folder of the list
    digest: str  # "" for an index of layout 2, which can change at the same path

    def fetch(self, mirror: mirrors.CacheMirror, known: mirrors.Validator) -> mirrors.IndexFile | None:
        """Return the index, or None if it still has the validator `known`."""
        if not self.digest:
            return mirrors.fetch_v2_at(mirror, self.path, known)
        if known.digest == self.digest:
            return None
        content = mirrors.fetch_blob(mirror, self.path, self.digest)
        return mirrors.IndexFile(
            content, f"{mirror.where}/{self.path}", mirrors.Validator(layout="v3", digest=self.digest)
        )


class _ListedIndex(Struct):
    label: str
    url: str


# The indexes of all stacks of each tag, the entries (tag/stack, or tag) that cannot be understood, and a validator.
_Listing = tuple[Mapping[str, tuple[CatalogueEntry, ...]], Sequence[str], mirrors.Validator]


def fetch_listing(mirror: mirrors.CacheMirror, name: str, known: mirrors.Validator) -> _Listing | None:
    """Fetch the list `name` of a catalogue; None if neither it nor any index in it differs from `known`."""
    etag = known.etag if known.layout == "catalogue" else ""
    file = mirror.get(name, etag=etag, size=8 * 2**20)  # of 30,000 stacks
    if file is None:
        raise SourceError(f"{mirror.where}/{name}: is not there")
    if file.is_unchanged:
        return None
    try:
        listed = msgspec.json.decode(file.content, type=dict[str, list[_ListedIndex]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{mirror.where}/{name}: is not a list of build caches ({error})") from error
    tags: dict[str, tuple[CatalogueEntry, ...]] = {}
    ignored: list[str] = []
    for tag, entries in listed.items():
        if not is_name(tag.encode()):
            ignored.append(tag)
            continue
        found = [(entry, _entry(entry, mirror.where)) for entry in entries]
        ignored += [f"{tag}/{entry.label}" for entry, read in found if read is None]
        if usable := tuple(read for _, read in found if read is not None):
            tags[tag] = usable
    # An index that can change at the same address must be fetched every time.
    is_fixed = all(entry.digest for entries in tags.values() for entry in entries)
    return tags, ignored, mirrors.Validator(layout="catalogue", etag=file.etag if is_fixed else "")


def _entry(entry: _ListedIndex, where: str) -> CatalogueEntry | None:
    path = entry.url.removeprefix(f"{where}/")
    if path == entry.url:
        # A URL of s3 is relative to the root of its bucket, and a bare path is as it is. A list may not send us elsewhere.
        try:
            parts = urlsplit(entry.url)
        except ValueError:
            return None
        if parts.scheme not in ("s3", ""):
            return None
        path = parts.path.lstrip("/")
    if not is_name(entry.label.encode()):
        return None
    if match := _BLOB.fullmatch(path):
        return CatalogueEntry(entry.label, path, match[2])
    return CatalogueEntry(entry.label, path, "") if _PLAIN.fullmatch(path) else None


class Cache(Struct, frozen=True, kw_only=True):
    """The address of a build cache or of a catalogue of build caches, and the options for reading it."""

    address: str
    is_catalogue: bool = False
    tag: str = "develop"  # of a single cache; a catalogue names its own
    stack: str = "cache"  # of a single cache; a catalogue names its own
    view: str = ""  # a named index of layout 3
    wanted_tag: Callable[[str], bool] = lambda _: True  # of a catalogue
    token_file: Path | None = None
    login_file: Path | None = None
    limits: RequestLimits = mirrors.LIMITS
    max_index: int = mirrors.LARGEST_INDEX  # bytes, unpacked


class Published(Struct, frozen=True):
    """The current contents of one tag."""

    tag: str
    stacks: tuple[str, ...]
    specs: PublishedSpecs
    fresh: Mapping[str, mirrors.Validator]  # validators of the tag's indexes, to be remembered
    diagnostics: tuple[Diagnostic, ...] = ()
    other_nodes: Mapping[str, bytes] = {}  # records without a binary, encoded, by hash


class Failed(Struct, frozen=True):
    """A tag that could not be read; others may have been."""

    tag: str
    message: str


def is_catalogue(address: str) -> bool:
    """Tell whether `address` is a catalogue of several caches: a JSON file that is no index."""
    return mirrors.root_of(address).endswith(".json")


class CacheSource:
    """An open build cache or catalogue; a context manager."""

    def __init__(self, cache: Cache, *, wants_graph: bool = False) -> None:
        """Open `cache`; with `wants_graph`, the details for the dependency graph are read, too."""
        self._cache = cache
        self._wants_graph = wants_graph
        for name in (cache.tag, cache.stack):
            if not is_name(name.encode()):
                raise UsageError(f"{name!a}: a tag and a stack have letters, digits and . _ + @ - in their names")
        if cache.stack == UNION_STACK:
            raise UsageError(f"{UNION_STACK}: is what the union of all stacks is called; name the stack otherwise")
        if cache.token_file and cache.login_file:
            raise UsageError("a cache takes a token or a login, not both")
        login = basic(cache.login_file) if cache.login_file else {}
        headers = bearer(cache.token_file) if cache.token_file else login
        place = mirrors.parse_address(mirrors.root_of(cache.address))
        if headers and not isinstance(place, Path):
            check_secrecy(place.base if isinstance(place, mirrors.Registry) else place)
        # In a folder, the list has the name of that of Spack's public caches.
        self._list_name = "cache_spack_io_index.json" if cache.is_catalogue or is_catalogue(cache.address) else ""
        if self._list_name and isinstance(place, Path) and not place.is_dir():
            place, self._list_name = place.parent, place.name
        elif self._list_name and isinstance(place, str) and place.endswith(".json"):
            place, _, self._list_name = place.rpartition("/")
        self._mirror = mirrors.open_mirror(place, headers, cache.limits, max_index=cache.max_index)

    def __enter__(self) -> "CacheSource":
        return self

    def __exit__(self, *_: object) -> None:
        self._mirror.close()

    def read(self, remembered: Mapping[str, mirrors.Validator]) -> Iterator[Published | Failed]:
        """Yield each tag that may have changed since the validators in `remembered`, or why it is unreadable.

        If all of a catalogue could be read, the last item has an empty tag: the list's own validator and diagnostics.
        """
        if self._list_name:
            yield from self._read_list(remembered)
            return
        key = f"{self._cache.tag}/{self._cache.stack}/{self._cache.view}"
        file = mirrors.fetch_index(self._mirror, remembered.get(key, mirrors.Validator()), view=self._cache.view)
        if file is not None:
            yield _publish(self._cache.tag, {self._cache.stack: self._read_file(file)}, {key: file.fresh})

    def _read_list(self, remembered: Mapping[str, mirrors.Validator]) -> Iterator[Published | Failed]:
        key, mirror = "catalogue", self._mirror
        listing = fetch_listing(mirror, self._list_name, remembered.get(key, mirrors.Validator()))
        if listing is None:
            return
        tags, ignored, fresh = listing
        is_all_read = True
        for tag, entries in tags.items():
            try:
                if self._cache.wanted_tag(tag) and (published := self._read_tag(tag, entries, remembered)):
                    yield published
            except SourceError as error:
                is_all_read = False
                yield Failed(tag, str(error))
        if is_all_read:
            names = ", ".join(ascii(name)[1:-1][:60] for name in ignored[:5])
            message = f"{len(ignored)} entries cannot be understood: {names}"
            diagnostics = (Diagnostic(mirror.where, DiagnosticKind.UNREADABLE, message),) if ignored else ()
            yield Published("", (), PublishedSpecs(()), {key: fresh}, diagnostics)

    def _read_tag(
        self, tag: str, entries: Sequence[CatalogueEntry], remembered: Mapping[str, mirrors.Validator]
    ) -> Published | None:
        """Read the indexes of all stacks of a tag if any of them changed; return None otherwise."""
        keys = {entry.label: f"{tag}/{entry.label}" for entry in entries}
        listed_before = {key for key in remembered if key.startswith(f"{tag}/")}
        read: dict[str, _Read] = {}
        for entry in entries:
            file = entry.fetch(self._mirror, remembered.get(keys[entry.label], mirrors.Validator()))
            if file is not None:
                read[entry.label] = self._read_file(file)
        if not read and listed_before == set(keys.values()):
            return None
        for entry in entries:
            if entry.label not in read:
                file = entry.fetch(self._mirror, mirrors.Validator())
                assert file is not None  # None is only returned for a known validator
                read[entry.label] = self._read_file(file)
        return _publish(tag, read, {keys[label]: fresh for label, (_, fresh) in read.items()})

    def _read_file(self, file: mirrors.IndexFile) -> "_Read":
        """Parse an index at once, so that its bytes, perhaps hundreds of megabytes, need not be kept."""
        try:
            return read_index(file.content, file.where, wants_graph=self._wants_graph), file.fresh
        except MemoryError as error:
            raise mirrors.out_of_memory(file.where) from error


_Read = tuple[CacheIndex, mirrors.Validator]


def _publish(tag: str, read: Mapping[str, _Read], fresh: Mapping[str, mirrors.Validator]) -> Published:
    """Combine the indexes of a tag's stacks: a spec is in the tag if it is in any of them."""
    diagnostics = tuple(found for index, _ in read.values() for found in index.diagnostics)
    other_nodes = {spec_hash: node for index, _ in read.values() for spec_hash, node in index.other_nodes.items()}
    specs = PublishedSpecs([(label, index.specs) for label, (index, _) in read.items()])
    return Published(tag, tuple(sorted(read)), specs, fresh, diagnostics, other_nodes)
