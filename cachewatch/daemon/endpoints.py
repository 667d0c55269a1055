"""What the monitor answers: whether the daemon lives, whether the service does its work, and its figures."""

from cachewatch.daemon.exposition import expose
from cachewatch.daemon.monitor import Page
from cachewatch.errors import CachewatchError
from cachewatch.notify.metrics import DaemonStatus, metrics
from cachewatch.notify.pass_context import Context
from cachewatch.notify.problems import find_problems
from cachewatch.notify.status import read_status
from cachewatch.render.statement_phrases import number

STUCK_SECONDS = 900.0


def healthz(age: float, failing: list[str]) -> Page:
    """Say whether a daemon lives whose last tick was `age` seconds ago, and of which these jobs keep failing."""
    if failing:
        return Page(503, f"failing: {', '.join(failing)}\n")
    return (
        Page(200, f"ok: last tick {age:.0f} s ago\n") if age < STUCK_SECONDS else Page(503, f"stuck for {age:.0f} s\n")
    )


def readyz(context: Context, health: Page) -> Page:
    """Say what keeps the service from its work, be it the daemon itself or something else."""
    try:
        found = find_problems(read_status(context), context.config, context.clock())
    except CachewatchError as error:
        return Page(503, f"{error}\n")
    lines = [*([health.text] if health.status != 200 else []), *(f"{problem.what}\n" for problem in found.problems)]
    first = [] if lines else ["ready\n"]
    if found.warnings:
        lines.append(f"{number(len(found.warnings), 'warning')}: see `cachewatch status --check`\n")
    return Page(200 if first else 503, "".join([*first, *lines]))


def standby(leader: str, health: Page) -> Page:
    """Say that another process works on the state, and this one would take over."""
    return Page(200, f"standby: {leader} works on the state\n") if health.status == 200 else health


def figures(context: Context, daemon: DaemonStatus, accept: str) -> Page:
    """Return all metrics, in the form that the header `accept` asks for."""
    try:
        return Page(200, *expose(metrics(context, daemon), accept))
    except CachewatchError as error:
        return Page(503, f"{error}\n")
