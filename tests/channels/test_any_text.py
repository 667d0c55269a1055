"""Whatever text a digest holds, what channels make of it is well-formed and stays where it belongs."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import scripted
from atomrules import ATOM, problems
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from outgoing import HEADERS, Shelves, deliver, email_config, part, read, rendered, send

from cachewatch.channels.files_and_feeds import OutputPlace
from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.config.sources_and_channels import FeedConfig, FileConfig, WebhookConfig
from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.core.escaping_and_mentions import UNFIT, markup, plain_lines, safe
from cachewatch.report.digest_and_message_values import open_channel
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice

# Also halves of characters, which text() leaves out unless asked.
ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)
FIELDS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("key", "subscription", "title", "period", "text", "html", "markdown", "archive_url"), ANY),
        "tags": st.tuples(ANY, ANY),
        "revisions": st.tuples(ANY),
    }
)


@settings(max_examples=40)
@given(FIELDS)
def test_any_mail(fields: Mapping[str, Any]) -> None:
    """Pure ASCII, no header that was not meant, and the text as it was."""
    (message,) = open_channel(email_config(25)).build_messages(rendered(**fields))
    mail = read(message.payload)

    assert message.payload.isascii()
    assert set(mail.keys()) <= HEADERS | {"Content-Transfer-Encoding"}  # where there is one part only
    assert part(mail, "plain").rstrip("\n") == plain_lines(fields["text"]).rstrip("\n")
    assert safe(str(mail["Subject"])) == mail["Subject"]
    assert max(map(len, message.payload.split(b"\r\n"))) <= 998
    assert not mail.defects


@settings(max_examples=300)
@given(ANY)
def test_any_markup(text: str) -> None:
    assert markup(text) == re.sub(f"[{UNFIT}]", "\ufffd", text.replace("\r\n", "\n"))


@settings(max_examples=40)
@given(FIELDS)
def test_any_feed(fields: Mapping[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        send(FeedConfig(name="feed", path=f"{folder}/{{subscription}}.atom"), rendered(**fields))
        (path,) = Path(folder).iterdir()
        feed = ET.fromstring(path.read_bytes())

    assert all(str(each.text).startswith("urn:uuid:") for each in feed.iter("{http://www.w3.org/2005/Atom}id"))


@pytest.mark.parametrize("preset", ["json", "mattermost", "slack", "discord", "matrix"])
@settings(max_examples=40)
@given(FIELDS)
def test_any_webhook(preset: Any, fields: Mapping[str, Any]) -> None:
    config = WebhookConfig(name="chat", url=Secret("https://example.org/x"), preset=preset)
    (message,) = open_channel(config).build_messages(rendered(**fields))

    assert message.payload.isascii()
    assert json.loads(message.payload)


@settings(max_examples=40)
@given(FIELDS)
def test_any_path(fields: Mapping[str, Any]) -> None:
    """Files lie as deep below their folder as the template says."""
    base = Path(gettempdir()) / "www"
    config = FileConfig(name="archive", path=f"{base}/{{subscription}}/{{period}}-{{key}}.{{ext}}")
    (message,) = open_channel(config).build_messages(rendered(**fields))

    assert Path(message.target).parent.parent == base
    assert Path(message.target).resolve() == Path(message.target)
    assert all(len(name) <= 255 for name in Path(message.target).parts)


@given(ANY, ANY)
def test_different_names_are_different_paths(one: str, other: str) -> None:
    place = OutputPlace("/srv/{subscription}.md")

    assert (place.path(subscription=one) == place.path(subscription=other)) == (one == other)


URL = "https://hpc.example.org/{subscription}.atom"


def feed(folder: Path, **values: Any) -> FeedConfig:
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

        alternate = "https://hpc.example.org/ml-team/" if page else "https://hpc.example.org/2"
        assert links == {"self": "https://hpc.example.org/ml-team.atom", "alternate": alternate}
