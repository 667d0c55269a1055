"""What `why` was asked about: a hash, or a package with a version, and the step in which it came."""

import itertools
import re
from collections.abc import Iterator

from msgspec import Struct

from cachewatch.causes.recorded_graph import RecordedGraph
from cachewatch.causes.step_causes import Step
from cachewatch.core.causes import Explanation
from cachewatch.core.repository_layout import CATALOGUE, DOCUMENT
from cachewatch.core.similar_names import similar
from cachewatch.core.versions import Versions
from cachewatch.errors import UnknownRevision, UsageError
from cachewatch.git.catalogue import require_tag
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import Revision, resolve

_HASH = re.compile(r"/?(?P<hash>[a-z0-9]{7,64})")
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._+-]*)(?:@(?P<versions>[^\s]+))?")
_SHORTEST_HASH = 7
_MOST_NAMES = 3


class Asked(Struct, frozen=True, kw_only=True):
    """Specs of a package: those of `hashes`, or all new ones if that is None."""

    package: str
    hashes: frozenset[str] | None = None
    before: Revision | None  # None if the first revision has them already
    after: Revision


def find_asked(repository: Repository, text: str, tag: str, between: tuple[str, str] | None, rev: str) -> Asked:
    """Find what `text` means, and the two revisions to compare; raises UnknownRevision where nothing has that name."""
    after = resolve(repository, between[1] if between else rev)
    tag = after.tag or tag
    found = _meaning(RecordedGraph(repository, after.commit, tag), text)
    if found is None and between is None and (last := _last_seen(repository, after, tag, text)) is not None:
        after = last
        found = _meaning(RecordedGraph(repository, after.commit, tag), text)
    if found is None:
        require_tag(repository, after, tag)
        if not (graph := RecordedGraph(repository, after.commit, tag)).packages:
            graph.require()  # documents that are elsewhere than in `_cache/` have no graph beside them
        raise UnknownRevision(
            f"{after.name}: {tag} has no package and no hash {text!r}; {_near(repository, after, tag, text)}"
            f"name a package, package@version or a hash of at least {_SHORTEST_HASH} characters"
            " (cachewatch show PACKAGE lists what there is)"
        )
    package, hashes = found
    if between:
        return Asked(package=package, hashes=hashes, before=resolve(repository, between[0]), after=after)
    before, after = _birth(repository, after, tag, package, hashes)
    return Asked(package=package, hashes=hashes, before=before, after=after)


def _near(repository: Repository, revision: Revision, tag: str, text: str) -> str:
    name, _, versions = text.partition("@")
    near = similar(name, RecordedGraph(repository, revision.commit, tag).packages, _MOST_NAMES)
    return f"did you mean {' or '.join('@'.join(filter(None, (each, versions))) for each in near)}? Or " if near else ""


def explain_asked(step: Step, asked: Asked) -> Iterator[Explanation]:
    """Yield why the new specs that were asked about are other ones."""
    hashes = step.after.hashes(asked.package) if asked.hashes is None else asked.hashes
    return step.explain(asked.package, hashes)


def _last_seen(repository: Repository, until: Revision, tag: str, text: str) -> Revision | None:
    """Return the revision before the one that removed a hash, or None if no revision had it."""
    match = _HASH.fullmatch(text)
    if match is None:
        return None
    names = f":(glob){CATALOGUE}/{tag}/*/{DOCUMENT}"
    arguments = ["log", "--first-parent", "-1", "--format=%P", f"-S{match['hash']}", until.commit, "--", names]
    parents = repository.run(arguments).split()[:1]
    return resolve(repository, parents[0].decode()) if parents else None


def step_of(repository: Repository, asked: Asked, tag: str, stacks: tuple[str, str] | None = None) -> Step | None:
    """Open the step in which what was asked about came; None if it was there from the first revision on."""
    if asked.before is None:
        return None
    before, after = ((each.commit, each.tag or tag) for each in (asked.before, asked.after))
    return Step.between(repository, before, after, stacks)


def _meaning(graph: RecordedGraph, text: str) -> tuple[str, frozenset[str] | None] | None:
    packages = graph.packages
    match = _PACKAGE.fullmatch(text)
    if match is not None and match["name"] in packages:
        return match["name"], _of_versions(graph, match["name"], match["versions"])
    if (found := _HASH.fullmatch(text)) is not None:
        for package in packages:
            if hashes := frozenset(h for h in graph.hashes(package) if h.startswith(found["hash"])):
                return package, hashes
    return None


def _of_versions(graph: RecordedGraph, package: str, versions: str | None) -> frozenset[str] | None:
    if versions is None:
        return None
    chosen = Versions([versions])
    found = frozenset(h for h, node in graph.nodes(package).items() if chosen(node.version))
    if not found:
        raise UsageError(f"{package}@{versions}: has no specs; `cachewatch show {package}` lists its versions")
    return found


def _birth(
    repository: Repository, until: Revision, tag: str, package: str, hashes: frozenset[str] | None
) -> tuple[Revision | None, Revision]:
    """Return the newest revision that brought any of the hashes, or changed the package at all, and the one before."""
    path = f"{CATALOGUE}/{tag}/{package}/{DOCUMENT}"
    changed = [
        line.decode() for line in repository.run(["rev-list", "--first-parent", until.commit, "--", path]).split()
    ]
    if not changed:
        return None, until
    after = changed[0]
    for newer, older in itertools.pairwise(changed if hashes is not None else ()):
        after = newer
        found = repository.objects().get(f"{older}:{path}")
        content = found.content if found is not None else b""
        if any(spec_hash.encode() not in content for spec_hash in hashes or ()):
            break
    else:
        after = changed[-1] if hashes is not None else changed[0]
    parents = repository.run(["rev-list", "--parents", "-1", after]).split()[1:2]
    return (resolve(repository, parents[0].decode()) if parents else None), resolve(repository, after)
