"""Environments of Spack: which binaries an environment needs, and which of them a cache or a revision has.

Needed binaries are read from `spack.lock` of versions 4 to 7, or from `spack.yaml`. Documents are read once, not kept.
"""

import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import names_and_layouts as tag_names
from cachewatch.core import versions_spellings_targets as spack
from cachewatch.core.advice.environment_coverage import Coverage, Environment, Holdings, Need, Resolution, better, cover
from cachewatch.core.changesets import Blob, Content, Listing
from cachewatch.core.graphs_and_attribution import GraphNode, shared_names
from cachewatch.core.kinds_and_specs import Diagnostic, Document, Signature, grouped
from cachewatch.core.versions_spellings_targets import parse_ranges
from cachewatch.documents import spec_nodes_and_graphs as spec_nodes
from cachewatch.documents.recognition_and_front_matter import load_yaml
from cachewatch.documents.records_parsing_diagnostics import KnownRecords, about_content, parse_side
from cachewatch.errors import UnreadableDocument, UsageError, WorkFailed, explained
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import (
    Bases,
    GitReader,
    Restored,
    list_revision,
    list_tree,
    read_documents,
    tags_of,
)
from cachewatch.hooks import extensions, lacking, load
from cachewatch.runtime.files_and_locks import folder_around, read_inside
from cachewatch.runtime.worker import INLINE, Isolation

LOCK_FILE = "spack.lock"
MANIFEST_FILE = "spack.yaml"

# The first version of lock files that name specs by the hashes of caches.
_OLDEST_LOCK = 4
_LARGEST = 64 * 2**20
_SPEC = re.compile(r"(?:[a-z0-9_-]+\.)*(?P<name>[a-z0-9_][a-z0-9_-]*)(?:@(?P<versions>[^\s@+~%^/]+))?")
# Not a range, a list, or one of Spack's words for the machine on which it runs.
_TARGET = re.compile(r"\starget==?(?!(?:default_target|frontend|fe|backend|be)\b)([\w.-]+)(?!\S)")
_MOST_NODES = 100_000  # of a lock file; real ones have thousands
_DEEPEST = 20
# While a manifest is expanded: the most entries, and the most characters of all combinations.
_MOST_STEPS = 100_000
_MOST_TEXT = 4 * 2**20


class _Root(Struct):
    hash: str


class _LockedSpecs(Struct):
    concrete_specs: dict[str, spec_nodes.Node] = {}
    roots: list[_Root] = []


class _LockMeta(Struct, rename="kebab"):
    lockfile_version: int


class _Lock(_LockedSpecs):
    meta: _LockMeta = msgspec.field(name="_meta", default_factory=lambda: _LockMeta(0))
    include_concrete: dict[str, _LockedSpecs] = {}
    spack: object = None


class LockGraph(Struct, frozen=True):
    """The dependency graph of a lock file: its nodes by hash, and the hashes of its roots."""

    roots: tuple[str, ...]
    nodes: Mapping[str, GraphNode]
    spack: object  # the version of Spack that wrote it; None if the file does not say


def open_environment(path: Path, folders: Iterable[Path] = ()) -> Environment:
    """Return the environment at `path`: a lock file, a manifest (a lock file beside it is read instead) or a folder.

    Symbolic links must not lead out of the one of `folders` that contains `path` or, if none does, out of the folder of
    the file. Raises UsageError if there is no such environment.
    """
    path = file_of(path)
    data = _read(path, folders, "a spack.lock, a spack.yaml or their folder")
    return read_manifest(data, str(path)) if path.suffix in (".yaml", ".yml") else read_lock(data, str(path))


def file_of(path: Path) -> Path:
    """Return the path of the lock file or manifest to read for the environment at `path`; it need not exist."""
    if path.is_dir():
        return next((path / name for name in (LOCK_FILE, MANIFEST_FILE) if (path / name).is_file()), path / LOCK_FILE)
    is_locked = path.suffix in (".yaml", ".yml") and path.with_name(LOCK_FILE).is_file()
    return path.with_name(LOCK_FILE) if is_locked else path


