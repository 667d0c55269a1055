"""Answer /healthz, /readyz and /metrics on a local port; no secrets, no names from documents.

This module alone uses prometheus_client, and loads it when the metrics are requested.
"""

import re
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread, Timer
from typing import Any, ClassVar

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from cachewatch.errors import CachewatchError
from cachewatch.operators.metrics import SERIES, DaemonStatus, Sample, metrics
from cachewatch.operators.status import find_problems, read_status
from cachewatch.report.words import number
from cachewatch.service.context import Context

_SECONDS = 5
# A whole request and its answer: who sends a byte now and then never runs into _SECONDS.
_LONGEST_SECONDS = 15
_MOST_CLIENTS = 16
_PORT = re.compile(r":[0-9]*\Z")


class MonitorPage(Struct, frozen=True):
    """What is answered."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[str], MonitorPage]]  # by path; each is given the header Accept


class MonitorServer:
    """A small HTTP server in threads of its own."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Serve `pages`."""
        address = host.removeprefix("[").removesuffix("]")
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        is_local = ip_address(where[0]).is_loopback
        handler = type("Handler", (_Handler,), {"pages": pages, "name": host, "is_local": is_local})
        self._server = _BoundedServer(family, where, handler)
        self._thread = Thread(target=self._server.serve_forever, name="monitor", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _BoundedServer(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = _MOST_CLIENTS

    def __init__(self, family: int, where: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family
        super().__init__(where, handler)
        self._lock = Lock()
        self._open: dict[socket.socket, None] = {}  # the oldest first

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            # Idle clients take neither all threads nor the place of those that ask.
            while len(self._open) >= _MOST_CLIENTS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                _cut(oldest)
            self._open[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = Timer(_LONGEST_SECONDS, _cut, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            with self._lock:
                self._open.pop(request, None)

    def server_bind(self) -> None:
        """Bind without asking for our name, which a broken resolver would take long to tell."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away is no news


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[Pages]
    name: ClassVar[str]
    is_local: ClassVar[bool]
    timeout = _SECONDS
    server_version = "cachewatch"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET  # noqa: N815  http.server's name for it

    def _answer(self) -> None:
        page = self._page()
        body = page.text.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _page(self) -> MonitorPage:
        found = self.pages.get(self.path.partition("?")[0])
        if found is None:
            return MonitorPage(404, "not found\n")
        if self.is_local and self._host() not in (self.name, "localhost", "127.0.0.1", "[::1]"):
            return MonitorPage(421, "not this host\n")
        return found(self.headers.get("Accept", ""))

    def _host(self) -> str:
        """Return whom the client asks. A page elsewhere must not read ours through a name that it controls."""
        return _PORT.sub("", self.headers.get("Host", ""))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name for it
        pass


def _cut(request: socket.socket) -> None:
    """End a connection under the thread that reads from it."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


_PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Family = CounterMetricFamily | GaugeMetricFamily


class _Samples(Collector):
    """Gives the library what was measured just now."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> list[Family]:
        families: dict[str, Family] = {}
        for name, series in SERIES.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            families[name] = kind(name, series.about, labels=series.labels)
        for name, labels, value in self._samples:
            # An older or newer version may have counted what this one does not know.
            if name in SERIES and labels.keys() == set(SERIES[name].labels):
                families[name].add_metric([labels[label] for label in SERIES[name].labels], value)
        return list(families.values())


def expose(samples: Iterable[Sample], accept: str) -> tuple[str, str]:
    """Return the text and its content type: OpenMetrics if `accept`, a header of HTTP, asks for it."""
    # A registry of our own: the library's has figures of this process that we give ourselves.
    registry = CollectorRegistry()
    registry.register(_Samples(samples))
    try:
        encode, content_type = choose_encoder(accept if accept.isprintable() else "")
    except (TypeError, ValueError):  # a version that is none
        encode, content_type = generate_latest, _PLAIN
    return encode(registry).decode(), content_type


STUCK_SECONDS = 900.0


def healthz(age: float, failing: list[str]) -> MonitorPage:
    """Say whether a daemon lives whose last tick was `age` seconds ago, and of which these jobs keep failing."""
    if failing:
        return MonitorPage(503, f"failing: {', '.join(failing)}\n")
    return (
        MonitorPage(200, f"ok: last tick {age:.0f} s ago\n")
        if age < STUCK_SECONDS
        else MonitorPage(503, f"stuck for {age:.0f} s\n")
    )


def readyz(context: Context, health: MonitorPage) -> MonitorPage:
    """Say what keeps the service from its work, be it the daemon itself or something else."""
    try:
        found = find_problems(read_status(context), context.config, context.clock())
    except CachewatchError as error:
        return MonitorPage(503, f"{error}\n")
    lines = [*([health.text] if health.status != 200 else []), *(f"{problem.what}\n" for problem in found.problems)]
    first = [] if lines else ["ready\n"]
    if found.warnings:
        lines.append(f"{number(len(found.warnings), 'warning')}: see `cachewatch status --check`\n")
    return MonitorPage(200 if first else 503, "".join([*first, *lines]))


def standby(leader: str, health: MonitorPage) -> MonitorPage:
    """Say that another process works on the state, and this one would take over."""
    return MonitorPage(200, f"standby: {leader} works on the state\n") if health.status == 200 else health


def figures(context: Context, daemon: DaemonStatus, accept: str) -> MonitorPage:
    """Return all metrics, in the form that the header `accept` asks for."""
    try:
        return MonitorPage(200, *expose(metrics(context, daemon), accept))
    except CachewatchError as error:
        return MonitorPage(503, f"{error}\n")
