"""Mail servers on the loopback: one that answers as it is told, one that breaks the protocol, and two real ones."""

# ruff: noqa: N802  aiosmtpd names its hooks after the commands of SMTP

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from tools import program

if TYPE_CHECKING:
    from station import Site

DROP = "drop"  # instead of a reply: cut the connection
SWALLOW = "swallow"  # at the end of a message: take it, and cut the connection


@dataclass(frozen=True)
class Received:
    """One message as a server took it."""

    sender: str
    recipient: str
    content: bytes


@dataclass
class Post:
    """A server that answers MAIL, RCPT and the end of DATA as told, then as usual; replies are used up."""

    port: int = 0
    replies: dict[str, list[str]] = field(default_factory=dict)
    by_recipient: Mapping[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    sessions: int = 0
    logins: list[tuple[str, str]] = field(default_factory=list)
    is_tls: bool = False

    async def handle_EHLO(self, server: Any, session: Any, envelope: Any, hostname: str, found: list[str]) -> list[str]:
        """Count the sessions."""
        self.sessions += 1
        self.is_tls = server.transport.get_extra_info("sslcontext") is not None
        session.host_name = hostname
        return found

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        """Answer to MAIL."""
        reply = self._reply(server, "MAIL")
        if reply.startswith("2"):
            envelope.mail_from = address
        return reply

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        """Answer to RCPT."""
        reply = self.by_recipient.get(address) or self._reply(server, "RCPT")
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Answer to a whole message."""
        reply = self._reply(server, "DATA")
        if reply.startswith("2") or reply == SWALLOW:
            (recipient,) = envelope.rcpt_tos
            self.received.append(Received(envelope.mail_from, recipient, envelope.content))
        return reply

    async def handle_QUIT(self, server: Any, session: Any, envelope: Any) -> str:
        """Answer to QUIT."""
        return self._reply(server, "QUIT")

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        """Let in whom we know."""
        user, password = data.login.decode(), data.password.decode()
        self.logins.append((user, password))
        if reply := next(iter(self.replies.get("AUTH", [])), None):
            return AuthResult(success=False, handled=False, message=reply)
        return AuthResult(success=(user, password) == ("cachewatch", "s3cr3t"), handled=False)

    def _reply(self, server: Any, command: str) -> str:
        self.commands.append(command)
        left = self.replies.get(command)
        reply = left.pop(0) if left else "250 OK"
        if reply in (DROP, SWALLOW):
            server.transport.abort()
        return reply


@contextmanager
def post(
    *,
    replies: Mapping[str, Sequence[str]] | None = None,
    by_recipient: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    is_implicit: bool = False,
    port: int | None = None,
    **options: Any,
) -> Iterator[Post]:
    """Run aiosmtpd on a free port; `tls` is offered by STARTTLS unless it is implicit."""
    handler = Post(port or free_port(), {command: list(said) for command, said in (replies or {}).items()})
    handler.by_recipient = by_recipient or {}
    if options.get("auth_required"):
        options["authenticator"] = handler.authenticate
    if tls is not None:
        options |= {"ssl_context": tls} if is_implicit else {"tls_context": tls}
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port, **options)
    controller.start()
    try:
        yield handler
    finally:
        controller.stop()


@contextmanager
def mailing(site: "Site", text: str, **options: Any) -> Iterator[Post]:
    """Run the mail server of a site; {port} in its configuration is filled in."""
    with post(**options) as server:
        site.configure(text.replace("{port}", str(server.port)))
        yield server


Talk = Callable[[socket.socket, Callable[[], bytes]], None]
Reply = bytes | Callable[[bytes], bytes]  # what a server says to a line, or a function of the line


@contextmanager
def talking(talk: Talk) -> Iterator[int]:
    """Run a server that calls `talk` with each connection and a reader of its lines, and yield its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            connection.settimeout(10)
            talk(connection, lines.readline)

    def accept() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stopping.set()
        acceptor.join()
        listener.close()
        for thread in threads:
            thread.join()


def scripted(**replies: Reply) -> Talk:
    """Answer each command with the reply given for it, by its name in capitals, and with 250 otherwise.

    GREETING, END (of a message) and the commands of SMTP have names; no bytes, or a 421, end the connection.
    """
    usual: dict[str, Reply] = {"GREETING": b"220 test\r\n", "DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n"}
    known = usual | replies

    def answered(connection: socket.socket, command: str, line: bytes) -> bytes:
        reply = known.get(command, b"250 ok\r\n")
        said = reply(line) if callable(reply) else reply
        connection.sendall(said)
        return said

    def talk(connection: socket.socket, read: Callable[[], bytes]) -> None:
        answered(connection, "GREETING", b"")
        while line := read():
            command = line[:4].decode("ascii", "replace").upper()
            said = answered(connection, command, line)
            if command == "DATA" and said.startswith(b"354"):
                while (line := read()) not in (b".\r\n", b""):
                    pass
                said = answered(connection, "END", line)
            if not said or said.startswith(b"421") or command == "QUIT":
                return

    return talk


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Sink:
    """A running smtp-sink of Postfix, which writes what it gets into a folder."""

    port: int
    folder: Path

    def contents(self) -> list[bytes]:
        """Return the messages, each behind the envelope that the sink writes above it."""
        return [path.read_bytes() for path in sorted(self.folder.iterdir())]


@contextmanager
def smtp_sink(*options: str) -> Iterator[Sink]:
    """Run Postfix's smtp-sink with options of its own, such as `-r RCPT`."""
    sink = program("smtp-sink")
    library = Path(sink).parents[1] / "lib/postfix"
    environment = {"PATH": os.environ["PATH"]} | ({"LD_LIBRARY_PATH": str(library)} if library.is_dir() else {})
    port = free_port()
    with _open_folder() as folder:
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        command = [sink, *user, *options, "-d", f"{folder}/m.", f"127.0.0.1:{port}", "10"]
        with _running(command, port, environment):
            yield Sink(port, folder)


@dataclass(frozen=True)
class Exim:
    """A running exim, which delivers into one Maildir per recipient."""

    port: int
    folder: Path

    def mails(self, user: str, count: int = 1) -> list[bytes]:
        """Return what is in somebody's Maildir, once there are so many."""
        folder = self.folder / "mail" / user / "new"
        deadline = time.monotonic() + 120
        while len(list(folder.glob("*"))) < count:
            assert time.monotonic() < deadline, f"no {count} mails for {user}; the log says:\n{self.log()}"
            time.sleep(0.05)
        return [path.read_bytes() for path in folder.glob("*")]

    def log(self) -> str:
        """Return what exim says of what it does."""
        return "".join(path.read_text() for path in sorted((self.folder / "log").glob("*")))


EXIM = """
spool_directory = {folder}/spool
log_file_path = {folder}/log/%slog
local_interfaces = 127.0.0.1
daemon_smtp_ports = {port}
primary_hostname = mx.example.org
domainlist local_domains = example.org
message_size_limit = 60K
acl_smtp_rcpt = check_rcpt
acl_smtp_data = check_data
tls_advertise_hosts =
host_lookup =
rfc1413_hosts =
begin acl
check_rcpt:
  defer   local_parts = grey
          message = greylisted
  deny    local_parts = bad
          message = no such user
  accept  domains = +local_domains
  deny    message = relay not permitted
check_data:
  deny    condition = ${{if match{{$h_Subject:}}{{poison}}}}
          message = unwelcome content
  accept
begin routers
local:
  driver = accept
  domains = +local_domains
  transport = maildir
begin transports
maildir:
  driver = appendfile
  maildir_format
  directory = {folder}/mail/${{lookup{{$local_part}}dsearch,ret=key{{{folder}/users}}}}
  create_directory
  return_path_add
begin retry
* * F,1h,10m
"""


@contextmanager
def exim() -> Iterator[Exim]:
    """Run exim with a configuration of its own: grey@ is deferred, bad@ refused, poison in a subject refused."""
    exim4 = program("exim4")
    if os.geteuid() != 0:
        pytest.skip("exim drops its privileges, so it has to be started with them")
    port = free_port()
    with _open_folder() as folder:
        for name in ("spool", "log", "mail", "users"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        for user in ("kim", "lee"):
            (folder / "users" / user).touch()
        (folder / "exim.conf").write_text(EXIM.format(folder=folder, port=port))
        for name in ("spool", "log", "mail"):
            shutil.chown(folder / name, "Debian-exim", "Debian-exim")
        with _running([exim4, "-C", str(folder / "exim.conf"), "-bdf", "-q1h"], port, dict(os.environ)):
            yield Exim(port, folder)


def header(message: bytes, name: str) -> str:
    formail = program("formail")
    done = subprocess.run([formail, "-c", "-x", f"{name}:"], input=message, capture_output=True, check=True)
    return done.stdout.decode("ascii").strip()


def part(message: bytes, kind: str) -> str:
    """Return the decoded part of a type, as Perl reads quoted-printable."""
    boundary = re.search(r'boundary="?([^";\s]+)', header(message, "Content-Type"))
    assert boundary
    for piece in message.replace(b"\r\n", b"\n").split(b"\n--" + boundary[1].encode()):
        head, _, body = piece.partition(b"\n\n")
        if f"Content-Type: {kind}".encode() in head:
            script = "undef $/; print MIME::QuotedPrint::decode_qp(<STDIN>)"
            command = [program("perl"), "-MMIME::QuotedPrint", "-e", script]
            return subprocess.run(command, input=body, capture_output=True, check=True).stdout.decode()
    raise AssertionError(f"no part of type {kind}")


@contextmanager
def _open_folder() -> Iterator[Path]:
    """Make a folder that a server with fewer rights can write in."""
    with tempfile.TemporaryDirectory(prefix="cachewatch-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def _running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        _wait(process, port)
        yield
    finally:
        process.terminate()
        process.communicate()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(2400):
        if process.poll() is not None:
            raise AssertionError(f"{process.args!r} ended: {process.communicate()[0].decode()}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"{process.args!r} does not listen")
