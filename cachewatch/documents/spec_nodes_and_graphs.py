"""Read a node (Spack's JSON of one spec), in every form since Spack 0.10; read and write recorded dependency graphs.

In form 1 the key around the node is the name of its package, and dependencies are listed by name. Forms 2 and 3 have
lists of dependencies; form 4 puts their types and virtuals under `parameters`. Form 5 has no key for the compiler: it
is a dependency with the virtual `c`, `cxx` or `fortran`. Migrated caches mix forms, so each part is recognized alone.

A recorded graph has a file `graph.json` for each package, with details of its specs that documents lack: a group for
specs that differ only in which specs they depend on, and a line for each spec, so that git stores small deltas. The
file `.graph.json` of a tag has the specs without a binary: externals, and dependencies that only builds need.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.graphs_and_attribution import LANGUAGES, Dependency, GraphNode, Ingredients, name_of, shared_names
from cachewatch.core.versions_spellings_targets import NO_COMPILER
from cachewatch.documents.recognition_and_front_matter import MAX_BYTES
from cachewatch.errors import UnreadableDocument

_FLAGS = frozenset({"cflags", "cppflags", "cxxflags", "fflags", "ldflags", "ldlibs"})
_PLAIN = re.compile(r"[a-zA-Z0-9,/_.\-\[\]]+")


class Arch(Struct, frozen=True):
    """The platform, operating system and target of a spec."""

    platform: str
    platform_os: str
    target: str | dict[str, Any]

    @property
    def target_name(self) -> str:
        """The name of the target; `target` may also be a dict, with all features of the processor."""
        if isinstance(self.target, str):
            return self.target
        name = self.target.get("name")
        return name if isinstance(name, str) else ""


class Node(Struct, frozen=True):
    """The node of a spec in an index or lock file: those parts of it that are used."""

    version: str
    name: str = ""
    hash: Any = None
    arch: Arch | None = None
    compiler: Any = None
    parameters: msgspec.Raw = msgspec.Raw(b"{}")  # as Spack never writes it: its nodes have at least flags
    patches: tuple[str, ...] = ()
    propagate: tuple[str, ...] = ()
    dependencies: msgspec.Raw = msgspec.Raw(b"null")
    external: Any = None
    annotations: Any = None
    namespace: Any = None
    package_hash: Any = None
    build_spec: Any = None


_decode_node = msgspec.json.Decoder(Node).decode
_decode_any = msgspec.json.Decoder().decode
_decode_wrapped = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_parameters = msgspec.json.Decoder(dict[str, Any]).decode

# The ingredients of a spec (recipe, flags and so on), and the hashes, or short names, of its dependencies.
MadeOf = tuple[Ingredients, tuple[str, ...]]

# Returns name and version of the spec with a given hash; None if it is unknown.
Lookup = Callable[[str], tuple[str, str] | None]


def read_node(data: bytes | msgspec.Raw) -> Node:
    """Decode `data`, a node in any form. Raises msgspec.MsgspecError if it is no node."""
    try:
        return _decode_node(data)
    except msgspec.ValidationError:
        wrapped = _decode_wrapped(data)
        if len(wrapped) != 1:
            raise
        ((name, inner),) = wrapped.items()
        return msgspec.structs.replace(_decode_node(inner), name=name)


def compiler_of(node: Node, lookup: Lookup, dependencies: Sequence[Dependency]) -> str:
    """Return the compiler of `node`, or "none"; `lookup` returns name and version of the dependency with a hash."""
    if own := _spelled(node.compiler):
        return own
    provided = [edge for edge in reversed(dependencies) if edge.virtuals]
    for language in LANGUAGES:
        for edge in provided:
            if language in edge.virtuals:
                found = lookup(edge.hash)
                return f"{found[0]}@{found[1]}" if found else edge.name
    return _spelled(_member(node.annotations, "compiler")) or NO_COMPILER


def _spelled(compiler: Any) -> str:
    if isinstance(compiler, str):
        return "" if compiler in ("", NO_COMPILER) else compiler.replace("@=", "@")
    if not isinstance(compiler, dict) or not isinstance(compiler.get("name"), str):
        return ""
    version = compiler.get("version")
    return f"{compiler['name']}@{version.removeprefix('=')}" if isinstance(version, str) else compiler["name"]


def dependencies_of(node: Node) -> list[Dependency]:
    """Return the dependencies of `node`, in the order in which it lists them."""
    listed = _decode_any(bytes(node.dependencies))
    if isinstance(listed, dict):
        listed = [{"name": name, **edge} for name, edge in listed.items() if isinstance(edge, dict)]
    dependencies = []
    for edge in listed if isinstance(listed, list) else ():
        if isinstance(edge, dict) and isinstance(edge.get("name"), str) and isinstance(edge.get("hash"), str):
            parameters = edge.get("parameters")
            used = parameters if isinstance(parameters, dict) else edge
            types, virtuals = used.get("deptypes", used.get("type")), used.get("virtuals")
            dependencies.append(Dependency(edge["name"], edge["hash"], _texts(types), _texts(virtuals)))
    return dependencies


def _texts(listed: Any) -> tuple[str, ...]:
    return tuple(sorted(text for text in listed if isinstance(text, str))) if isinstance(listed, list) else ()


def variants_of(node: Node) -> tuple[str, ...]:
    """Return the variants of `node` in the spelling of cache.spack.io, sorted by name."""
    return _variants_and_flags(bytes(node.parameters), node.patches, node.propagate)[0]


@lru_cache(maxsize=65536)
def _variants_and_flags(
    parameters: bytes, patches: tuple[str, ...], propagated: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the variants, and the compiler flags that are set (such as `cflags=-O2`), both sorted by name."""
    values: Mapping[str, Any] = _decode_parameters(parameters)
    if patches and "patches" not in values:
        values = {**values, "patches": list(patches)}
    variants = (
        _variant(name, value, is_propagated=name in propagated)
        for name, value in sorted(values.items(), key=itemgetter(0))
        if name not in _FLAGS
    )
    flags = (
        f"{name}={_quoted(' '.join(map(str, values[name])))}"
        for name in sorted(_FLAGS & values.keys())
        if isinstance(values[name], list) and values[name]
    )
    return tuple(variants), tuple(flags)


