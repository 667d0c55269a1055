"""A session with a mail server, and everything that servers and networks do to it."""

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from mailservers import DROP, SWALLOW, Post, free_port, post, scripted, talking
from msgspec import structs
from outgoing import email_config, no_shelf, rendered, send

from cachewatch.channels.smtp import Session
from cachewatch.config.value_types_and_secrets import Secret
from cachewatch.report.digest_and_message_values import SENT, DeliveryOutcome, DeliveryResult, open_channel
from cachewatch.service.recipients_and_retries import LONGEST_ATTEMPT, longest_attempt

pytestmark = pytest.mark.usefixtures("loopback")

Read = Callable[[], bytes]
LOGIN: dict[str, Any] = {"user": "cachewatch", "password": Secret("s3cr3t")}


def answer_of(port: int, seconds: float = 5, **smtp: Any) -> DeliveryResult:
    (answer,) = send(email_config(port, smtp={"timeout": timedelta(seconds=seconds)} | smtp), rendered())
    return answer


def test_one_connection_and_one_transaction_each() -> None:
    """Each recipient has a message of their own, and the stored bytes are what arrives."""
    one = rendered(to=("kim@example.org", "lee@example.org"))
    with post() as server:
        config = email_config(server.port, bounces="bounces@example.org")
        with open_channel(config).open(no_shelf):
            assert server.sessions == 0, "nothing connects without a message"
        assert send(config, one, rendered(1)) == [SENT] * 3

    assert server.sessions == 1
    assert [received.recipient[:3] for received in server.received] == ["kim", "lee", "kim"]
    assert {received.sender for received in server.received} == {"bounces@example.org"}
    assert server.received[0].content == open_channel(config).build_messages(one)[0].payload


CODES = [
    ("MAIL", "450 4.1.8 later", "deferred", {}),
    ("MAIL", "421 closing", "deferred", {"is_lost": True}),
    ("MAIL", "530 5.7.0 authenticate first", "blocked", {"is_channel": True}),
    ("MAIL", "550 5.1.8 bad sender", "blocked", {"is_channel": True}),
    ("MAIL", "552 5.3.4 too big for us", "too-large", {}),
    ("RCPT", "530 5.7.0 authenticate first", "blocked", {"is_channel": True}),
    ("RCPT", "450 4.2.0 greylisted", "deferred", {}),
    ("RCPT", "421 closing", "deferred", {"is_lost": True}),
    ("RCPT", "550 5.1.1 no such user", "dead", {"is_address": True}),
    ("RCPT", "552 5.2.2 mailbox full", "deferred", {}),
    ("RCPT", "552 5.2.3 larger than the mailbox takes", "too-large", {}),
    ("RCPT", "554 5.7.1 relay access denied", "dead", {"is_address": True}),
    ("DATA", "451 4.7.1 greylisted", "deferred", {}),
    ("DATA", "421 closing", "deferred", {"is_lost": True}),
    ("DATA", "535 5.7.8 not you any more", "blocked", {"is_channel": True}),
    ("DATA", "550 5.7.1 spam", "dead", {}),
    ("DATA", "552 5.3.4 too big", "too-large", {}),
    ("DATA", "552 5.7.0 potential security issue", "dead", {}),
    ("DATA", "554 5.6.0 content rejected", "dead", {}),
]


@pytest.mark.parametrize(("command", "reply", "verdict", "more"), CODES, ids=[f"{c}-{r[:9]}" for c, r, _, _ in CODES])
def test_what_replies_mean(command: str, reply: str, verdict: str, more: dict[str, bool]) -> None:
    with post(replies={command: [reply]}) as server:
        answer = answer_of(server.port)

    assert answer.outcome == verdict
    assert reply[4:] in answer.detail
    assert reply[:3] in answer.detail
    assert {name for name in ("is_address", "is_channel", "is_lost") if getattr(answer, name)} == set(more)
    assert not answer.may_have_arrived


@pytest.mark.parametrize("refusal", ["450 greylisted", "550 no such user"])
def test_one_refused_recipient_stops_no_other(refusal: str) -> None:
    with post(by_recipient={"bad@example.org": refusal}) as server:
        everyone = ("kim@example.org", "bad@example.org", "lee@example.org")
        first, bad, last = send(email_config(server.port), rendered(to=everyone))

    assert (first, last) == (SENT, SENT)
    assert bad.outcome in (DeliveryOutcome.DEFERRED, DeliveryOutcome.DEAD)
    assert server.sessions == 1


