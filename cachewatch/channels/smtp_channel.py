"""Mail through an SMTP server: one connection per run, one transaction per recipient."""

import smtplib
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from cachewatch.channels.mail_channel import NO_ADDRESS, MailChannel, is_address
from cachewatch.channels.server_replies import Refused, of_failure, of_reply
from cachewatch.channels.smtp_session import Session
from cachewatch.config.model import EmailConfig, Smtp
from cachewatch.core.delivery import SENT, DeliveryResult, Message, SentHistory, Transport


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
