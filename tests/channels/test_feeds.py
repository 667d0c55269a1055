"""Feeds: valid by RFC 4287 and the W3C's list, with a link, a summary and content that is no mail."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import scripted
from atomrules import ATOM, problems
from msgspec.structs import replace
from outgoing import Shelves, deliver, rendered

from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.config.channels import FeedConfig
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice

URL = "https://hpc.example.org/{subscription}.atom"


def feed(folder: Path, **values: Any) -> FeedConfig:
    """Return the configuration of a feed."""
    return FeedConfig(name="feed", path=str(folder / "{subscription}.atom"), url=URL, **values)


def test_weeks_are_a_valid_feed(tmp_path: Path) -> None:
    """Two scripted weeks, the sample with every heading, and a notice, each in a feed of its own or together."""
    config, history = feed(tmp_path / "out"), Shelves()
    for number, name in enumerate(("upgrades", "stack-lost")):
        (tmp_path / name).mkdir()
        digest = scripted.digest_of(tmp_path / name, name)
        digest = replace(digest, key=name, created=digest.created.replace(minute=number))
        deliver(config, history, render_digest(digest))
    deliver(config, history, render_digest(sample_digest()), render_notice(sample_notice()))

    data = {path.stem: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {name: problems(one) for name, one in data.items() if name != "operators"} == {"hpc-team": [], "sample": []}
    # Notices are in no archive.
    assert set(problems(data["operators"])) == {"(MissingAlternate): no page that a reader can open"}


def test_an_entry_has_a_link_a_summary_and_plain_content(tmp_path: Path) -> None:
    """The summary is what a chat shows; the content has neither styles nor a table, and the link leads to all of it."""
    digest = render_digest(sample_digest())
    deliver(feed(tmp_path), Shelves(), digest)
    entry = ET.fromstring((tmp_path / "sample.atom").read_bytes()).find(f"{ATOM}entry")

    assert entry is not None
    link = entry.find(f"{ATOM}link[@rel='alternate']")
    assert link is not None
    assert link.get("href") == digest.archive_url
    assert "To do: Re-concretize" in str(entry.findtext(f"{ATOM}summary"))
    content = str(entry.findtext(f"{ATOM}content"))
    assert not re.search(r"<table|style=|class=|bgcolor|<body", content)
    assert "<p><b>To do:</b> Re-concretize" in content
    assert f'<a href="{digest.archive_url}">All changes</a>' in content


def test_a_feed_belongs_to_a_page(tmp_path: Path) -> None:
    """The one that is configured, or else the newest digest."""
    for name, page in (("own", "https://hpc.example.org/{subscription}/"), ("none", None)):
        config = feed(tmp_path / name, **({"page": page} if page else {}))
        history = Shelves()
        for number in (1, 2, 0):
            deliver(config, history, rendered(number, archive_url=f"https://hpc.example.org/{number}"))
        head = ET.fromstring((tmp_path / name / "ml-team.atom").read_bytes())
        links = {link.get("rel"): link.get("href") for link in head.findall(f"{ATOM}link")}

        assert links == {
            "self": "https://hpc.example.org/ml-team.atom",
            "alternate": "https://hpc.example.org/ml-team/" if page else "https://hpc.example.org/2",
        }
