"""Digests are rendered with the site's own templates, and with ours where those fail."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from station import OPEN_CONFIG, Site, begun, growing

from cachewatch.cli.sample_digests import sample_digest
from cachewatch.config.reading_showing_warnings import read_config
from cachewatch.service.digest_assembly_and_hold_times import pack_messages
from cachewatch.service.streams_starts_silences import streams_of

CONFIG = OPEN_CONFIG.replace("state:", "templates_dir: {folder}/templates\nstate:", 1) + "    template: site.html.j2\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Upstream adds a package."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "site.html.j2").write_text("<p>{{ sentence }}</p>\n")
    (tmp_path / "templates" / "site.txt.j2").write_text("For {{ digest.subscription }}: {{ sentence }}\n")
    made = begun(tmp_path, growing(2), CONFIG)
    made.publish(1)
    return made


def test_links_tell_digests_of_one_period_apart(site: Site) -> None:
    """Each leads to the page of its own digest: here upstream takes the same step twice."""
    archive = 'formats: [html, txt], archive: "https://example.org/{subscription}/{period}.html"}'
    text = CONFIG.replace("template: site.html.j2", "when: each revision")
    site.configure(text.replace("formats: [txt]}", archive, 1))
    for number in (1, 0, 1):
        site.run(number, later=timedelta(hours=1))

    linked = {}
    for path in (site.folder / "out/ml").glob("*.txt"):
        (link,) = re.findall(r"https://example\.org/ml/(\S+)", path.read_text())
        linked[path.stem] = link
    assert linked == {name: f"{name}.html" for name in linked}
    assert len(linked) == 3


@pytest.mark.slow
def test_templates_of_ones_own(site: Site) -> None:
    site.run()

    assert [text.split("\n")[0].startswith("For ml: ") for text in site.told()] == [True]


@pytest.mark.slow
def test_operators_hear_once_that_a_template_is_wrong_and_once_that_it_is_not(site: Site) -> None:
    """Readers get ours; each further digest that it fails says nothing new."""
    template = site.folder / "templates" / "site.txt.j2"
    right = template.read_text()
    template.write_text("\n{{ digest.nonsense }}")
    for number in (1, 0):
        site.run(number)
    template.write_text(right)
    site.run(1, later=timedelta(hours=1))

    assert len(site.told()) == 3
    assert "site.txt.j2: line 2" in site.said.getvalue()
    notices = [title for title in site.notices() if "template" in title]
    assert notices == ["a template for ml is wrong", "the templates for ml work again"]


@pytest.mark.slow
def test_every_channel_links_to_the_archive(site: Site) -> None:
    """A chat and a feed have the address of the subscription's channel that has one, or their own."""
    hook = 'type: webhook, url: "http://127.0.0.1:1/x", preset: discord'
    channels = f"""\
  mail: {{type: maildir, from: c@example.org, path: {site.folder}/box, archive: "https://example.org/{{subscription}}/{{key}}"}}
  chat: {{{hook}}}
  own: {{{hook}, archive: "https://own.example.org/{{period}}"}}
operators:"""
    text = CONFIG.replace("operators:", channels, 1)
    text = text.replace("[files]\n    ch", "[files, mail, chat, own]\n    to: k@example.org\n    ch")
    site.configure(text)
    config = read_config(site.folder / "cachewatch.yaml")
    (stream,) = [stream for stream in streams_of(config) if stream.subscription.name == "ml"]
    digest = sample_digest()
    linked = {each.channel: each.rendered.archive_url for each in pack_messages(config, stream, digest)}

    shared = f"https://example.org/sample/{digest.key}"
    own = f"https://own.example.org/{digest.period}"
    assert linked == {"files": shared, "mail": shared, "chat": shared, "own": own}
