"""The site as a person meets it: on a phone and on a desk, by day and by night, with and without a script."""

from pathlib import Path

import pytest
from helpers import catalogue, history, hostile_states, record, records

from browser.chromium import Shown, View
from browser.conftest import Audit, Show
from cachewatch.git.repository import Repository
from cachewatch.git.resolving_revisions import resolve
from cachewatch.site import NoArchive, build
from cachewatch.site.read_history import plan, read
from cachewatch.site.write_pages import Folder

_PAGES = (
    "index.html",
    "packages.html",
    "stacks.html",
    "tags.html",
    "revisions.html",
    "package/hdf5.html",
    "stack/e4s.html",
    "tag/develop-2025-06-08.html",
)
_DESK = View(1440, "light")


def _state(day: int) -> dict[str, bytes]:
    """Return the catalogue of one day: versions move up stack by stack, and one package comes late."""
    stacks = ["e4s", "developer-tools-x86_64_v3-linux-gnu", "ml-linux-x86_64-cuda"]
    packages = {
        "hdf5": [
            record(100 * place + day, stacks=[stack, "root"], versions=["1.14.5" if day > place else "1.12.3"])
            for place, stack in enumerate(stacks)
        ],
        "zlib": records(range(1000, 1003), stacks=["e4s", "root"], target="neoverse_v1"),
        "py-torch": records(range(2000, 2000 + 3 * day), stacks=["root"] if day > 3 else [stacks[2], "root"]),
    }
    if day > 2:
        packages["late-package-with-a-name-as-long-as-they-come"] = [record(9000, versions=["2025.08.20"])]
    return catalogue(packages)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of six days and two snapshots."""
    folder = tmp_path_factory.mktemp("site")
    hostile = '<img src=x onerror="document.title=1">'
    snapshot = catalogue({"hdf5": [record(7, versions=["1.12.3"])], "old": [record(8)]}, "develop-2025-06-01")
    newer = catalogue({"hdf5": [record(9, versions=["1.14.5"], target=hostile)]}, "develop-2025-06-08")
    states = [{**_state(day), **snapshot, **(newer if day > 1 else {})} for day in range(6)]
    return _build(history(folder / "r.git", *states), folder / "site")


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of names that nobody should choose."""
    folder = tmp_path_factory.mktemp("hostile")
    return _build(history(folder / "r.git", *hostile_states()), folder / "site")


def _build(repository: Path, folder: Path) -> Path:
    opened = Repository(repository)
    planned = plan(
        opened,
        resolve(opened, "HEAD"),
        since=None,
        wanted_tag=lambda _: True,
        wanted_package=lambda _: True,
        known=Folder(folder).remembered(),
    )
    build(Folder(folder), read(planned, jobs=1, progress=lambda _: None), NoArchive(), title="Build cache")
    return folder


@pytest.mark.parametrize("page", _PAGES)
def test_pages_fit_and_are_sound(site: Path, show: Show, view: View, audit: Audit, page: str) -> None:
    """Nothing sticks out, nothing complains, and axe-core finds nothing."""
    shown = show(site / page, view)

    assert shown.overflow() == []
    assert shown.complaints == []
    shown.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert shown.overflow() == []
    assert audit(shown) == []


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("page", ["index.html", "packages.html", "stacks.html", "package/p0.html", "package/p14.html"])
def test_hostile_names_run_nothing_and_fit(hostile_site: Path, show: Show, audit: Audit, page: str, width: int) -> None:
    """No dialog opens, nothing is asked for, and ten thousand letters do not stick out."""
    shown = show(hostile_site / page, View(width, "light"))

    assert shown.overflow() == []
    assert (shown.complaints, audit(shown)) == ([], [])


def _names(shown: Shown) -> list[str]:
    return [row.inner_text().strip() for row in shown.page.locator("tbody tr:visible th").all()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hdf", ["hdf5"]),
        ("HDF5", ["hdf5"]),
        ("stack:e4s", ["hdf5", "late-package-with-a-name-as-long-as-they-come", "zlib"]),
        ("@1.14", ["hdf5"]),
        ("target:neo zl", ["zlib"]),
        ("%gcc@11 py-", ["py-torch"]),
        ("nothing like that", []),
    ],
)
def test_packages_are_found(site: Path, show: Show, words: str, found: list[str]) -> None:
    """By a part of the name, and by what they have; how many is said."""
    shown = show(site / "packages.html", _DESK)
    shown.page.get_by_label("Find packages").fill(words)

    assert _names(shown) == found
    assert shown.page.locator("output").inner_text() == f"{len(found)} of 5"


