"""/healthz and /metrics: who may read them, and that nobody can keep them from others."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from cachewatch.daemon import healthz_and_metrics
from cachewatch.daemon.healthz_and_metrics import MonitorPage, MonitorServer, Pages

pytestmark = pytest.mark.usefixtures("loopback")

PAGES: Pages = {
    "/healthz": lambda: MonitorPage(200, "ok\n"),
    "/metrics": lambda: MonitorPage(503, "stuck\n", "text/plain"),
}


@contextmanager
def listening(host: str) -> Iterator[int]:
    """Answer on any port."""
    server = MonitorServer(host, 0, PAGES)
    server.start()
    try:
        yield server.server_port
    finally:
        server.stop()


def ask(port: int, path: str, *, host: str = "127.0.0.1", name: str = "", method: str = "GET") -> tuple[int, str]:
    """Return the status and the text of an answer."""
    client = HTTPConnection(host, port, timeout=60)
    client.request(method, path, headers={"Host": name} if name else {})
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text


def test_pages() -> None:
    """Each path is asked for anew, with or without a query."""
    with listening("127.0.0.1") as port:
        assert ask(port, "/healthz") == (200, "ok\n")
        assert ask(port, "/metrics?name=x") == (503, "stuck\n")
        assert ask(port, "/../etc/passwd") == (404, "not found\n")
        assert ask(port, "/healthz", method="HEAD") == (200, "")
        assert ask(port, "/healthz", method="POST")[0] == 501


def test_a_page_elsewhere_cannot_read_it_through_a_name_of_its_own() -> None:
    """A local port answers to the names of this machine alone, with or without the port."""
    with listening("127.0.0.1") as port:
        assert ask(port, "/healthz", name=f"evil.example:{port}")[0] == 421
        assert ask(port, "/healthz", name="evil.example")[0] == 421
        assert ask(port, "/healthz", name="localhost")[0] == 200
        assert ask(port, "/healthz", name=f"localhost:{port}")[0] == 200


def test_a_port_for_everybody_answers_to_any_name() -> None:
    """A monitoring system asks for the machine by a name that we do not know."""
    with listening("0.0.0.0") as port:
        assert ask(port, "/healthz", name=f"build-server.example.org:{port}") == (200, "ok\n")


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_ipv6() -> None:
    """`listen: [::1]:9469` is what the configuration takes."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with listening("[::1]") as port:
        assert ask(port, "/healthz", host="::1") == (200, "ok\n")


def test_nobody_stays_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also who sends a byte now and then, for whom the time without any never ends."""
    monkeypatch.setattr(healthz_and_metrics, "_LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(healthz_and_metrics._Handler, "timeout", 600)
    with listening("127.0.0.1") as port, socket.create_connection(("127.0.0.1", port), 60) as slow:
        slow.sendall(b"G")
        assert slow.recv(1) == b""
