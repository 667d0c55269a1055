"""What chats are sent: a title, three to five bullets and a link, in each service's own form and within its limits."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from outgoing import elements, rendered, texts

from cachewatch.channels.webhooks_and_chats import chat_text, chat_title, webhook_body
from cachewatch.cli.sample_digests import sample_digest, sample_notice
from cachewatch.core.escaping_and_mentions import chat_markdown, without_links, without_mentions
from cachewatch.report.digest_and_message_values import RenderedDigest
from cachewatch.report.digests.rendering_and_sizes import render_digest, render_notice

CHATS = ("slack", "discord", "mattermost", "matrix")
# Of the elements that clients of Matrix should render, as its specification lists them.
RENDERED_BY_MATRIX = {"p", "strong", "em", "ul", "li", "a"}
URL = "https://hpc.example.org/cachewatch/ml-team/2026-08-03.html"


def schema(chat: str) -> Mapping[str, Any]:
    return dict(json.loads((Path(__file__).parents[1] / f"data/chats/{chat}.schema.json").read_text()))


def payload(chat: str, digest: RenderedDigest) -> Any:
    """Return what a chat is sent, after its limits are checked."""
    body = json.loads(webhook_body(chat, digest))
    jsonschema.validate(body, schema(chat), format_checker=jsonschema.FormatChecker())
    if chat == "discord":
        embed = body["embeds"][0]
        assert len(embed["title"] + embed["description"] + embed.get("footer", {}).get("text", "")) <= 6000
    if chat == "matrix":
        assert elements(body["html"]) <= RENDERED_BY_MATRIX
        assert len(webhook_body(chat, digest)) < 65_536
    return body


def shown(chat: str, body: Any) -> str:
    """Return all that readers see of a message, whatever its form."""
    return "\n".join(
        texts(body[{"slack": "blocks", "discord": "embeds", "mattermost": "attachments"}.get(chat, "html")])
    )


@pytest.mark.parametrize("name", ["all-rebuilt", "package-gone", "stack-lost", "new-snapshot"])
def test_the_cause_of_a_week_is_in_its_bullets(tmp_path: Path, name: str) -> None:
    """Five lines at most, each whole, no table, and a link; every chat takes it."""
    digest = render_digest(scripted.digest_of(tmp_path, name))

    assert 1 <= len(digest.bullets) <= 5
    assert digest.bullets[0].startswith(("To do: ", "Nothing to do.", "Nothing is urgent.", "Nothing to do, unless"))
    assert not [line for line in digest.bullets if "listed below" in line or "|" in line or line != line.strip()]
    for chat in CHATS:
        said = shown(chat, payload(chat, digest))
        assert digest.archive_url is not None
        assert digest.archive_url in said
        assert "The whole digest" in said
        assert "| package |" not in said
        assert "####" not in said


@pytest.mark.parametrize("chat", CHATS)
def test_samples(chat: str) -> None:
    assert "py-ml-dtypes" in shown(chat, payload(chat, render_digest(sample_digest())))
    notice = payload(chat, render_notice(sample_notice()))

    assert "cachewatch: Source public cannot be read" in shown(chat, notice)
    assert "http" not in shown(chat, notice)


def test_slack_shows_blocks_of_literal_text() -> None:
    """A header, bullets with bold labels, the link, and what it is about; `text` is for notifications."""
    digest = rendered(bullets=("Act: re-concretize <now>.",), archive_url=URL, subtitle="develop, 3 August 2026")
    body = payload("slack", digest)
    header, bullets, link, about = body["blocks"]

    assert header["text"]["text"] == "cachewatch ml-team: 3 removed, 12 added, 41 updated - develop"
    bold = {"type": "text", "text": "Act: ", "style": {"bold": True}}
    first = bullets["elements"][0]["elements"][0]["elements"]
    assert first == [bold, {"type": "text", "text": "re-concretize <now>."}]
    assert link["elements"][0]["elements"] == [{"type": "link", "url": URL, "text": "The whole digest"}]
    assert about["elements"][0]["text"] == "develop, 3 August 2026"
    assert "- Act: re-concretize &lt;now&gt;." in body["text"].splitlines()


@pytest.mark.parametrize("chat", ["discord", "mattermost"])
def test_markdown_of_names_stays_text(chat: str) -> None:
    """A list with bold labels; what names hold is no markup."""
    digest = rendered(bullets=("Packages: x86_64_v3 ~rocm [x] *y* `z`", "1. one", "# two"), archive_url=URL)
    body = payload(chat, digest)
    text = body["embeds"][0]["description"] if chat == "discord" else body["attachments"][0]["text"]
    rocm = "~rocm" if chat == "discord" else "\\~rocm"  # the name of a channel in Mattermost

    assert text.splitlines() == [
        f"- **Packages:** x86_64_v3 {rocm} \\[x] \\*y\\* \\`z\\`",
        "- 1\\. one",
        "- \\# two",
        f"[The whole digest](<{URL}>)",
    ]


@pytest.mark.parametrize("chat", ["discord", "mattermost"])
def test_nothing_is_escaped_that_is_no_markup(chat: str) -> None:
    for name in ("ml-linux-x86_64-cuda", "+shared", "1.14.5 -> 1.14.6", "a|b", "@1.2:1.4", "gcc@12", "(1.5)", "a.b"):
        assert chat_markdown(f"of {name}", chat) == f"of {name}"


@pytest.mark.parametrize("chat", ["discord", "mattermost"])
@settings(max_examples=400)
@given(st.text(st.sampled_from("ab1_*~|[]()<>$#-+.`\\: "), max_size=40), st.booleans())
def test_any_name_is_shown_as_it_is(chat: str, name: str, is_start: bool) -> None:
    """By the rules of each service, no markup is left, and taking the backslashes away gives the name."""
    rules = schema(chat)
    name = without_links(without_mentions(" ".join(name.split())))
    sent = chat_markdown(name, chat, is_start=is_start)
    literal: list[str] = []

    def take(found: re.Match[str]) -> str:
        literal.append(found[1])
        return "\N{OBJECT REPLACEMENT CHARACTER}"

    bare = re.sub(rules["x-escape"], take, sent)
    lead = "" if is_start else "x "
    assert not [rule for rule in rules["x-markup"] if re.search(rule, lead + bare)]
    assert re.sub("\N{OBJECT REPLACEMENT CHARACTER}", lambda _: literal.pop(0), bare) == name


def test_matrix_shows_a_list() -> None:
    body = payload("matrix", rendered(bullets=("Act: a < b.", "plain"), archive_url=URL))

    assert "<ul><li><strong>Act:</strong> a &lt; b.</li><li>plain</li></ul>" in body["html"]
    assert f'<a href="{URL}">The whole digest</a>' in body["html"]
    assert body["text"].splitlines()[1:] == ["- Act: a < b.", "- plain", f"The whole digest: {URL}"]


@pytest.mark.parametrize("chat", CHATS)
def test_urgent_digests_say_so(chat: str) -> None:
    levels = ((False, "calm"), (True, "alarm"))
    calm, urgent = (payload(chat, rendered(is_urgent=is_urgent, level=level)) for is_urgent, level in levels)

    assert "URGENT cachewatch ml-team: " in shown(chat, urgent)
    assert "URGENT" not in shown(chat, calm)


@pytest.mark.parametrize("level", ["alarm", "notice", "calm"])
def test_the_bar_has_the_colour_that_mails_have(level: str) -> None:
    colour = tomllib.loads((Path(__file__).parents[2] / "templates/theme.toml").read_text())["colors"][level]
    digest = rendered(level=level)

    assert payload("mattermost", digest)["attachments"][0]["color"] == colour
    assert f"#{payload('discord', digest)['embeds'][0]['color']:06x}" == colour


@pytest.mark.parametrize("chat", CHATS)
def test_only_web_addresses_are_linked(chat: str) -> None:
    """A chat would refuse the message, or read the address as markup."""
    for address in ("mailto:a@example.org", "https://x/<a>", 'https://x/"', "https://x/a b", "ftp://x"):
        assert "The whole digest" not in shown(chat, payload(chat, rendered(archive_url=address)))


@pytest.mark.parametrize("chat", CHATS)
@settings(max_examples=30)
@given(
    st.text(max_size=400),
    st.tuples(*[st.text(st.sampled_from("*_[`|~: ab\u200b@<"), max_size=900)] * 5),
    st.text(max_size=900),
)
def test_any_text_is_within_the_limits(chat: str, title: str, bullets: tuple[str, ...], subtitle: str) -> None:
    """What is too long is cut; nothing is sent that the service would refuse."""
    bullets = tuple(line for line in bullets if line.strip())
    assert payload(chat, rendered(title=title, bullets=bullets, subtitle=subtitle, archive_url=URL))


def test_plain_text_for_apprise() -> None:
    digest = rendered(bullets=("Act: " + "re-concretize " * 20,), archive_url=URL, is_urgent=True)

    assert chat_title(digest).startswith("URGENT cachewatch ml-team: ")
    assert chat_text(digest).splitlines() == [f"- Act: {'re-concretize ' * 20}".strip(), f"The whole digest: {URL}"]
