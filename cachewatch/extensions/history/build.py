"""Build the history index and update it; an interrupted build continues where it stopped.

Documents are read in this process, in several, or on a Dask cluster, with equal results. A document is done when its
rows and its name in the table `unit` are committed; when all are, the index records the last revision.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import closing
from functools import partial
from itertools import accumulate, groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from msgspec import Struct

from cachewatch.core.kinds_and_specs import CompilerForm
from cachewatch.documents.records import KnownRecords
from cachewatch.errors import NoHistoryIndex, UnknownRevision, UsageError, WorkFailed
from cachewatch.extensions.history import schema_and_location as schema
from cachewatch.extensions.history.document_versions import ChainRevision, Version, find_versions, first_parents
from cachewatch.extensions.history.index_lookup import Index, signature_of
from cachewatch.extensions.history.spec_intervals import Follower, IndexedDocument, Interval, KnownDocument, Task
from cachewatch.extensions.history.write import Writer, common_length, fill_specs, locked, transaction
from cachewatch.git.local_repository import Repository
from cachewatch.runtime.worker import ProcessEnded, in_processes

Reply = TypeVar("Reply")
# Several documents, whose versions are read one after the other, so that git needs no cache of deltas.
Unit = Sequence[Task]
Answer = tuple[Unit, Sequence[IndexedDocument]]
Engine = Callable[[Sequence[Unit]], Iterator[Answer]]  # yields the results of all units, in any order

_VERSIONS_IN_UNIT = 128  # whose rows are committed together: as many are lost when a build is killed
_AT_ONCE = 64  # units that a cluster works on: their results are kept in memory here


def _units(tasks: Sequence[Task]) -> list[Unit]:
    """Divide `tasks` into units with about equal numbers of versions; no document is divided."""
    so_far = accumulate((len(task.versions) for task in tasks), initial=0)
    by_size = groupby(zip(so_far, tasks, strict=False), key=lambda each: each[0] // _VERSIONS_IN_UNIT)
    return [tuple(task for _, task in run) for _, run in by_size]


def in_jobs(repository: Repository, jobs: int) -> Engine:
    """Return a function that reads units in `jobs` processes, or in this process if `jobs` is 1."""

    def make_work() -> Callable[[Unit], Sequence[IndexedDocument]]:
        return partial(_answer, repository.reopened() if jobs > 1 else repository)

    def engine(units: Sequence[Unit]) -> Iterator[Answer]:
        answers = in_processes(make_work, units, jobs)
        for unit in units:
            try:
                answer = next(answers)
            except ProcessEnded as error:
                names = " to ".join(dict.fromkeys((unit[0].name, unit[-1].name)))
                said = "a worker process ended while it was read; build again to go on from there"
                raise WorkFailed(f"{names}: {said}") from error
            yield unit, answer

    return engine


def on_cluster(git_dir: str, address: str) -> Engine:
    """Return a function that works on the Dask cluster at `address`; its workers open the repository at its path."""

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
    """Return the results of `unit`, with the repository at `git_dir` opened for it, as a new process must."""
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
    """The result of a build or an update."""

    revisions: int  # newly indexed
    versions: int  # of documents, read
    rewritten: int  # indexed revisions that a force-push had removed
    unreadable: int  # versions that could not be read


def bring_up_to_date(
    repository: Repository, path: Path, engine: Engine, *, progress: IndexProgress = _TELL_NOBODY, end: str = "HEAD"
) -> IndexUpdate:
    """Index all revisions up to `end`. Raises AnotherInstance if another process writes this index, or StateError."""
    schema.check_is_index(path)
    with locked(path), closing(schema.open_for_writing(path)) as connection, schema.translating_errors(path):
        return _IndexBuild(repository, path, connection, engine, progress).run(first_parents(repository, end))


def ask_index(
    repository: Repository, commit: str, question: Callable[[Index], Reply], *, jobs: int, progress: IndexProgress
) -> Reply:
    """Return the answer of the index of `repository`, brought up to `commit`; a temporary one for other branches."""
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
    """Tell whether there is a complete index at `path` that has a revision."""
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
        """Index `revisions`, the whole chain; an index with other revisions is built anew."""
        stored, common = self._one("SELECT count(*) FROM revision"), common_length(self.connection, revisions)
        if common < stored:
            if not common:
                self._check_is_of_repository(stored)
            with transaction(self.connection):
                schema.make_tables(self.connection)
        before = self._indexed()
        while self._indexed() < len(revisions) - 1:
            count = self._one("SELECT count(*) FROM revision")
            if count - 1 == self._indexed():
                with transaction(self.connection):
                    rows = [(n, *moment) for n, moment in enumerate(revisions[count:], count)]
                    self.connection.executemany("INSERT INTO revision VALUES (?, ?, ?)", rows)
                count = len(revisions)
            self._index([moment.commit for moment in revisions[:count]])
        return IndexUpdate(self._indexed() - before, self.versions, stored - common, self.unreadable)

    def _check_is_of_repository(self, stored: int) -> None:
        """Raise UsageError if the index is of another repository: $CACHEWATCH_HISTORY may name it for several."""
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
        keys = sorted(by_document, key=lambda key: key[::-1])
        tasks = [task for key in keys if (task := _task(self.connection, *key, by_document[key])).name not in done]
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
    """Return a task: the new versions of a document, and its state in the index."""
    joins = "JOIN tag ON tag.id = tag JOIN package ON package.id = package WHERE tag.name = ? AND package.name = ?"
    key = tag, package
    query = f"SELECT blob, revision, baseline, old_compilers FROM document {joins}"  # noqa: S608  our own text
    row = connection.execute(query, key).fetchone()
    if row is None:
        unread = connection.execute(f"SELECT 1 FROM diagnostic {joins}", key).fetchone()  # noqa: S608
        return Task(*key, versions, is_unread=unread is not None)
    query = f"""SELECT interval.id, first, hashes, versions, compiler, os, platform, target, variants, names
        FROM interval JOIN build ON build.id = build JOIN stacks ON stacks.id = stacks {joins} AND last IS NULL"""  # noqa: S608
    opened = (
        Interval(signature_of(tuple(values)), first, None, hashes, number)
        for number, first, hashes, *values in connection.execute(query, key)
    )
    blob, revision, baseline, old_compilers = row
    document = KnownDocument(blob, revision, baseline, CompilerForm(old_compilers))
    return Task(*key, versions, document, intervals=tuple(opened))


def _size(tasks: Sequence[Task]) -> int:
    """Return the number of versions of documents."""
    return sum(len(task.versions) for task in tasks)
