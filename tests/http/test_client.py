"""How servers are asked: what is tried again, what is refused, and that everything ends."""

import gzip
import socket
import ssl
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import trustme
from helpers import secret
from servers import Asked, Says, over_tls, serving

from cachewatch.errors import HttpError, RefusedAddress, TooLarge
from cachewatch.http import client as http
from cachewatch.http.allowed_addresses import basic, bearer
from cachewatch.http.client import Client, RequestLimits
from cachewatch.runtime.files_and_locks import NotInflated, inflate

pytestmark = pytest.mark.usefixtures("loopback")

QUICK = RequestLimits(pause=0.01, silence=10.0, seconds=60.0)


def get(url: str, limits: RequestLimits = QUICK, **options: object) -> http.Answer:
    """Ask once, with little patience."""
    with closing(Client(limits)) as asking:
        return asking.get(url, **options)  # type: ignore[arg-type]


def test_an_answer_is_read_whole() -> None:
    with serving({"/a": Says(body=b"hello", headers={"X-Thing": "1"})}) as server:
        answer = get(f"{server.url}/a")

    assert (answer.status, answer.body, answer.headers["x-thing"]) == (200, b"hello", "1")
    assert server.asked[0].headers["user-agent"].startswith("cachewatch/")


def test_what_passes_is_tried_again_and_what_stays_is_not() -> None:
    """A server in trouble may recover; to ask again for what is not there or not allowed is rude and changes nothing."""
    for status in (425, 429, 503):
        with serving({"/a": [Says(status), Says(status), Says(body=b"at last")]}) as server:
            assert get(f"{server.url}/a").body == b"at last"
    for status, attempts, said in ((401, 1, "401"), (404, 1, "404"), (418, 1, "418"), (503, 4, r"503.*\(4 attempts\)")):
        with serving({"/a": Says(status)}) as server, pytest.raises(HttpError, match=said) as caught:
            get(f"{server.url}/a?token=secret")
        assert (len(server.asked), "secret" in str(caught.value)) == (attempts, False)


def test_retry_after_is_honoured_within_the_deadline() -> None:
    """Who is told to come back in an hour does not wait for an hour; the caller learns how long."""
    with serving({"/a": [Says(429, headers={"Retry-After": "1"}), Says(body=b"now")]}) as server:
        began = time.monotonic()
        assert get(f"{server.url}/a").body == b"now"

    assert time.monotonic() - began >= 1.0
    with serving({"/a": Says(429, headers={"Retry-After": "3600"})}) as server, pytest.raises(HttpError) as caught:
        get(f"{server.url}/a")
    assert (caught.value.retry_after, len(server.asked)) == (3600, 1)


def test_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def seconds(text: str) -> float | None:
        return http.Answer(429, {"retry-after": text}, b"").retry_after(now)

    assert seconds(format_datetime(now + timedelta(seconds=90), usegmt=True)) == 90
    assert seconds(format_datetime(now - timedelta(seconds=90), usegmt=True)) == 0
    assert seconds("soon") is None
    assert seconds("") is None


def test_a_cut_answer_is_no_answer() -> None:
    """A body shorter than announced is asked for again, and never passed on."""
    with serving({"/a": [Says(body=b"half", length=100), Says(body=b"whole")]}) as server:
        assert get(f"{server.url}/a").body == b"whole"
    with serving({"/a": Says(body=b"half", length=100)}) as server, pytest.raises(HttpError, match="cut"):
        get(f"{server.url}/a")


def test_all_answers_together_have_a_deadline() -> None:
    """A server that takes its time for each of many files does not hold up a poll for all of them."""
    limits = RequestLimits(pause=0.01, total=1.0)
    with serving(lambda _: Says(wait=0.6)) as server, closing(Client(limits)) as asking:
        for _ in range(10):
            with suppress(HttpError):
                asking.get(f"{server.url}/a")
        with pytest.raises(HttpError, match="all answers together took more than 1 s"):
            asking.get(f"{server.url}/a")
        assert len(server.asked) <= 2


