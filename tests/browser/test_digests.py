"""Mails and pages as people see them: on a phone and a desk, by day and night, with styles and without."""

from pathlib import Path

import pytest
from conftest import Run
from digests import digest_of, read

from browser.chromium import View
from browser.conftest import Audit, Show
from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.report.digest_and_message_values import with_neighbours
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice

_PHONE = View(360, "light")
_STRIP = "() => document.querySelectorAll('head style, head meta, img').forEach(element => element.remove())"
# Contrast of each text with what lies behind it, where that is painted by an element.
_FAINT = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => (v /= 255) <= 0.03928 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); const faint = [];
  while (walker.nextNode()) { const node = walker.currentNode; if (!node.data.trim()) continue;
    const [a, b] = [light(getComputedStyle(node.parentElement).color), light(behind(node.parentElement))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(node.data.trim().slice(0, 40) + " " + contrast.toFixed(1)); }
  return faint; }"""


@pytest.fixture(params=["demo", "sample", "notice"])
def mail(request: pytest.FixtureRequest, demo_repository: Path, tmp_path: Path) -> Path:
    """A mail as a file."""
    file = tmp_path / "mail.html"
    if request.param == "notice":
        file.write_text(render_notice(sample_notice()).html)
    else:
        digest = sample_digest() if request.param == "sample" else digest_of(read(demo_repository))
        file.write_text(render_digest(digest).html)
    return file


def test_a_mail(show: Show, view: View, audit: Audit, mail: Path) -> None:
    """Nothing sticks out, nothing is fetched, and nothing is hard to read or to hear."""
    shown = show(mail, view)

    assert (shown.overflow(), shown.complaints, audit(shown)) == ([], [], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_mail_without_its_head(show: Show, mail: Path, scheme: str) -> None:
    """Where styles in the head are dropped, all is still there, legible, and as wide as a phone."""
    shown = show(mail, View(360, scheme))  # type: ignore[arg-type]
    before = shown.page.inner_text("body")
    shown.page.evaluate(_STRIP)

    assert "".join(shown.page.inner_text("body").split()) == "".join(before.split())
    assert (shown.overflow(), shown.page.evaluate(_FAINT)) == ([], [])


def test_the_first_words_are_the_news(show: Show, demo_repository: Path, tmp_path: Path) -> None:
    """What an inbox shows beside the subject is the sentence that says it all."""
    file = tmp_path / "mail.html"
    file.write_text(render_digest(digest_of(read(demo_repository))).html)

    text = show(file, _PHONE).page.inner_text("body").replace("\N{NO-BREAK SPACE}\N{RIGHTWARDS ARROW}", " ->")
    begin = "py-ml-dtypes 0.3.1 -> 0.4.0 (0.3.1 stays), py-build 1.2.0 -> 1.2.1 for neoverse_v1; new py-keras 3.9.2\n"
    assert text.startswith(begin)


@pytest.fixture
def page(run: Run, demo_repository: Path, tmp_path: Path) -> Path:
    """The page of the demo."""
    file = tmp_path / "page.html"
    run("diff", "HEAD~1", "--repo", demo_repository, "--tag", "develop", "--format", "html", "-o", file)
    return file


def test_a_page(show: Show, view: View, audit: Audit, page: Path) -> None:
    """Nothing sticks out, nothing is fetched, and nothing is hard to read or to hear."""
    shown = show(page, view)

    assert (shown.overflow(), shown.complaints, audit(shown)) == ([], [], [])


def test_a_page_without_scripts(show: Show, page: Path) -> None:
    """All lines are there, and no control that would do nothing."""
    shown = show(page, View(800, "light", javascript=False))

    assert "py-safetensors" in shown.page.inner_text("main")
    assert shown.page.locator("button:visible, input:visible").count() == 0


def test_filter(show: Show, page: Path) -> None:
    """Every word has to be in a line; sections without lines go, and come back."""
    shown = show(page, View(800, "light"))
    shown.page.fill("#filter", "py-build e4s")
    few = shown.page.locator("tbody tr:visible").count()
    found = shown.page.inner_text("#found")
    sections = shown.page.locator("section:visible").count()
    shown.page.press("#filter", "Escape")

    assert (few, found, sections) == (2, "2 of 9 lines", 2)
    assert shown.page.locator("tbody tr:visible").count() == 9
    assert shown.page.locator("section:visible").count() == 7


def test_sort(show: Show, page: Path) -> None:
    """By any column, numbers as numbers, and by the keyboard."""
    shown = show(page, View(800, "light"))
    section = shown.page.locator("section.upgraded")
    column = section.locator("thead th").nth(2)
    orders = []
    for _ in range(2):
        column.locator("button").press("Enter")
        orders.append((column.get_attribute("aria-sort"), section.locator("tbody td.n").all_inner_texts()))

    assert orders == [("ascending", ["+3 -3", "+17"]), ("descending", ["+17", "+3 -3"])]


def test_copy(show: Show, page: Path) -> None:
    """The visible lines of a section, as tab-separated text."""
    shown = show(page, View(800, "light"))
    shown.page.evaluate("() => { navigator.clipboard.writeText = async text => { window.copied = text; }; }")
    button = shown.page.locator("section.retired .copy")
    button.click()

    assert button.inner_text() == "Copied"
    first = shown.page.evaluate("window.copied").splitlines()[1]
    assert first.split("\t")[:3] == ["py-safetensors", "0.4.3 removed", "-3"]


@pytest.fixture(params=["demo", "sample"])
def archived(request: pytest.FixtureRequest, demo_repository: Path, tmp_path: Path) -> Path:
    """The page of a digest in an archive, with neighbours."""
    file = tmp_path / "archived.html"
    digest = sample_digest() if request.param == "sample" else digest_of(read(demo_repository))
    file.write_text(with_neighbours(render_digest(digest).page, previous="before.html", following="after.html"))
    return file


def test_a_page_of_an_archive(show: Show, view: View, audit: Audit, archived: Path) -> None:
    """Nothing sticks out, nothing is fetched, and nothing is hard to read or to hear; its script is allowed."""
    shown = show(archived, view)

    assert (shown.overflow(), shown.complaints, audit(shown)) == ([], [], [])
    assert shown.page.locator("nav a").all_inner_texts() == ["Previous digest", "Next digest"]
    assert shown.page.locator("#filter").is_visible()


def test_the_lines_of_an_archived_digest_can_be_filtered(show: Show, demo_repository: Path, tmp_path: Path) -> None:
    """Every word has to be in a line, of which one is advice."""
    file = tmp_path / "archived.html"
    file.write_text(render_digest(digest_of(read(demo_repository))).page)
    shown = show(file, View(800, "light"))
    before = shown.page.locator("tbody tr:visible").count()
    shown.page.fill("#filter", "py-build e4s")

    count = shown.page.locator("tbody tr:visible").count()
    assert (count, shown.page.inner_text("#found")) == (3, f"3 of {before} lines")
