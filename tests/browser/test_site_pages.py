"""The site as a person meets it: on a phone and on a desk, by day and by night, with and without a script."""

import re
from pathlib import Path

import pytest
from helpers import catalogue, history, hostile_states, record, records
from sites import read_site

from browser.chromium import Shown, View
from browser.conftest import Audit, Show
from cachewatch.extensions.site.building_and_feeds import Folder, build

_PAGES = (
    *("index.html", "packages.html", "stacks.html", "tags.html", "revisions.html"),
    *("package/hdf5.html", "stack/e4s.html", "tag/develop-2025-06-08.html"),
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
    build(Folder(folder), read_site(repository), [], title="Build cache")
    return folder


@pytest.mark.parametrize("page", [*_PAGES, "revision"])
def test_pages_fit_and_are_sound(site: Path, show: Show, view: View, audit: Audit, page: str) -> None:
    """Nothing sticks out, nothing complains, and axe-core finds nothing."""
    shown = show(min((site / page).glob("*.html")) if page == "revision" else site / page, view)

    assert shown.overflow() == []
    assert shown.complaints == []
    shown.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert shown.overflow() == []
    assert audit(shown) == []


@pytest.mark.parametrize("page", ["index.html", "packages.html", "stacks.html", "package/p0.html", "package/p14.html"])
def test_hostile_names_run_nothing_and_fit(hostile_site: Path, show: Show, audit: Audit, page: str) -> None:
    """No dialog opens, nothing is asked for, and ten thousand letters do not stick out."""
    shown = show(hostile_site / page, View(360, "light"))

    assert shown.overflow() == []
    assert (shown.complaints, audit(shown)) == ([], [])


def _names(shown: Shown) -> list[str]:
    return [row.inner_text().strip() for row in shown.page.locator("tbody tr:visible th").all()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hdf", ["hdf5"]),
        ("stack:e4s", ["hdf5", "late-package-with-a-name-as-long-as-they-come", "zlib"]),
        ("target:neo zl", ["zlib"]),
        ("%gcc@11 py-", ["py-torch"]),
        ("hdf5@1.14", ["hdf5"]),
        ("1.14", ["hdf5"]),
        ("nothing like that", []),
    ],
)
def test_packages_are_found(site: Path, show: Show, words: str, found: list[str]) -> None:
    """By a part of the name, and by what they have; how many is said."""
    shown = show(site / "packages.html", _DESK)
    shown.page.get_by_label("Find packages").fill(words)
    shown.page.get_by_text(f"{len(found)} of 5", exact=True).wait_for()

    assert _names(shown) == found


def test_a_search_leads_to_the_list(site: Path, show: Show) -> None:
    """What fits several packages leads to the list, and Enter there opens the only one that is left."""
    shown = show(site / "stack/e4s.html", _DESK)
    shown.page.keyboard.press("/")
    shown.page.keyboard.type("l")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_url("**/packages.html?q=l")
    shown.page.get_by_label("Find packages").fill("torch")
    shown.page.get_by_text("1 of 5", exact=True).wait_for()

    assert _names(shown) == ["py-torch"]
    shown.page.get_by_label("Find packages").press("Enter")
    shown.page.wait_for_url("**/package/py-torch.html")


def test_hostile_names_are_suggested_as_text(hostile_site: Path, show: Show) -> None:
    """What looks like markup is shown as it is, and leads to its page."""
    shown = show(hostile_site / "index.html", _DESK)
    found = _suggestions(shown, "<img")

    assert any("onerror" in option for option in found)
    assert shown.page.locator("[role=listbox] img").count() == 0
    shown.page.get_by_role("option").first.click()
    shown.page.wait_for_url("**/stack/*.html")
    assert shown.complaints == []


def _suggestions(shown: Shown, words: str) -> list[str]:
    shown.page.get_by_role("combobox").fill(words)
    shown.page.locator("[role=option]").first.wait_for()
    return shown.page.locator("[role=option]").all_inner_texts()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("hdf", "hdf5 1.14.5"),
        ("hdf5@1.14", "hdf5 1.14.5"),
        ("cuda", "ml-linux-x86_64-cuda stack"),
        ("zlbi", "zlib did you mean this? 1.0"),
        ("ol", "old not in develop"),
    ],
)
def test_a_search_suggests(site: Path, show: Show, words: str, first: str) -> None:
    """Packages with their newest or the wanted version, stacks, tags, and what is spelled nearly so."""
    shown = show(site / "index.html", _DESK)

    assert _suggestions(shown, words)[0] == first


