"""Mail to servers that others wrote: Postfix's smtp-sink, and exim, which delivers it into Maildirs."""

import email
import email.policy
from typing import Any

import pytest
from mailservers import exim, header, part, smtp_sink
from outgoing import email_config, rendered, send

from cachewatch.report.digest_and_message_values import SENT, Attachment, DeliveryOutcome, open_channel

pytestmark = pytest.mark.usefixtures("loopback")


def test_smtp_sink_takes_it() -> None:
    """Another implementation, also without ESMTP and 8BITMIME, gets the bytes that were packed."""
    for options in ([], ["-e"], ["-8"]):
        with smtp_sink(*options) as sink:
            config = email_config(sink.port)
            assert send(config, rendered(), rendered(1)) == [SENT, SENT]
            contents = [content.replace(b"\r\n", b"\n") for content in sink.contents()]

        for number in (0, 1):
            (message,) = open_channel(config).build_messages(rendered(number))
            assert [content for content in contents if content.count(message.payload.replace(b"\r\n", b"\n")) == 1]


def test_exim_delivers_and_others_read_it() -> None:
    """What lies in the Maildir in the end: headers by formail, parts by Perl, and never an encoded word where none belongs."""
    text = "Grüße an alle\nFrom now on\n.\n..\n" + "x" * 40_00 + "\n\u2028end\n"
    one = rendered(
        title="gcc → 15 → 16 " + "long title " * 30,
        subscription="ml-team",
        text=text,
        html="<p>Grüße &amp; <b>mehr</b></p>\n",
        attachments=(Attachment(name="changes.csv", content_type="text/csv", content=b"a,b\r\n1,2\r\n"),),
    )
    with exim() as server:
        link = "https://example.org/" + "u" * 200 + "?who={recipient}"
        lists: dict[str, Any] = {"list_domain": "cachewatch.example.org", "bounces": "bounces@example.org"}
        channel = open_channel(email_config(server.port, unsubscribe=link, **lists))
        first = channel.build_messages(one)[0]
        again = channel.rebuild_message(one, first)
        with channel.open(lambda target, most: ()) as transport:
            assert [transport.deliver(message) for message in (first, again)] == [SENT, SENT]
        mails = server.mails("kim", 2)

    by_id = {header(mail, "Message-ID"): mail for mail in mails}
    assert set(by_id) == {first.message_id, again.message_id}
    mail = by_id[str(again.message_id)]
    assert header(mail, "Return-path") == "<bounces@example.org>"
    assert header(mail, "References") == first.message_id
    assert header(mail, "List-Id") == "cachewatch ml-team <ml-team.cachewatch.example.org>"
    assert header(mail, "List-Unsubscribe") == f"<https://example.org/{'u' * 200}?who=kim%40example.org>"
    assert header(mail, "Auto-Submitted") == "auto-generated"
    assert mail.isascii()
    parsed = email.message_from_bytes(mail, policy=email.policy.default)
    assert str(parsed["Subject"]).startswith("Resent: [ml-team] gcc → 15 → 16 long title")
    (alternative,) = [found for found in parsed.walk() if found.get_content_type() == "multipart/alternative"]
    inner = alternative.as_bytes()
    assert part(inner, "text/plain") == text.replace("\u2028", "\\u2028")
    assert part(inner, "text/html") == "<p>Grüße &amp; <b>mehr</b></p>\n"


def test_exim_refuses_some_and_takes_the_rest() -> None:
    """A greylisted, a refused and a good address, a poisoned subject, a message that is too large: each alone."""
    with exim() as server:
        config = email_config(server.port)
        everyone = ("grey@example.org", "bad@example.org", "kim@example.org", "kim@elsewhere.example")
        grey, bad, good, relayed = send(config, rendered(to=everyone))
        poison, healthy = send(config, rendered(1, title="poison"), rendered(2))
        large, small = send(config, rendered(3, text="long line of text\n" * 5_000), rendered(4))
        mails = server.mails("kim", 4 - 1)

    assert grey.outcome is DeliveryOutcome.DEFERRED
    assert "greylisted" in grey.detail
    assert (bad.outcome, bad.is_address) == (DeliveryOutcome.DEAD, True)
    assert good == SENT
    assert relayed.outcome is DeliveryOutcome.DEAD
    assert (poison.outcome, poison.is_address) == (DeliveryOutcome.DEAD, False)
    assert healthy == SENT
    assert large.outcome is DeliveryOutcome.TOO_LARGE
    assert small == SENT
    assert len(mails) == 3
