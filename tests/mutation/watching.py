"""A plugin of pytest: it says which test runs, or runs the tests of a list in its order, none of them for ever."""

import json
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from coverage import Coverage

# What each test took, and how it ended, is written here.
REPORT = "MUTATION_REPORT"
# The tests to run, each with the seconds that it may take.
PLAN = "MUTATION_PLAN"
# The test that runs, for processes that it starts.
TEST = "MUTATION_TEST"
_TOO_LONG = "it takes too long, as mutation.watching says"

_took: defaultdict[str, float] = defaultdict(float)
_outcomes: dict[str, str] = {}


@cache
def _plan() -> dict[str, float]:
    path = os.environ.get(PLAN)
    return json.loads(Path(path).read_text("utf-8")) if path else {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose and order the tests as planned."""
    order = {test: place for place, test in enumerate(_plan())}
    if order:
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let what is run, here and in other processes, be known as run by this test; end it when its time is over."""
    os.environ[TEST] = item.nodeid
    if (coverage := Coverage.current()) is not None:
        coverage.switch_context(item.nodeid)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(_TOO_LONG))
    signal.setitimer(signal.ITIMER_REAL, _plan().get(item.nodeid, 0))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a test took; the worst of its steps counts."""
    _took[report.nodeid] += report.duration
    if report.outcome != "passed" or report.nodeid not in _outcomes:
        _outcomes[report.nodeid] = "timeout" if _TOO_LONG in report.longreprtext else report.outcome


def pytest_sessionfinish() -> None:
    """Write it all down."""
    if path := os.environ.get(REPORT):
        Path(path).write_text(json.dumps({test: (_outcomes[test], took) for test, took in _took.items()}), "utf-8")
