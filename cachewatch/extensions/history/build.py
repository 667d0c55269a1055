"""Build the history index and update it; an interrupted build continues where it stopped.

Documents are read in this process, in several, or on a Dask cluster, with equal results. A document is done when its
rows and its name in the table `unit` are committed. When all are done, the last revision is recorded as indexed.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing, contextmanager
from functools import partial
from itertools import accumulate, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from cachewatch.core.kinds_and_specs import CompilerForm
from cachewatch.documents.records_parsing_diagnostics import KnownRecords
from cachewatch.errors import AnotherInstance, NoHistoryIndex, StateError, UnknownRevision, UsageError, WorkFailed
from cachewatch.extensions.history import schema_and_location as schema
from cachewatch.extensions.history.index_lookup import SIGNATURE, Index, signature_of
from cachewatch.extensions.history.versions_and_intervals import (
    ChainRevision,
    Follower,
    IndexedDocument,
    Interval,
    KnownDocument,
    Task,
    Version,
    find_versions,
    first_parents,
)
from cachewatch.git.local_repository import Repository
from cachewatch.runtime.files_and_locks import open_lock
from cachewatch.runtime.worker import ProcessEnded, in_processes

Reply = TypeVar("Reply")
# Several documents. The versions of each are read one after the other, so that git needs no cache of deltas.
Unit = Sequence[Task]
Answer = tuple[Unit, Sequence[IndexedDocument]]
Engine = Callable[[Sequence[Unit]], Iterator[Answer]]  # yields the results of all units, in any order

_VERSIONS_IN_UNIT = 128  # their rows are committed together, so a build that is killed loses about as many
_AT_ONCE = 64  # units that a cluster works on: their results are kept in memory here
_TALLY = """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET added = added + excluded.added, removed = removed + excluded.removed, rebuilt = rebuilt + excluded.rebuilt"""


def _units(tasks: Sequence[Task]) -> list[Unit]:
    """Divide `tasks` into units with about equal numbers of versions; no document is divided."""
    so_far = accumulate((len(task.versions) for task in tasks), initial=0)
    by_size = groupby(zip(so_far, tasks, strict=False), key=lambda each: each[0] // _VERSIONS_IN_UNIT)
    return [tuple(task for _, task in run) for _, run in by_size]


def in_jobs(repository: Repository, jobs: int) -> Engine:
    """Return a function that reads units (lists of revisions) in `jobs` processes; in this process if `jobs` is 1."""

    def engine(units: Sequence[Unit]) -> Iterator[Answer]:
        answers = in_processes(lambda: partial(_answer, repository.reopened() if jobs > 1 else repository), units, jobs)
        for unit in units:
            try:
                yield unit, next(answers)
            except ProcessEnded as error:
                names = " to ".join(dict.fromkeys((unit[0].name, unit[-1].name)))
                said = "a worker process ended while it was read; build again to go on from there"
                raise WorkFailed(f"{names}: {said}") from error

    return engine


def on_cluster(git_dir: str, address: str) -> Engine:
    """Return an engine that uses the Dask cluster at `address`, whose workers open the repository at `git_dir`."""

    def engine(units: Sequence[Unit]) -> Iterator[Answer]:
        # Dask itself repeats the work of a worker that ended, at most so many times.
        with _client(address) as client, client.get_executor(retries=3) as executor:
            waiting = iter(units)
            asked = {executor.submit(follow_unit, git_dir, unit): unit for unit in islice(waiting, _AT_ONCE)}
            while asked:
                answered = next(iter(wait(asked, return_when=FIRST_COMPLETED).done))
                yield asked.pop(answered), answered.result()
                asked |= {executor.submit(follow_unit, git_dir, unit): unit for unit in islice(waiting, 1)}

    return engine


def follow_unit(git_dir: str, unit: Unit) -> Sequence[IndexedDocument]:
    """Open the repository at `git_dir`, read the documents of `unit`, and return what each adds to the index."""
    with closing(Repository(Path(git_dir))) as repository:
        return _answer(repository, unit)


def _answer(repository: Repository, unit: Unit) -> Sequence[IndexedDocument]:
    blobs = [version.blob for task in unit for version in task.versions if version.blob]
    contents = repository.objects().documents(blobs)
    known = KnownRecords()
    found = [Follower(task, known).run(contents) for task in unit]
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


class IndexProgress(Struct, frozen=True):
    """Functions that a build calls to report its progress, in versions of documents."""

    begin: Callable[[int, int], None] = lambda _, __: None  # number of all versions, and of those that are done already
    advance: Callable[[int], None] = lambda _: None  # number of versions done since the last call
    fetch: Callable[[int], None] = lambda _: None  # number of files that a partial clone lacks, before they are fetched


_TELL_NOBODY = IndexProgress()


class IndexUpdate(Struct, frozen=True):
    """What a build or an update of the index did, in numbers."""

    revisions: int  # number of newly indexed revisions
    versions: int  # number of versions of documents that were read, or found unreadable
    rewritten: int  # number of indexed revisions that a force-push had removed from the branch
    unreadable: int  # number of versions that could not be read


def bring_up_to_date(
    repository: Repository, path: Path, engine: Engine, *, progress: IndexProgress = _TELL_NOBODY, end: str = "HEAD"
) -> IndexUpdate:
    """Index `repository` up to revision `end` in `path`; `engine` reads documents. Raises AnotherInstance if locked."""
    schema.check_is_index(path)
    with locked(path), closing(schema.open_for_writing(path)) as connection, schema.translating_errors(path):
        return _IndexBuild(repository, path, connection, engine, progress).run(first_parents(repository, end))


def ask_index(
    repository: Repository, commit: str, question: Callable[[Index], Reply], *, jobs: int, progress: IndexProgress
) -> Reply:
    """Return `question(index)` for an index that has `commit`: that of `repository`, updated, or a temporary one."""
    path, engine = schema.index_path(None, repository.shared_git_dir), in_jobs(repository, jobs)
    if not has(path, commit):
        bring_up_to_date(repository, path, engine, progress=progress)
    with TemporaryDirectory(prefix="cachewatch-history-") as folder:
        if not has(path, commit):
            path = Path(folder) / schema.NAME
            bring_up_to_date(repository, path, engine, progress=progress, end=commit)
        with Index(path) as index:
            return question(index)


def has(path: Path, commit: str) -> bool:
    """Tell whether there is a complete index at `path` that has the revision `commit`."""
    try:
        with Index(path) as index:
            return index.number_of(commit) >= 0
    except (NoHistoryIndex, UnknownRevision):
        return False


class _IndexBuild(Struct):
    repository: Repository
    path: Path
    connection: sqlite3.Connection
    engine: Engine
    progress: IndexProgress
    versions: int = 0
    unreadable: int = 0

    def run(self, revisions: Sequence[ChainRevision]) -> IndexUpdate:
        """Index the new ones of `revisions`, the whole chain; index all anew if the index has a revision outside it."""
        stored, common = self._one("SELECT count(*) FROM revision"), common_length(self.connection, revisions)
        if common < stored:
            if not common:
                self._check_is_of_repository(stored)
            with transaction(self.connection):
                schema.make_tables(self.connection)
        before = self._indexed()
        while self._indexed() < len(revisions) - 1:
            count = self._one("SELECT count(*) FROM revision")
            if count - 1 == self._indexed():  # else a build of the others was interrupted
                with transaction(self.connection):
                    rows = [(n, *moment) for n, moment in enumerate(revisions[count:], count)]
                    self.connection.executemany("INSERT INTO revision VALUES (?, ?, ?)", rows)
                count = len(revisions)
            self._index([moment.commit for moment in revisions[:count]])
        return IndexUpdate(self._indexed() - before, self.versions, stored - common, self.unreadable)

    def _check_is_of_repository(self, stored: int) -> None:
        """Raise UsageError if the index is that of another repository; `stored` is its number of revisions."""
        folder = self.repository.shared_git_dir
        if self.path.resolve() in (schema.index_path(None, folder, {}).resolve(), folder.resolve() / schema.NAME):
            return  # where only that of this repository is
        (newest,) = self.connection.execute('SELECT "commit" FROM revision WHERE n = ?', (stored - 1,)).fetchone()
        # A force-push may have taken all revisions out of the history, and they are here nevertheless.
        if self.repository.objects().get(newest) is None:
            raise UsageError(
                f"{self.path}: is the index of another repository, or {self.repository.path} was replaced: no revision "
                "is in both; name another file with --db, or remove this one with `cachewatch history drop --db`"
            )

    def _index(self, commits: Sequence[str]) -> None:
        indexed = self._indexed()
        by_document = find_versions(self.repository, commits, indexed + 1)
        done = {name for (name,) in self.connection.execute("SELECT name FROM unit")}
        # The documents of a package, one in each tag, have much in common that is then decoded once.
        keys = sorted((key for key in by_document if "/".join(key) not in done), key=lambda key: key[::-1])
        tasks = [_task(self.connection, *key, by_document[key]) for key in keys]
        total = sum(map(len, by_document.values()))
        self.progress.begin(total, total - _size(tasks))
        self.repository.obtain((v.blob for task in tasks for v in task.versions if v.blob), self.progress.fetch)
        writer = Writer(self.connection, has_specs=indexed >= 0)
        for unit, found in self.engine(_units(tasks)):
            with transaction(self.connection):
                writer.store(zip(unit, found, strict=True))
            self.versions += _size(unit)
            self.unreadable += sum(len(one.diagnostics) for one in found)
            self.progress.advance(_size(unit))
        with transaction(self.connection):
            if indexed < 0:
                fill_specs(self.connection)
            for statement in schema.INDEXES.split(";\n"):
                self.connection.execute(statement)
            self.connection.execute("UPDATE progress SET indexed = (SELECT max(n) FROM revision)")
            self.connection.execute("DELETE FROM unit")

    def _indexed(self) -> int:
        return self._one("SELECT indexed FROM progress")

    def _one(self, query: str) -> int:
        return int(self.connection.execute(query).fetchone()[0])


def _task(connection: sqlite3.Connection, tag: str, package: str, versions: tuple[Version, ...]) -> Task:
    """Return the task to read `versions`, new ones of the document of `package` in `tag`, with what the index has."""
    joins = "JOIN tag ON tag.id = tag JOIN package ON package.id = package WHERE tag.name = ? AND package.name = ?"
    key = tag, package
    query = f"SELECT blob, revision, baseline, old_compilers FROM document {joins}"  # noqa: S608  our own text
    row = connection.execute(query, key).fetchone()
    if row is None:
        unread = connection.execute(f"SELECT 1 FROM diagnostic {joins}", key).fetchone()  # noqa: S608
        return Task(*key, versions, is_unread=unread is not None)
    query = f"""SELECT interval.id, first, hashes, {SIGNATURE} FROM interval
        JOIN build ON build.id = build JOIN stacks ON stacks.id = stacks {joins} AND last IS NULL"""  # noqa: S608
    opened = (
        Interval(signature_of(values), first, None, hashes, number)
        for number, first, hashes, *values in connection.execute(query, key)
    )
    blob, revision, baseline, old_compilers = row
    document = KnownDocument(blob, revision, baseline, CompilerForm(old_compilers))
    return Task(*key, versions, document, intervals=tuple(opened))


def _size(tasks: Sequence[Task]) -> int:
    return sum(len(task.versions) for task in tasks)


class Writer:
    """Writes results into the index through one connection."""

    def __init__(self, connection: sqlite3.Connection, *, has_specs: bool) -> None:
        """`has_specs`: the table `spec` is filled, and `store` keeps it so; otherwise `fill_specs` fills it later."""
        self._connection = connection
        self._known: dict[tuple[str, ...], int] = {}  # ids of rows, by table and values
        self._has_specs = has_specs

    def store(self, documents: Iterable[tuple[Task, IndexedDocument]]) -> None:
        """Write the results in `documents`, and mark each document as done; new signatures get ids in sorted order."""
        results = list(documents)
        places = {}
        for s in sorted({interval.signature for _, one in results for interval in one.intervals}):
            texts = {"compiler": s.compiler, "os": s.os, "platform": s.platform, "target": s.target}
            build = self._id("build", versions=json.dumps(s.versions), variants=json.dumps(s.variants), **texts)
            places[s] = build, self._stacks(s.stacks)
        start = self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM interval").fetchone()[0]
        # Rows are written together: a statement for each takes several times as long.
        rows: dict[str, list[tuple[object, ...]]] = {n: [] for n in ("document", "diagnostic", "step", "interval")}
        tallies: list[tuple[int, ...]] = []
        for task, result in results:
            key = self._id("tag", name=task.tag), self._id("package", name=task.package)
            if (d := result.document) is not None:
                rows["document"].append((*key, d.blob, d.revision, d.baseline, d.compiler_form))
            rows["diagnostic"] += [(*key, *each) for each in result.diagnostics]
            rows["step"] += [(*key, *astuple(step)) for step in result.steps]
            for i in self._new_intervals(task, result.intervals):
                number, size = start + len(rows["interval"]), len(schema.members(i.hashes))
                rows["interval"].append((number, *key, *places[i.signature], i.first, i.last, size, i.hashes))
                if self._has_specs:
                    found_by = [(prefix, number) for prefix in schema.prefixes(i.hashes)]
                    self._connection.executemany("INSERT INTO spec VALUES (?, ?)", found_by)
            for revision, by_stacks in result.tallies:
                tallies += [(key[0], self._stacks(stacks), revision, *counts) for stacks, counts in by_stacks.items()]
        for name, some in rows.items():
            if some:
                marks = ", ".join("?" * len(some[0]))
                self._connection.executemany(f"INSERT OR REPLACE INTO {name} VALUES ({marks})", some)  # noqa: S608
        self._connection.executemany(_TALLY, tallies)
        self._connection.executemany("INSERT INTO unit VALUES (?)", [(task.name,) for task, _ in results])

    def _stacks(self, names: tuple[str, ...]) -> int:
        """Return the id of the set of stacks `names`; insert the set and its members if it is new."""
        number = self._id("stacks", names=json.dumps(names))
        self._connection.executemany("INSERT OR IGNORE INTO stack VALUES (?, ?)", [(number, name) for name in names])
        return number

    def _id(self, table: str, **values: str) -> int:
        """Return the id of the row of `table` with these values; insert the row if it is new."""
        key = (table, *values.values())
        if key not in self._known:
            columns, marks = ", ".join(values), ", ".join(f":{column}" for column in values)
            self._connection.execute(f"INSERT OR IGNORE INTO {table}({columns}) VALUES ({marks})", values)  # noqa: S608
            query = f"SELECT id FROM {table} WHERE ({columns}) = ({marks})"  # noqa: S608
            self._known[key] = self._connection.execute(query, values).fetchone()[0]
        return self._known[key]

    def _new_intervals(self, task: Task, intervals: Iterable[Interval]) -> Iterator[Interval]:
        """Yield `intervals` that have no row yet. Set ends of rows of `task`; delete rows whose specs were divided."""
        opened = {(row.signature, row.first, row.hashes): row for row in task.intervals}
        for interval in intervals:
            row = opened.pop((interval.signature, interval.first, interval.hashes), None)
            if row is None:
                yield interval
            elif interval.last is not None:
                self._connection.execute("UPDATE interval SET last = ? WHERE id = ?", (interval.last, row.id))
        for row in opened.values():
            self._connection.execute("DELETE FROM interval WHERE id = ?", (row.id,))
            if self._has_specs:
                gone = [(prefix, row.id) for prefix in schema.prefixes(row.hashes)]
                self._connection.executemany("DELETE FROM spec WHERE prefix = ? AND interval = ?", gone)


def fill_specs(connection: sqlite3.Connection) -> None:
    """Fill the table `spec` from all intervals, sorted by its key; that is faster and smaller than row by row."""
    connection.execute("DELETE FROM spec")
    connection.execute("CREATE TEMP TABLE unsorted(prefix, interval)")
    intervals = connection.execute("SELECT id, hashes FROM interval")
    rows = ((prefix, interval) for interval, hashes in intervals for prefix in schema.prefixes(hashes))
    connection.executemany("INSERT INTO unsorted VALUES (?, ?)", rows)
    connection.execute("INSERT INTO spec SELECT * FROM unsorted ORDER BY 1, 2")
    connection.execute("DROP TABLE unsorted")


def common_length(connection: sqlite3.Connection, chain: Sequence[ChainRevision]) -> int:
    """Return how many revisions the index and `chain` share at the beginning, before the first that differs."""
    rows = connection.execute('SELECT "commit" FROM revision ORDER BY n').fetchall()
    both = enumerate(zip(rows, chain, strict=False))
    return next((n for n, ((commit,), moment) in both if commit != moment.commit), min(len(rows), len(chain)))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock for writing the index at `path`. Raises AnotherInstance if another process holds it."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_lock(lock, mode=0o666)  # the umask determines who else may update the index
    except OSError as error:
        raise StateError(f"{error.filename or lock}: {error.strerror}; name another file with --db") from error
    try:
        # Not flock(), which workers forked from a killed build would still hold.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise AnotherInstance(f"{path}: another process writes this index; wait until it is done") from error
    finally:
        os.close(handle)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a transaction: commit all changes at its end, or none if it raises an error."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        yield


def discard(path: Path) -> None:
    """Remove the index at `path` without reading it: it may be damaged."""
    with locked(path):
        for end in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + end).unlink(missing_ok=True)