def read_lock(data: bytes, name: str) -> Environment:
    """Return the environment in `data`, a lock file. Raises UsageError, which begins with `name`, if it is none."""
    _, nodes, roots = _parts(data, name)
    lookup, needs = _lookup(nodes), []
    for spec_hash, node in nodes.items():
        if node.external is None:
            arch = node.arch or spec_nodes.Arch("", "", "")
            need = Need(
                package=node.name,
                version=node.version,
                hash=spec_hash,
                platform=arch.platform,
                os=arch.platform_os,
                target=arch.target_name,
                compiler=spack.compiler(spec_nodes.compiler_of(node, lookup, spec_nodes.dependencies_of(node))),
                variants=spack.variants(spec_nodes.variants_of(node)) if bytes(node.parameters) != b"{}" else None,
                is_root=spec_hash in roots,
            )
            needs.append(need)
    return Environment(name=name, needs=_sorted(needs), externals=len(nodes) - len(needs))


def open_lock_graph(path: Path, folders: Iterable[Path] = ()) -> LockGraph:
    """Return the graph of the lock file at, in or by `path`. Raises UsageError. `folders`: see `open_environment`."""
    path = path.with_name(LOCK_FILE) if path.suffix in (".yaml", ".yml") else path
    path = path / LOCK_FILE if path.is_dir() else path
    lock, nodes, roots = _parts(_read(path, folders, "a spack.lock or its folder"), str(path))
    shared, lookup = shared_names(nodes), _lookup(nodes)
    graph = {h: spec_nodes.graph_node_of(h, node, lookup, shared) for h, node in nodes.items()}
    version = lock.spack.get("version") if isinstance(lock.spack, dict) else None
    return LockGraph(tuple(sorted(roots & nodes.keys())), graph, version)


def _read(path: Path, folders: Iterable[Path], wanted: str) -> bytes:
    folder = folder_around(path, folders) or path.parent
    with explained(UsageError, str(path), f"name {wanted}"):
        return read_inside(folder, os.path.relpath(path, folder), most=_LARGEST)


def _parts(data: bytes, name: str) -> tuple[_Lock, dict[str, spec_nodes.Node], set[str]]:
    """Return the lock file `data`, its nodes by hash and the hashes of its roots, with those of included lock files."""
    try:
        lock = msgspec.json.decode(data.decode(), type=_Lock)  # what is decoded later is not checked for UTF-8 here
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}: is not a Spack lock file ({error})") from error
    version = lock.meta.lockfile_version
    if not version:
        raise UsageError(f"{name}: is not a Spack lock file: it has no lockfile-version")
    if version < _OLDEST_LOCK:
        raise UsageError(
            f"{name}: has version {version} of lock files; before version {_OLDEST_LOCK} (Spack 0.18) they named other"
            " hashes than caches do; run `spack concretize --force` to write it anew"
        )
    parts = [lock, *lock.include_concrete.values()]
    nodes = {spec_hash: node for part in parts for spec_hash, node in part.concrete_specs.items()}
    if len(nodes) > _MOST_NODES:
        raise UsageError(f"{name}: has {len(nodes):,} specs; the limit is {_MOST_NODES:,}")
    roots = {root.hash for part in parts for root in part.roots}
    if missing := sorted(roots - nodes.keys()):
        raise UsageError(f"{name}: is damaged: its root /{missing[0]} is not among its specs; concretize again")
    return lock, nodes, roots


def _lookup(nodes: Mapping[str, spec_nodes.Node]) -> spec_nodes.Lookup:
    return {spec_hash: (node.name, node.version) for spec_hash, node in nodes.items()}.get


def read_manifest(data: bytes, name: str) -> Environment:
    """Return the environment in `data`, a manifest; its specs have no hashes. Raises UsageError if it is invalid."""
    try:
        manifest = load_yaml(data.decode("utf-8", "replace"))
    except UnreadableDocument as error:
        raise UsageError(f"{name}: {error}") from error
    spack = manifest.get("spack", manifest.get("env")) if isinstance(manifest, dict) else None
    if not isinstance(spack, dict):
        raise UsageError(f"{name}: is not a Spack manifest: it has no `spack:`")
    definitions: dict[str, list[Any]] = {}
    listed = spack.get("definitions")
    for entry in listed if isinstance(listed, list) else []:
        for key, values in entry.items() if isinstance(entry, dict) else ():
            if key != "when" and isinstance(values, list):
                definitions.setdefault(key, []).extend(values)
    needs = set()
    for spec in _expanded(spack.get("specs"), definitions, name):
        match = _SPEC.match(spec.strip())
        if match is None:
            raise UsageError(f"{name}: {spec[:60]!r} names no package")
        versions = match["versions"] or ""
        if versions:
            parse_ranges(versions)
        target = _TARGET.search(re.split("[%^]", spec)[0])  # after these, it is that of a dependency
        needs.add(Need(package=match["name"], version=versions, target=target[1] if target else "", is_root=True))
    return Environment(name=name, needs=_sorted(needs))


