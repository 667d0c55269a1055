"""Pictures of digests, pages and sites for the documentation: `make screenshots`."""

import sys
import tempfile
from contextlib import closing
from pathlib import Path

import weeks
from browser import chromium
from browser.chromium import View
from playwright.sync_api import sync_playwright
from sites import read_site

from cachewatch.cli import init_and_demo
from cachewatch.comparison_flow import changesets
from cachewatch.core.changesets import NoCollector
from cachewatch.core.filters_and_spec_patterns import Globs, Selection
from cachewatch.extensions.site.building_and_feeds import Folder, build
from cachewatch.git.local_repository import Repository
from cachewatch.report.diff_blocks_and_colours import Requested
from cachewatch.report.digests.rendering_and_sizes import render_digest
from cachewatch.report.template_rendering import MOST_ROWS, write_page
from cachewatch.sources.before_and_after import compare_sides

_HIGHEST = 1600  # pixels of a picture; what is below is more of the same
_VIEWS = {
    "quiet": [View(680, "light")],
    "versions": [View(680, "light"), View(360, "dark")],
    "prune": [View(680, "light")],
    "page": [View(1100, "light")],
    "site/package/py-build": [View(1100, "light")],
}


def main(folder: Path) -> None:
    """Make the documents, and the pictures of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        documents = _documents(Path(name))
        browser = playwright.chromium.launch(executable_path=chromium.CHROMIUM, args=chromium.ARGUMENTS)
        for title, views in _VIEWS.items():
            for view in views:
                shown = chromium.show(browser, (documents / f"{title}.html").as_uri(), view)
                high = min(_HIGHEST, shown.page.evaluate("Math.ceil(document.body.getBoundingClientRect().bottom)"))
                file = folder / f"{title.replace('/', '-')}-{view}.png"
                shown.page.screenshot(
                    path=file, full_page=True, clip={"x": 0, "y": 0, "width": view.width, "height": high}
                )
                shown.page.context.close()
        browser.close()


def _documents(folder: Path) -> Path:
    for title, make in {"quiet": weeks.quiet_week, "versions": weeks.version_week, "prune": weeks.prune_week}.items():
        (folder / title).mkdir()
        (folder / f"{title}.html").write_text(render_digest(make(folder / title)).html)
    init_and_demo.build_demo(folder / "demo.git")
    (folder / "page.html").write_bytes(b"".join(_page(folder / "demo.git")))
    build(Folder(folder / "site"), read_site(folder / "demo.git"), [], title="Build cache")
    return folder


def _page(repository: Path) -> list[bytes]:
    chosen = Selection(tags=Globs(["develop"]))
    with closing(Repository(repository)) as opened:
        comparison = compare_sides("HEAD~1", "HEAD", chosen, repository=opened)
        asked = Requested(most=MOST_ROWS, wants=chosen.wants, names_packages=True)
        return list(write_page(changesets(comparison, chosen, NoCollector), asked=asked))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
