"""Read the index of a build cache, a database of Spack; only its specs that are in the cache count.

They are kept in a temporary file, by package: a million of them would take as much memory as their index.
"""

import os
import re
import tempfile
import weakref
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from cachewatch.core.graphs_and_attribution import Dependency, shared_names
from cachewatch.core.kinds_and_specs import Diagnostic, DiagnosticKind
from cachewatch.core.names_and_layouts import is_name
from cachewatch.documents import spec_nodes_and_graphs as spec_nodes
from cachewatch.documents.writing_documents import Binary
from cachewatch.errors import SourceError

# A binary without its package, and its ingredients.
_Entry = tuple[str, str, str, str, str, str, tuple[str, ...], spec_nodes.EncodedIngredients | None]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Entry).decode
KNOWN_VERSIONS = ("5", "6", "7", "8")  # of the database; a newer version is read like the last of them
_HASH = re.compile(r"[a-z0-9]{16,64}")
_MOST_FAULTS = 20
_BACKSLASH = b"\\"  # with which JSON writes a NUL character


class SpecStore:
    """Specs in a temporary file, added one by one and read package by package."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=2**20)  # noqa: SIM115  closed with the store
        weakref.finalize(self, _close, self._file)
        self._ends = array("Q", [0])  # where each spec ends, and the next one begins
        self._positions: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def packages(self) -> Collection[str]:
        """The names of the packages that have specs."""
        return self._positions.keys()

    def add(self, binary: Binary, ingredients: spec_nodes.EncodedIngredients | None) -> None:
        """Add a spec; if requested, with the details on which its hash depends."""
        package, *rest = astuple(binary)
        data = _encode((*rest, ingredients))
        try:
            self._file.write(data)
        except OSError as error:
            raise _failed(error) from error
        if (positions := self._positions.get(package)) is None:
            positions = self._positions[package] = array("I")
        positions.append(len(self))
        self._ends.append(self._ends[-1] + len(data))

    def read(self, package: str) -> Iterator[tuple[Binary, spec_nodes.EncodedIngredients | None]]:
        """Yield the specs of a package with these details, in the order in which they were added."""
        try:
            self._file.flush()
            handle = self._file.fileno()
            for place in self._positions.get(package, ()):
                start, end = self._ends[place], self._ends[place + 1]
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
    # Records of externals, and of dependencies that are not in the cache, encoded, by hash; empty unless requested.
    other_nodes: Mapping[str, bytes] = {}


class _Installs(Struct):
    version: str | int | float
    installs: dict[str, Raw]  # each a view of the index, not a copy


class _IndexContent(Struct):
    database: _Installs


class _IndexRecord(Struct):
    spec: Raw
    in_buildcache: bool = False


_decode_file = msgspec.json.Decoder(_IndexContent).decode
_decode_record = msgspec.json.Decoder(_IndexRecord).decode


def read_index(content: bytes, where: str, *, wants_graph: bool = False) -> CacheIndex:
    """Read an index of any database version. Raises SourceError if `content` is not a whole index.

    Unreadable records are listed in `diagnostics`. `where` is the address for messages; with `wants_graph`, the details
    for the dependency graph and records of other specs are read, too.
    """
    try:
        database = _decode_file(content).database
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{where}: the index cannot be read ({error})") from error
    reader = _RecordReader(database.installs, where, wants_graph=wants_graph)
    reader.read()
    diagnostics = list(reader.diagnostics())
    if (version := str(database.version)) not in KNOWN_VERSIONS:
        message = f"the index has version {version[:20]!a}, newest known is {KNOWN_VERSIONS[-1]}; read as that"
        diagnostics.insert(0, Diagnostic(where, DiagnosticKind.INCONSISTENT, message, is_loss=False))
    return CacheIndex(reader.specs, tuple(diagnostics), reader.other_nodes)


class _RecordReader:
    """Reads records one by one, so that an unreadable record does not affect others."""

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
        """Read all records into `specs` and `other_nodes`, and count unreadable ones."""
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

    def diagnostics(self) -> Iterable[Diagnostic]:
        """Yield a diagnostic for each reason why records are unreadable, with the number of records."""
        for reason, count in self._reasons.most_common(_MOST_FAULTS):
            more = f" (and {count - 1} more like it)" if count > 1 else ""
            message = f"record {self._examples[reason][:40]!a} cannot be read: {reason}{more}"
            yield Diagnostic(self._where, DiagnosticKind.UNREADABLE, message)
        if len(self._reasons) > _MOST_FAULTS:
            rest = f"{len(self._reasons) - _MOST_FAULTS} more reasons"
            yield Diagnostic(self._where, DiagnosticKind.UNREADABLE, rest)

    def _binary(self, spec_hash: str, node: spec_nodes.Node, dependencies: Sequence[Dependency]) -> Binary:
        if not _HASH.fullmatch(spec_hash):
            raise ValueError("its key is not a hash")
        if node.name not in self.specs.packages and not is_name(node.name.encode()):
            raise ValueError("no package can have its name")
        if node.arch is None:
            raise ValueError("it has no arch")
        return Binary(
            package=node.name,
            hash=spec_hash,
            version=node.version,
            compiler=spec_nodes.compiler_of(node, self._lookup, dependencies),
            os=node.arch.platform_os,
            platform=node.arch.platform,
            target=node.arch.target_name,
            variants=spec_nodes.variants_of(node),
        )

    def _lookup(self, spec_hash: str) -> tuple[str, str] | None:
        """Return the name and version of the spec with this hash, or None if its record is missing or unreadable."""
        if spec_hash not in self._versions:
            self._versions[spec_hash] = None
            with suppress(KeyError, msgspec.MsgspecError, RecursionError):
                node = spec_nodes.read_node(_decode_record(self._records[spec_hash]).spec)
                self._versions[spec_hash] = node.name, node.version
        return self._versions[spec_hash]
