"""Open the history index for reading, and look up its names, revisions and times."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from msgspec import MsgspecError, Struct
from msgspec.json import decode

from cachewatch.config.schedules_and_quiet_times import as_datetime
from cachewatch.core.kinds_and_specs import Signature
from cachewatch.core.names_and_layouts import similar
from cachewatch.errors import CachewatchError, UnknownRevision, UsageError
from cachewatch.extensions.history import schema_and_location as schema

_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_YEAR = re.compile(r"(19|20)\d\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}.*")
_HEAD = re.compile(r"HEAD(?:~(\d{1,9})|(\^*))")
SIGNATURE = "versions, compiler, os, platform, target, variants, names"  # columns of `build` and `stacks`


class IndexPoint(Struct, frozen=True):
    """A revision in the index with the time of its commit."""

    revision: str
    time: str | None  # RFC 3339, UTC; None if git has no valid one

    @property
    def day(self) -> str:
        """The date of the commit (2026-03-02, UTC), or `unknown`."""
        return (self.time or "unknown")[:10]

    @property
    def named(self) -> str:
        """The first ten digits of the revision, and its time to the minute, for people."""
        minute = f"{self.time[:10]} {self.time[11:16]} UTC" if self.time else "date unknown"
        return f"{self.revision[:10]}, {minute}"

    @property
    def as_last(self) -> str:
        """The last line of every answer, which says that the index goes up to this revision."""
        return f"indexed up to {self.named}"


class Index:
    """A history index opened for reading, unaffected by later writes. `with` closes it, and reports a damaged file."""

    def __init__(
        self, path: Path, patience: float = schema.PATIENCE, commit_of: Callable[[str], str] | None = None
    ) -> None:
        """Open the index; wait up to `patience` seconds for a writer. Raises NoHistoryIndex if none is at `path`.

        `commit_of` returns the commit of a name in git, such as a branch or git tag; None if there is no repository.
        """
        self.path, self._commit_of = path, commit_of
        self.connection = schema.open_for_reading(path, patience)
        self._points: dict[int, IndexPoint] = {}
        self._signatures: dict[tuple[int, int], Signature] = {}
        try:
            with self.reporting_damage():
                self.newest = int(next(self.rows("SELECT indexed FROM progress"))[0])
                self.indexed = self.point(self.newest)
        except BaseException:
            self.connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        with closing(self.connection), self.reporting_damage():
            if error is not None:
                raise error

    @contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Turn errors of the block into DamagedIndex if the file is damaged, other SQLite errors into StateError."""
        try:
            with schema.translating_errors(self.path):
                yield
        except CachewatchError:
            raise
        except MsgspecError as error:
            raise schema.damaged(self.path, error) from error
        except Exception as error:
            if schema.is_damaged(self.connection):  # values from a damaged page may be anything
                raise schema.damaged(self.path, schema.MALFORMED) from error
            raise

    def rows(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Iterator[Any]:
        """Execute an SQL query with the parameters `values`, and return an iterator over its rows."""
        return iter(self.connection.execute(query, values))

    def point(self, number: int) -> IndexPoint:
        """Return the revision with this number: its place in the first-parent chain, from 0."""
        if number not in self._points:
            ((commit, moment),) = self.rows('SELECT "commit", time FROM revision WHERE n = ?', (number,))
            if not _COMMIT.fullmatch(str(commit)):
                raise schema.damaged(self.path, schema.MALFORMED)
            self._points[number] = IndexPoint(commit, as_text(moment))
        return self._points[number]

    def id_of(self, table: str, name: str) -> int:
        """Return the id of `name` in `table` ("tag" or "package"); -1 if the index does not have this name."""
        return next((int(found) for (found,) in self.rows(f"SELECT id FROM {table} WHERE name = ?", (name,))), -1)  # noqa: S608

    def known_id(self, table: str, name: str) -> int:
        """Return the same id as `id_of`. Raises UsageError, which suggests similar names, if `name` is unknown."""
        if (found := self.id_of(table, name)) >= 0:
            return found
        names = [known for (known,) in self.rows(f"SELECT name FROM {table}")]  # noqa: S608
        if not names:
            raise UsageError(f"no revision of the repository has a document up to {self.indexed.revision[:10]}")
        near = similar(name, names)
        hint = f"did you mean {' or '.join(near)}?" if near else f"`cachewatch {table}s` lists what there is now"
        raise UsageError(f"{name}: the history index has no such {table}; {hint}")

    def signature(self, build: int, stacks: int) -> Signature:
        """Return the signature that consists of the build and the set of stacks with these ids."""
        if (build, stacks) not in self._signatures:
            query = f"SELECT {SIGNATURE} FROM build JOIN stacks WHERE build.id = ? AND stacks.id = ?"  # noqa: S608
            (row,) = self.rows(query, (build, stacks))
            self._signatures[build, stacks] = signature_of(row)
        return self._signatures[build, stacks]

    def number_of(self, name: str, *, may_precede: bool = False) -> int:
        """Return the number of the revision that `name` means: a commit, a date, `HEAD`, `HEAD~3` or a name in git.

        HEAD is the last indexed revision. A date means the newest revision up to the end of that day, UTC; with
        `may_precede`, return -1 for a date before all revisions. Raises UnknownRevision if there is no such revision.
        """
        now = datetime.now(UTC)
        if (moment := as_datetime(name, now)) is not None:
            if may_precede and moment > now + timedelta(days=1):
                raise UnknownRevision(f"{name!r} is in the future")
            query = "SELECT max(n) FROM revision WHERE n <= ? AND time <= ?"
            ((number,),) = self.rows(query, (self.newest, int(moment.timestamp())))
            if number is None and not may_precede:
                oldest = self.point(0).time or "unknown"
                raise UnknownRevision(f"{name!r}: there is no revision that old; the oldest is of {oldest}")
            return -1 if number is None else int(number)
        if head := _HEAD.fullmatch(name):
            number = self.newest - (int(head[1]) if head[1] else len(head[2] or ""))
            if number >= 0:
                return number
        elif _DATE.fullmatch(name):
            raise UnknownRevision(f"{name!r} is no date that a calendar has; write YYYY-MM-DD")
        elif _COMMIT.fullmatch(name):
            return self._number_of_commit(name)
        if self._commit_of is not None:
            return self._number_of_commit(self._commit_of(name))
        said = "is not in the history index; write a date, a commit, HEAD or HEAD~3"
        raise UnknownRevision(f"{name!r} {said} (HEAD is {self.indexed.revision[:10]})")

    def _number_of_commit(self, beginning: str) -> int:
        query = 'SELECT n FROM revision WHERE "commit" >= ? AND "commit" < ? AND n <= ? LIMIT 2'
        numbers = [int(number) for (number,) in self.rows(query, (beginning, f"{beginning}g", self.newest))]
        if len(numbers) == 1:
            return numbers[0]
        if numbers:
            raise UnknownRevision(f"{beginning}: several revisions begin so; write more of it")
        if _YEAR.fullmatch(beginning):
            raise UnknownRevision(f"{beginning} is no date; write YYYY-MM-DD")
        raise UnknownRevision(
            f"{beginning}: no such revision is indexed; `cachewatch history build` adds new ones "
            "(only revisions on the first-parent chain are indexed)"
        )


def signature_of(row: Sequence[str]) -> Signature:
    """Return the signature in `row`, which has the columns that `SIGNATURE` lists."""
    versions, compiler, os, platform, target, variants, stacks = row
    lists = [decode(text, type=tuple[str, ...]) for text in (versions, variants, stacks)]
    return Signature(lists[0], compiler, os, platform, target, *lists[1:])


def as_text(time: int | None) -> str | None:
    """Return `time`, in seconds since 1970, as RFC 3339; None if it is beyond the calendar."""
    try:
        return None if time is None else datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


def days_between(earlier: IndexPoint, later: IndexPoint) -> float | None:
    """Return the days from `earlier` to `later`, rounded to a tenth; None if a time is unknown."""
    if earlier.time is None or later.time is None:
        return None
    seconds = (datetime.fromisoformat(later.time) - datetime.fromisoformat(earlier.time)).total_seconds()
    return round(seconds / 86400, 1)
