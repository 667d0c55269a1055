"""Deliver mail through an SMTP server: one connection per run, one transaction per recipient.

smtplib's timeout is one for each read, so a server that sends a byte now and then, or lines without end, would
hold a session for ever. Here every step has a deadline at which the connection is shut, and a reply has a size.
"""

import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import BufferedReader
from typing import IO, cast

from msgspec.structs import replace

from cachewatch.channels.chats import one_line
from cachewatch.channels.mail import NO_ADDRESS, MailChannel, is_address
from cachewatch.config.channels import EmailConfig, Smtp
from cachewatch.config.types import is_loopback
from cachewatch.report.values import SENT, DeliveryOutcome, DeliveryResult, Message, SentHistory, Transport

_LOGIN = frozenset({530, 534, 535, 538})
_SIZE = re.compile(r"5\.(2\.3|3\.4)\b")
_OTHER_THAN_SIZE = re.compile(r"5\.[67]\.\d")


class SmtpStep(StrEnum):
    """How far a session has come."""

    CONNECT = "connecting"
    HELLO = "EHLO"
    TLS = "STARTTLS"
    LOGIN = "AUTH"
    MAIL = "MAIL"
    RECIPIENT = "RCPT"
    DATA = "DATA"
    BODY = "sending the message"
    END = "the end of the message"


_OPENING = frozenset({SmtpStep.CONNECT, SmtpStep.HELLO, SmtpStep.TLS, SmtpStep.LOGIN})


class Refused(Exception):
    """The server's reply to a step is not the one that lets us go on."""

    def __init__(self, step: SmtpStep, code: int, words: bytes | str) -> None:
        """Remember what was said, and to what."""
        super().__init__(code, words)
        self.step = step
        self.code = code
        self.words = words.decode("utf-8", "replace") if isinstance(words, bytes) else words


def of_reply(refused: Refused) -> DeliveryResult:
    """Return what a reply means."""
    said = one_line(f"{refused.step}: {refused.code} {refused.words}", 300)
    code, step = refused.code, refused.step
    if not 400 <= code < 600:  # no server of mail speaks like this
        return DeliveryResult(
            outcome=DeliveryOutcome.DEFERRED, detail=said, is_channel=True, may_have_arrived=step is SmtpStep.END
        )
    if code < 500:
        is_channel = step in _OPENING
        is_lost = code == 421 and not is_channel  # the server ends the session, perhaps because of this message
        return DeliveryResult(outcome=DeliveryOutcome.DEFERRED, detail=said, is_channel=is_channel, is_lost=is_lost)
    if step in _OPENING or code in _LOGIN:
        return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=said, is_channel=True)
    if code == 552:
        return DeliveryResult(outcome=_of_552(step, refused.words), detail=said)
    if step is SmtpStep.MAIL:  # it is our own address that is not welcome
        return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=said, is_channel=True)
    return DeliveryResult(outcome=DeliveryOutcome.DEAD, detail=said, is_address=step is SmtpStep.RECIPIENT)


def _of_552(step: SmtpStep, words: str) -> DeliveryOutcome:
    """Tell a message that is too large from a full mailbox, which may be emptied, and from unwelcome content."""
    if _SIZE.match(words):
        return DeliveryOutcome.TOO_LARGE
    if step is SmtpStep.RECIPIENT:
        return DeliveryOutcome.DEFERRED
    return DeliveryOutcome.DEAD if _OTHER_THAN_SIZE.match(words) else DeliveryOutcome.TOO_LARGE


def of_failure(step: SmtpStep, error: Exception) -> DeliveryResult:
    """Return what a lost or impossible connection means."""
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message or "it cannot be verified"
            said = f"{step}: the server's certificate is not trusted: {why}; name its authority in ca_file"
            return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=one_line(said, 300), is_channel=True)
        case smtplib.SMTPNotSupportedError():
            return DeliveryResult(
                outcome=DeliveryOutcome.BLOCKED, detail=one_line(f"{step}: {error}", 300), is_channel=True
            )
        case TimeoutError() | smtplib.SMTPServerDisconnected(__context__=TimeoutError()):
            words = "no answer in time"
        case smtplib.SMTPServerDisconnected():
            words = "the connection was lost"
        case OSError():
            words = error.strerror or str(error) or type(error).__name__
        case _:
            words = str(error) or type(error).__name__
    return DeliveryResult(
        outcome=DeliveryOutcome.DEFERRED,
        detail=one_line(f"{step}: {words}", 300),
        may_have_arrived=step is SmtpStep.END,
        is_channel=step in _OPENING,
        is_lost=step not in _OPENING,
    )


