"""Where documents are followed: in this process, in several of this machine, or on a Dask cluster.

Each way answers the same units with equal values, so the index does not depend on it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from cachewatch.causes.night_causes import CountedCause, Night, count_all
from cachewatch.documents.limits import MAX_BYTES
from cachewatch.documents.records import Known
from cachewatch.errors import UsageError, WorkFailed
from cachewatch.git.repository import Repository
from cachewatch.history_db.follow_document import follow
from cachewatch.history_db.indexed_document import IndexedDocument, Task
from cachewatch.runtime.parallel import WorkerEnded, in_processes

Causes = tuple[CountedCause, ...]
# A run of documents, all versions of which are read one after the other: git then needs no cache of deltas. Or a run of
# steps of one tag, whose causes are counted.
Unit = Sequence[Task] | Sequence[Night]
Found = list[IndexedDocument] | list[Causes]
Answer = tuple[Unit, Found]
# Answers all units, in any order.
Engine = Callable[[Sequence[Unit]], Iterator[Answer]]

_VERSIONS_IN_UNIT = 128
_ATTEMPTS = 3
# Units that a cluster has at a time: what it answers waits here in memory.
_AT_ONCE = 64


def units_of(tasks: Sequence[Task], nights: Sequence[Night] = ()) -> list[Unit]:
    """Cut `tasks` into units of about as many versions, and `nights` by their names; a document is never cut."""
    return [*_units(tasks), *(tuple(run) for _, run in groupby(nights, key=lambda night: night.name))]


def _units(tasks: Sequence[Task]) -> list[Sequence[Task]]:
    units: list[Sequence[Task]] = []
    start = versions = 0
    for place, task in enumerate(tasks):
        versions += len(task.versions)
        if versions >= _VERSIONS_IN_UNIT:
            units.append(tasks[start : place + 1])
            start, versions = place + 1, 0
    return [*units, tasks[start:]] if start < len(tasks) else units


def in_jobs(repository: Repository, jobs: int) -> Engine:
    """Return the engine that works in `jobs` processes, or in this one."""

    def make_work() -> Callable[[Unit], Found]:
        own = repository.again() if jobs > 1 else repository
        known = Known()
        return lambda unit: _answer(own, unit, known)

    def engine(units: Sequence[Unit]) -> Iterator[Answer]:
        left, attempts = list(units), 0
        while left:
            done = 0
            try:
                for answer in in_processes(make_work, left, jobs):
                    yield left[done], answer
                    done += 1
            except WorkerEnded as error:
                # All that was not answered is asked of new processes; a unit that ends them each time is named.
                attempts = 1 if done else attempts + 1
                if attempts == _ATTEMPTS:
                    raise WorkFailed(
                        f"{_about(left[0])}: {_ATTEMPTS} worker processes ended while they read it"
                    ) from error
            left = left[done:]

    return engine


def on_cluster(git_dir: str, address: str) -> Engine:
    """Return the engine that works on the Dask cluster whose scheduler is at `address`.

    Its workers must see the repository under the same path.
    """

    def engine(units: Sequence[Unit]) -> Iterator[Answer]:
        # Dask itself tries again what a worker that ended had, as often as this says.
        with _client(address) as client, client.get_executor(retries=_ATTEMPTS) as executor:
            waiting = iter(units)
            asked = {executor.submit(follow_unit, git_dir, unit): unit for unit in _some(waiting, _AT_ONCE)}
            while asked:
                answered = _first_done(asked)
                yield asked.pop(answered), answered.result()
                asked |= {executor.submit(follow_unit, git_dir, unit): unit for unit in _some(waiting, 1)}

    return engine


def follow_unit(git_dir: str, unit: Unit) -> Found:
    """Answer `unit` in a process that has nothing open yet."""
    repository = Repository(Path(git_dir))
    try:
        return _answer(repository, unit, Known())
    finally:
        repository.close()


def _answer(repository: Repository, unit: Unit, known: Known) -> Found:
    known.forget_many()
    tasks = [one for one in unit if isinstance(one, Task)]
    nights = [one for one in unit if isinstance(one, Night)]
    return list(count_all(repository, nights)) if nights else _follow_all(repository, tasks, known)


def _follow_all(repository: Repository, unit: Sequence[Task], known: Known) -> list[IndexedDocument]:
    blobs = [version.blob for task in unit for version in task.versions if version.blob]
    contents = repository.objects().readable(blobs, kind="blob", most=MAX_BYTES)
    found = [follow(task, contents, known) for task in unit]
    next(contents, None)
    return found


def _client(address: str) -> Any:
    try:
        import distributed  # noqa: PLC0415  an extra
    except ImportError as error:
        raise UsageError("--cluster needs Dask; install cachewatch[dask]") from error
    connect: Any = distributed.Client
    try:
        return connect(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"--cluster {address}: {error}; start a scheduler with `dask scheduler`") from error


def _some(units: Iterator[Unit], most: int) -> Iterator[Unit]:
    for _ in range(most):
        unit = next(units, None)
        if unit is None:
            return
        yield unit


def _first_done(asked: Any) -> Any:
    from concurrent.futures import FIRST_COMPLETED, wait  # noqa: PLC0415

    return next(iter(wait(asked, return_when=FIRST_COMPLETED).done))


def _about(unit: Unit) -> str:
    return unit[0].name if len(unit) == 1 else f"{unit[0].name} to {unit[-1].name}"
