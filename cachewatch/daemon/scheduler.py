"""Wake jobs at intervals. APScheduler is used here and nowhere else, and only as an alarm clock.

What is due lives in the state, so a wake-up that comes late or twice does no harm.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

Job = Callable[[], None]


class Scheduler:
    """Runs jobs in threads, each at its interval and never twice at once."""

    def __init__(self, groups: dict[str, int], on_end: Callable[[str, BaseException | None], None]) -> None:
        """Prepare as many threads as `groups` says for each group of jobs, so that none holds up another.

        `on_end` hears of every job that ended, and of what it raised.
        """
        self._executors = {name: ThreadPoolExecutor(threads) for name, threads in groups.items()}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors=self._executors,
            # However late, and once for many that were missed.
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(lambda event: _report(event, on_end), EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)

    def start(self) -> None:
        """Begin to wake jobs."""
        self._scheduler.start()

    def add(
        self, name: str, group: str, job: Job, *, every: timedelta, jitter: timedelta = timedelta(0), first: datetime
    ) -> None:
        """Run `job` at `first` and then at its interval, in place of any job of that name."""
        trigger = IntervalTrigger(
            seconds=max(1, int(every.total_seconds())), jitter=int(jitter.total_seconds()) or None
        )
        self._scheduler.add_job(
            job, trigger, id=name, name=name, executor=group, next_run_time=first, replace_existing=True
        )

    def names(self) -> set[str]:
        """Name all jobs."""
        return {job.id for job in self._scheduler.get_jobs()}

    def remove(self, name: str) -> None:
        """Run a job no more."""
        self._scheduler.remove_job(name)

    def move(self, name: str, group: str) -> None:
        """Run a job among those of another group from now on; it is no matter if there is none of that name."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, executor=group)

    def wake(self, name: str) -> None:
        """Run a job now; it is no matter if there is none of that name."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def wake_all(self) -> None:
        """Run every job now: the clock was set, and what was planned by the old one means nothing."""
        for name in self.names():
            self.wake(name)

    def stop(self) -> None:
        """Begin no more jobs, and wait for those that run."""
        # Not shutdown(wait=True): it waits with its locks held, which a job that wakes another needs to end.
        self._scheduler.shutdown(wait=False)
        for executor in self._executors.values():
            executor.shutdown(wait=True)


def _report(event: JobExecutionEvent, on_end: Callable[[str, BaseException | None], None]) -> None:
    on_end(event.job_id, event.exception)
