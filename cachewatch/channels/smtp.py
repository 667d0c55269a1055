"""Deliver mail through an SMTP server: one connection for a run, one transaction for each recipient.

The timeout of smtplib applies to each read, so a server that sends a byte now and then, or endless lines, could hold a
session for ever. So each attempt has a deadline, at which the connection is shut down, and each reply a size limit.
"""

import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from typing import Any

from msgspec.structs import replace

from cachewatch.channels.mail import NO_ADDRESS, MailChannel, is_address
from cachewatch.config.sources_and_channels import EmailConfig, Smtp
from cachewatch.core.escaping_and_mentions import one_line
from cachewatch.http.allowed_addresses import is_loopback
from cachewatch.report.digest_and_message_values import SENT, DeliveryOutcome, DeliveryResult, Message

# In timeouts of a reply: an attempt, and the reply to the end of a message, for which RFC 5321 grants 10 minutes.
ATTEMPT, _PATIENCE = 15, 10
_QUIT_SECONDS = 5
_REPLY_SIZE = 64 * 2**10
_LONE_DOT = re.compile(rb"^\.", re.MULTILINE)
# The step of a session: the command that was sent last, or one of these.
_CONNECTING, _SENDING, _END = "connecting", "sending the message", "the end of the message"
_OPENING = frozenset({_CONNECTING, "EHLO", "HELO", "STARTTLS", "AUTH"})
_COMMANDS = _OPENING | {"MAIL", "RCPT", "DATA"}

_LOGIN = frozenset({530, 534, 535, 538})
_SIZE = re.compile(r"5\.(2\.3|3\.4)\b")
_OTHER_THAN_SIZE = re.compile(r"5\.[67]\.\d")


def _of_reply(step: str, code: int, said: bytes | str) -> DeliveryResult:
    """Return the result of a delivery that the server refused at `step`, such as RCPT, with `code` and text `said`."""
    words = said if isinstance(said, str) else said.decode("utf-8", "replace")
    reply, is_opening = one_line(f"{step}: {code} {words}", 300), step in _OPENING
    if not 400 <= code < 600:  # no server of mail speaks like this
        return DeliveryResult(DeliveryOutcome.DEFERRED, reply, is_channel=True, may_have_arrived=step == _END)
    if code < 500:
        is_lost = code == 421 and not is_opening  # the server ends the session, perhaps because of this message
        return DeliveryResult(DeliveryOutcome.DEFERRED, reply, is_channel=is_opening, is_lost=is_lost)
    if is_opening or code in _LOGIN:
        return DeliveryResult(DeliveryOutcome.BLOCKED, reply, is_channel=True)
    if code == 552:  # a message that is too large, a full mailbox, which may be emptied, or unwelcome content
        is_full, is_unwelcome = step == "RCPT", _OTHER_THAN_SIZE.match(words)
        other = DeliveryOutcome.DEFERRED if is_full else DeliveryOutcome.DEAD if is_unwelcome else None
        return DeliveryResult((None if _SIZE.match(words) else other) or DeliveryOutcome.TOO_LARGE, reply)
    if step == "MAIL":  # it is our own address that is not welcome
        return DeliveryResult(DeliveryOutcome.BLOCKED, reply, is_channel=True)
    return DeliveryResult(DeliveryOutcome.DEAD, reply, is_address=step == "RCPT")


def _of_failure(step: str, error: OSError) -> DeliveryResult:
    """Return the result of a delivery whose connection failed with `error` at `step`, such as RCPT."""
    outcome, is_opening = DeliveryOutcome.DEFERRED, step in _OPENING
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message or "it cannot be verified"
            words = f"the server's certificate is not trusted: {why}; name its authority in ca_file"
            outcome = DeliveryOutcome.BLOCKED
        case TimeoutError() | smtplib.SMTPServerDisconnected(__context__=TimeoutError()):
            words = "no answer in time"
        case smtplib.SMTPServerDisconnected():
            words = "the connection was lost"
        case smtplib.SMTPException():  # the server lacks what the configuration asks for
            words, outcome = str(error), DeliveryOutcome.BLOCKED
        case _:
            words = error.strerror or str(error) or type(error).__name__
    return DeliveryResult(
        outcome,
        one_line(f"{step}: {words}", 300),
        may_have_arrived=step == _END,
        is_channel=is_opening or outcome is DeliveryOutcome.BLOCKED,
        is_lost=not is_opening,
    )


