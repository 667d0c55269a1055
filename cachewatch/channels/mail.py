"""Create mails of digests, one for each recipient, and pass them to sendmail or into a Maildir.

The same digest gives the same bytes every time. The text and the HTML are quoted-printable and pure ASCII, so no server
needs 8BITMIME, and nothing in them looks like the beginning of a mail (`From `) or its end (a lone dot).
"""

import hmac
import os
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from email import quoprimime
from email.header import Header
from email.headerregistry import Address, HeaderRegistry
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from cachewatch.channels.files_and_feeds import of_error
from cachewatch.config.sources_and_channels import MailConfig, MaildirConfig, SendmailConfig
from cachewatch.config.value_types_and_secrets import address_of, parse_mail
from cachewatch.core.escaping_and_mentions import file_name, markup, one_line, one_word, plain_lines
from cachewatch.errors import ConfigError
from cachewatch.report.digest_and_message_values import (
    SENT,
    DeliveryOutcome,
    DeliveryResult,
    Message,
    OneByOne,
    RenderedDigest,
)
from cachewatch.report.digests.subject import subject_prefix
from cachewatch.runtime.files_and_locks import publish

_FORMAT = "4"  # raise it whenever the same digest gives other bytes than before
_LINK = 900  # characters of a link in a header, whose lines may have 998
_ALTERABLE = re.compile(r"^(From |\.)", re.MULTILINE)


class Mail:
    """A digest as mail to one recipient, or to all recipients of one Maildir."""

    def __init__(
        self, rendered: RenderedDigest, to: tuple[Address, ...], config: MailConfig, original: str | None = None
    ) -> None:
        """Prepare a mail to the addresses `to`; `original` is the Message-ID of the mail that it repeats, if any."""
        self._rendered, self._to, self._config, self._original = rendered, to, config, original
        parts = [_FORMAT, rendered.key, rendered.title, rendered.text, rendered.html]
        parts += [f"{a.name} {a.content_type} {sha256(a.content).hexdigest()}" for a in rendered.attachments]
        self._content = _digest(parts)  # the same for all recipients
        self._domain = config.list_domain or parseaddr(config.sender)[1].rpartition("@")[2]
        self._name = one_word(rendered.subscription)
        self._unsubscribe = self._unsubscribing()
        # <digest.SUBSCRIPTION.PERIOD.HASH@DOMAIN>, the same for the same content and recipient.
        resent = ["resent", original, rendered.created.isoformat()] if original else []
        period = re.sub(r"[^A-Za-z0-9-]+", "_", rendered.period)[:40]  # two dots in a row are not allowed there
        mark = _digest([self._content, *map(str, to), *resent])
        kind = "notice" if rendered.is_notice else "digest"
        self.message_id = f"<{kind}.{self._name}.{period}.{mark}@{self._domain}>"

    def as_bytes(self, policy: EmailPolicy) -> bytes:
        """Return the whole mail with the line ends of `policy`."""
        message = EmailMessage(policy=policy)
        for name, value in self._headers():
            message[name] = value
        rendered, template = self._rendered, self._config.unsubscribe
        text, html = rendered.text, rendered.html
        if template:  # in bodies that all recipients share
            text = text.replace(template, self._unsubscribe)
            html = html.replace(escape(template, quote=False), escape(self._unsubscribe, quote=False))
        _attach_text(message, plain_lines(text), "plain")
        if html:
            message.make_alternative(boundary=f"=_alternative_{self._content}")  # cannot occur in quoted-printable
            part = EmailMessage(policy=policy)
            _attach_text(part, markup(html), "html")
            del part["MIME-Version"]
            message.attach(part)
        if rendered.attachments:
            message.make_mixed(boundary=f"=_mixed_{self._content}")
            for file in rendered.attachments:
                main, _, sub = file.content_type.partition(";")[0].partition("/")
                params = {"charset": "utf-8"} if main == "text" else None
                kind: Any = {"maintype": main, "subtype": sub, "params": params}
                message.add_attachment(file.content, filename=file_name(file.name), cte="base64", **kind)
        return message.as_bytes()

    def _headers(self) -> Iterator[tuple[str, str | tuple[Address, ...]]]:
        rendered, config = self._rendered, self._config
        name, sender = parseaddr(config.sender)
        prefix = subject_prefix(rendered.subscription, is_urgent=rendered.is_urgent, is_notice=rendered.is_notice)
        yield "From", (Address(name, addr_spec=sender),)
        yield "To", self._to or "undisclosed-recipients:;"
        yield "Subject", ("" if self._original is None else "Resent: ") + one_line(prefix + rendered.title)
        yield "Date", format_datetime(rendered.created)
        yield "Message-ID", self.message_id
        if config.reply_to:
            yield "Reply-To", (Address(addr_spec=config.reply_to),)
        if self._original:
            yield "References", self._original
        if not rendered.is_notice:
            yield from self._list_headers()
        yield "Auto-Submitted", "auto-generated"
        yield "X-Auto-Response-Suppress", "OOF, AutoReply"  # All would suppress the bounces, which we want
        yield "Precedence", "list"
        if rendered.is_urgent:
            yield "Importance", "high"
            yield "X-Priority", "1"
        # For the filters of readers; short, and never one per package.
        own = {"Level": [rendered.level], "Subscription": [rendered.subscription], "Tag": rendered.tags}
        for kind, values in {**own, "Kinds": rendered.kinds, "Revisions": rendered.revisions}.items():
            if line := one_line(", ".join(values).encode("ascii", "backslashreplace").decode(), 300):
                yield f"X-Cachewatch-{kind}", line

    def _list_headers(self) -> Iterator[tuple[str, str]]:
        yield "List-Id", f"cachewatch {self._name} <{self._name}.{self._domain}>"
        archive = (self._config.archive or "").partition("{")[0]
        if 0 < len(self._unsubscribe) <= _LINK:
            yield "List-Unsubscribe", f"<{self._unsubscribe}>"
            if self._unsubscribe.startswith("https:"):
                yield "List-Unsubscribe-Post", "List-Unsubscribe=One-Click"
        for header, url in (("List-Archive", archive), ("Archived-At", self._rendered.archive_url or "")):
            if 0 < len(_link(url)) <= _LINK:
                yield header, f"<{_link(url)}>"

    def _unsubscribing(self) -> str:
        """Return the configured URL to unsubscribe, signed if a key is configured; "" if there is no such URL."""
        recipient, subscription = self._to[0].addr_spec if self._to else "", self._rendered.subscription
        values = {"subscription": subscription, "recipient": recipient}
        if self._config.unsubscribe_key is not None:
            key, named = self._config.unsubscribe_key.reveal(), f"{recipient}\0{subscription}"
            values["token"] = hmac.new(key.encode(), named.encode(), "sha256").hexdigest()
        link = self._config.unsubscribe or ""
        for name, value in values.items():
            link = link.replace(f"{{{name}}}", quote(value, safe="", errors="replace"))
        if link.startswith("mailto:") and "?" not in link:
            link += f"?subject={quote(subscription, safe='', errors='replace')}"
        return _link(link)


