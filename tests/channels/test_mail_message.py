"""The bytes of a mail: readable headers, two parts that say the same, nothing that harms."""

import hmac
import html
from typing import Any

import pytest
from outgoing import HEADERS, email_config, part, read, rendered

from cachewatch.config.sources_and_channels import MailConfig
from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.report.digest_and_message_values import Attachment, Message, RenderedDigest, open_channel

HOSTILE = [
    *("a\r\nBcc: victim@example.org", "a\n\nbody", "\x00\x1b[31m\x9b\x07\x08", "\u202egnp.exe\u2066", "\ud800 half"),
    *("x" * 10_000, "ü" * 10_000, "=?utf-8?q?=0D=0ABcc=3A_victim=40example=2Eorg?=", "=cmd|' /C calc'!A1"),
    *('<script>alert(1)</script> & "quotes"', "a, b <c@d>; (comment) \\ @", "\u2028\u2029\x85\ufeff"),
]


def pack(one: RenderedDigest, config: MailConfig | None = None) -> Message:
    """Return the only mail that a digest becomes."""
    messages = open_channel(config or email_config(25)).build_messages(one)
    assert len(messages) == 1
    return messages[0]


def raw_headers(payload: bytes) -> list[str]:
    """Return the header lines as they are, unfolded."""
    head = payload.partition(b"\r\n\r\n")[0].decode("ascii")
    return head.replace("\r\n ", " ").replace("\r\n\t", " ").split("\r\n")


def test_the_headers_of_a_digest() -> None:
    """Who it is from, what list it belongs to, and that no human wrote it."""
    config = email_config(
        25,
        reply_to="hpc-software@example.org",
        list_domain="cachewatch.example.org",
        unsubscribe="mailto:cachewatch+unsubscribe@example.org",
        archive="https://hpc.example.org/cachewatch/{subscription}/{period}.html",
    )
    one = rendered(archive_url="https://hpc.example.org/cachewatch/ml-team/2026-08-03.html")
    headers = raw_headers(pack(one, config).payload)

    for line in (
        "From: Cachewatch <cachewatch@hpc.example.org>",
        "To: kim@example.org",
        "Reply-To: hpc-software@example.org",
        "Subject: [ml-team] 3 removed, 12 added, 41 updated - develop",
        "Date: Mon, 03 Aug 2026 05:30:00 +0000",
        "List-Id: cachewatch ml-team <ml-team.cachewatch.example.org>",
        "List-Unsubscribe: <mailto:cachewatch+unsubscribe@example.org?subject=ml-team>",
        "List-Archive: <https://hpc.example.org/cachewatch/>",
        "Archived-At: <https://hpc.example.org/cachewatch/ml-team/2026-08-03.html>",
        "Auto-Submitted: auto-generated",
        "X-Auto-Response-Suppress: OOF, AutoReply",
        "Precedence: list",
        "X-Cachewatch-Subscription: ml-team",
        "X-Cachewatch-Tag: develop",
        "X-Cachewatch-Kinds: removed, added",
        "X-Cachewatch-Revisions: 0123456789abcdef..fedcba9876543210",
        "MIME-Version: 1.0",
    ):
        assert line in headers
    assert not [line for line in headers if line.startswith("List-Unsubscribe-Post")]


def test_a_token_proves_for_whom_a_link_was_made() -> None:
    """In the header and in the text, of recipient and subscription: whoever has no key makes no link for others."""
    link = "https://example.org/{subscription}?who={recipient}&token={token}"
    config = email_config(25, unsubscribe=link, unsubscribe_key=Secret("k"))
    token = hmac.new(b"k", b"kim@example.org\0ml-team", "sha256").hexdigest()
    link = f"https://example.org/ml-team?who=kim%40example.org&token={token}"
    payload = pack(rendered(text=f"Stop: {config.unsubscribe}"), config).payload

    assert f"List-Unsubscribe: <{link}>" in raw_headers(payload)
    assert f"Stop: {link}" in part(read(payload), "plain")


def test_the_link_in_the_body_is_that_of_the_header() -> None:
    """Whoever stops the mails by the link at the end of the text is known there too."""
    template = "https://example.org/u?list={subscription}&who={recipient}"
    body = f'<a href="{html.escape(template, quote=False)}">Stop these mails</a>'
    one = rendered(text=f"Stop these mails:\n    {template}\n", html=body)
    message = read(pack(one, email_config(25, unsubscribe=template)).payload)
    link = "https://example.org/u?list=ml-team&who=kim%40example.org"

    assert message["List-Unsubscribe"] == f"<{link}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert part(message, "plain") == f"Stop these mails:\n    {link}\n"
    assert html.escape(link, quote=False) in part(message, "html")


def test_long_lists_and_references_stay_readable() -> None:
    channel = open_channel(email_config(25, unsubscribe="https://example.org/" + "u" * 300 + "?who={recipient}"))
    one = rendered(subscription="s" * 60, period="2026-07-27..2026-08-02", revisions=("a" * 40 + ".." + "b" * 40,) * 3)
    first = channel.build_messages(one)[0]
    again = channel.rebuild_message(one, first)

    headers = raw_headers(again.payload)
    assert f"References: {first.message_id}" in headers
    assert f"Message-ID: {again.message_id}" in headers
    assert not [line for line in headers if "=?" in line]
    assert max(map(len, again.payload.split(b"\r\n"))) <= 998