class Session(smtplib.SMTP):
    """The client of smtplib, which also limits the time of an attempt and the size of replies."""

    def __init__(self, config: Smtp) -> None:
        self.step = _CONNECTING
        self._config = config
        self._seconds = config.timeout.total_seconds()
        self._line: socket.socket | None = None  # a second handle on the connection, to shut it down from a thread
        super().__init__(local_hostname="localhost", timeout=self._seconds)

    def begin(self) -> None:
        """Connect, start TLS and log in, as configured. Raises OSError if one of these fails."""
        config = self._config
        code, words = self.connect(config.host, config.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, words)
        self.ehlo_or_helo_if_needed()
        if config.security == "starttls":
            self.starttls(context=self._context())
            self.ehlo_or_helo_if_needed()
        if config.user is not None:
            self.step = "AUTH"
            password = config.password.reveal() if config.password else ""
            if config.security == "none" and not (self._line and is_loopback(str(self._line.getpeername()[0]))):
                raise smtplib.SMTPException(f"{config.host} is another machine: passwords are sent only with TLS")
            if not f"{config.user}{password}".isascii():
                raise smtplib.SMTPException("user and password must be plain ASCII")
            self.login(config.user, password)

    def end(self) -> None:
        """Quit and close the connection, whatever the server answers."""
        with suppress(OSError), self.within(_QUIT_SECONDS):
            self.quit()
        self.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Run the `with` block; if it takes longer than `seconds`, shut down the connection and raise TimeoutError."""
        is_over = threading.Event()

        def shut() -> None:
            is_over.set()
            if self._line is not None:
                with suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)  # so that whoever reads from it wakes up

        timer = threading.Timer(seconds, shut)
        timer.daemon = True
        timer.start()
        try:
            yield
        except OSError as error:
            if is_over.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        context = self._context() if self._config.security == "tls" else None
        connection = socket.create_connection((host, port), timeout)
        self._line = connection.dup()  # stays valid when TLS takes the first one over
        name = socket.gethostname()  # for the greeting: the full name, or the address if the name has no domain
        if "." not in name or not name.isascii() or " " in name:
            address = str(connection.getsockname()[0])
            name = f"[IPv6:{address}]" if ":" in address else f"[{address}]"
        self.local_hostname = name
        self._host = host  # smtplib compares the certificate with it
        return context.wrap_socket(connection, server_hostname=host) if context else connection

    def _context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._config.ca_file)
        except OSError as error:
            raise smtplib.SMTPException(f"{self._config.ca_file}: {error.strerror}") from error

    def putcmd(self, cmd: str, args: str = "") -> None:
        """Send a command; if it is one of the main commands, record it as the current step."""
        self.step = cmd.upper() if cmd.upper() in _COMMANDS else self.step
        super().putcmd(cmd, args)

    def data(self, msg: Any) -> tuple[int, bytes]:
        """Send the message `msg` with its line ends as they are; wait for the reply, and return its code and text."""
        code, words = self.docmd("DATA")
        if code != 354 or self.sock is None:
            raise smtplib.SMTPDataError(code, words)
        self.sock.settimeout(_PATIENCE * self._seconds)
        self.step = _SENDING
        self.send(_LONE_DOT.sub(b"..", msg) + (b".\r\n" if msg.endswith(b"\r\n") else b"\r\n.\r\n"))
        self.step = _END
        reply = self.getreply()
        self.sock.settimeout(self._seconds)
        return reply

    def getreply(self) -> tuple[int, bytes]:
        """Return code and text of the next reply. Raises OSError if it is longer than 64 KiB."""
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb", buffering=0))
        if self.file is not None:
            self.file.left = _REPLY_SIZE
        return super().getreply()

    def close(self) -> None:
        """Close the connection, and the second handle of its socket that `within` opened."""
        super().close()
        if self._line is not None:
            self._line.close()
            self._line = None


class _Replies(BufferedReader):
    """A stream of replies that limits the size of each."""

    left = _REPLY_SIZE

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line of a reply. Raises OSError if the reply exceeds the limit."""
        line = super().readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise OSError("an endless reply")
        return line


class EmailChannel(MailChannel):
    """Sends mail through an SMTP server, all messages of a run in one session."""

    def __init__(self, config: EmailConfig) -> None:
        super().__init__(config)
        self._smtp = config.smtp
        self._session: Session | None = None
        self._failure: DeliveryResult | None = None

    def deliver(self, message: Message) -> DeliveryResult:
        """Send one message and return the result; once the server has failed, all further ones fail at once."""
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

    def end(self) -> None:
        """Close the session that the first message of the run opened, if any."""
        if self._session is not None:
            self._session.end()
            self._session = None

    def _attempt(self, message: Message) -> DeliveryResult:
        is_new, session = self._session is None, self._session or Session(self._smtp)
        self._session = session
        try:
            with session.within(ATTEMPT * self._smtp.timeout.total_seconds()):
                if is_new:
                    session.begin()
                session.sendmail(self.envelope_sender, message.target, message.payload)
            return SENT
        except smtplib.SMTPRecipientsRefused as error:
            answer = _of_reply(session.step, *error.recipients[message.target])
        except smtplib.SMTPResponseException as error:
            answer = _of_reply(session.step, error.smtp_code, error.smtp_error)
        except OSError as error:
            answer = _of_failure(session.step, error)
        is_ready = False
        if not answer.is_channel and not answer.is_lost:
            with suppress(OSError), session.within(self._smtp.timeout.total_seconds()):
                is_ready = session.rset()[0] == 250  # the session can take the next message
        if not is_ready:
            self.end()
        # Without the password, should a server ever repeat it.
        secret = self._smtp.password.reveal() if self._smtp.password else ""
        return replace(answer, detail=answer.detail.replace(secret, "***")) if secret else answer