_REPLY_SIZE = 64 * 2**10
_PATIENCE = 10  # times the timeout: RFC 5321 grants 10 minutes after the end of a message
_LONE_DOT = re.compile(rb"^\.", re.MULTILINE)


class Session:
    """One connection, from the greeting to QUIT. Raises Refused, smtplib's errors and OSError."""

    def __init__(self, config: Smtp) -> None:
        self.step = SmtpStep.CONNECT
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
            self.step = SmtpStep.MAIL
            size = [f"size={len(message)}"] if self._open.has_extn("size") else []
            self._expect({250}, self._open.mail(sender, size))
            self.step = SmtpStep.RECIPIENT
            self._expect({250, 251}, self._open.rcpt(recipient))
            self.step = SmtpStep.DATA
            self._expect({354}, self._open.docmd("DATA"))
        with self._within(_PATIENCE * self._seconds):
            self._open.be_patient(_PATIENCE * self._seconds)
            self.step = SmtpStep.BODY
            self._open.send(_with_dots(message))
            self.step = SmtpStep.END
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
        self.step = SmtpStep.HELLO
        code, words = self._open.ehlo()
        if code != 250:
            self._expect({250}, self._open.helo() if code >= 500 else (code, words))

    def _start_tls(self) -> None:
        self.step = SmtpStep.TLS
        if not self._open.has_extn("starttls"):
            raise smtplib.SMTPNotSupportedError(
                f"{self._config.host} does not offer STARTTLS, or it was removed in transit; nothing was sent in clear"
            )
        self._expect({220}, self._open.starttls(context=self._context()))
        self._hello()

    def _log_in(self) -> None:
        self.step = SmtpStep.LOGIN
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


class EmailChannel(MailChannel):
    """Mail through an SMTP server."""

    def __init__(self, config: EmailConfig) -> None:
        super().__init__(config)
        self._smtp = config.smtp

    @contextmanager
    def open(self, sent_history: SentHistory) -> Iterator[Transport]:  # noqa: ARG002  the contract of a channel
        """Begin a run; it connects when the first message comes."""
        transport = SmtpTransport(self._smtp, self.envelope_sender)
        try:
            yield transport
        finally:
            transport.close()


class SmtpTransport:
    """Takes messages to one server."""

    def __init__(self, config: Smtp, sender: str) -> None:
        self._config = config
        self._sender = sender
        self._session: Session | None = None
        self._failure: DeliveryResult | None = None

    def deliver(self, message: Message) -> DeliveryResult:
        """Hand over one message. Once the server itself fails, no other message waits for it in this run."""
        if not is_address(message.target):
            return NO_ADDRESS
        if self._failure is not None:
            return replace(self._failure, may_have_arrived=False)
        is_reused = self._session is not None
        answer = self._attempt(message)
        if is_reused and (answer.is_channel or answer.is_lost) and not answer.may_have_arrived:
            answer = self._attempt(message)  # servers end sessions that were idle or long
        if answer.is_channel:
            self._failure = answer
        return answer

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _attempt(self, message: Message) -> DeliveryResult:
        session = self._session or Session(self._config)
        try:
            if self._session is None:
                self._session = session
                session.open()
            session.send(self._sender, message.target, message.payload)
        except Refused as refused:
            return self._refused(refused)
        except smtplib.SMTPResponseException as error:
            return self._refused(Refused(session.step, error.smtp_code, error.smtp_error))
        except (smtplib.SMTPException, OSError) as error:
            self.close()
            return self._discreet(of_failure(session.step, error))
        return SENT

    def _refused(self, refused: Refused) -> DeliveryResult:
        """Make the session fit for the next message, or end it."""
        answer = of_reply(refused)
        try:
            if answer.is_channel or answer.is_lost or self._session is None:
                self.close()
            else:
                self._session.reset()
        except (Refused, smtplib.SMTPException, OSError):
            self.close()
        return self._discreet(answer)

    def _discreet(self, answer: DeliveryResult) -> DeliveryResult:
        """Return `answer` without the password, should a server ever repeat it."""
        secret = self._config.password.reveal() if self._config.password else ""
        return replace(answer, detail=answer.detail.replace(secret, "***")) if secret else answer
