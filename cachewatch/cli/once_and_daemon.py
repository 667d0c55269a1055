"""`cachewatch once` and `cachewatch daemon`: do what is due, now or for good."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import click

from cachewatch.cli import pass_summary
from cachewatch.cli.help_examples import examples
from cachewatch.cli.load_configuration import configured
from cachewatch.cli.open_state import log_format
from cachewatch.cli.output import is_on_terminal
from cachewatch.cli.waiting import log_stream, steps
from cachewatch.config.model import Config
from cachewatch.config.reading import read_config
from cachewatch.core.untrusted_text import safe
from cachewatch.errors import AnotherInstance
from cachewatch.notify.leadership import leading
from cachewatch.notify.pass_context import Context
from cachewatch.notify.pinging import ping
from cachewatch.notify.recovery import resume
from cachewatch.notify.run_pass import Result, run_pass
from cachewatch.notify.status import Status, read_status
from cachewatch.runtime.log import Log, open_log
from cachewatch.store.lock import only_one
from cachewatch.store.opening import open_database
from cachewatch.store.timestamps import utc_now

_DIGEST_FAILED = 8


@click.command(
    epilog=examples(
        "cachewatch once --config /etc/cachewatch/cachewatch.yaml",
        "cachewatch once --log-format json 2>> once.log",
    )
)
@configured
@log_format
@click.pass_context
def once(context: click.Context, /, *, config: Config, log_format: str) -> None:
    """Fetch, compare and deliver what is due, then exit.

    For cron, CI or a systemd timer. Exits with 3 if a source could not be read, with 8 if a digest could not be
    created, and with 7 if a delivery failed permanently, its address is suppressed, or a channel does not work until
    it is repaired. On a terminal, it ends with a summary.
    """
    os.umask(0o077)
    with only_one(config.folder), _pinged_if_it_fails(config), ExitStack() as stack:
        with steps() as doing:
            service = _opened(config, log_format, doing)
            stack.enter_context(closing(service.database))
            stack.enter_context(leading(service))
            resume(service)
            before, begun = read_status(service), utc_now()
            if is_on_terminal():
                _say_what_comes(before)
            result = run_pass(service)
        if is_on_terminal():
            for line in pass_summary.lines(pass_summary.summarize(service, before, begun)):
                click.echo(safe(line))
        ping(config, service.log, is_whole=_status(result) == 0)
    context.exit(_status(result))


@contextmanager
def _pinged_if_it_fails(config: Config) -> Iterator[None]:
    """Ping that a pass failed, unless it was none because another process is at work."""
    try:
        yield
    except AnotherInstance:
        raise
    except Exception:
        ping(config, Log(), is_whole=False)
        raise


def _say_what_comes(before: Status) -> None:
    """Say that the first fetch takes its time; the log has a line for what is done, not for what is going on."""
    new = [source.name for source in before.sources if source.revision is None]
    if new:
        click.echo(f"fetching {', '.join(map(safe, new))} for the first time, which may take minutes ...", err=True)


def _status(result: Result) -> int:
    if result.failed_sources:
        return 3
    if result.failed_digests:
        return _DIGEST_FAILED
    return 7 if result.is_undelivered else 0


@click.command(
    epilog=examples(
        "cachewatch daemon --config /etc/cachewatch/cachewatch.yaml",
        "cachewatch daemon --log-format json",
    )
)
@configured
@log_format
@click.pass_context
def daemon(context: click.Context, /, *, config: Config, log_format: str) -> None:
    """Fetch, compare and deliver whenever something is due.

    Runs until it receives SIGTERM, which lets the current delivery finish. SIGHUP reloads the configuration.
    """
    from cachewatch.daemon import Daemon  # noqa: PLC0415  the scheduler is slow to load

    os.umask(0o077)
    with only_one(config.folder):
        service = _opened(config, log_format)
        with closing(service.database):
            code = Daemon(service, lambda: read_config(config.path)).run()
    context.exit(code)


def _opened(config: Config, form: str, doing: Callable[[str], None] | None = None) -> Context:
    """Open the state, whose lock on this host we hold; `doing` hears what is being done."""
    database = open_database(config.database, is_checked=True, clock=utc_now)
    log = open_log(form, log_stream() if doing else None)
    return Context(config=config, database=database, log=log, clock=utc_now, doing=doing or (lambda _: None))