def _variant(name: str, value: Any, *, is_propagated: bool) -> str:
    if isinstance(value, bool):
        return ("+" if value else "~") * (1 + is_propagated) + name
    equals = "==" if is_propagated else "="
    if isinstance(value, list | tuple):
        texts = [str(v)[: spack.PATCH_DIGITS] if name == "patches" else str(v) for v in value]
        return f"{name}:{equals}{_quoted(','.join(texts))}"
    return f"{name}{equals}{_quoted(str(value))}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return f'"{text}"' if "'" in text else f"'{text}'"


def graph_node_of(spec_hash: str, node: Node, lookup: Lookup, shared: Set[str]) -> GraphNode:
    """Return `node` as a GraphNode with the hash `spec_hash`. `lookup`: see `compiler_of`; `shared`: see `name_of`."""
    arch = node.arch or Arch("", "", "")
    dependencies = dependencies_of(node)
    compiler = spack.compiler(compiler_of(node, lookup, dependencies))
    ingredients, below = ingredients_of(node, dependencies)
    return GraphNode(
        hash=spec_hash,
        name=node.name,
        version=node.version,
        compiler="" if compiler == NO_COMPILER else compiler,
        os=arch.platform_os,
        target=arch.target_name,
        variants=spack.variants(variants_of(node)),
        ingredients=ingredients,
        below=tuple([name_of(each, shared) for each in below]),
    )


def ingredients_of(node: Node, dependencies: Iterable[Dependency]) -> MadeOf:
    """Return two parts: the details of `node` that no document records, and the hashes of its `dependencies`."""
    edges = sorted(dependencies)
    made_of = Ingredients(
        recipe=_text(node.package_hash),
        namespace=_text(node.namespace),
        external=_external(node.external),
        flags=_variants_and_flags(bytes(node.parameters), node.patches, node.propagate)[1],
        spliced=_text(_member(node.build_spec, "hash")),
        uses=tuple([edge.use for edge in edges]),
    )
    return made_of, tuple([edge.hash for edge in edges])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _external(value: Any) -> str:
    """Return the path or modules in `value`, the field `external` of a spec, or "unknown"; "" if it is not external."""
    if not isinstance(value, dict):
        return ""
    modules = value.get("module")
    named = ",".join(map(str, modules)) if isinstance(modules, list) else _text(modules)
    return _text(value.get("path")) or named or "unknown"


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


