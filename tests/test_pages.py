"""The documentation as a whole: Sphinx builds it without a warning, and each link and page is found."""

import re
import runpy

from conftest import ROOT

DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]


def test_links_lead_somewhere() -> None:
    """Every file that a page links is there."""
    for page in (*PAGES, *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"))):
        for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / link).exists(), (page, link)


def test_every_page_is_listed() -> None:
    """The index has each page, and no other."""
    listed = set(re.findall(r"^([\w/]+)$", (DOCS / "index.md").read_text(), re.MULTILINE))
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES}

    assert pages - {"index"} == listed


def test_links_to_other_files_lead_to_the_project() -> None:
    """Pages are read where the project is hosted, too, so that their links are relative."""
    rewritten = runpy.run_path(str(DOCS / "conf.py"))["rewritten"]
    text = "[a](service.md#alerts) [b](../config/cachewatch.yaml) [c](pictures) [d](https://x.org/y) ![e](pictures/f.png) [g](#h)"
    address = "https://github.com/cachewatch/cachewatch/blob/main"

    assert rewritten(text, DOCS) == (
        f"[a](service.md#alerts) [b]({address}/config/cachewatch.yaml) [c]({address}/docs/pictures)"
        " [d](https://x.org/y) ![e](pictures/f.png) [g](#h)"
    )
    assert rewritten("[x](../../laws.md) [y](../../../README.md)", DOCS / "dev/notes") == (
        f"[x](../../laws.md) [y]({address}/README.md)"
    )


def test_the_build_is_not_kept() -> None:
    """Neither git nor, with it, the source archive takes what Sphinx writes."""
    assert "docs/_build/" in (ROOT / ".gitignore").read_text().splitlines()