def _digest(parts: Iterable[str]) -> str:
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


def _link(url: str) -> str:
    """Return `url` with all characters escaped that could end a link or a header."""
    return quote(url, safe="!#$%&'()*+,/:;=?@[]~-._", errors="replace")


def _attach_text(part: EmailMessage, text: str, subtype: str) -> None:
    part["MIME-Version"] = "1.0"
    part["Content-Type"] = f'text/{subtype}; charset="utf-8"'
    part["Content-Transfer-Encoding"] = "quoted-printable"
    text = text if text.endswith("\n") else text + "\n"
    encoded = quoprimime.body_encode(text.encode().decode("latin-1"), maxlinelen=74)
    # Two characters more than the 74 are just what quoted-printable allows.
    part.set_payload(_ALTERABLE.sub(lambda found: f"={ord(found[0][0]):02X}{found[0][1:]}", encoded))


# These headers, of addresses, dates and MIME, are folded by the standard library.
_THEIRS = {"from", "to", "reply-to", "date", "mime-version", "content-type", "content-transfer-encoding"}
_THEIRS |= {"content-disposition"}
_WIDTH = 78
_WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}


class _HeaderClasses(HeaderRegistry):
    """Makes one class for each name of a header; the library makes one for each header, which uses up memory."""

    @cache  # noqa: B019  our registry stays
    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)


class MailPolicy(EmailPolicy):
    """Folds headers at spaces and encodes only the subject; addresses, dates and MIME are left to the library.

    The standard library's policy turns a long List-Unsubscribe, References or In-Reply-To into encoded words, which no
    mail program reads, and can make a long subject invalid; the older `email.header` encodes a subject reliably.
    """

    def header_store_parse(self, name: str, value: Any) -> tuple[str, Any]:
        """Return name and value of a header as messages store them. Raises ValueError if the value has line breaks."""
        if name.lower() in _THEIRS:
            return super().header_store_parse(name, value)
        text = str(value)
        if len(text.splitlines()) > 1 or "\0" in text:
            raise ValueError(f"{name}: a header is one line of text")
        return name, text

    def fold_binary(self, name: str, value: Any) -> bytes:
        """Return a header as bytes, folded into lines, with line ends."""
        text = str(value)
        if name.lower() in _THEIRS:
            return super().fold_binary(name, value)
        if name.lower() == "subject" and (not text.isascii() or "=?" in text):
            lines = f"{name}: {Header(text, 'utf-8', maxlinelen=_WIDTH, header_name=name).encode()}".split("\n")
        else:
            words = " ".join(text.encode("ascii", "backslashreplace").decode().split())
            lines = textwrap.wrap(words, _WIDTH, initial_indent=f"{name}: ", subsequent_indent=" ", **_WHOLE_WORDS)
        return f"{self.linesep.join(lines)}{self.linesep}".encode("ascii")


INTERNET = MailPolicy(linesep="\r\n", max_line_length=_WIDTH, header_factory=_HeaderClasses())  # for SMTP
LOCAL = INTERNET.clone(linesep="\n")  # for Maildirs and local programs


