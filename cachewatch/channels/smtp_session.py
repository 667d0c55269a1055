"""A session with a mail server that ends in time, whatever the server does.

smtplib's timeout is one for each read, so a server that sends a byte now and then, or lines
without end, would hold a session for ever. Here every step has a deadline at which the
connection is shut, and a reply has a size.
"""

import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import IO, cast

from cachewatch.channels.server_replies import Refused, Step
from cachewatch.config.addresses import is_loopback
from cachewatch.config.model import Smtp

_REPLY_SIZE = 64 * 2**10
_PATIENCE = 10  # times the timeout: RFC 5321 grants 10 minutes after the end of a message
_LONE_DOT = re.compile(rb"^\.", re.MULTILINE)


class Session:
    """One connection, from the greeting to QUIT. Raises Refused, smtplib's errors and OSError."""

    def __init__(self, config: Smtp) -> None:
        self.step = Step.CONNECT
        self._config = config
        self._seconds = config.timeout.total_seconds()
        self._server: _Server | None = None

    def open(self) -> None:
        """Connect, agree on TLS, and log in."""
        self._server = _Server(self._seconds, self._context() if self._config.security == "tls" else None)
        with self._within(4 * self._seconds):
            self._expect({220}, self._server.connect(self._config.host, self._config.port))
            self._hello()
            if self._config.security == "starttls":
                self._start_tls()
            if self._config.user is not None:
                self._log_in()

    def send(self, sender: str, recipient: str, message: bytes) -> None:
        """Hand over one message; when this returns, the server has taken it."""
        with self._within(3 * self._seconds):
            self.step = Step.MAIL
            size = [f"size={len(message)}"] if self._open.has_extn("size") else []
            self._expect({250}, self._open.mail(sender, size))
            self.step = Step.RECIPIENT
            self._expect({250, 251}, self._open.rcpt(recipient))
            self.step = Step.DATA
            self._expect({354}, self._open.docmd("DATA"))
        with self._within(_PATIENCE * self._seconds):
            self._open.be_patient(_PATIENCE * self._seconds)
            self.step = Step.BODY
            self._open.send(_with_dots(message))
            self.step = Step.END
            self._expect(range(200, 300), self._open.getreply())
            self._open.be_patient(self._seconds)

    def reset(self) -> None:
        """Make the connection ready for the next message."""
        with self._within(self._seconds):
            self._expect({250}, self._open.docmd("RSET"))

    def close(self) -> None:
        """Say goodbye, if the server still listens; what it answers is of no interest."""
        if self._server is None:
            return
        with suppress(smtplib.SMTPException, OSError), self._within(5):
            self._server.quit()
        self._server.close()
        self._server = None

    @property
    def _open(self) -> "_Server":
        if self._server is None:
            raise smtplib.SMTPServerDisconnected("not connected")
        return self._server

    def _hello(self) -> None:
        self.step = Step.HELLO
        code, words = self._open.ehlo()
        if code != 250:
            self._expect({250}, self._open.helo() if code >= 500 else (code, words))

    def _start_tls(self) -> None:
        self.step = Step.TLS
        if not self._open.has_extn("starttls"):
            raise smtplib.SMTPNotSupportedError(
                f"{self._config.host} does not offer STARTTLS, or it was removed in transit; nothing was sent in clear"
            )
        self._expect({220}, self._open.starttls(context=self._context()))
        self._hello()

    def _log_in(self) -> None:
        self.step = Step.LOGIN
        if self._config.security == "none" and not self._open.is_here:
            raise smtplib.SMTPNotSupportedError(
                f"{self._config.host} is another machine: passwords are sent only with TLS"
            )
        try:
            self._open.login(self._config.user or "", self._config.password.reveal() if self._config.password else "")
        except (smtplib.SMTPResponseException, smtplib.SMTPServerDisconnected):
            raise
        except ValueError:  # not ASCII; the error would tell the password
            raise smtplib.SMTPNotSupportedError("user and password must be plain ASCII") from None
        except smtplib.SMTPException as error:  # no way of logging in that both know
            raise smtplib.SMTPNotSupportedError(str(error)) from error

    def _context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._config.ca_file)
        except OSError as error:
            raise smtplib.SMTPNotSupportedError(f"{self._config.ca_file}: {error.strerror}") from error

    def _expect(self, codes: set[int] | range, reply: tuple[int, bytes]) -> None:
        if reply[0] not in codes:
            raise Refused(self.step, *reply)

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Shut the connection if what follows takes longer."""
        expired = threading.Event()

        def shut() -> None:
            expired.set()
            self._open.shut()

        timer = threading.Timer(seconds, shut)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (smtplib.SMTPServerDisconnected, OSError) as error:
            if expired.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()


class _Server(smtplib.SMTP):
    """smtplib's client, with a second handle on the connection and a limit to replies."""

    def __init__(self, seconds: float, context: ssl.SSLContext | None) -> None:
        self._tls = context
        self._line: socket.socket | None = None
        super().__init__(local_hostname="localhost", timeout=seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        raw = socket.create_connection((host, port), timeout)
        self._line = raw.dup()  # stays valid when TLS takes the first one over
        self.local_hostname = _own_name(raw)
        self._host = host  # smtplib compares the certificate with it
        return self._tls.wrap_socket(raw, server_hostname=host) if self._tls else raw

    @property
    def is_here(self) -> bool:
        """Whether the other side is this machine itself."""
        return self._line is not None and is_loopback(str(self._line.getpeername()[0]))

    def shut(self) -> None:
        """End the connection from another thread, so that whoever reads from it wakes up."""
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)

    def be_patient(self, seconds: float) -> None:
        """Wait so long for whatever comes next."""
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def getreply(self) -> tuple[int, bytes]:
        """Return the next reply, unless it is too long to be one."""
        if self.file is None and self.sock is not None:
            self.file = cast("IO[bytes]", _Limited(self.sock.makefile("rb")))
        if self.file is not None:
            cast("_Limited", self.file).left = _REPLY_SIZE
        return super().getreply()

    def close(self) -> None:
        """Close both handles."""
        super().close()
        if self._line is not None:
            self._line.close()
            self._line = None


class _Limited:
    """A stream of replies, each of them of a size."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self.left = _REPLY_SIZE

    def readline(self, size: int) -> bytes:
        """Return the next line."""
        line = self._stream.readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise OSError("an endless reply")
        return line

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


def _own_name(connection: socket.socket) -> str:
    """Return what to greet with: the name of this machine, or its address if the name is not whole."""
    name = socket.gethostname()
    if "." in name and name.isascii() and " " not in name:
        return name
    address = str(connection.getsockname()[0])
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _with_dots(message: bytes) -> bytes:
    """Return `message` as it goes over the line, with the dot that ends it."""
    end = b"" if message.endswith(b"\r\n") else b"\r\n"
    return _LONE_DOT.sub(b"..", message) + end + b".\r\n"
