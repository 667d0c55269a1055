"""Addresses of http and https: which are taken, and how they are told to people."""

from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from cachewatch.errors import RefusedAddress

_PORTS = {"http": 80, "https": 443}


def shown(url: str) -> str:
    """Return `url` as it may be told to people: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "an address that cannot be read"


def check_url(url: str) -> None:
    """Raise RefusedAddress unless `url` is one of http or https that carries no password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise RefusedAddress(f"{shown(url)}: is not an address") from error
    if parts.scheme not in _PORTS or not host:
        raise RefusedAddress(f"{shown(url)}: is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise RefusedAddress(f"{shown(url)}: contains a password; keep it in a separate file")


def check_secrecy(url: str) -> None:
    """Raise RefusedAddress where credentials would go over a network in the clear."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_this_machine(parts.hostname or ""):
        raise RefusedAddress(
            f"{shown(url)}: everybody on the way could read the token or login that goes there; write https://, "
            "or leave the credentials out"
        )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return what tells servers apart: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
