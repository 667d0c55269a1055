"""What the replies of a mail server mean for a message, its recipient and the channel."""

import re
import smtplib
import ssl
from enum import StrEnum

from cachewatch.channels.escaping import one_line
from cachewatch.core.delivery import DeliveryOutcome, DeliveryResult

_LOGIN = frozenset({530, 534, 535, 538})
_SIZE = re.compile(r"5\.(2\.3|3\.4)\b")
_OTHER_THAN_SIZE = re.compile(r"5\.[67]\.\d")


class Step(StrEnum):
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


_OPENING = frozenset({Step.CONNECT, Step.HELLO, Step.TLS, Step.LOGIN})


class Refused(Exception):
    """The server's reply to a step is not the one that lets us go on."""

    def __init__(self, step: Step, code: int, words: bytes | str) -> None:
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
            outcome=DeliveryOutcome.DEFERRED, detail=said, is_channel=True, may_have_arrived=step is Step.END
        )
    if code < 500:
        is_channel = step in _OPENING
        is_lost = code == 421 and not is_channel  # the server ends the session, perhaps because of this message
        return DeliveryResult(outcome=DeliveryOutcome.DEFERRED, detail=said, is_channel=is_channel, is_lost=is_lost)
    if step in _OPENING or code in _LOGIN:
        return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=said, is_channel=True)
    if code == 552:
        return DeliveryResult(outcome=_of_552(step, refused.words), detail=said)
    if step is Step.MAIL:  # it is our own address that is not welcome
        return DeliveryResult(outcome=DeliveryOutcome.BLOCKED, detail=said, is_channel=True)
    return DeliveryResult(outcome=DeliveryOutcome.DEAD, detail=said, is_address=step is Step.RECIPIENT)


def _of_552(step: Step, words: str) -> DeliveryOutcome:
    """Tell a message that is too large from a full mailbox, which may be emptied, and from unwelcome content."""
    if _SIZE.match(words):
        return DeliveryOutcome.TOO_LARGE
    if step is Step.RECIPIENT:
        return DeliveryOutcome.DEFERRED
    return DeliveryOutcome.DEAD if _OTHER_THAN_SIZE.match(words) else DeliveryOutcome.TOO_LARGE


def of_failure(step: Step, error: Exception) -> DeliveryResult:
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
        may_have_arrived=step is Step.END,
        is_channel=step in _OPENING,
        is_lost=step not in _OPENING,
    )
