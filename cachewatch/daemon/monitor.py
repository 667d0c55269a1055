"""Answer /healthz and /metrics on a local port; no secrets, no names from documents."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import Any, ClassVar

_SECONDS = 5
_MOST_CLIENTS = 16


class Monitor:
    """A small HTTP server in threads of its own."""

    def __init__(self, host: str, port: int, pages: dict[str, Callable[[], tuple[int, str]]]) -> None:
        """Serve `pages`: path -> status and text."""
        handler = type("Handler", (_Handler,), {"pages": pages, "name": host})
        self._server = _Server((host, port), handler)
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

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._places = BoundedSemaphore(_MOST_CLIENTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Idle clients must not take all threads for ever.
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that went away is no news


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, Callable[[], tuple[int, str]]]]
    name: ClassVar[str]
    timeout = _SECONDS
    server_version = "cachewatch"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET  # noqa: N815  http.server's name for it

    def _answer(self) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        # A page elsewhere must not read this one through a name that it controls.
        is_ours = self.headers.get("Host", "").rpartition(":")[0] in (self.name, "localhost", "127.0.0.1", "[::1]")
        status, text = (404, "not found\n") if page is None else page() if is_ours else (421, "not this host\n")
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name for it
        pass