NO_ADDRESS = DeliveryResult(outcome=DeliveryOutcome.DEAD, detail="this is not a mail address", is_address=True)


class MailChannel(OneByOne):
    """Creates mails of digests; subclasses send them."""

    policy: EmailPolicy = INTERNET

    def __init__(self, config: MailConfig) -> None:
        self.name = config.name
        self._config = config
        self.envelope_sender = config.bounces or parseaddr(config.sender)[1]  # who gets undeliverable mail

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message for each recipient; an address that is listed twice gets only one."""
        messages = [self._message(rendered, [each], one_line(address_of(each))) for each in rendered.to]
        return list({message.target.lower(): message for message in reversed(messages)}.values())[::-1]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the mail of `original` as a new message, marked as resent, that refers to `original`."""
        return self._message(rendered, [original.target], original.target, original.message_id or "")

    def _message(
        self, rendered: RenderedDigest, recipients: Iterable[str], target: str, original: str | None = None
    ) -> Message:
        addresses = tuple(
            Address(parseaddr(recipient)[0] if "<" in recipient else "", addr_spec=address_of(recipient))
            for recipient in recipients
            if is_address(address_of(recipient))  # others are refused only when mail is sent to them
        )
        mail = Mail(rendered, addresses, self._config, original)
        return rendered.message(target, mail.as_bytes(self.policy), "message/rfc822", mail.message_id)


def is_address(recipient: str) -> bool:
    """Tell whether `recipient` is a valid mail address without a name."""
    try:
        parse_mail(recipient)
    except ConfigError:
        return False
    return "=?" not in recipient  # some mail programs would decode what follows


# The exit codes of sysexits.h; after all others it is tried again.
_BLOCKED = DeliveryResult(DeliveryOutcome.BLOCKED, is_channel=True)
_MEANINGS = dict.fromkeys((os.EX_USAGE, os.EX_NOPERM, os.EX_CONFIG), _BLOCKED)
_MEANINGS |= dict.fromkeys((os.EX_NOUSER, os.EX_NOHOST), DeliveryResult(DeliveryOutcome.DEAD, is_address=True))
_MEANINGS |= {os.EX_DATAERR: DeliveryResult(DeliveryOutcome.DEAD)}
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TZ")  # not the secrets that other variables may have


class SendmailChannel(MailChannel):
    """Sends mail through the local sendmail program, which runs once for each message."""

    policy = LOCAL
    _config: SendmailConfig

    def deliver(self, message: Message) -> DeliveryResult:
        """Run sendmail for one message, and return what its exit code means."""
        if not is_address(message.target):
            return NO_ADDRESS
        seconds = self._config.timeout.total_seconds()
        command = [*self._config.command, "-f", self.envelope_sender, "--", message.target]
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"LC_ALL": "C"}
        with tempfile.TemporaryFile() as output:
            files: Any = {"input": message.payload, "stdout": output, "stderr": output}
            try:
                # A list, from the operator's configuration.
                code = subprocess.run(command, **files, env=environment, timeout=seconds, check=False).returncode  # noqa: S603
            except OSError as error:
                words = one_line(f"{command[0]}: {error.strerror}")
                return replace(_BLOCKED, detail=words)
            except subprocess.TimeoutExpired:
                words = f"{command[0]}: did not finish within {seconds:g} seconds"
                return DeliveryResult(DeliveryOutcome.DEFERRED, words, may_have_arrived=True, is_channel=True)
            output.seek(0)
            words = one_line(output.read(4096).decode("utf-8", "replace"), 250)
        if code == 0:
            return SENT
        how = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
        detail = f"{how}: {words}" if words else how
        meaning = _MEANINGS.get(code, DeliveryResult(DeliveryOutcome.DEFERRED))
        return replace(meaning, detail=detail, may_have_arrived=code < 0)


class MaildirChannel(MailChannel):
    """Puts mail into a Maildir, one message of each digest for all recipients."""

    policy = LOCAL
    _config: MaildirConfig

    def build_messages(self, rendered: RenderedDigest) -> Sequence[Message]:
        """Return one message, addressed to all recipients."""
        return [self._message(rendered, rendered.to, str(self._config.path))]

    def rebuild_message(self, rendered: RenderedDigest, original: Message) -> Message:
        """Return the mail of `original` as a new message, marked as resent, that refers to `original`."""
        return self._message(rendered, rendered.to, str(self._config.path), original.message_id or "")

    def deliver(self, message: Message) -> DeliveryResult:
        """Write one message into the Maildir, unless it is already there, read or unread; return the result."""
        folder, identity = Path(message.target), f"{message.key}\0{message.message_id}".encode()
        name = f"{int(message.created.timestamp())}.{sha256(identity).hexdigest()[:20]}.cachewatch"
        try:
            if not (folder / "new" / name).exists() and not any((folder / "cur").glob(f"{name}*")):
                publish(folder / "new" / name, message.payload, base=folder, mode=0o600)
            for other in ("tmp", "cur"):
                (folder / other).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            return of_error(error, folder)
        return SENT
