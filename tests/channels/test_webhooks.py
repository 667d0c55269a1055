"""JSON to a URL: signed, repeatable, never redirected, and calling nobody."""

import base64
import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from outgoing import no_shelf, rendered, send, texts
from servers import Says, serving

from cachewatch.channels.webhooks_and_chats import chat_text, webhook_body
from cachewatch.config.sources_and_channels import AppriseConfig, WebhookConfig
from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.report.digest_and_message_values import SENT, DeliveryOutcome, DeliveryResult, open_channel

pytestmark = pytest.mark.usefixtures("loopback")

PATH = "/hooks/s3cr3t-of-the-hook"


def webhook(url: str, **values: Any) -> WebhookConfig:
    everything: dict[str, Any] = {"name": "chat", "url": Secret(url), "timeout": timedelta(seconds=2)}
    return WebhookConfig(**(everything | values))


def answer_to(says: Says, **values: Any) -> DeliveryResult:
    with serving({PATH: says}) as server:
        (answer,) = send(webhook(server.url + PATH, **values), rendered())
    return answer


def test_a_digest_arrives_and_can_be_checked() -> None:
    """What Standard Webhooks says: id, time and body, signed; and the same name on every attempt."""
    key = b"0123456789abcdef01234567"
    with serving({PATH: Says(204)}) as server:
        config = webhook(server.url + PATH, signing_key=Secret("whsec_" + base64.b64encode(key).decode()))
        assert send(config, rendered(), rendered(), rendered(1)) == [SENT] * 3
        first, again, other = server.asked

    assert first.method == "POST"
    assert first.headers["content-type"] == "application/json"
    body = json.loads(first.body)
    assert body["digest"] == {"digest": 0}
    assert body["subscription"] == "ml-team"
    name, moment = first.headers["webhook-id"], first.headers["webhook-timestamp"]
    signed = f"{name}.{moment}.".encode() + first.body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert first.headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(moment) - time.time()) < 60
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"] == name
    assert first.body == again.body
    assert other.headers["idempotency-key"] != name


def test_what_is_sent_again_has_a_name_of_its_own() -> None:
    """Or it would be taken for a repetition and dropped."""
    channel = open_channel(webhook("https://example.org/x"))
    (first,) = channel.build_messages(rendered())
    again = channel.rebuild_message(rendered(), first)

    assert again.message_id != first.message_id
    assert json.loads(again.payload)["title"].startswith("Resent: ")


def test_what_statuses_mean() -> None:
    verdicts = {200: "sent", 400: "dead", 413: "too-large"}
    verdicts |= dict.fromkeys((302, 401, 404), "blocked") | dict.fromkeys((408, 429, 503), "deferred")
    for status, verdict in verdicts.items():
        answer = answer_to(Says(status, b"because"))
        assert answer.outcome == verdict, status
        assert answer.detail == "" if status < 300 else str(status) in answer.detail
    with serving({"/": Says()}) as other:  # nobody else gets the digest or its signature
        assert answer_to(Says(302, headers={"Location": other.url})).outcome is DeliveryOutcome.BLOCKED
        assert other.asked == []


def test_a_server_may_ask_to_wait() -> None:
    assert answer_to(Says(429, headers={"Retry-After": "120"})).retry_after == 120
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 10 < (answer_to(Says(429, headers={"Retry-After": until})).retry_after or 0) <= 90
    assert answer_to(Says(429)).retry_after is None


def test_no_answer_is_waited_for_for_ever() -> None:
    """Silence, drips and a body without end; the server may have acted, so the flag is up."""
    began = time.monotonic()
    short = timedelta(seconds=0.5)
    silent = answer_to(Says(wait=5), timeout=short)
    dripping = answer_to(Says(body=b"x" * 100, drip=0.2, drips_head=True), timeout=short)
    huge = answer_to(Says(500, body=b"x" * 5_000_000))

    assert time.monotonic() - began < 60
    assert (silent.outcome, silent.may_have_arrived) == (DeliveryOutcome.DEFERRED, True)
    assert (dripping.outcome, dripping.may_have_arrived) == (DeliveryOutcome.DEFERRED, True)
    assert huge.outcome is DeliveryOutcome.DEFERRED
    assert len(huge.detail) <= 300


def test_nobody_there() -> None:
    (answer,) = send(webhook("http://127.0.0.1:1" + PATH), rendered())

    assert (answer.outcome, answer.may_have_arrived, answer.is_channel) == (DeliveryOutcome.DEFERRED, False, True)


def test_the_url_is_a_secret() -> None:
    """Neither the target nor anything that is said of it tells the hook, even if the server repeats it."""
    config = webhook("http://127.0.0.1:1" + PATH)
    (message,) = open_channel(config).build_messages(rendered())
    said = [message.target, send(config, rendered())[0].detail]
    said.append(answer_to(Says(404, f"no such hook: {PATH}".encode())).detail)
    said.append(send(webhook(f"http://user:s3cr3t-of-the-hook@127.0.0.1:1{PATH}"), rendered())[0].detail)
    said.append(send(webhook("nonsense" + PATH), rendered())[0].detail)

    assert message.target == "http://127.0.0.1:1"
    assert not [text for text in said if "s3cr3t" in text]


