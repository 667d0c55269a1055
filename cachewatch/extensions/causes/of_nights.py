"""The causes of every step of a tag in a range of revisions, counted: small enough for an index."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from cachewatch.core.causes import Attributed, Explanation, Value, attribute
from cachewatch.core.names import CATALOGUE, TAG_GRAPH
from cachewatch.errors import DocumentError
from cachewatch.extensions.causes.recorded import GraphStep, RecordedGraph
from cachewatch.git.repository import Repository

_IN_RUN = 16
# As it stands in the tree of a tag, after the mode.
_GRAPH_ENTRY = f" {TAG_GRAPH}\0".encode()


class Night(Struct, frozen=True):
    """One step of a tag: a revision that changed its documents, and the revision before, which has the tag as well."""

    tag: str
    revision: int  # the place of `after` in the chain
    before: str
    after: str
    is_recorded: bool  # both have a dependency graph

    @property
    def name(self) -> str:
        """The run of steps that it belongs to, which are explained one after the other."""
        return f"{self.tag}//{self.revision // _IN_RUN}"


class CountedCause(Struct, frozen=True, order=True):
    """A cause, and how many new specs have it; of a compiler, whatever it compiles."""

    package: str  # "" where no package is to blame
    what: str
    before: str
    after: str
    specs: int
    attributed: int  # those that are counted under no other cause, so these numbers add up


def find_nights(repository: Repository, commits: Sequence[str], changed: Sequence[tuple[str, int]]) -> list[Night]:
    """Return the steps in which specs may have been rebuilt, by tag and revision.

    `changed` are tags, each with the number of a revision in `commits` that changed documents of it.
    """
    states = _GraphedTags(repository, commits)
    nights: list[Night] = []
    for tag, number in sorted(changed):
        before, after = (states.is_recorded(tag, each) for each in (number - 1, number))
        if before is not None and after is not None:
            nights.append(Night(tag, number, commits[number - 1], commits[number], before and after))
    return nights


def count_all(repository: Repository, nights: Sequence[Night]) -> Iterator[tuple[CountedCause, ...]]:
    """Yield the causes of recorded steps of one tag; where a step begins with the state that ended the last one, that is kept."""
    last: RecordedGraph | None = None
    commit = ""
    for night in nights:
        is_known = last is not None and commit == night.before
        before = last if last is not None and is_known else RecordedGraph(repository, night.before, night.tag)
        last, commit = RecordedGraph(repository, night.after, night.tag), night.after
        yield count_causes(GraphStep(before, last))


def count_causes(step: GraphStep) -> tuple[CountedCause, ...]:
    """Return the causes of a step as `why --between` counts them; packages that cannot be read are left out."""
    alike: defaultdict[tuple[str, str, str, str], list[Attributed]] = defaultdict(list)
    for one in attribute({found.spec.hash: found.causes for found in _explained(step) if found.causes}):
        cause = one.cause
        alike[cause.package, str(cause.what), _text(cause.before), _text(cause.after)].append(one)
    return tuple(sorted(CountedCause(*key, *_counts(group)) for key, group in alike.items()))


def blobs_of(repository: Repository, nights: Sequence[Night]) -> Iterator[str]:
    """Yield the ids of all files that the causes of recorded steps may take, for a clone that may lack them."""
    states = {(night.tag, commit) for night in nights if night.is_recorded for commit in (night.before, night.after)}
    for tag, commit in sorted(states):
        printed = repository.run(["ls-tree", "-r", "-z", f"{commit}:{CATALOGUE}/{tag}"])
        entries = (entry.partition(b"\t")[0].split() for entry in printed.split(b"\0") if entry)
        yield from (object_id.decode() for _, kind, object_id in entries if kind == b"blob")


class _GraphedTags:
    """Which tags have a graph, by revision."""

    def __init__(self, repository: Repository, commits: Sequence[str]) -> None:
        self._repository = repository
        self._commits = commits
        self._known: dict[tuple[str, int], bool | None] = {}

    def is_recorded(self, tag: str, number: int) -> bool | None:
        """Tell whether a revision has a graph of `tag`; None if it does not have the tag."""
        if (tag, number) not in self._known:
            self._known = {key: value for key, value in self._known.items() if key == (tag, number - 1)}
            self._known[tag, number] = self._read(tag, number)
        return self._known[tag, number]

    def _read(self, tag: str, number: int) -> bool | None:
        # Only the tree is read: a partial clone may lack the file.
        found = self._repository.objects().get(f"{self._commits[number]}:{CATALOGUE}/{tag}") if number >= 0 else None
        return _GRAPH_ENTRY in found.content if found is not None and found.type == "tree" else None


def _explained(step: GraphStep) -> Iterator[Explanation]:
    for package in step.packages:
        with suppress(DocumentError):
            yield from [one for one in step.explain_all(package) if one.is_match]


def _counts(group: Sequence[Attributed]) -> tuple[int, int]:
    return len({one for each in group for one in each.hashes}), sum(len(each.attributed) for each in group)


def _text(value: Value) -> str:
    return value if isinstance(value, str) else " ".join(value)