def test_silence_ends() -> None:
    with serving({"/a": Says(wait=30)}) as server, pytest.raises(HttpError, match="stopped sending"):
        get(f"{server.url}/a", RequestLimits(silence=0.2, attempts=1))


@pytest.mark.parametrize("drips_head", [True, False])
def test_dripping_ends(drips_head: bool) -> None:
    """A server that sends a byte now and then is never silent; the deadline ends it all the same."""
    with serving({"/a": Says(body=b"x" * 1000, drip=0.05, drips_head=drips_head)}) as server:
        began = time.monotonic()
        with pytest.raises(HttpError, match="took too long"):
            get(f"{server.url}/a", RequestLimits(seconds=0.5, silence=5))

    assert time.monotonic() - began < 40  # all of it takes 50 seconds


def test_too_much_is_refused() -> None:
    """Neither a large body nor a small one that unpacks to a large one is held."""
    bomb = gzip.compress(b"\0" * 10_000_000)
    answers = {"/large": Says(body=b"x" * 2000), "/bomb": Says(body=bomb, headers={"Content-Encoding": "gzip"})}
    with serving(answers) as server:
        for path in answers:
            with pytest.raises(TooLarge, match=r"more than 1,000 bytes|more than 20,000 bytes"):
                get(f"{server.url}{path}", RequestLimits(size=20_000 if path == "/bomb" else 1000, attempts=1))


def test_packed_answers_are_unpacked() -> None:
    """What a server packs for the way is unpacked; what it cuts or spoils on the way is asked for again."""
    packed = gzip.compress(b"hello" * 100)
    coding = {"Content-Encoding": "gzip"}
    with serving({"/a": [Says(body=packed[:-12], headers=coding), Says(body=packed, headers=coding)]}) as server:
        assert get(f"{server.url}/a").body == b"hello" * 100
    assert len(server.asked) == 2
    odd = {"/a": Says(body=b"x", headers={"Content-Encoding": "br"})}
    with serving(odd) as server, pytest.raises(HttpError, match="packed as 'br'"):
        get(f"{server.url}/a")


def test_redirects_are_followed_a_few_times() -> None:
    answers: dict[str, Says | list[Says]] = {
        "/old": Says(301, headers={"Location": "/new"}),
        "/new": Says(body=b"here"),
        "/loop": Says(302, headers={"Location": "/loop"}),
        "/file": Says(302, headers={"Location": "file:///etc/passwd"}),
        "/none": Says(302),
    }
    with serving(answers) as server:
        assert get(f"{server.url}/old").body == b"here"
        with pytest.raises(HttpError, match="redirects too often"):
            get(f"{server.url}/loop")
        with pytest.raises(HttpError, match="a forbidden address"):
            get(f"{server.url}/file")
        with pytest.raises(HttpError):
            get(f"{server.url}/none")


def test_credentials_go_to_their_server_only() -> None:
    """A redirect to another host (or port) takes no password along; one on the same host does."""
    secret = {"Authorization": "Bearer s3cret"}
    with serving({"/data": Says(body=b"data")}) as other:
        answers: dict[str, Says | list[Says]] = {
            "/away": Says(307, headers={"Location": f"{other.url}/data"}),
            "/here": Says(307, headers={"Location": "/data"}),
            "/data": Says(body=b"data"),
        }
        with serving(answers) as server:
            assert get(f"{server.url}/away", headers=secret).body == b"data"
            assert get(f"{server.url}/here", headers=secret).body == b"data"

    assert ["authorization" in asked.headers for asked in other.asked] == [False]
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer s3cret"] * 3


def test_https_does_not_lead_to_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for https is not sent elsewhere; and a certificate must be trusted."""
    authority = trustme.CA()
    with serving({"/a": Says(302, headers={"Location": "http://127.0.0.1/b"}), "/b": Says(body=b"safe")}) as server:
        secure = over_tls(server, authority)
        with pytest.raises(HttpError, match="certificate is not trusted"):
            get(f"{secure}/b")
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert get(f"{secure}/b").body == b"safe"
        with pytest.raises(HttpError, match="from https to http"):
            get(f"{secure}/a")


def test_a_machine_without_authorities_trusts_whom_browsers_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small container has no list of certificate authorities of its own."""
    nothing = SimpleNamespace(cafile=None, capath=None)
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nothing)
    trusted = http._trust()
    assert isinstance(trusted, ssl.SSLContext)
    assert len(trusted.get_ca_certs()) > 50