HOSTILE = "@channel @all @here @everyone @room <!channel> <@U123> <@&1> @kim\x1b[31m\u202egcc@12 [x](http://evil) \x00"


@pytest.mark.parametrize("preset", ["json", "mattermost", "slack", "discord", "matrix"])
def test_chats_call_nobody(preset: str) -> None:
    """What looks like a call is broken up, and chats that can be told are told to ring no one."""
    one = rendered(title=HOSTILE, text=HOSTILE * 500, html=HOSTILE, markdown=HOSTILE * 500, bullets=(HOSTILE,) * 5)
    (message,) = open_channel(webhook("https://example.org/x", preset=preset)).build_messages(one)
    body = json.loads(message.payload)

    assert message.payload.isascii()
    if preset == "json":
        return
    found = list(texts(body))
    assert len(found) > 2
    for text in found:
        assert not [call for call in ("@channel", "@all", "@here", "@everyone", "@room", "@kim") if call in text]
        assert not {"\x1b", "\x00", "\u202e"} & set(text)
    assert any("gcc@12" in text for text in found)
    if preset == "slack":
        assert "<" not in body["text"]
        assert "&lt;\u200b!channel&gt;" in body["text"]
    if preset == "discord":
        assert body["allowed_mentions"] == {"parse": []}
    if preset == "matrix":
        assert "<!channel>" not in body["html"]


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # a plugin of Apprise imports it
def test_apprise_sends_to_a_chat() -> None:
    """Apprise itself, to a server of ours; a failure can be tried again."""
    with serving({"/notify": [Says(), Says(500)]}) as server:
        urls = (Secret(server.url.replace("http://", "json://") + "/notify?secret=s3cr3t"),)
        config = AppriseConfig(name="chats", urls=urls)
        sent, failed = send(config, rendered(title=HOSTILE, bullets=("Act: three packages went.",)), rendered(1))
        body = json.loads(server.asked[0].body)

    assert sent == SENT
    assert failed.outcome is DeliveryOutcome.DEFERRED
    assert "500" in failed.detail
    assert "s3cr3t" not in failed.detail
    assert body["title"].startswith("cachewatch ml-team: ")
    assert body["message"] == "- Act: three packages went."
    assert "@channel" not in body["title"]


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # a plugin of Apprise imports it
def test_apprise_is_told_nonsense() -> None:
    nonsense = AppriseConfig(name="chats", urls=(Secret("nonsense://s3cr3t"),))
    (answer,) = send(nonsense, rendered())
    assert answer.outcome is DeliveryOutcome.BLOCKED
    assert "s3cr3t" not in answer.detail

    channel = open_channel(nonsense)
    (message,) = channel.build_messages(rendered())
    with open_channel(AppriseConfig(name="chats", urls=())).open(no_shelf) as transport:
        assert transport.deliver(message).outcome is DeliveryOutcome.DEAD
    assert channel.rebuild_message(rendered(), message).payload != message.payload


CALLS = (
    *("@all", "@**all**", "@_**all**", "@*all*", "@everyone", "@here", "@channel", "@room", "x@all", "x@**all**"),
    *("<!channel>", "<!here>", "<@123>", "<@&123>", "@\u00adall", "@\u200ball", "@**topic**", "@someone"),
)


@pytest.mark.parametrize("preset", ["mattermost", "slack", "discord", "matrix"])
def test_nobody_is_called(preset: str) -> None:
    for call in CALLS:
        body = json.loads(webhook_body(preset, rendered(title=call, bullets=(f"new: {call}", call))))
        said = "\n".join(texts(body))
        assert not re.search(r"(?<![\w.])@[\w*_&\u00ad]", said), call
        assert not re.search(r"@[*_\u00ad]*(all|channel|everyone|here|room|topic)", said), call
        assert not re.search(r"<[!@]", said), call


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[click](https://evil.example/)", "[click]\u200b(https:\u200b//evil.example/)"),
        ("see https://evil.example/", "see https:\u200b//evil.example/"),
        ("www.evil.example", "www\u200b.evil.example"),
        ("gcc@12 [e4s]", "gcc@12 [e4s]"),
        ("Command: cachewatch diff https://x.example/r.git", "Command: cachewatch diff https://x.example/r.git"),
    ],
)
def test_no_link_but_ours(text: str, dead: str) -> None:
    said = chat_text(rendered(bullets=(text,), archive_url="https://hpc.example.org/d/1"))

    assert said == f"- {dead}\nThe whole digest: https://hpc.example.org/d/1"