def test_bytes_are_the_same_every_time() -> None:
    """What preview shows is what is sent, and each recipient's message has a name of its own."""
    one = rendered(to=("kim@example.org", "lee@example.org"))
    channel = open_channel(email_config(25))
    first, second = channel.build_messages(one)

    assert list(channel.build_messages(one)) == [first, second]
    assert (first.target, second.target) == ("kim@example.org", "lee@example.org")
    assert first.message_id != second.message_id
    assert str(first.message_id).startswith("<digest.ml-team.2026-07-27_2026-08-03.")
    assert str(first.message_id).endswith("@hpc.example.org>")
    assert str(read(second.payload)["To"]) == "lee@example.org"
    assert channel.build_messages(rendered(text="shorter"))[0].message_id != first.message_id


def test_both_parts_are_ascii_and_survive() -> None:
    """Quoted-printable: text and HTML come out as they went in, and no line can be taken for another thing."""
    payload = pack(rendered(text="Grüße\nFrom me\n.\n..\n" + "long " * 50 + "\ttab\n", html="<p>Grüße</p>\n")).payload
    message = read(payload)

    assert payload.isascii()
    assert message.get_content_type() == "multipart/alternative"
    assert part(message, "plain") == "Grüße\nFrom me\n.\n..\n" + ("long " * 50 + "\ttab").expandtabs() + "\n"
    assert part(message, "html") == "<p>Grüße</p>\n"
    for line in payload.partition(b"\r\n\r\n")[2].split(b"\r\n"):
        assert not line.startswith((b"From me", b"."))
        assert len(line) <= 76
    assert b"\n" not in payload.replace(b"\r\n", b"")


def test_attachments_make_it_mixed() -> None:
    """Only a digest with attachments is multipart/mixed, and their names cannot lead anywhere."""
    added = Attachment(name="../../etc/changes.csv.gz", content_type="text/csv", content=b"a,b\r\n1,\xc3\xbc\r\n")
    message = read(pack(rendered(attachments=(added,))).payload)

    assert message.get_content_type() == "multipart/mixed"
    (attachment,) = message.iter_attachments()
    assert attachment.get_content_type() == "text/csv"
    assert "/" not in str(attachment.get_filename())
    assert attachment.get_payload(decode=True) == added.content


@pytest.mark.parametrize("name", ["Kim Lee", "J\u00f6rg", '"Lee, Kim"'])
def test_recipients_may_have_names(name: str) -> None:
    """The name is in the header alone: envelope, links and what is compared, in any case, have the address."""
    config = email_config(25, unsubscribe="https://example.org/stop?r={recipient}")
    (message,) = open_channel(config).build_messages(rendered(to=(f"{name} <kim@example.org>", "KIM@example.org")))
    mail = read(message.payload)

    assert message.target == "kim@example.org"
    assert message.payload.isascii()
    (address,) = mail["To"].addresses
    assert (address.display_name, address.addr_spec) == (name.strip('"'), "kim@example.org")
    assert mail["List-Unsubscribe"] == "<https://example.org/stop?r=kim%40example.org>"


def test_resent_mail_refers_to_the_first() -> None:
    """Receivers drop a repeated Message-ID without a word, so what is sent again has another."""
    channel = open_channel(email_config(25))
    first = channel.build_messages(rendered())[0]
    again = channel.rebuild_message(rendered(), first)
    message = read(again.payload)

    assert again.message_id != first.message_id
    assert message["References"] == first.message_id
    assert str(message["Subject"]).startswith("Resent: [ml-team] 3 removed")
    assert channel.rebuild_message(rendered(), again).message_id not in (first.message_id, again.message_id)


def test_notices_belong_to_no_list() -> None:
    """Operators hear of trouble, and cannot unsubscribe from that by a click."""
    message = read(pack(rendered(is_notice=True, title="source public is stale")).payload)

    assert message["Subject"] == "[cachewatch] source public is stale"
    assert message["List-Id"] is None
    assert message["Auto-Submitted"] == "auto-generated"


def test_hostile_text_is_harmless() -> None:
    for text in HOSTILE:
        labels: dict[str, Any] = dict.fromkeys(("subscription", "title", "text", "period", "key"), text)
        lists: dict[str, Any] = dict.fromkeys(("tags", "kinds", "revisions"), (text,))
        added = Attachment(name=text, content_type="text/csv", content=b"x")
        url = f"https://example.org/{text}"
        digest = rendered(**labels, **lists, html=f"<p>{text}</p>", archive_url=url, attachments=(added,))
        payload = pack(digest, email_config(25, unsubscribe="mailto:u@example.org")).payload
        message = read(payload)

        assert payload.isascii()
        assert set(message.keys()) - {"List-Unsubscribe"} <= HEADERS
        assert not {"\x00", "\x1b", "\x9b", "\u202e"} & set(part(message, "plain") + part(message, "html"))
        assert message["To"] == "kim@example.org"
        assert all(len(line) <= 998 for line in payload.split(b"\r\n"))
        subject = str(message["Subject"])
        assert subject.isprintable()
        assert len(subject) <= 200
        assert not message.defects


def test_a_hostile_recipient_is_refused_alone(loopback: None) -> None:
    """One bad address stops no other, and never reaches a server."""
    channel = open_channel(email_config(1))
    for text in HOSTILE:
        bad, good = channel.build_messages(rendered(to=(f"{text}@example.org\r\n", "kim@example.org")))
        assert good.target == "kim@example.org"
        assert b"victim" not in bad.payload
        with channel.open(lambda target, most: ()) as transport:
            answer = transport.deliver(bad)
        assert (answer.outcome, answer.is_address) == ("dead", True), text
