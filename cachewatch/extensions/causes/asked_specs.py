"""Find the specs that `cachewatch why` is asked about, and compare them with their nearest predecessors.

The revision that added a spec is compared with its parent. Graphs are read package by package when needed.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from functools import cached_property
from itertools import pairwise

from msgspec.structs import replace

from cachewatch.core import graphs_and_attribution as graphs
from cachewatch.core.changesets import Blob
from cachewatch.core.comparison.package_changes import compare
from cachewatch.core.graphs_and_attribution import NOT_RECORDED, Cause, Explanation, GraphNode, What
from cachewatch.core.kinds_and_specs import Document, grouped
from cachewatch.core.names_and_layouts import CATALOGUE, DOCUMENT, PACKAGE_GRAPH, TAG_GRAPH, similar
from cachewatch.core.versions_spellings_targets import NO_COMPILER, Versions
from cachewatch.documents.recognition_and_front_matter import MAX_BYTES
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.documents.spec_nodes_and_graphs import MadeOf, read_package_graph, read_tag_graph
from cachewatch.errors import DocumentError, UnknownRevision, UsageError
from cachewatch.extensions.causes import predecessors_and_causes as predecessors
from cachewatch.git.local_repository import Repository
from cachewatch.git.revision_names_and_times import Revision, resolve
from cachewatch.git.tags_and_documents import document_in, packages_in, tree_of
from cachewatch.git.trees import folder_of, stored_catalogue

_NOTHING: MadeOf = (graphs.Ingredients(), ())
_HASH = re.compile(r"/?(?P<hash>[a-z0-9]{7,64})")
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._+-]*)(?:@(?P<versions>[^\s]+))?")
_SHORTEST_HASH = 7


class RecordedGraph:
    """The specs of a tag and their dependencies, as recorded in a commit; packages are read when needed."""

    def __init__(self, repository: Repository, commit: str, tag: str) -> None:
        self._repository = repository
        self.commit = commit
        self.tag = tag
        self.unreadable: dict[str, str] = {}  # the error by package, for packages that were tried so far
        self._folder = f"{commit}:{CATALOGUE}/{tag}"
        self._packages: dict[str, Mapping[str, GraphNode]] = {}
        self._named: dict[str, Mapping[str, GraphNode]] = {}
        self._documents: dict[str, Document | None] = {}
        others = self._file(f"{self._folder}/{TAG_GRAPH}")
        self.is_recorded = others is not None
        # Specs without a binary, such as externals.
        self.others = read_tag_graph(others, f"{CATALOGUE}/{tag}/{TAG_GRAPH}") if others is not None else {}
        self._named_others = graphs.by_name(self.others)

    def require(self) -> None:
        """Raise UsageError if the revision has no dependency graph."""
        if not self.is_recorded:
            advice = "`cachewatch record URL --into REPO` keeps the graph of a build cache from now on: then ask with --repo REPO"
            raise UsageError(
                f"{self.tag} has no dependency graph in revision {self.commit[:7]} (Spack's public catalogue has none); {advice}"
            )

    @cached_property
    def folders(self) -> Mapping[str, str]:
        """The id of the git tree of each package; equal ids mean equal specs and dependencies."""
        return packages_in(self._repository, self.commit, self.tag)

    def find(self, package: str, name: str) -> GraphNode | None:
        """Return the spec of `package` whose hash, whole or shortened, is `name`; None if missing or unreadable."""
        if package not in self._named:
            self._named[package] = {}
            try:
                self._named[package] = graphs.by_name(self.nodes(package))
            except DocumentError as error:
                self.unreadable[package] = str(error)
        return self._named[package].get(name) or self._named_others.get(name)

    def nodes(self, package: str) -> Mapping[str, GraphNode]:
        """Return the binaries of a package by hash. Raises DocumentError if its files are unreadable."""
        if package not in self._packages:
            document, folder = self.document(package), self.folders.get(package)
            # By the id of the folder: from the commit, git would search for it each time.
            content = None if document is None or folder is None else self._file(f"{folder}:{PACKAGE_GRAPH}")
            made_of = {} if content is None else read_package_graph(content, f"{package}/{PACKAGE_GRAPH}")
            self._packages[package] = {
                h: GraphNode(
                    hash=h,
                    name=package,
                    version=s.versions[0] if s.versions else "",
                    compiler="" if s.compiler == NO_COMPILER else s.compiler,
                    os=s.os,
                    target=s.target,
                    variants=s.variants,
                    ingredients=ingredients,
                    below=below,
                )
                for h, s in (document.specs.items() if document else ())
                for ingredients, below in [made_of.get(graphs.name_of(h)) or made_of.get(h, _NOTHING)]
            }
        return self._packages[package]

    def document(self, package: str) -> Document | None:
        """Return the document of a package, or None if there is none. Raises DocumentError if it is unreadable."""
        if package not in self._documents:
            blob = document_in(self._repository, self.commit, self.tag, package)
            if isinstance(blob, str):
                raise DocumentError(f"{package}: {blob}")
            content = self._file(blob.name) if blob else None
            try:
                self._documents[package] = None if content is None else parse(content, f"{package}/{DOCUMENT}")
            except DocumentError as error:
                raise DocumentError(f"the document of {package} at {self.commit[:7]} {error}") from error
        return self._documents[package]

    def _file(self, name: str) -> bytes | None:
        found = self._repository.objects().get(name, most=MAX_BYTES)
        return found.content if found is not None and found.type == "blob" else None


def recorded_impact(graph: RecordedGraph, asked: str) -> predecessors.Impact:
    """Count dependents of `asked` (PACKAGE[@VERSION]) in `graph`. Raises UsageError if that or the graph is missing."""
    graph.require()
    package, _, versions = asked.partition("@")
    chosen = Versions([versions] if versions else [])
    nodes = [*graph.others.values(), *(node for name in sorted(graph.folders) for node in graph.nodes(name).values())]
    hashes = {node.hash for node in nodes if node.name == package and chosen(node.version)}
    if not hashes:
        near = similar(package, {node.name for node in nodes})
        hint = f"did you mean {', '.join(near)}?" if near else "`cachewatch packages` lists what there is"
        raise UsageError(f"{asked}: no spec of this revision is or uses it; {hint}")
    stacks = {h: s.stacks for name in sorted(graph.folders) if (d := graph.document(name)) for h, s in d.specs.items()}
    return predecessors.find_impact(nodes, hashes, stacks)


class GraphStep:
    """Two states to compare, the older first: two revisions of a tag, or two tags."""

    def __init__(self, before: RecordedGraph, after: RecordedGraph) -> None:
        self.before = before
        self.after = after
        self._walk = predecessors.Walk(before, after)

    @classmethod
    def between(cls, repository: Repository, before: tuple[str, str], after: tuple[str, str]) -> "GraphStep":
        """Return the step between two states, which are pairs of commit and tag."""
        return cls(RecordedGraph(repository, *before), RecordedGraph(repository, *after))

    @property
    def is_recorded(self) -> bool:
        """Whether both states have a dependency graph."""
        return self.before.is_recorded and self.after.is_recorded

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of the newer state whose specs or dependencies may differ from those of the older state."""
        return tuple(sorted(name for name, tree in self.after.folders.items() if self.before.folders.get(name) != tree))

    def explain_packages(self, wanted: Callable[[str], bool]) -> Iterator[Explanation]:
        """Yield explanations of new specs of each changed package that `wanted` accepts; skip unreadable packages."""
        for package in filter(wanted, self.packages):
            try:
                yield from self.explain_all(package)
            except DocumentError as error:
                self.after.unreadable[package] = str(error)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The errors about packages that could not be read so far."""
        found = self.before.unreadable | self.after.unreadable
        return tuple(found[package] for package in sorted(found))

    def explain_all(self, package: str) -> Iterator[Explanation]:
        """Yield an explanation of each new spec of `package`: its predecessor, and why their hashes differ."""
        old, new = (graph.nodes(package) for graph in (self.before, self.after))
        for found in predecessors.explain_new_specs(old, new, self._matches(package), self._walk):
            yield found if self.is_recorded or found.predecessor is None else replace(found, causes=(NOT_RECORDED,))

    def with_paths(self, one: Explanation) -> Explanation:
        """Return the explanation `one` with the shortest path to each cause; unchanged if it has no predecessor."""
        if one.predecessor is None:
            return one
        own = dict.fromkeys(one.causes, (one.spec.name,))
        paths = self._walk.paths(one.spec.name, one.predecessor.hash, one.spec.hash) if self.is_recorded else own
        return replace(one, paths=paths)

    def _matches(self, package: str) -> Mapping[str, Set[str]]:
        """Return, by hash of each new spec of `package`, the hashes of removed specs that `compare` pairs with it."""
        old, new = (graph.document(package) for graph in (self.before, self.after))
        if old is None or new is None:
            return {}
        change = compare(package, old, new)
        # By signature, the hashes that only one of the two has.
        vanished, added = (
            grouped((signature, one) for one, signature in side.specs.items() if one not in other.specs.hashes)
            for side, other in ((old, new), (new, old))
        )
        replaced: defaultdict[str, set[str]] = defaultdict(set)
        for match in change.matches if change else ():
            for spec_hash in added.get(match.after, ()):
                replaced[spec_hash].update(vanished.get(match.before, ()))
        return replaced


Meaning = tuple[str, frozenset[str] | None]  # a package, and those of its hashes that are meant; None means all


def find_asked(
    repository: Repository, text: str, tag: str, between: tuple[str, str] | None, rev: str
) -> tuple[Meaning, Revision | None, Revision]:
    """Return what `text` means in `tag`, and the two revisions to compare, the older first.

    These revisions are those in `between`. If `between` is None, the newer one is the last revision up to `rev` that
    added the specs, and the older one is its parent; None if it has none.
    Raises UnknownRevision if `tag` never had what `text` means.
    """
    after = resolve(repository, between[1] if between else rev)
    tag = after.tag or tag
    graph = RecordedGraph(repository, after.commit, tag)
    meaning = _meaning(graph, text)
    if meaning is None and between is None and (last := _last_seen(repository, after, tag, text)) is not None:
        graph, meaning = last
        after = resolve(repository, graph.commit)
    if meaning is None:
        tree_of(repository, after, tag)
        graph.require()
        name, at, versions = text.partition("@")
        near = similar(name, graph.folders, 3)
        hint = f"did you mean {' or '.join(f'{one}{at}{versions}' for one in near)}? Or " if near else ""
        raise UnknownRevision(
            f"{after.name}: {tag} has no package and no hash {text!r}; {hint}"
            f"name a package, package@version or a hash of at least {_SHORTEST_HASH} characters"
            " (cachewatch show PACKAGE lists what there is)"
        )
    if between:
        return meaning, resolve(repository, between[0]), after
    before, after = _birth(repository, after, tag, *meaning)
    if before is None:
        RecordedGraph(repository, after.commit, tag).require()
    return meaning, before, after


def explain_two(
    repository: Repository, revision: Revision, tag: str, texts: tuple[str, str]
) -> tuple[GraphStep, Explanation]:
    """Return the last states that have the two specs whose hashes begin with `texts`, and why these specs differ."""
    places = []
    for text in texts:
        graph = RecordedGraph(repository, revision.commit, tag)
        package, hashes = (_meaning(graph, text) if _HASH.fullmatch(text) else None) or ("", None)
        if hashes is None and (last := _last_seen(repository, revision, tag, text)) is not None:
            graph, (package, hashes) = last
        if hashes is None or len(hashes) > 1:
            if len(text.removeprefix("/")) < _SHORTEST_HASH:
                raise UsageError(f"{text}: write at least {_SHORTEST_HASH} characters of the hash")
            said = "several specs have hashes" if hashes else "no spec has, or had, a hash"
            raise UsageError(f"{text}: in {tag}, {said} that begins so")
        places += [(graph, graph.nodes(package)[each]) for each in hashes]
    (before, old), (after, new) = places
    if old.name != new.name:
        raise UsageError(f"{texts[0]} is of the package {old.name}, {texts[1]} of {new.name}; name two of one package")
    step = GraphStep(before, after)
    causes = [*predecessors.attribute_causes(old, new)]
    had, has = (node.compiler or NO_COMPILER for node in (old, new))
    if had != has:
        causes.append(Cause(package=new.name, what=What.COMPILER, before=had, after=has))
    explanation = Explanation(
        spec=new,
        predecessor=old,
        is_beside=before.commit == after.commit,
        is_paired=(old.os, old.target) == (new.os, new.target),
        causes=(*causes, NOT_RECORDED),
    )
    return step, step.with_paths(explanation)


def _last_seen(repository: Repository, until: Revision, tag: str, text: str) -> tuple[RecordedGraph, Meaning] | None:
    """Return the last graph of `tag` before `until` with the hash `text`, and what this means there; None if none."""
    match = _HASH.fullmatch(text)
    if match is None or repository.is_folder:
        return None
    is_stored = stored_catalogue(repository, until.commit)
    names = f":(glob){folder_of(repository, tag)}/*/{DOCUMENT}" if is_stored else "."
    # Elsewhere than in `_cache/`, other files and other tags may name the hash, too.
    arguments = ["log", "--first-parent", "-20", "--format=%P", f"-S{match['hash']}", until.commit, "--", names]
    for line in repository.run(arguments).splitlines():
        for parent in line.decode().split()[:1]:
            graph = RecordedGraph(repository, parent, tag)
            if meaning := _meaning(graph, text):
                return graph, meaning
    return None


def _meaning(graph: RecordedGraph, text: str) -> Meaning | None:
    """Return what `text` (hash or PACKAGE[@VERSION]) means in `graph`; None if nothing. Skips unreadable documents."""
    match = _PACKAGE.fullmatch(text)
    if match is not None and match["name"] in graph.folders:
        package, versions = match.groups()
        if versions is None:
            return package, None
        chosen = Versions([versions])
        if not (hashes := frozenset(h for h, node in graph.nodes(package).items() if chosen(node.version))):
            raise UsageError(f"{package}@{versions}: has no specs; `cachewatch show {package}` lists its versions")
        return package, hashes
    if (asked := _HASH.fullmatch(text)) is None:
        return None
    for package in sorted(graph.folders):
        with suppress(DocumentError):
            all_hashes = document.specs.hashes if (document := graph.document(package)) else ()
            if hashes := frozenset(h for h in all_hashes if h.startswith(asked["hash"])):
                return package, hashes
    return None


def _birth(
    repository: Repository, until: Revision, tag: str, package: str, hashes: frozenset[str] | None
) -> tuple[Revision | None, Revision]:
    """Return the parent (or None) of the last revision up to `until` that added all of `hashes`, and this revision.

    If `hashes` is None, take the last revision that changed `package`.
    """
    document = document_in(repository, until.commit, tag, package)
    path = document.path if isinstance(document, Blob) else f"{folder_of(repository, tag)}/{package}/{DOCUMENT}"
    printed = repository.run(["rev-list", "--first-parent", until.commit, "--", path]).decode().split()
    if not printed:
        return None, until

    def has_all(commit: str) -> bool:
        found = repository.objects().get(f"{commit}:{path}") if commit else None
        return found is not None and all(spec_hash.encode() in found.content for spec_hash in hashes or ())

    # The first of the revisions without interruption up to `until` that have all of the hashes.
    after = next(newer for newer, older in pairwise([*printed, ""]) if hashes is None or not has_all(older))
    parents = repository.run(["rev-list", "--parents", "-1", after]).decode().split()[1:2]
    return (resolve(repository, parents[0]) if parents else None), resolve(repository, after)
