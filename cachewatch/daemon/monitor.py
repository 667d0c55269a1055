"""Answer /healthz, /readyz and /metrics on a local port; no secrets, no names from documents."""

import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock, Thread, Timer
from typing import Any, ClassVar

from msgspec import Struct

_SECONDS = 5
# A whole request and its answer: who sends a byte now and then never runs into _SECONDS.
_LONGEST_SECONDS = 15
_MOST_CLIENTS = 16
_PORT = re.compile(r":[0-9]*\Z")


class Page(Struct, frozen=True):
    """What is answered."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[str], Page]]  # by path; each is given the header Accept


class Monitor:
    """A small HTTP server in threads of its own."""

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Serve `pages`."""
        address = host.removeprefix("[").removesuffix("]")
        family, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        is_local = ip_address(where[0]).is_loopback
        handler = type("Handler", (_Handler,), {"pages": pages, "name": host, "is_local": is_local})
        self._server = _Server(family, where, handler)
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


class _Server(ThreadingMixIn, HTTPServer):
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

    def _page(self) -> Page:
        found = self.pages.get(self.path.partition("?")[0])
        if found is None:
            return Page(404, "not found\n")
        if self.is_local and self._host() not in (self.name, "localhost", "127.0.0.1", "[::1]"):
            return Page(421, "not this host\n")
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
