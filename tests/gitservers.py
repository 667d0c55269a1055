"""Real git servers on loopback, with faults: git's own daemon, smart HTTP and plain files."""

import base64
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Faults:
    """What a server does wrong, or wants to know; it can be changed while it serves."""

    cut_after: int | None = None  # bytes of what it sends of a pack
    cuts: float = math.inf  # how many packs it cuts before it gets well
    reset: bool = False
    stall: bool = False
    stalled: int = 0  # how often it has
    delay: float = 0  # seconds before each answer
    status: int | None = None
    location: str | None = None
    user: str | None = None  # "name:password"
    seen: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)  # nobody stalls any more


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class _SmartHandler(_Handler):
    """Hands requests to `git http-backend`, as a web server would."""

    def __init__(self, root: Path, faults: Faults, *arguments: Any) -> None:
        self.root, self.faults = root, faults
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        faults = self.faults
        faults.seen.append(f"{self.command} {self.path}")
        time.sleep(faults.delay)
        if faults.status or faults.location:
            self.send_response(faults.status or 301)
            if faults.location:
                self.send_header("Location", faults.location + self.path)
            self.end_headers()
            return
        wanted = "Basic " + base64.b64encode((faults.user or "").encode()).decode()
        if faults.user and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        head, _, content = self._run(body).partition(b"\r\n\r\n")
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + head + b"\r\n\r\n")
        is_pack = b"packfile" in content[:64] or b"PACK" in content[:128]
        if is_pack and faults.stall:
            self.wfile.write(content[: faults.cut_after or 100])
            faults.stalled += 1
            faults.over.wait(600)
        elif is_pack and faults.cut_after is not None and faults.cuts:
            faults.cuts -= 1
            self.wfile.write(content[: faults.cut_after])
            if faults.reset:
                self.connection.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER of 0 s
                self.connection.close()
        else:
            self.wfile.write(content)

    def _run(self, body: bytes) -> bytes:
        parts = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        command = ["git", "http-backend"]
        return subprocess.run(command, input=body, capture_output=True, check=True, env=environment).stdout


class _HostileHandler(_Handler):
    """Sends refs, or an error with a long reason."""

    def __init__(self, refs: int, error: int, *arguments: Any) -> None:
        self.refs, self.error = refs, error
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.send_response(500 if self.error else 200)
        kind = "text/plain" if self.error else "application/x-git-upload-pack-advertisement"
        self.send_header("Content-Type", kind)
        self.end_headers()
        if self.error:
            self.wfile.write(b"No " * (self.error // 3))
            return
        self.wfile.write(b"001e# service=git-upload-pack\n0000")
        line = b"%040x refs/heads/%s\n" % (1, b"a" * 900)
        block = (b"%04x" % (len(line) + 4) + line) * 1000
        with suppress(OSError):
            for _ in range(self.refs // len(block)):
                self.wfile.write(block)


class _PlainHandler(_Handler, SimpleHTTPRequestHandler):
    """Sends files."""


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def smart_http(root: Path, faults: Faults | None = None) -> Iterator[str]:
    """Serve the repositories below `root` by way of git's own CGI program, and yield the address of `root`."""
    faults = faults or Faults()
    with serving(partial(_SmartHandler, root, faults)) as address:
        try:
            yield address
        finally:
            faults.over.set()


@contextmanager
def plain_http(root: Path) -> Iterator[str]:
    """Serve the files below `root`, knowing nothing of git."""
    with serving(partial(_PlainHandler, directory=str(root))) as address:
        yield address


@contextmanager
def hostile_git(*, refs: int = 0, error: int = 0) -> Iterator[str]:
    """Yield the address of a repository that sends so many bytes of refs, or of an error."""
    with serving(partial(_HostileHandler, refs, error)) as address:
        yield f"{address}/upstream.git"


@contextmanager
def git_daemon(root: Path) -> Iterator[str]:
    """Serve the repositories below `root` by git's daemon."""
    for port in range(20000 + os.getpid() % 20000, 65000):
        options = ["--listen=127.0.0.1", f"--port={port}", f"--base-path={root}", "--reuseaddr", "--verbose"]
        process = subprocess.Popen(["git", "daemon", *options], stderr=subprocess.PIPE, start_new_session=True)
        assert process.stderr is not None
        if b"Ready" in process.stderr.readline():
            break
        process.wait()
        process.stderr.close()
    else:
        sys.exit("no port is free")
    try:
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait()
        process.stderr.close()
