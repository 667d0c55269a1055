"""Feeds: valid by RFC 4287 and the W3C's list, with a link, a summary and content that is no mail."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import scripted
from atomrules import ATOM, problems
from msgspec.structs import replace
from outgoing import Shelves, deliver, rendered

from cachewatch.config.channels import FeedConfig
from cachewatch.report.digest_mail import render_digest, render_notice
from cachewatch.report.samples import sample_digest, sample_notice

URL = "https://hpc.example.org/{subscription}.atom"


def feed(folder: Path, **values: Any) -> FeedConfig:
    """Return the configuration of a feed."""
    return FeedConfig(name="feed", path=str(folder / "{subscription}.atom"), url=URL, **values)


def test_weeks_are_a_valid_feed(tmp_path: Path) -> None:
    """Every scripted week, the sample with every heading, and a notice, each in a feed of its own or together."""
    config, history = feed(tmp_path / "out"), Shelves()
    for number, name in enumerate(("upgrades", "migration", "stack-lost", "new-snapshot")):
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
    assert "Act: re-concretize" in str(entry.findtext(f"{ATOM}summary"))
    content = str(entry.findtext(f"{ATOM}content"))
    assert not re.search(r"<table|style=|class=|bgcolor|<body", content)
    assert "<li><b>Act:</b> re-concretize" in content
    assert f'<a href="{digest.archive_url}">The whole digest</a>' in content


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


GOOD = """<?xml version='1.0' encoding='utf-8'?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>urn:uuid:1225c695-cfb8-4ebb-aaaa-80da344efa6a</id><title>t</title><updated>2026-08-03T05:30:00Z</updated>
<link rel="self" href="https://example.org/f.atom" /><link rel="alternate" href="https://example.org/" />
<entry><id>urn:uuid:1225c695-cfb8-4ebb-aaaa-80da344efa6b</id><title>e</title><updated>2026-08-03T05:30:00Z</updated>
<author><name>a</name></author><category term="develop" /><link rel="alternate" href="https://example.org/1" />
<summary type="text">s</summary><content type="html">&lt;p&gt;c&lt;br&gt;&lt;/p&gt;</content></entry>
</feed>
"""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("encoding='utf-8'", "encoding='latin-1'", "section 2"),
        ("<title>t</title>", "", "section 4.1: feed without title"),
        ("<title>e</title>", "<title> </title>", "section 4.2 (MissingText)"),
        ("<title>e</title>", "<title>e</title><title>e</title>", "section 4.1: entry with 2 title"),
        ("<title>e</title>", "<title>e</title><body/>", "section 6.3"),
        ("<title>e</title>", '<title type="markdown">e</title>', "section 3.1.1"),
        ("<title>e</title>", "<title><b>e</b></title>", "section 3.1.1.1"),
        ("2026-08-03T05:30:00Z", "2026-08-03 05:30", "section 3.3"),
        ("2026-08-03T05:30:00Z", "2026-13-03T05:30:00Z", "section 3.3"),
        ("<author><name>a</name></author>", "", "section 4.1.1: neither"),
        ("<name>a</name>", "<email>a@example.org</email>", "section 3.2.1"),
        ('<category term="develop" />', "<category />", "section 4.2.2.1"),
        ('href="https://example.org/1"', 'href="/1"', "section 4.2.7.1"),
        ('<link rel="alternate" href="https://example.org/1" />', "", "(MissingAlternate)"),
        (
            '<link rel="alternate" href="https://example.org/1" />',
            2 * '<link href="https://a.b/" />',
            "section 4.1: two",
        ),
        ('<link rel="self" href="https://example.org/f.atom" />', "", "section 4.1.1 (MissingSelf)"),
        ("urn:uuid:1225c695-cfb8-4ebb-aaaa-80da344efa6b", "1", "section 4.2.6"),
        ("efa6b", "efa6a", "section 4.1.1 (DuplicateEntries)"),
        ("</entry>", "</entry><subtitle>x</subtitle>", "(MisplacedMetadata)"),
        ("<title>e</title><updated>2026-08", "<title>e</title><updated>2027-08", "section 4.2.15"),
        ('<content type="html">&lt;p&gt;c&lt;br&gt;&lt;/p&gt;</content>', "", "section 4.1.2"),
        ("&lt;p&gt;c", "<p/>c", "section 4.1.3.3"),
        ("<summary", '<summary type="text"> </summary><summary', "section 4.1: entry with 2 summary"),
        (">s<", "> <", "(MissingText): an empty summary"),
        (">s<", ">&lt;p&gt;c&lt;br&gt;&lt;/p&gt;<", "section 4.2.13"),
        ("&lt;p&gt;c", "&lt;p style='x'&gt;c", "(SecurityRiskAttr)"),
        ("c&lt;br&gt;", "&lt;script&gt;&lt;/script&gt;", "(SecurityRisk)"),
        ("c&lt;br&gt;", '&lt;a href="x"&gt;&lt;/a&gt;', "(ContainsRelRef)"),
        ("c&lt;br&gt;", "&lt;b&gt;", "(NotHtml)"),
    ],
)
def test_the_rules_find_what_is_wrong(old: str, new: str, rule: str) -> None:
    """Each of them, on a feed that is valid but for it."""
    assert problems(GOOD.encode()) == []
    assert old in GOOD
    assert [found for found in problems(GOOD.replace(old, new, 1).encode()) if found.startswith(rule)]


def test_entries_of_one_time_are_found() -> None:
    """Readers cannot order them."""
    entry = GOOD[GOOD.index("<entry>") : GOOD.index("</feed>")]
    again = GOOD.replace("</feed>", entry.replace("efa6b", "efa6c") + "</feed>")

    assert problems(again.encode()) == ["(DuplicateUpdated): two entries of 2026-08-03T05:30:00Z"]