def _sorted(needs: Iterable[Need]) -> tuple[Need, ...]:
    return tuple(sorted(needs, key=lambda need: need.sort_key))


def _expanded(listed: Any, definitions: Mapping[str, list[Any]], name: str) -> Iterator[str]:
    """Yield the specs in `listed`, of the manifest `name`, with matrices and references to `definitions` expanded."""
    steps = text = 0

    def count(more: int = 0) -> None:
        nonlocal steps, text
        steps, text = steps + 1, text + more
        if steps > _MOST_STEPS:
            raise UsageError(f"{name}: its definitions and matrices expand to more than {_MOST_STEPS:,} entries")
        if text > _MOST_TEXT:
            raise UsageError(f"{name}: its matrices expand to more than {_MOST_TEXT:,} characters")

    def specs(listed: Any, depth: int = 0) -> Iterator[str]:
        for entry in listed if isinstance(listed, list) and depth < _DEEPEST else []:
            count()
            if isinstance(entry, dict) and isinstance(entry.get("matrix"), list):
                for combination in itertools.product(*(list(specs(row, depth + 1)) for row in entry["matrix"])):
                    count(sum(map(len, combination)) + len(combination))
                    yield " ".join(combination)
            elif isinstance(entry, str) and entry[:1] == "$":
                yield from specs(definitions.get(entry.lstrip("$^%"), []), depth + 1)
            elif isinstance(entry, str):
                yield entry

    return specs(listed)


class CacheContents(Struct, frozen=True):
    """The specs of some packages in a cache, or in a tag of a revision."""

    holdings: Holdings
    where: str  # the cache or the revision, in words
    is_pruned: bool  # whether specs that no stack builds are pruned from the tag
    diagnostics: tuple[Diagnostic, ...] = ()
    revision: str | None = None
    tag: str | None = None


def recorded_in(opened: "Repository", repository: str, revision: str, packages: Collection[str]) -> CacheContents:
    """Return the specs of `packages` at `revision` (or REVISION:TAG) of `opened`, which messages call `repository`."""
    found = resolve(opened, revision)
    return listed(list_revision(opened, found, packages.__contains__), repository)


def published(address: str, packages: Collection[str], **options: Any) -> CacheContents:
    """Return the specs of `packages` in the live build cache at `address`; `options` are other fields of BuildCache."""
    kind = next((kind for kind in extensions().source_kinds if kind.type == "buildcache"), None)
    if kind is None:
        raise UsageError(lacking(f"{address}: a live build cache", "buildcaches"))
    return cast("CacheContents", load(kind.holdings)(address, packages, **options))


def listed(listing: Listing, name: str) -> CacheContents:
    """Return the specs of the documents in `listing`, all of one tag; messages call the catalogue `name`."""
    holdings: dict[str, Mapping[str, Signature]] = {}
    diagnostics: list[Diagnostic] = []
    for found in read_documents(listing):
        if isinstance(found, Document):
            holdings[found.package] = found.specs
        diagnostics += found.diagnostics if isinstance(found, Document) else [found]
    tag, revision = listing.side.tag, listing.side.revision
    where = " ".join(filter(None, ("" if name == "." else name, tag, revision and f"at {revision[:10]}")))
    return CacheContents(holdings, where, tag_names.is_mutable(tag), tuple(diagnostics), revision, tag)


class _SideState(Struct):
    found: dict[Need, Resolution] = {}
    unread: set[str] = set()  # packages with a document that cannot be read