@pytest.mark.slow
def test_a_connection_lost_within_the_message() -> None:
    """The final dot never went out, so nothing can have arrived."""

    def talk(connection: socket.socket, read: Read) -> None:
        connection.sendall(b"220 test\r\n")
        while line := read():
            if line[:4].upper() == b"DATA":
                connection.sendall(b"354 go on\r\n")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            connection.sendall(b"250 ok\r\n")

    with talking(talk) as port:
        (answer,) = send(email_config(port), rendered(text="a line of text\n" * 2_000_000))

    assert (answer.outcome, answer.may_have_arrived) == (DeliveryOutcome.DEFERRED, False)


def test_a_connection_lost_after_the_message() -> None:
    """The server has it, we do not know: the flag says so, and the copy is the same to the byte."""
    with post(replies={"DATA": [SWALLOW]}) as server:
        first, second = answer_of(server.port), answer_of(server.port)

    assert (first.outcome, first.may_have_arrived, second) == (DeliveryOutcome.DEFERRED, True, SENT)
    assert len(server.received) == 2
    assert server.received[0] == server.received[1]


def test_a_connection_lost_after_a_later_message() -> None:
    """Only for the next run: to send it again at once would make a second copy; those behind it go over another."""
    with post() as server:
        server.replies["DATA"] = ["250 OK", SWALLOW]
        first, second, *behind = send(email_config(server.port), *map(rendered, range(4)))

    assert (first, second.outcome, second.may_have_arrived) == (SENT, DeliveryOutcome.DEFERRED, True)
    assert behind == [SENT, SENT]
    assert len(server.received) == 4


def test_no_answer_to_the_end_of_the_message() -> None:
    """It may take ten times as long as others, and may have arrived."""

    def silent(connection: socket.socket, read: Read) -> None:
        connection.sendall(b"220 test\r\n")
        while (line := read()) and line != b".\r\n":
            if line[:4] in (b"EHLO", b"ehlo", b"MAIL", b"mail", b"RCPT", b"rcpt"):
                connection.sendall(b"250 ok\r\n")
            elif line[:4] in (b"DATA", b"data"):
                connection.sendall(b"354 go on\r\n")
        read()

    with talking(silent) as port:
        began = time.monotonic()
        answer = answer_of(port, 0.2)

    assert 1.5 < time.monotonic() - began < 60
    assert (answer.outcome, answer.may_have_arrived) == (DeliveryOutcome.DEFERRED, True)
    assert "no answer in time" in answer.detail


@pytest.mark.parametrize("reply", ["421 4.4.2 closing", DROP])
def test_success_is_decided_before_quit(reply: str) -> None:
    """What a server says to QUIT changes nothing, so nothing is sent twice."""
    with post(replies={"QUIT": [reply]}) as server:
        assert answer_of(server.port) == SENT


def _drip(connection: socket.socket, read: Read) -> None:
    for byte in b"220" + b" a greeting that takes its time and would never run into a timeout of single reads" * 20:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def _endless(connection: socket.socket, read: Read) -> None:
    connection.sendall(b"220 test\r\n")
    read()
    while True:
        connection.sendall(b"250-and one more thing\r\n" * 100)


def _http(connection: socket.socket, read: Read) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>")


def _mute(connection: socket.socket, read: Read) -> None:
    read()


# A reply without end is cut at its size, long before the deadline.
@pytest.mark.parametrize(("talk", "seconds"), [(_drip, 0.1), (_endless, 120), (_http, 0.1), (_mute, 0.1)])
def test_no_server_holds_a_session(talk: Callable[[socket.socket, Read], None], seconds: float) -> None:
    """Drips, replies without end, another protocol and silence: later, within the deadline."""
    with talking(talk) as port:
        began = time.monotonic()
        answer = answer_of(port, seconds)
        took = time.monotonic() - began

    assert took < 60  # the greeting alone takes 90 seconds
    assert (answer.outcome, answer.may_have_arrived, answer.is_channel) == (DeliveryOutcome.DEFERRED, False, True)
    assert answer.detail.isprintable()
    assert len(answer.detail) <= 300


