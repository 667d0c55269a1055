"""Addresses of mail, of the web and of machines, checked before anything is sent to them."""

import re
from collections.abc import Callable
from email.utils import parseaddr
from urllib.parse import urlsplit

from cachewatch.errors import ConfigError

_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MAIL = re.compile(rf"{_LOCAL}@{_LABEL}(\.{_LABEL})*")
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


def parse_mail(text: str) -> str:
    """Return a mail address without a name, such as ops@example.org."""
    if not text.isascii():
        raise ConfigError(
            f"{text!r} is not plain ASCII, which many mail servers refuse (they lack SMTPUTF8);"
            " use an address without accents, and the xn-- form of the domain"
        )
    if len(text) > 254 or not _MAIL.fullmatch(text):
        raise ConfigError(f"{text!r} is not a mail address; write it as name@example.org")
    return text


def parse_sender(text: str) -> str:
    """Return a mail address with or without a name: `Cachewatch <cachewatch@example.org>`."""
    name, address = parseaddr(text)  # of two addresses, some versions of Python return the first, others none
    is_one = text.rstrip().endswith(f"<{address}>") or (not name and text.strip() == address)
    if not text.isprintable() or not address or not is_one:
        raise ConfigError(
            f"{text!r} is not a mail address; write Name <name@example.org>, with quotes around special characters"
        )
    parse_mail(address)
    return text


def parse_recipient(text: str) -> str:
    """Return a mail address of a recipient, with or without a name."""
    return parse_sender(text) if "<" in text else parse_mail(text)


def address_of(text: str) -> str:
    """Return the address in `Name <name@example.org>`, or the text if it is one without a name."""
    return (parseaddr(text)[1] or text) if "<" in text else text


def parse_host(text: str) -> str:
    """Return the name or number of a machine."""
    is_ipv6 = ":" in text and re.fullmatch(r"[0-9A-Fa-f:.]+", text)
    if not is_ipv6 and (len(text) > 253 or not _HOST.fullmatch(text)):
        raise ConfigError(f"{text!r} is not a host; write only its name or address: smtp.example.org")
    return text


def parse_listen(text: str) -> str:
    """Return `host:port` to listen on."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not an address to listen on; write 127.0.0.1:9469, or [::1]:9469")
    parse_host(host.removeprefix("[").removesuffix("]"))
    return text


def url_parser(*schemes: str) -> Callable[[str], str]:
    """Return what checks URLs of these schemes. Messages never repeat the URL, which may be a secret."""

    def parse(text: str) -> str:
        example = f"write one that begins with {' or '.join(f'{scheme}:' for scheme in schemes)}"
        try:
            parts = urlsplit(text)
            has_host = parts.scheme == "mailto" or (parts.hostname and (parts.port or True))
        except ValueError as error:
            raise ConfigError(f"is not a URL; {example}") from error
        if parts.scheme not in schemes or not text.isascii() or not text.isprintable() or " " in text or not has_host:
            raise ConfigError(f"is not a URL; {example}")
        return text

    return parse


def is_loopback(host: str) -> bool:
    """Tell whether `host` is this machine, so that nothing crosses a network."""
    return _LOOPBACK.fullmatch(host) is not None


def parse_unsubscribe(text: str) -> str:
    """Return the address where recipients unsubscribe."""
    url_parser("mailto", "https")(text)
    if text.startswith("mailto:"):
        parse_mail(text.removeprefix("mailto:").partition("?")[0])
    return text