to_json = msgspec.json.Encoder(order="deterministic").encode


EncodedIngredients = tuple[bytes, bytes]  # a spec's details that documents lack, and the names of its dependencies


class _Group(Ingredients, frozen=True, gc=False):
    """Details that several specs share; `specs` has short hashes of dependencies in the order of `uses`, by spec."""

    specs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


_decode_groups = msgspec.json.Decoder(list[_Group]).decode
_decode_tag = msgspec.json.Decoder(dict[str, GraphNode]).decode


def encode_ingredients(made_of: MadeOf, shared: frozenset[str] = frozenset()) -> EncodedIngredients:
    """Return both parts of `made_of` as JSON, with shortened hashes of dependencies. For `shared`, see `name_of`."""
    ingredients, below = made_of
    return to_json(ingredients), to_json([name_of(spec_hash, shared) for spec_hash in below])


def write_package_graph(specs: Mapping[str, EncodedIngredients]) -> bytes:
    """Return the bytes of `graph.json` for a package that has `specs` (by hash); groups and specs are sorted."""
    shared = shared_names(specs)
    groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for spec_hash in sorted(specs):
        made_of, dependencies = specs[spec_hash]
        groups[made_of].append(b'"%s":%s' % (name_of(spec_hash, shared).encode(), dependencies))
    written = []
    for made_of, lines in sorted(groups.items()):
        start = made_of[:-1] + (b"," if len(made_of) > len(b"{}") else b"")
        written.append(start + b'"specs":{\n' + b",\n".join(lines) + b"\n}}")
    return b"[\n" + b",\n".join(written) + b"\n]\n"


def write_tag_graph(nodes: Mapping[str, bytes]) -> bytes:
    """Return the bytes of `.graph.json` for a tag that has `nodes` (encoded, by hash), sorted by hash."""
    lines = [to_json(spec_hash) + b": " + nodes[spec_hash] for spec_hash in sorted(nodes)]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def read_package_graph(content: bytes, path: str) -> Mapping[str, MadeOf]:
    """Return what `ingredients_of` returns, by (short) hash, from `content` (graph.json). Raises UnreadableDocument."""
    made_of: dict[str, MadeOf] = {}
    with _reading(content, path):
        for group in _decode_groups(content):
            ingredients = _interned(group)
            for name, below in group.specs.items():
                _check(name, ingredients, below)
                made_of[name] = ingredients, below
    return made_of


def read_tag_graph(content: bytes, path: str) -> Mapping[str, GraphNode]:
    """Return the specs in `content`, a `.graph.json`, by hash. Raises UnreadableDocument if it is invalid."""
    nodes: dict[str, GraphNode] = {}
    with _reading(content, path):
        for spec_hash, node in _decode_tag(content).items():
            _check(spec_hash, node.ingredients, node.below)
            nodes[spec_hash] = msgspec.structs.replace(node, ingredients=_interned(node.ingredients))
    return nodes


@contextmanager
def _reading(content: bytes, path: str) -> Iterator[None]:
    if len(content) > MAX_BYTES:
        raise UnreadableDocument(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which no recorded graph is")
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnreadableDocument(f"{path}: is not a recorded graph ({error})") from error


def _check(name: str, made_of: Ingredients, below: tuple[str, ...]) -> None:
    if len(below) != len(made_of.uses):
        raise ValueError(f"{name!a} has {len(below)} dependencies, and {len(made_of.uses)} uses")


def _interned(made_of: Ingredients) -> Ingredients:
    """Return `made_of` as Ingredients, without fields of a subclass; texts that many specs share are stored once."""
    values = {name: getattr(made_of, name) for name in Ingredients.__struct_fields__}
    values |= {name: sys.intern(values[name]) for name in ("recipe", "namespace")}
    uses = tuple([msgspec.structs.replace(use, name=sys.intern(use.name)) for use in made_of.uses])
    return Ingredients(**{**values, "uses": uses})