@pytest.mark.slow
def test_no_attempt_is_longer_than_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is lost within a large message, then a new one; all deadlines add up, as the server hangs up at once."""
    deadlines: list[float] = []
    within, hangs_up = Session.within, threading.Event()

    def record(session: Session, seconds: float) -> AbstractContextManager[None]:
        deadlines.append(seconds)
        return within(session, seconds)

    def talk(connection: socket.socket, read: Read) -> None:
        connection.sendall(b"220 here\r\n")
        while line := read():
            if line[:4] != b"DATA":
                connection.sendall(b"250 ok\r\n")
                continue
            connection.sendall(b"354 go on\r\n")
            if hangs_up.is_set():
                return
            while read() not in (b".\r\n", b""):
                pass
            connection.sendall(b"250 taken\r\n")

    monkeypatch.setattr(Session, "within", record)
    with talking(talk) as port:
        config = email_config(port, smtp={"timeout": timedelta(seconds=30)})
        channel = open_channel(config)
        (small,) = channel.build_messages(rendered())
        (large,) = channel.build_messages(rendered(1, text="so much\n" * 2_000_000))
        with channel.open(no_shelf) as transport:
            assert transport.deliver(small) == SENT
            deadlines.clear()
            hangs_up.set()
            answer = transport.deliver(large)
    assert answer.outcome is DeliveryOutcome.DEFERRED
    assert answer.detail.startswith("sending the message: ")
    closings = [seconds for seconds in deadlines if seconds == 5]
    assert len(closings) == 2
    assert sum(deadlines) - sum(closings) == pytest.approx(30 * LONGEST_ATTEMPT)
    assert timedelta(seconds=sum(deadlines)) < longest_attempt(config)


@pytest.mark.parametrize(
    ("replies", "verdict"),
    [
        ({"GREETING": b"421 too busy\r\n"}, "deferred"),
        ({"GREETING": b"554 not you\r\n"}, "blocked"),
        ({"EHLO": b"502 what?\r\n"}, "sent"),
        ({"EHLO": b"502 what?\r\n", "HELO": b"504 no\r\n"}, "blocked"),
        ({"RCPT": b"251 not here; will forward\r\n"}, "sent"),
        ({"DATA": b""}, "deferred"),
        ({"END": b"250-all\r\n250 is well\r\n"}, "sent"),
        ({"END": b"what?\r\n"}, "deferred"),
        ({"RSET": b"500 what?\r\n", "RCPT": b"450 later\r\n"}, "deferred"),
    ],
    ids=str,
)
def test_odd_servers(replies: dict[str, bytes], verdict: str) -> None:
    with talking(scripted(**replies)) as port:
        answer = answer_of(port)

    assert answer.outcome == verdict
    assert answer.may_have_arrived == (replies.get("END") == b"what?\r\n")


def test_nobody_there() -> None:
    first, second = send(email_config(free_port()), rendered(), rendered(1))

    assert (first.outcome, first.is_channel) == (DeliveryOutcome.DEFERRED, True)
    assert first.detail == "connecting: Connection refused"
    assert second == first


def test_a_session_that_the_server_ended() -> None:
    """Servers close sessions that were long or idle; the message in hand goes over a new one."""
    mails: list[int] = []  # in each session

    def greet(_: bytes) -> bytes:
        mails.append(0)
        return b"220 test\r\n"

    def take_one(_: bytes) -> bytes:
        mails[-1] += 1
        return b"250 ok\r\n" if mails[-1] == 1 else b"421 4.7.0 one message per session\r\n"

    with talking(scripted(GREETING=greet, MAIL=take_one)) as port:
        assert send(email_config(port), rendered(), rendered(1), rendered(2)) == [SENT] * 3
    assert len(mails) == 3


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Return an authority that only these tests trust."""
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def _context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    return _context(authority, "127.0.0.1", "localhost")


@pytest.fixture(params=["starttls", "tls"])
def security(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_tls_with_a_trusted_certificate(security: str, server_tls: ssl.SSLContext, ca_file: Path) -> None:
    with post(tls=server_tls, is_implicit=security == "tls", require_starttls=security == "starttls") as server:
        assert answer_of(server.port, security=security, ca_file=ca_file) == SENT

    assert server.is_tls


def test_bad_certificates(security: str, authority: trustme.CA, server_tls: ssl.SSLContext, ca_file: Path) -> None:
    with post(tls=server_tls, is_implicit=security == "tls") as server:
        unknown = answer_of(server.port, security=security)
    assert server.received == []
    with post(tls=_context(authority, "elsewhere.example"), is_implicit=security == "tls") as server:
        other = answer_of(server.port, security=security, ca_file=ca_file)
    assert server.received == []

    assert (unknown.outcome, other.outcome) == (DeliveryOutcome.BLOCKED, DeliveryOutcome.BLOCKED)
    assert "not trusted" in unknown.detail
    assert "ca_file" in unknown.detail
    assert "127.0.0.1" in other.detail


def test_starttls_taken_out_of_the_way(ca_file: Path) -> None:
    """Somebody on the way strips it: neither the mail nor the password goes over in clear."""
    with post() as server:
        answer = answer_of(server.port, security="starttls", ca_file=ca_file, **LOGIN)

    assert (answer.outcome, answer.is_channel) == (DeliveryOutcome.BLOCKED, True)
    assert "STARTTLS" in answer.detail
    assert (server.received, server.logins) == ([], [])


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (b"454 no TLS now\r\n", "deferred"),
        (b"501 no\r\n", "blocked"),
        # What follows STARTTLS in clear is not taken for the server's word.
        (b"220 go on\r\n250-test\r\n250 AUTH PLAIN\r\n235 ok\r\n", "deferred"),
    ],
)
def test_replies_before_tls(reply: bytes, verdict: str, ca_file: Path) -> None:
    with talking(scripted(EHLO=b"250-test\r\n250 STARTTLS\r\n", STAR=reply)) as port:
        answer = answer_of(port, 1, security="starttls", ca_file=ca_file)
    assert (answer.outcome, answer.is_channel) == (verdict, True)