def test_a_hash_leads_to_its_package(site: Path, show: Show) -> None:
    """The beginning of a hash is enough, with or without a slash."""
    page = (site / "package/zlib.html").read_text()
    found = re.search(r'<code id="([a-z0-9]+)">', page)
    assert found is not None
    shown = show(site / "index.html", _DESK)

    assert _suggestions(shown, f"/{found[1][:7]}") == [f"zlib has /{found[1][:7]}"]
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_url("**/package/zlib.html#builds")


def test_suggestions_are_chosen_by_keyboard(site: Path, show: Show, audit: Audit) -> None:
    """Arrows go through them and round, the field says which is chosen, Escape closes, Enter opens."""
    shown = show(site / "index.html", _DESK)
    field = shown.page.get_by_role("combobox")
    options = _suggestions(shown, "l")
    chosen = shown.page.locator("[aria-selected=true]")

    shown.page.keyboard.press("ArrowDown")
    assert chosen.inner_text() == options[0]
    assert field.get_attribute("aria-activedescendant") == "found-0"
    assert audit(shown) == []
    shown.page.keyboard.press("ArrowUp")
    assert chosen.inner_text() == options[-1]
    shown.page.keyboard.press("ArrowDown")
    assert chosen.inner_text() == options[0]
    shown.page.keyboard.press("Escape")
    assert not shown.page.get_by_role("listbox").is_visible()
    _suggestions(shown, "zli")
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_url("**/package/zlib.html")


def test_an_exact_name_is_opened(site: Path, show: Show) -> None:
    """Enter opens what is called so, and a click opens any suggestion."""
    shown = show(site / "index.html", _DESK)
    shown.page.get_by_role("combobox").fill("zlib")
    shown.page.keyboard.press("Enter")
    shown.page.wait_for_url("**/package/zlib.html")
    _suggestions(shown, "e4s")
    shown.page.get_by_role("option").first.click()
    shown.page.wait_for_url("**/stack/e4s.html")
    assert "e4s" in shown.page.locator("h1").inner_text()


def test_the_first_screen_says_what_is_new(site: Path, show: Show) -> None:
    """On a phone, too: the day, the search, and the latest revision are seen without scrolling."""
    shown = show(site / "index.html", View(360, "light", height=740))

    assert shown.page.locator("h1").inner_text() == "State of develop, 6 Jun 2025"
    assert "ago" in shown.page.locator("time[data-ago].old").inner_text()
    boxes = [shown.page.get_by_role("combobox").bounding_box(), shown.page.locator(".card").first.bounding_box()]
    assert all(box is not None and box["y"] + box["height"] < 740 for box in boxes)


def test_a_package_is_seen_on_a_phone(site: Path, show: Show) -> None:
    """The newest versions of all stacks are on the screen, next to the names of the stacks."""
    shown = show(site / "package/hdf5.html", View(360, "light"))
    cells = [cell.bounding_box() for cell in shown.page.locator(".matrix td.some").all()]

    assert len(cells) >= 3
    assert all(box is not None and box["x"] + box["width"] <= 360 for box in cells)


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
    shown.page.get_by_text("1 of 5", exact=True).wait_for()

    assert _names(shown) == ["zlib"]


@pytest.mark.parametrize("page", ["index.html", "package/hdf5.html"])
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


def test_everything_is_read_without_a_script(site: Path, show: Show) -> None:
    """Without a script there are no controls that do nothing, and all rows are there."""
    view = View(800, "light", javascript=False)
    index, packages = (show(site / page, view) for page in ("index.html", "packages.html"))
    for shown in (index, packages):
        assert shown.page.locator("input:visible").count() == 0
        assert shown.page.locator("th button").count() == 0
    assert len(_names(packages)) == 5


def test_plots_have_words(site: Path, show: Show) -> None:
    """Every plot has a sentence, and a table with the same numbers."""
    shown = show(site / "index.html", _DESK)
    titles = [title.text_content() or "" for title in shown.page.locator("svg[role=img] > title").all()]
    tables = shown.page.locator("figure details")

    assert any(title.startswith("upgraded: 3 specs in all, at most 1 in one revision") for title in titles)
    assert any("e4s: 5 specs on 2025-06-01" in title for title in titles) or any(
        title.startswith("e4s: ") and "on 2025-06-06" in title for title in titles
    )
    assert tables.count() == shown.page.locator("figure.plot").count() == 2
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
