"""Find why specs of a repository were rebuilt: for changesets, digests and environments."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core import graphs_and_attribution as graphs
from cachewatch.core.advice.environment_coverage import Coverage, Nearest, Resolution
from cachewatch.core.changesets import Changeset, TagPair
from cachewatch.core.filters_and_spec_patterns import Selection
from cachewatch.core.graphs_and_attribution import Cause, Causes, Explanation, GraphNode, LockChange
from cachewatch.core.kinds_and_specs import Side, grouped
from cachewatch.core.names_and_layouts import CATALOGUE, TAG_GRAPH
from cachewatch.core.statement_kinds import OF_REBUILDS
from cachewatch.core.statements import RebuiltSpecs, with_causes
from cachewatch.environments import LockGraph, open_lock_graph
from cachewatch.errors import CachewatchError, DocumentError, WorkFailed
from cachewatch.extensions.causes.asked_specs import GraphStep, RecordedGraph
from cachewatch.extensions.causes.predecessors_and_causes import Walk, explain_new_specs
from cachewatch.git.local_repository import Repository
from cachewatch.report.digest_and_message_values import TagDigest
from cachewatch.runtime.log import Log
from cachewatch.runtime.worker import Isolation, Piece

Result = TypeVar("Result")
State = tuple[str, str]  # a commit and a tag
# Return the result stored under a key; if there is none, call the function and store what it returns.
Remember = Callable[[Hashable, Callable[[], tuple[RebuiltSpecs, ...]]], tuple[RebuiltSpecs, ...]]


class RepositoryCauses(Struct, frozen=True):
    """Finds causes of rebuilds in a repository that records dependency graphs."""

    repository: Repository

    def of_changesets(
        self, changesets: Iterable[Changeset], selection: Selection, warn: Callable[[str], None]
    ) -> Iterator[Changeset]:
        """Yield `changesets`, whose `explain` now finds causes of rebuilds; it calls `warn` for unreadable graphs."""
        for changeset in changesets:
            changeset.explain = partial(_explain, self.repository, changeset.before, changeset.after, selection, warn)
            yield changeset

    def of_digest(
        self, tag: TagDigest, pair: TagPair, selection: Selection, *, isolation: Isolation, remember: Remember, log: Log
    ) -> TagDigest:
        """Return the digest `tag` with the causes of rebuilds between the two states of `pair`.

        `isolation` runs the search; `remember` keeps what it found for other digests of `pair`; errors go to `log`.
        """
        old, new = _state(pair.before), _state(pair.after)
        parts = tag.statements, tag.rest, tag.report.statements
        if not (old and new and any(one.kind in OF_REBUILDS for part in parts for one in part)):
            return tag
        git_dir = self.repository.git_dir

        def find() -> tuple[RebuiltSpecs, ...]:
            # Spack's public catalogue has no graphs, and needs no other process to read them.
            if self.repository.objects().get(f"{new[0]}:{CATALOGUE}/{new[1]}/{TAG_GRAPH}") is None:
                return ()
            # Graphs are about as large as four times the difference.
            about = Piece((*old, *new), 4 * pair.difference.size)
            rebuilt = _apart(isolation, partial(_find_rebuilt, git_dir, old, new), about)
            if isinstance(rebuilt, WorkFailed):
                log.warning("causes.unknown", tag=new[1], error=str(rebuilt))
                return ()
            return rebuilt

        rebuilt = remember((git_dir, (old, new)), find)
        own, rest, whole = (with_causes(part, rebuilt, selection.chooses) for part in parts)
        return replace(tag, statements=own, rest=rest, report=replace(tag.report, statements=whole))

    def of_environment(
        self,
        coverage: Coverage,
        lock: Path,
        *,
        folders: tuple[Path, ...],
        tags: tuple[tuple[str, str], ...],
        isolation: Isolation,
        warn: Callable[[str], None],
    ) -> Coverage:
        """Return `coverage` with the causes why needed specs have other hashes in `tags` (pairs of commit and tag).

        `lock` is the lock file of the environment; if `folders` is not empty, the file must lie in one. On error, call
        `warn` with the reason and return `coverage` unchanged.
        """
        replaced = tuple(
            (one.need.package, one.need.hash, one.others[0])
            for one in coverage.needs
            if one.nearest is Nearest.EQUAL and one.need.hash and one.others
        )
        if not replaced:
            return coverage
        find = partial(_find_of_environment, self.repository.git_dir, tags, lock, folders, replaced)
        reasons = _apart(isolation, find, Piece(tags[0], 0))
        if isinstance(reasons, WorkFailed):
            warn(str(reasons))
            return coverage

        def with_those(one: Resolution) -> Resolution:
            causes = reasons.get(one.need.hash, {}) if one.nearest is Nearest.EQUAL else {}
            return replace(one, causes=tuple(sorted(causes.items(), key=lambda each: each[0].sort_key)))

        return replace(coverage, needs=tuple(map(with_those, coverage.needs)))


def _state(side: Side) -> State | None:
    return (side.revision, side.tag) if side.revision and side.tag else None


def _apart(isolation: Isolation, work: Callable[[], Result], about: Piece) -> Result | WorkFailed:
    """Call `work` in a separate process; return its result or error. `about`: ids and size of what it reads."""
    try:
        ((_, result),) = isolation.each(_call, [work], lambda _: about)
    except CachewatchError as error:
        return WorkFailed(str(error))
    return result


def _call(work: Sequence[Callable[[], Result]]) -> Result:
    return work[0]()


def _find_rebuilt(git_dir: str, before: State, after: State) -> tuple[RebuiltSpecs, ...]:
    with closing(Repository(Path(git_dir))) as repository:
        return rebuilt_in(GraphStep.between(repository, before, after))


def rebuilt_in(step: GraphStep) -> tuple[RebuiltSpecs, ...]:
    """Return the specs rebuilt in `step` with causes, without unreadable packages; () if a state lacks a graph."""
    rebuilt: list[RebuiltSpecs] = []
    for package in step.packages if step.is_recorded else ():
        with suppress(DocumentError):
            rebuilt += _of_package(step, package)
    return tuple(rebuilt)


def _of_package(step: GraphStep, package: str) -> Iterator[RebuiltSpecs]:
    old, new = step.before.document(package), step.after.document(package)
    if old is None or new is None:
        return
    explained = ((new.specs[one.spec.hash], one) for one in step.explain_all(package) if one.predecessor is not None)
    alike = grouped((signature, one) for signature, one in explained if signature in old.specs.counts)
    vanished = Counter(signature for spec_hash, signature in old.specs.items() if spec_hash not in new.specs.hashes)
    for signature, found in alike.items():
        in_place = vanished[signature]
        for is_beside, some in ((False, found[:in_place]), (True, found[in_place:])):
            for causes, n in Counter(frozenset(one.causes) for one in some).items():
                yield RebuiltSpecs(package=package, signature=signature, causes=causes, count=n, is_beside=is_beside)


class Chain(Struct, frozen=True, array_like=True):
    """A cause, the path from the rebuilt package down to the package that differs, and the number of rebuilt specs."""

    cause: Cause
    path: tuple[str, ...]
    specs: int


def find_chains(step: GraphStep, package: str) -> tuple[Chain, ...]:
    """Return the most frequent causes, at most three, why `step` rebuilt specs of `package`, each with a path to it."""
    explained = [one for one in step.explain_all(package) if one.is_match and one.causes]
    counts = Counter(cause for one in explained for cause in one.causes)
    chosen = sorted(counts, key=lambda cause: (-counts[cause], cause.sort_key))[:3]
    paths: dict[Cause, tuple[str, ...]] = {}
    for one in explained:
        if wanted := set(chosen).intersection(one.causes) - paths.keys():
            found = step.with_paths(one).paths
            paths |= {cause: found[cause] for cause in wanted}
    return tuple(Chain(cause, paths[cause], counts[cause]) for cause in chosen)


def _explain(
    repository: Repository, before: Side, after: Side, selection: Selection, warn: Callable[[str], None]
) -> tuple[Explanation, ...]:
    old, new = _state(before), _state(after)
    if not (old and new):
        return ()
    step = GraphStep.between(repository, old, new)
    explained = [one for one in step.explain_packages(selection.packages) if one.is_match and one.causes]
    for what in step.unreadable:
        warn(what)

    def is_chosen(one: Explanation) -> bool:
        document = step.after.document(one.spec.name)
        return document is not None and selection.chooses(document.specs[one.spec.hash])

    return tuple(filter(is_chosen, explained))


def _find_of_environment(
    git_dir: str,
    tags: Sequence[State],
    lock_file: Path,
    folders: tuple[Path, ...],
    replaced: Sequence[tuple[str, str, str]],
) -> Mapping[str, Causes]:
    """Return, by hash in `lock_file`, why a spec has another hash in one of the states `tags`.

    `replaced` has, for each such spec, its package, its hash in `lock_file`, and its hash in one of `tags`.
    """
    with closing(Repository(Path(git_dir))) as repository:
        recorded = [graph for tag in tags if (graph := RecordedGraph(repository, *tag)).is_recorded]
        if not recorded:
            return {}
        lock = graphs.Nodes(open_lock_graph(lock_file, folders).nodes)
        walks = [(graph, Walk(lock, graph)) for graph in recorded]
        causes: dict[str, Causes] = {}
        for package, old, new in replaced:
            for graph, walk in walks:
                with suppress(DocumentError):
                    if graph.find(package, new) is not None:
                        causes[old] = walk.paths(package, old, new)
                        break
        return causes


def compare_locks(before: Path, after: Path) -> LockChange:
    """Return how two lock files differ, and why each spec only in `after` is new. Raises UsageError for other files."""
    old, new = open_lock_graph(before), open_lock_graph(after)
    rest = graphs.NOT_KNOWN if old.spack and old.spack == new.spack else graphs.SPACK
    walk = Walk(graphs.Nodes(old.nodes), graphs.Nodes(new.nodes), rest)
    packages_before, packages_after = _by_package(old), _by_package(new)
    explained: list[Explanation] = []
    for name in packages_after.keys() & packages_before.keys():
        for one in explain_new_specs(packages_before[name], packages_after[name], {}, walk):
            assert one.predecessor is not None  # the package had specs
            explained.append(replace(one, paths=walk.paths(name, one.predecessor.hash, one.spec.hash)))
    roots = frozenset(new.roots)
    explained.sort(key=lambda one: (one.spec.hash not in roots, one.spec.name, one.spec.hash))
    return LockChange(
        specs=sum(map(len, packages_after.values())),
        explained=tuple(explained),
        added=_only_in(packages_after, packages_before) + _external_roots(new, old),
        removed=_only_in(packages_before, packages_after) + _external_roots(old, new),
        roots=roots,
        reused=tuple(
            (node, new.nodes[spec_hash])
            for spec_hash, node in sorted(old.nodes.items())
            if spec_hash in new.nodes and node.version != new.nodes[spec_hash].version
        ),
    )


def _by_package(lock: LockGraph) -> Mapping[str, Mapping[str, GraphNode]]:
    packages: defaultdict[str, dict[str, GraphNode]] = defaultdict(dict)
    for spec_hash, node in lock.nodes.items():
        if not node.is_external:
            packages[node.name][spec_hash] = node
    return packages


def _only_in(packages: Mapping[str, Mapping[str, GraphNode]], others: Mapping[str, object]) -> tuple[GraphNode, ...]:
    nodes = [node for name in packages.keys() - others.keys() for node in packages[name].values()]
    return tuple(sorted(nodes, key=lambda node: (node.name, node.hash)))


def _external_roots(lock: LockGraph, other: LockGraph) -> tuple[GraphNode, ...]:
    """Return the roots of `lock` that are externals (not built by Spack) and that `other` does not have."""
    return tuple(lock.nodes[h] for h in lock.roots if lock.nodes[h].is_external and h not in other.nodes)
