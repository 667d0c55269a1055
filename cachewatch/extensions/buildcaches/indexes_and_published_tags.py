"""Read the index of a build cache, and combine the indexes of all stacks of a tag.

An index is a database of Spack; only its specs that are in the cache count. They are kept in a temporary file, by
package: a million of them would take as much memory as their index. A catalogue of build caches, such as that of all
of Spack's public caches, lists the index of each stack of a tag. It lists an index of layout 3 by its sha256, so that
the catalogue alone shows which indexes changed.
"""

import os
import re
import tempfile
import weakref
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple, replace

from cachewatch.core.graphs_and_attribution import Dependency, shared_names
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind
from cachewatch.core.names_and_layouts import is_name
from cachewatch.core.versions_spellings_targets import UNION_STACK
from cachewatch.documents import spec_nodes_and_graphs as spec_nodes
from cachewatch.documents.records_parsing_diagnostics import Binary
from cachewatch.documents.spec_nodes_and_graphs import EncodedIngredients
from cachewatch.errors import SourceError, UsageError
from cachewatch.extensions.buildcaches import mirrors_and_registries as mirrors
from cachewatch.extensions.buildcaches.mirrors_and_registries import Validator
from cachewatch.http.allowed_addresses import basic, bearer, check_secrecy
from cachewatch.http.client import RequestLimits

