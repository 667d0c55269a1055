"""Keep the history index of a source up to date, for sources with `history: true`. No digest depends on it."""

from contextlib import closing
from functools import partial
from pathlib import Path

from cachewatch.config.model import Source
from cachewatch.errors import CachewatchError
from cachewatch.history_db.build import Built, bring_up_to_date
from cachewatch.history_db.engines import in_jobs
from cachewatch.history_db.schema import DamagedIndex, NotAnIndex, index_path
from cachewatch.history_db.status import discard
from cachewatch.notify.alerts import contained
from cachewatch.notify.pass_context import Context, EndingError, watched_copy
from cachewatch.runtime.limited_process import Limits, Worker

# The first build of a long history takes that long; what is interrupted continues. Git maps whole packs into memory.
_LIMITS = Limits(megabytes=8192, seconds=3600)


def update_histories(context: Context) -> None:
    """Bring the index of each source that wants one up to date."""
    for source in context.config.sources.values():
        update_history(context, source)


def update_history(context: Context, source: Source) -> None:
    """Index the new revisions of `source` in another process; what goes wrong stops nothing else."""
    if not source.history or context.is_ending.is_set():
        return
    log = context.log.bind(source=source.name)
    with contained(context, source.name, "the history index"):
        try:
            with Worker(limits=_LIMITS, go_on=context.go_on) as worker:
                done = worker.do(partial(_update, source), context.clone_folder(source.name))
        except EndingError:
            return  # it continues next time
        except CachewatchError as error:
            log.warning("history.failed", error=str(error))
            return
        if done.revisions or done.rewritten:
            log.info("history.indexed", revisions=done.revisions, rewritten=done.rewritten or None)


def _update(source: Source, folder: Path) -> Built:
    with closing(watched_copy(source, folder).open()) as repository:
        path = index_path(None, repository.shared_git_dir, {})
        try:
            return bring_up_to_date(repository, path, in_jobs(repository, 1))
        except (DamagedIndex, NotAnIndex):
            discard(path)  # it is built again next time
            raise
