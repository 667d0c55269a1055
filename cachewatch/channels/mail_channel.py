"""What all ways of sending mail have: a digest becomes one message per recipient."""

from collections.abc import Iterable, Sequence
from email.headerregistry import Address
from email.policy import EmailPolicy
from email.utils import parseaddr

from cachewatch.channels.escaping import one_line
from cachewatch.channels.mail_headers import INTERNET
from cachewatch.channels.mail_message import Mail, compose, message_id
from cachewatch.config.addresses import address_of, parse_mail
from cachewatch.config.model import MailConfig
from cachewatch.core.delivery import DeliveryOutcome, DeliveryResult, Message, RenderedDigest
from cachewatch.errors import ConfigError

NO_ADDRESS = DeliveryResult(outcome=DeliveryOutcome.DEAD, detail="this is not a mail address", is_address=True)


class MailChannel:
    """Packs digests as mail; those who inherit say how it goes out."""

    policy: EmailPolicy = INTERNET

    def __init__(self, config: MailConfig) -> None:
        self.name = config.name
        self._mail_config = config

    @property
    def envelope_sender(self) -> str:
        """Who hears of mail that comes back."""
        return self._mail_config.bounces or parseaddr(self._mail_config.sender)[1]

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each recipient, whoever is named twice."""
        messages = [self._message(rendered, recipient) for recipient in rendered.to]
        return list({message.target.lower(): message for message in reversed(messages)}.values())[::-1]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the mail once more, as a message of its own that refers to the first."""
        return self._message(rendered, original.target, original.message_id or "")

    def _message(self, rendered: RenderedDigest, recipient: str, original: str | None = None) -> Message:
        return self.finish(Mail(rendered, addresses([recipient]), original), one_line(address_of(recipient)))

    def finish(self, mail: Mail, target: str) -> Message:
        """Return the final bytes of `mail`."""
        return Message(
            key=mail.rendered.key,
            target=target,
            payload=compose(mail, self._mail_config, self.policy),
            content_type="message/rfc822",
            message_id=message_id(mail, self._mail_config),
            created=mail.rendered.created,
        )


def addresses(recipients: Iterable[str]) -> tuple[Address, ...]:
    """Return those that are addresses. What is none is refused when it goes out, and stops no other."""
    return tuple(
        Address(parseaddr(recipient)[0] if "<" in recipient else "", addr_spec=address_of(recipient))
        for recipient in recipients
        if is_address(address_of(recipient))
    )


def is_address(recipient: str) -> bool:
    """Return whether mail can go to `recipient`."""
    try:
        parse_mail(recipient)
    except ConfigError:
        return False
    return "=?" not in recipient  # some mail programs would decode what follows
