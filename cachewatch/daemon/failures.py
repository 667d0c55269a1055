"""Which jobs keep failing: each way in which one does is news once, or a full disk would fill the log as well."""

import re
from collections import Counter
from threading import Lock

from cachewatch.runtime.log import Log, traceback_of

# In a row, before a job is said to keep failing.
_MANY = 3
_MOST_KINDS = 20
_NUMBER = re.compile(r"\d+")


class Failures:
    """The failures of each job since it succeeded last, and of all time."""

    def __init__(self, log: Log) -> None:
        self.totals: Counter[str] = Counter()
        self._log = log
        self._kinds: dict[str, set[str]] = {}  # of those that fail now
        self._in_a_row: Counter[str] = Counter()
        self._lock = Lock()

    def note(self, job: str, error: BaseException | None) -> None:
        """Note how a job ended."""
        with self._lock:
            if error is None:
                self._succeeded(job)
            else:
                self._failed(job, error)

    def lasting(self) -> list[str]:
        """Name the jobs that keep failing."""
        with self._lock:
            return sorted(job for job, count in self._in_a_row.items() if count >= _MANY)

    def _succeeded(self, job: str) -> None:
        self._kinds.pop(job, None)
        if count := self._in_a_row.pop(job, 0):
            self._log.info("job.recovered", job=job, failures=count)

    def _failed(self, job: str, error: BaseException) -> None:
        said = repr(error)
        self.totals[job] += 1
        self._in_a_row[job] += 1
        kinds = self._kinds.setdefault(job, set())
        kind = _NUMBER.sub("", said)
        if kind not in kinds and len(kinds) < _MOST_KINDS:
            kinds.add(kind)
            self._log.error("job.failed", job=job, error=said, traceback=traceback_of(error))
