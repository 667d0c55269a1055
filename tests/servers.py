"""A real HTTP server on the loopback that misbehaves as it is told."""

import gzip
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


@dataclass
class Says:
    """One answer, and what goes wrong with it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length says, if not the truth
    wait: float = 0.0  # seconds before anything is said
    drip: float = 0.0  # seconds between single bytes
    drips_head: bool = False


Answers = Callable[[Asked], Says]


class Server:
    """Answers what `answers` says, and remembers what it was asked."""

    def __init__(self, answers: Answers) -> None:
        self.asked: list[Asked] = []
        self.answers = answers
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [asked.path for asked in self.asked]

    def stop(self) -> None:
        """Stop at once, whatever is under way."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: "Server"
    protocol_version = "HTTP/1.1"
    timeout = 20

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # whatever the method
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, headers, self.rfile.read(length))
        self.owner.asked.append(asked)
        try:
            self._say(self.owner.answers(asked))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _say(self, says: Says) -> None:
        self.owner.stopping.wait(says.wait)
        length = len(says.body) if says.length is None else says.length
        head = f"HTTP/1.1 {says.status} Whatever\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in says.headers.items())
        if says.status not in (204, 304):
            head += f"Content-Length: {length}\r\n"
        self._write((head + "\r\n").encode(), says.drip if says.drips_head else 0)
        self._write(says.body, says.drip)
        self.close_connection |= length != len(says.body)

    def _write(self, data: bytes, drip: float) -> None:
        if not drip:
            self.wfile.write(data)
            return
        for byte in data:
            if self.owner.stopping.is_set():
                return
            self.wfile.write(bytes([byte]))
            time.sleep(drip)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def ask(address: str, path: str) -> tuple[int, str]:
    """Return the status and the text that a server answers."""
    with closing(HTTPConnection(address, timeout=60)) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read().decode()


@contextmanager
def serving(answers: Answers | Mapping[str, Says | list[Says]]) -> Iterator[Server]:
    """Run a server; a mapping names the answers of each path, the last of a list for ever."""
    server = Server(answers if callable(answers) else scripted(answers))
    try:
        yield server
    finally:
        server.stop()


def scripted(answers: Mapping[str, Says | list[Says]]) -> Answers:
    """Answer each path as `answers` says, and all others with 404."""
    left = {path: list(said) if isinstance(said, list) else [said] for path, said in answers.items()}

    def answer(asked: Asked) -> Says:
        said = left.get(asked.path.partition("?")[0])
        if said is None:
            return Says(404, b"nothing")
        return said.pop(0) if len(said) > 1 else said[0]

    return answer


def files(folder: Path, *, packed: bool = False) -> Answers:
    """Serve a folder as a mirror is served: with ETags, and 304 for what is known already."""

    def answer(asked: Asked) -> Says:
        path = folder / asked.path.lstrip("/")
        if ".." in path.parts or not path.is_file():
            return Says(404, b"nothing")
        data = path.read_bytes()
        etag = f'"{len(data):x}-{path.stat().st_mtime_ns:x}"'
        if asked.headers.get("if-none-match") == etag:
            return Says(304, headers={"ETag": etag})
        if packed:
            return Says(200, gzip.compress(data), {"ETag": etag, "Content-Encoding": "gzip"})
        return Says(200, data, {"ETag": etag})

    return answer


def over_tls(server: Server, authority: trustme.CA) -> str:
    import ssl  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    return server.url.replace("http://", "https://")