# The fields of a binary except its package, then its ingredients.
_Entry = tuple[str, str, str, str, str, str, tuple[str, ...], tuple[str, ...], EncodedIngredients | None]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode
KNOWN_VERSIONS = ("5", "6", "7", "8")  # of the database; a newer version is read like the last of them
_HASH = re.compile(r"[a-z0-9]{16,64}")
_MOST_FAULTS = 20
_BACKSLASH = b"\\"  # with which JSON writes a NUL character
_BLOB = re.compile(r"(?:.+/)?blobs/sha256/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_PLAIN = re.compile(r"(?:.+/)?build_cache/index\.json")


class SpecStore:
    """Specs in a temporary file; they are added one by one, and read package by package."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=2**20)  # noqa: SIM115  closed with the store
        weakref.finalize(self, _close, self._file)
        self._ends = array("Q", [0])  # where each spec ends, and the next one begins
        self._positions: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def packages(self) -> Collection[str]:
        """The names of the packages that have specs."""
        return self._positions.keys()

    def add(self, binary: Binary, ingredients: EncodedIngredients | None) -> None:
        """Add `binary` and its `ingredients`, the details on which its hash depends; None if they are not wanted."""
        package, *rest = astuple(binary)
        data = _encode((*rest, ingredients))
        try:
            self._file.write(data)
        except OSError as error:
            raise _failed(error) from error
        self._positions[package].append(len(self))
        self._ends.append(self._ends[-1] + len(data))

    def read(self, package: str) -> Iterator[tuple[Binary, EncodedIngredients | None]]:
        """Yield the specs of a package, in the order in which they were added, with the ingredients given to `add`."""
        try:
            self._file.flush()
            handle = self._file.fileno()
            for place in self._positions.get(package, ()):
                start, end = self._ends[place : place + 2]
                *rest, ingredients = _decode(os.pread(handle, end - start, start))
                yield Binary(package, *rest), ingredients
        except OSError as error:
            raise _failed(error) from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # the disk is full, which was reported when the spec was added
        file.close()


def _failed(error: OSError) -> SourceError:
    return SourceError(
        f"{tempfile.gettempdir()}: {error.strerror}, so the index cannot be read; TMPDIR names another temporary folder"
    )


class CacheIndex(Struct, frozen=True):
    """The specs that an index lists as being in the cache."""

    specs: SpecStore
    diagnostics: tuple[Diagnostic, ...] = ()
    # By hash, the encoded records of externals and of dependencies that are not in the cache; empty unless requested.
    other_nodes: Mapping[str, bytes] = {}


class _IndexDatabase(Struct):
    version: str | int | float
    installs: dict[str, Raw]  # records by hash; each is a view of the index, not a copy


class _IndexContent(Struct):
    database: _IndexDatabase


class _IndexRecord(Struct):
    spec: Raw
    in_buildcache: bool = False


_decode_record = msgspec.json.Decoder(_IndexRecord).decode


def read_index(content: bytes, where: str, *, wants_graph: bool = False) -> CacheIndex:
    """Parse the index `content`, with its dependency graph if `wants_graph`; messages name its address, `where`.

    Unreadable records are listed in `diagnostics`. Raises SourceError if `content` is not a whole index.
    """
    database = mirrors.decoded(content, _IndexContent, f"{where}: the index cannot be read").database
    reader = _RecordReader(database.installs, where, wants_graph=wants_graph)
    reader.read()
    diagnostics = list(reader.diagnostics())
    if (version := str(database.version)) not in KNOWN_VERSIONS:
        message = f"the index has version {version[:20]!a}, newest known is {KNOWN_VERSIONS[-1]}; read as that"
        diagnostics.insert(0, Diagnostic(where, DiagnosticKind.INCONSISTENT, message, is_loss=False))
    return CacheIndex(reader.specs, tuple(diagnostics), reader.other_nodes)


class _RecordReader:
    """Reads the records of an index one by one, so that an unreadable record does not affect others."""

    def __init__(self, records: Mapping[str, Raw], where: str, *, wants_graph: bool) -> None:
        self._records = records
        self._shared = shared_names(records)
        self._where = where
        self._wants_graph = wants_graph
        self.specs = SpecStore()
        self.other_nodes: dict[str, bytes] = {}
        self._reasons: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._versions: dict[str, tuple[str, str] | None] = {}

    def read(self) -> None:
        """Put cached specs into `specs`, other requested ones into `other_nodes`, and count unreadable records."""
        for spec_hash, raw in self._records.items():
            try:
                self._read_record(spec_hash, raw)
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                self._reasons[str(error)] += 1
                self._examples.setdefault(str(error), spec_hash)

    def _read_record(self, spec_hash: str, raw: Raw) -> None:
        record = _decode_record(raw)
        if not (record.in_buildcache or (self._wants_graph and _HASH.fullmatch(spec_hash))):
            return
        node = spec_nodes.read_node(record.spec)
        if not record.in_buildcache:
            found = spec_nodes.graph_node_of(spec_hash, node, self._lookup, self._shared)
            self.other_nodes[spec_hash] = spec_nodes.to_json(found)
            return
        dependencies = spec_nodes.dependencies_of(node)
        binary = self._binary(spec_hash, node, dependencies)
        texts = (binary.version, binary.compiler, binary.os, binary.target, *binary.variants)
        if _BACKSLASH in bytes(raw) and "\0" in "".join(texts):
            raise ValueError("it holds a NUL character")
        made_of = spec_nodes.ingredients_of(node, dependencies) if self._wants_graph else None
        self.specs.add(binary, None if made_of is None else spec_nodes.encode_ingredients(made_of, self._shared))

    def diagnostics(self) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each reason why records are unreadable, with an example and the number of records."""
        for reason, count in self._reasons.most_common(_MOST_FAULTS):
            more = f" (and {count - 1} more like it)" if count > 1 else ""
            message = f"record {self._examples[reason][:40]!a} cannot be read: {reason}{more}"
            yield Diagnostic(self._where, DiagnosticKind.UNREADABLE, message)
        if (rest := len(self._reasons) - _MOST_FAULTS) > 0:
            yield Diagnostic(self._where, DiagnosticKind.UNREADABLE, f"{rest} more reasons")

    def _binary(self, spec_hash: str, node: spec_nodes.Node, dependencies: Sequence[Dependency]) -> Binary:
        if not _HASH.fullmatch(spec_hash):
            raise ValueError("its key is not a hash")
        if node.name not in self.specs.packages and not is_name(node.name.encode()):
            raise ValueError("no package can have its name")
        if node.arch is None:
            raise ValueError("it has no arch")
        compiler, variants = spec_nodes.compiler_of(node, self._lookup, dependencies), spec_nodes.variants_of(node)
        os_, platform, target = node.arch.platform_os, node.arch.platform, node.arch.target_name
        return Binary(node.name, spec_hash, node.version, compiler, os_, platform, target, variants)

    def _lookup(self, spec_hash: str) -> tuple[str, str] | None:
        """Return the name and version of the spec with this hash, or None if its record is missing or unreadable."""
        if spec_hash not in self._versions:
            self._versions[spec_hash] = None
            with suppress(KeyError, msgspec.MsgspecError, RecursionError):
                node = spec_nodes.read_node(_decode_record(self._records[spec_hash]).spec)
                self._versions[spec_hash] = node.name, node.version
        return self._versions[spec_hash]


class PublishedSpecs:
    """The specs of all stacks of a tag, read package by package, so that only one package is in memory."""

    def __init__(self, stores: Sequence[tuple[str, SpecStore]]) -> None:
        """Combine the stacks of a tag; `stores` has pairs of the name of a stack and the specs of its index."""
        self._stores = stores
        self.packages: Collection[str] = sorted({package for _, store in stores for package in store.packages})

    def count(self) -> Counter[str]:
        """Return the number of specs in each stack and, under UNION_STACK, in all stacks together."""
        counts: Counter[str] = Counter()
        for package in self.packages:
            for spec in self.read(package)[0]:
                counts.update({UNION_STACK, *spec.stacks})
        return counts

    def read(self, package: str) -> tuple[Sequence[Binary], Mapping[str, EncodedIngredients]]:
        """Return the specs of a package with all stacks of each, and, by hash, their ingredients if requested."""
        binaries: dict[str, Binary] = {}
        graph: dict[str, EncodedIngredients] = {}
        stacks: dict[str, dict[str, None]] = {}
        for label, store in self._stores:
            for binary, ingredients in store.read(package):
                if binary.hash not in binaries and ingredients:
                    graph[binary.hash] = ingredients
                binaries.setdefault(binary.hash, binary)
                stacks.setdefault(binary.hash, {})[label] = None
        return [replace(one, stacks=tuple(stacks[h])) for h, one in binaries.items()], graph


class CatalogueEntry(Struct, frozen=True):
    """The index of one stack, as a catalogue of build caches lists it."""

    label: str  # the name of the stack
    path: str  # relative to the folder of the catalogue
    digest: str  # its sha256; "" for an index of layout 2, which can change at the same path

    def fetch(self, mirror: mirrors.CacheMirror, known: Validator) -> mirrors.IndexFile | None:
        """Fetch the index from `mirror`; return None if it is unchanged: `known` is the validator of the last one."""
        if not self.digest:
            return mirrors.fetch_v2_at(mirror, self.path, known)
        if known.digest == self.digest:
            return None
        content, fresh = mirrors.fetch_blob(mirror, self.path, self.digest), Validator(layout="v3", digest=self.digest)
        return mirrors.IndexFile(content, f"{mirror.where}/{self.path}", fresh)


class _ListedIndex(Struct):
    label: str
    url: str


# By tag the indexes of its stacks, then the entries (TAG/STACK, or TAG) that cannot be understood, and a validator.
_Listing = tuple[Mapping[str, Sequence[CatalogueEntry]], Sequence[str], Validator]


def _fetch_listing(mirror: mirrors.CacheMirror, name: str, known: Validator) -> _Listing | None:
    """Return indexes by tag, bad entries and a new validator from list `name`; None if `known` shows no change."""
    etag = known.etag if known.layout == "catalogue" else ""
    file = mirror.get(name, etag=etag, size=8 * 2**20)  # of 30,000 stacks
    if file is None:
        raise SourceError(f"{mirror.where}/{name}: is not there")
    if file.is_unchanged:
        return None
    refusal = f"{mirror.where}/{name}: is not a list of build caches"
    listed = mirrors.decoded(file.content, dict[str, list[_ListedIndex]], refusal)
    tags: dict[str, Sequence[CatalogueEntry]] = {}
    ignored: list[str] = []
    for tag, entries in listed.items():
        if not is_name(tag.encode()):
            ignored.append(tag)
            continue
        found = [(entry, _entry(entry, mirror.where)) for entry in entries]
        ignored += [f"{tag}/{entry.label}" for entry, read in found if read is None]
        if usable := [read for _, read in found if read is not None]:
            tags[tag] = usable
    # An index that can change at the same address must be fetched every time.
    is_fixed = all(entry.digest for entries in tags.values() for entry in entries)
    return tags, ignored, Validator(layout="catalogue", etag=file.etag if is_fixed else "")


def _entry(entry: _ListedIndex, where: str) -> CatalogueEntry | None:
    """Return the index that `entry` lists in the catalogue at `where`, or None if `entry` cannot be understood."""
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
    """The address of a build cache, or of a catalogue of build caches, and the options for reading it."""

    address: str
    is_catalogue: bool = False
    tag: str = "develop"  # name for the tag of a single cache; a catalogue has names for its tags
    stack: str = "cache"  # name for the stack of a single cache; a catalogue has names for its stacks
    view: str = ""  # name of an index of layout 3 to read; "" is the main index
    wanted_tag: Callable[[str], bool] = lambda _: True  # which tags of a catalogue to read
    token_file: Path | None = None
    login_file: Path | None = None
    limits: RequestLimits = mirrors.LIMITS
    max_index: int = mirrors.LARGEST_INDEX  # bytes, unpacked


class Published(Struct, frozen=True):
    """The current contents of one tag."""

    tag: str
    stacks: tuple[str, ...]
    specs: PublishedSpecs
    fresh: Mapping[str, Validator]  # validators of the indexes that were read, to be remembered for the next `read`
    diagnostics: tuple[Diagnostic, ...] = ()
    other_nodes: Mapping[str, bytes] = {}  # as in CacheIndex, of all indexes


class Failed(Struct, frozen=True):
    """A tag that could not be read, and the reason; other tags of the catalogue may be readable."""

    tag: str
    message: str


def is_catalogue(address: str) -> bool:
    """Tell whether `address` is that of a catalogue of several caches: a .json file other than the index of a cache."""
    return mirrors.root_of(address).endswith(".json")


_Read = tuple[CacheIndex, Validator]


class CacheSource:
    """An open build cache or catalogue."""

    def __init__(self, cache: Cache, *, wants_graph: bool = False) -> None:
        """Open `cache`; if `wants_graph`, `read` also yields dependency graphs. Raises UsageError for wrong options."""
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

    def close(self) -> None:
        """Close the connections."""
        self._mirror.close()

    def read(self, remembered: Mapping[str, Validator]) -> Iterator[Published | Failed]:
        """Yield the contents of each tag that may have changed since the last reads, or why the tag is unreadable.

        `remembered` has the validators that the last reads yielded in `Published.fresh`, under the same keys.
        After a whole catalogue was read, also yield an item with the tag "": the validator and diagnostics of its list.
        """
        if self._list_name:
            yield from self._read_list(remembered)
            return
        key = f"{self._cache.tag}/{self._cache.stack}/{self._cache.view}"
        if file := mirrors.fetch_index(self._mirror, remembered.get(key, Validator()), view=self._cache.view):
            yield _publish(self._cache.tag, {self._cache.stack: self._read_file(file)}, {key: file.fresh})

    def _read_list(self, remembered: Mapping[str, Validator]) -> Iterator[Published | Failed]:
        key, mirror = "catalogue", self._mirror
        listing = _fetch_listing(mirror, self._list_name, remembered.get(key, Validator()))
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
        self, tag: str, entries: Sequence[CatalogueEntry], remembered: Mapping[str, Validator]
    ) -> Published | None:
        """Read the indexes of all stacks of `tag`; return None if no index and no stack changed since `remembered`."""
        keys = {entry.label: f"{tag}/{entry.label}" for entry in entries}
        read: dict[str, _Read] = {}
        for entry in entries:
            if file := entry.fetch(self._mirror, remembered.get(keys[entry.label], Validator())):
                read[entry.label] = self._read_file(file)
        if not read and {key for key in remembered if key.startswith(f"{tag}/")} == set(keys.values()):
            return None
        for entry in entries:
            if entry.label not in read:
                file = entry.fetch(self._mirror, Validator())
                assert file is not None  # None is only returned for a known validator
                read[entry.label] = self._read_file(file)
        return _publish(tag, read, {keys[label]: fresh for label, (_, fresh) in read.items()})

    def _read_file(self, file: mirrors.IndexFile) -> _Read:
        """Parse the index in `file` at once, so that its bytes, perhaps hundreds of megabytes, need not be kept."""
        try:
            return read_index(file.content, file.where, wants_graph=self._wants_graph), file.fresh
        except MemoryError as error:
            raise mirrors.out_of_memory(file.where) from error


def _publish(tag: str, read: Mapping[str, _Read], fresh: Mapping[str, Validator]) -> Published:
    """Return the contents of `tag`. `read` has the index of each stack; `fresh` has validators, by TAG/STACK[/VIEW]."""
    diagnostics = tuple(found for index, _ in read.values() for found in index.diagnostics)
    other_nodes = {spec_hash: node for index, _ in read.values() for spec_hash, node in index.other_nodes.items()}
    specs = PublishedSpecs([(label, index.specs) for label, (index, _) in read.items()])
    return Published(tag, tuple(sorted(read)), specs, fresh, diagnostics, other_nodes)