def test_odd_addresses_are_refused() -> None:
    others = ("http://[", "/x", "http://h:x/")
    for url in ("ftp://host/x", "file:///etc/passwd", "http://", "http://u:p@127.0.0.1/", *others):
        with pytest.raises(RefusedAddress) as caught:
            get(url)
        assert "u:p" not in str(caught.value)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(HttpError, match="no connection") as caught:
            get(f"http://127.0.0.1:{free.getsockname()[1]}/")

    assert caught.value.is_transient


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """http_proxy is where requests go, unless no_proxy names the host."""
    with serving(lambda asked: Says(body=asked.path.encode())) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert get("http://mirror.example/index").body == b"http://mirror.example/index"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert get(f"{proxy.url}/direct").body == b"/direct"


def test_a_post_returns_whatever_is_answered() -> None:
    """One attempt, no redirect, a capped body, any status."""
    answers: dict[str, Says | list[Says]] = {
        "/ok": Says(200, b"fine"),
        "/moved": Says(302, headers={"Location": "/ok"}),
        "/busy": Says(429, headers={"Retry-After": "7"}),
        "/long": Says(200, b"x" * 100_000),
        "/packed": Says(400, gzip.compress(b"no"), {"Content-Encoding": "gzip"}),
        "/broken": Says(500, b"xx", {"Content-Encoding": "gzip"}),
    }
    with serving(answers) as server:
        said = {path: http.post(f"{server.url}{path}", b"{}", headers={"X-Id": "1"}) for path in answers}

    assert {path: answer.status for path, answer in said.items()} == {p: s.status for p, s in answers.items()}  # type: ignore[union-attr]
    assert said["/busy"].retry_after() == 7
    assert (len(said["/long"].body), said["/long"].is_cut) == (64 * 1024, True)
    assert said["/packed"].body == b"no"
    assert len(server.asked) == len(answers)
    assert server.asked[0] == Asked("POST", "/ok", server.asked[0].headers, b"{}")
    assert server.asked[0].headers["x-id"] == "1"


def test_a_post_ends() -> None:
    slow = Says(body=b"x" * 1000, drip=0.05, drips_head=True)
    with serving({"/a": slow}) as server, pytest.raises(HttpError, match="took too long"):
        http.post(f"{server.url}/a", b"", seconds=0.4)


def test_credentials_come_from_files(tmp_path: Path) -> None:
    """One line each; a file that everybody can read, or that holds something else, is refused."""
    file = secret(tmp_path / "secret", "abc\n")
    assert bearer(file) == {"Authorization": "Bearer abc"}
    with pytest.raises(RefusedAddress, match="user:password"):
        basic(file)
    file.write_text("me:pass:word\n")
    assert basic(file) == {"Authorization": "Basic bWU6cGFzczp3b3Jk"}
    file.chmod(0o602)
    with pytest.raises(RefusedAddress, match="chmod o-rwx"):
        basic(file)
    file.chmod(0o600)
    for content in (b"", b"two\nlines", b"\xff\xfe"):
        file.write_bytes(content)
        with pytest.raises(RefusedAddress):
            bearer(file)
    with pytest.raises(RefusedAddress, match="cannot be read"):
        bearer(tmp_path / "missing")


def test_inflating_is_all_or_nothing() -> None:
    packed = gzip.compress(b"some text, some text")
    assert inflate(packed, most=100) == b"some text, some text"
    assert inflate(packed + packed, most=100) == b"some text, some text" * 2
    for end in range(1, len(packed)):
        with pytest.raises(NotInflated):
            inflate(packed[:end], most=100)
    with pytest.raises(NotInflated, match="more than 10 bytes"):
        inflate(packed, most=10)
    with pytest.raises(NotInflated):
        inflate(b"plain", most=100)
