"""Find the versions of all documents in several processes, each of which looks at some of the revisions."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from cachewatch.git.document_versions import DocumentVersions, Version, find_versions
from cachewatch.git.repository import Repository
from cachewatch.runtime.parallel import WorkerEnded, in_processes

# Fewer revisions are found sooner than processes start.
_FEWEST = 64
# So that a run with much in it delays nobody for long.
_RUNS_OF_JOB = 4

_Run = tuple[int, int]  # revisions from the first number on, before the second


def find_in_jobs(repository: Repository, commits: Sequence[str], start: int, jobs: int) -> list[DocumentVersions]:
    """Return what `find_versions` does, found by `jobs` processes."""
    if jobs < 2 or len(commits) - start < _FEWEST:
        return find_versions(repository, commits, start)

    def make_work() -> Callable[[_Run], list[DocumentVersions]]:
        own = repository.again()
        return lambda run: find_versions(own, commits[: run[1]], run[0])

    length = -(-(len(commits) - start) // (jobs * _RUNS_OF_JOB))
    runs = [(first, min(first + length, len(commits))) for first in range(start, len(commits), length)]
    found: defaultdict[tuple[str, str], list[Version]] = defaultdict(list)
    try:
        for part in in_processes(make_work, runs, jobs):
            for one in part:
                found[one.tag, one.package] += one.versions
    except WorkerEnded:
        return find_versions(repository, commits, start)
    return [DocumentVersions(tag, package, tuple(versions)) for (tag, package), versions in sorted(found.items())]
