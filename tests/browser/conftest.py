"""A browser for tests, and axe-core to audit what it shows.

`show(URL, view)` opens a page; `view` runs a test at three widths, and both light and dark; `audit(shown)` lists what axe-core found.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tools import need

from browser import chromium
from browser.chromium import AXE, CHROMIUM, VIEWS, Shown, View

Show = Callable[[str | Path, View], Shown]
Audit = Callable[[Shown], list[str]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of one module."""
    need(CHROMIUM, "chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=chromium.ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Show]:
    """Open a file or an address as a view; all are closed at the end of the test."""
    opened: list[Shown] = []

    def open_page(address: str | Path, view: View) -> Shown:
        url = address.as_uri() if isinstance(address, Path) else address
        opened.append(chromium.show(browser, url, view))
        return opened[-1]

    yield open_page
    for shown in opened:
        shown.page.context.close()


@pytest.fixture(params=VIEWS, ids=str)
def view(request: pytest.FixtureRequest) -> View:
    """Each way in which a page has to look right."""
    chosen = request.param
    assert isinstance(chosen, View)
    return chosen


@pytest.fixture(scope="session")
def audit() -> Audit:
    """Return what axe-core finds wrong with a page."""
    source = need(AXE, "axe-core").read_text("utf-8")
    return lambda shown: chromium.violations(shown, source)