# By name and package: each blob, with the states that have it, and whether specs are pruned from its tag there.
_Places = dict[tuple[str, str], tuple[Blob, list[tuple[_SideState, bool]]]]
# What a document has for each needed binary, if specs that no stack builds are pruned from its tag, and if not.
_Answer = dict[bool, tuple[Resolution, ...]]


def cover_both(
    repository: Repository,
    environment: Environment,
    before: Iterable[Revision],
    after: Iterable[Revision],
    *,
    bases: Bases = MappingProxyType({}),
    restored: Restored = MappingProxyType({}),
    isolation: Isolation = INLINE,
) -> tuple[Coverage, Coverage]:
    """Return two coverages of `environment`: by the tags `before` together, and by the tags `after` together.

    In `before`, packages in `bases` are read at these earlier revisions, and documents in `restored` replace others;
    both are by tag and package. What the other state has counts for a package whose document cannot be read, so that
    nothing is lost or gained.
    """
    old, new = _SideState(), _SideState()
    places: _Places = {}
    sides = [(old, each) for each in before] + [(new, each) for each in after]
    commits = {each.commit for _, each in sides} | {each.commit for of in bases.values() for each in of.values()}
    tags = {each: tags_of(repository, resolve(repository, each), sorted(commits - {each})).ids for each in commits}
    for state, revision in sides:
        tag = revision.tag or ""
        others, added = (bases.get(tag, {}), restored.get(tag, {})) if state is old else ({}, {})
        for package in environment.packages & added.keys():
            places[added[package].blob.name, package] = (added[package].blob, [(state, tag_names.is_mutable(tag))])
        parts = [(environment.packages - others.keys() - added.keys(), revision)]
        parts += [(environment.packages & {package}, base) for package, base in others.items()]
        for packages, base in parts:
            base_tag = base.tag or ""
            tree = tags[base.commit].get(base_tag)  # None if this tag was not there yet, or is not any more
            blobs = list_tree(repository, base, base_tag, tree, packages.__contains__).blobs if tree else {}
            for package, blob in blobs.items():
                _, states = places.setdefault((blob.name, package), (blob, []))
                states.append((state, tag_names.is_mutable(base_tag)))
    if places:
        _contents_read(GitReader(repository, restored), environment, places, isolation)
    for state, other in ((old, new), (new, old)):
        for need in environment.needs:
            if need.package in state.unread and need in other.found:
                state.found[need] = better(state.found.get(need), other.found[need])
    missing = cover(environment, {}).needs
    found = (tuple(state.found.get(each.need, each) for each in missing) for state in (old, new))
    return Coverage(environment, next(found)), Coverage(environment, next(found))


_Question = tuple[Environment, Blob, Content]  # one document, and the part of the environment that needs its package


def _contents_read(reader: GitReader, environment: Environment, places: _Places, isolation: Isolation) -> None:
    """Read each document in `places` once; add what it has for `environment` to each state that has the document."""
    by_package = grouped((need.package, need) for need in environment.needs)
    blobs = [blob for blob, _ in places.values()]
    questions = (
        (replace(environment, needs=tuple(by_package[package])), blob, content)
        for (_, package), blob, content in zip(places, blobs, reader.read(blobs), strict=True)
    )
    answered = isolation.each(_answers, questions, lambda asked: about_content(asked[1:]))
    known = ([None] * len(asked) if isinstance(found, WorkFailed) else found for asked, found in answered)
    answers = itertools.chain.from_iterable(known)
    for (_, package), (_, states), covered in zip(places, places.values(), answers, strict=True):
        for state, is_pruned in states:
            if covered is None:
                state.unread.add(package)
            for each in covered[is_pruned] if covered else ():
                state.found[each.need] = better(state.found.get(each.need), each)


def _answers(questions: Sequence[_Question]) -> list[_Answer | None]:
    """Return, for each question, what its document has for needs, by whether specs are pruned; None if unreadable."""
    answers: list[_Answer | None] = []
    for needed, blob, content in questions:
        document = parse_side(blob, content, KnownRecords())
        if isinstance(document, Document):
            specs = {needed.needs[0].package: document.specs}
            answers.append({pruned: cover(needed, specs, is_pruned=pruned).needs for pruned in (False, True)})
        else:
            answers.append(None)
    return answers
