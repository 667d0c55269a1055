"""Digests are rendered with the site's own templates, and with ours where those fail."""

from pathlib import Path

import pytest
from helpers import catalogue, records
from station import Site

CONFIG = """\
version: 1
state: {folder}/state
templates_dir: {folder}/templates
sources: {public: {git: {folder}/upstream.git, stale_after: 4000d}}
channels:
  files: {type: file, path: "{folder}/out/{subscription}/{period}.{ext}", formats: [txt]}
subscriptions:
  ml:
    channels: [files]
    changes: [all]
    template: site.html.j2
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "site.html.j2").write_text("<p>{{ sentence }}</p>\n")
    (tmp_path / "templates" / "site.txt.j2").write_text("For {{ digest.subscription }}: {{ sentence }}\n")
    made = Site(tmp_path, [catalogue({"zlib": records([1])}), catalogue({"zlib": records([1]), "new": records([2])})])
    (tmp_path / "templates" / "site.html.j2").write_text("<p>{{ sentence }}</p>\n")
    (tmp_path / "templates" / "site.txt.j2").write_text("For {{ digest.subscription }}: {{ sentence }}\n")
    made.configure(CONFIG)
    made.run()
    made.publish(1)
    return made


def test_templates_of_ones_own(site: Site) -> None:
    """What the site wrote is what readers get."""
    site.run()

    assert [text.split("\n")[0].startswith("For ml: ") for text in site.told()] == [True]


def test_a_template_that_fails_loses_nothing(site: Site) -> None:
    """Readers get ours, and the log says which file and line is wrong."""
    (site.folder / "templates" / "site.txt.j2").write_text("\n{{ digest.nonsense }}\n")
    site.run()

    assert ["new" in text for text in site.told()] == [True]
    assert "site.txt.j2: line 2" in site.said.getvalue()


def test_times_without_news_are_told(site: Site) -> None:
    """Where upstream published nothing for longer than `stale_after`, the digest says when."""
    site.configure(CONFIG.replace("stale_after: 4000d", "stale_after: 12h").replace("    template: site.html.j2\n", ""))
    site.run()

    assert any(
        "nothing was published from 1 June 2025 to 2 June 2025" in " ".join(text.split()) for text in site.told()
    )