def test_tls_on_a_plain_port(ca_file: Path, tmp_path: Path) -> None:
    with post() as server:
        answer = answer_of(server.port, security="tls", ca_file=tmp_path / "nowhere.pem")
        assert (answer.outcome, "nowhere.pem" in answer.detail) == (DeliveryOutcome.BLOCKED, True)
        assert answer_of(server.port, 1, security="tls", ca_file=ca_file).outcome is DeliveryOutcome.DEFERRED
    with talking(_drip) as port:
        began = time.monotonic()
        assert answer_of(port, 0.1, security="tls", ca_file=ca_file).outcome is DeliveryOutcome.DEFERRED
        assert time.monotonic() - began < 60


@pytest.fixture
def guarded(server_tls: ssl.SSLContext) -> Iterator[Post]:
    with post(tls=server_tls, auth_required=True) as server:
        yield server


def test_logging_in(guarded: Post, ca_file: Path) -> None:
    assert answer_of(guarded.port, security="starttls", ca_file=ca_file, **LOGIN) == SENT
    assert guarded.logins == [("cachewatch", "s3cr3t")]


@pytest.mark.parametrize(
    ("reply", "login", "expected"),
    [
        ("", {"user": "cachewatch", "password": Secret("s3cr3t-wrong")}, ("blocked", "AUTH: 535")),
        ("", {}, ("blocked", "530")),
        ("454 4.7.0 temporary authentication failure", LOGIN, ("deferred", "454")),  # no verdict on the password
        ("535 5.7.8 s3cr3t is wrong", LOGIN, ("blocked", "*** is wrong")),  # what a server repeats
        ("", {"user": "u", "password": Secret("s3cr3tß")}, ("blocked", "")),  # smtplib knows ASCII only
    ],
)
def test_bad_login(guarded: Post, ca_file: Path, reply: str, login: dict[str, Any], expected: tuple[str, str]) -> None:
    guarded.replies["AUTH"] = [reply] * bool(reply)
    answer = answer_of(guarded.port, security="starttls", ca_file=ca_file, **login)

    outcome, said = expected
    assert answer.outcome == outcome
    assert said in answer.detail
    assert "s3cr3t" not in repr(answer)


def test_a_server_without_logins(server_tls: ssl.SSLContext, ca_file: Path) -> None:
    with post(tls=server_tls, auth_exclude_mechanism=["LOGIN", "PLAIN"]) as server:
        answer = answer_of(server.port, security="starttls", ca_file=ca_file, **LOGIN)

    assert answer.outcome is DeliveryOutcome.BLOCKED


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # that is what is tested
def test_passwords_in_clear_stay_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`security: none` with a user is for a server on this machine only, wherever its name leads."""
    with post(auth_required=True, auth_require_tls=False) as server:
        assert answer_of(server.port, **LOGIN) == SENT
        monkeypatch.setattr("cachewatch.channels.smtp.is_loopback", lambda host: False)
        answer = answer_of(server.port, **LOGIN)

    assert answer.outcome is DeliveryOutcome.BLOCKED
    assert len(server.logins) == 1


def test_the_greeting_names_this_machine() -> None:
    """A whole name, or the address in brackets: never localhost or an invented one."""
    greetings: list[bytes] = []

    def talk(connection: socket.socket, read: Read) -> None:
        connection.sendall(b"220 test\r\n")
        greetings.append(read())

    with talking(talk) as port:
        answer_of(port)

    assert re.fullmatch(rb"(?i)ehlo (\[127\.0\.0\.1\]|\S+\.\S+)\r\n", greetings[0])


def test_lines_that_begin_with_a_dot_arrive() -> None:
    """Stored messages go over the line as they are, whatever is in them."""
    message = open_channel(email_config(1)).build_messages(rendered())[0]
    payload = b"Subject: x\r\n\r\n.\r\n..two\r\nend without a line end"
    with post() as server, open_channel(email_config(server.port)).open(no_shelf) as transport:
        assert transport.deliver(structs.replace(message, payload=payload)) == SENT

    assert server.received[0].content == payload + b"\r\n"