def test_a_search_leads_to_the_list(site: Path, show: Show) -> None:
    """The field of every page asks the list of packages, and Enter there opens the only one that is left."""
    shown = show(site / "stack/e4s.html", _DESK)
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("torch")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_url("**/packages.html?q=torch")

    assert _names(shown) == ["py-torch"]
    shown.page.get_by_label("Find packages").press("Enter")
    shown.page.wait_for_url("**/package/py-torch.html")


def test_tables_are_sorted(site: Path, show: Show) -> None:
    """A click sorts by numbers from the largest, another one turns it round, and a keyboard can do it, too."""
    shown = show(site / "packages.html", _DESK)
    button = shown.page.get_by_role("button", name="specs")
    button.click()
    assert shown.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert _names(shown)[0] == "py-torch"
    button.focus()
    shown.page.keyboard.press("Enter")
    assert shown.page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert _names(shown)[-1] == "py-torch"
    shown.page.get_by_role("button", name="package").click()
    assert _names(shown) == sorted(_names(shown))


def test_finding_goes_on_after_sorting(site: Path, show: Show) -> None:
    """Facts belong to their packages in whatever order these are."""
    shown = show(site / "packages.html", _DESK)
    shown.page.get_by_role("button", name="specs").click()
    shown.page.get_by_label("Find packages").fill("target:neo")

    assert _names(shown) == ["zlib"]


@pytest.mark.parametrize("page", ["index.html", "packages.html", "package/hdf5.html"])
def test_focus_is_seen(site: Path, show: Show, page: str) -> None:
    """Whatever the keyboard reaches has a ring around it, beginning with the way past the menu."""
    shown = show(site / page, _DESK)
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("() => document.activeElement.textContent") == "Skip to the content"
    for _ in range(25):
        ring = shown.page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();"
            " return e === document.body || (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2"
            " && r.width > 0 && r.right > 0); }"
        )
        assert ring, shown.page.evaluate("() => document.activeElement.outerHTML.slice(0, 200)")
        shown.page.keyboard.press("Tab")


@pytest.mark.parametrize("page", ["index.html", "packages.html", "package/hdf5.html"])
def test_everything_is_read_without_a_script(site: Path, show: Show, page: str) -> None:
    """Without a script there are no controls that do nothing, and all rows are there."""
    shown = show(site / page, View(800, "light", javascript=False))

    assert shown.page.locator("input:visible").count() == 0
    assert shown.page.locator("th button").count() == 0
    if page == "packages.html":
        assert len(_names(shown)) == 5


def test_plots_have_words(site: Path, show: Show) -> None:
    """Every plot has a sentence, and a table with the same numbers."""
    shown = show(site / "index.html", _DESK)
    titles = [title.text_content() or "" for title in shown.page.locator("svg[role=img] > title").all()]
    tables = shown.page.locator("figure details")

    assert any(title.startswith("upgraded: 3 specs in all, at most 1 in one revision") for title in titles)
    assert any("e4s: 5 specs on 2025-06-01" in title for title in titles) or any(
        title.startswith("e4s: ") and "on 2025-06-06" in title for title in titles
    )
    assert any("half of them within 1 day" in title for title in titles)
    assert tables.count() == shown.page.locator("figure.plot").count() == 3
    tables.first.locator("summary").click()
    assert tables.first.locator("tbody tr").count() == 6


def test_a_timeline_is_drawn_where_it_was(site: Path, show: Show) -> None:
    """Of four days of 1.12.3 and 1.14.5 in e4s, the second begins where the first ends."""
    shown = show(site / "package/hdf5.html", _DESK)
    boxes = [bar.bounding_box() for bar in shown.page.locator("svg.lane").nth(1).locator("rect").all()]
    first, second = boxes
    assert first is not None
    assert second is not None

    assert first["x"] + first["width"] == pytest.approx(second["x"], abs=1)
    assert second["width"] > 2 * first["width"]
    title = shown.page.locator("svg.lane > title").nth(1).text_content()
    assert title == "e4s: 1.12.3 from 2025-06-01 or before to 2025-06-02, 1.14.5 since 2025-06-02"


def test_it_can_be_printed(site: Path, show: Show) -> None:
    """On paper there is no menu, and what is folded away on a screen is spread out."""
    shown = show(site / "package/hdf5.html", _DESK)
    shown.page.emulate_media(media="print")

    assert not shown.page.locator("nav").is_visible()
    assert not shown.page.locator("form.find").is_visible()
    assert shown.page.locator(".matrix").is_visible()
    assert len(shown.page.pdf()) > 10_000
