"""Check http and https URLs, remove secrets from them for messages, and make headers from files with credentials.

No server of the internet can redirect a request into a private network.
"""

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cachewatch.errors import HttpError, RefusedAddress

_PORTS = {"http": 80, "https": 443}


def shown(url: str) -> str:
    """Return `url` without user, password, query and fragment, for messages; a fixed phrase if it cannot be parsed."""
    try:
        parts = urlsplit(url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return "an address that cannot be read"


def without_secret_url(text: str, url: str) -> str:
    """Return `text` with the secret parts of `url` (the path, long parts of it, and the query) replaced by `***`."""
    parts = urlsplit(url)
    for secret in (parts.path, parts.query, *(part for part in parts.path.split("/") if len(part) >= 8)):
        text = text.replace(secret, "***") if len(secret) > 1 else text
    return text


def check_url(url: str) -> None:
    """Raise RefusedAddress unless `url` is an http or https URL without user and password."""
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
    """Raise RefusedAddress if credentials sent to `url` would cross a network unencrypted."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise RefusedAddress(
            f"{shown(url)}: everybody on the way could read the token or login that goes there; write https://, "
            "or leave the credentials out"
        )


def is_loopback(host: str) -> bool:
    """Tell whether `host` is `localhost` or a loopback address, for which nothing crosses a network."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host (or None) and port of `url`; without a port, the default of the scheme (or None)."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


Address = IPv4Address | IPv6Address

_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64: its last four bytes are an address of IPv4
# Private, though Python calls them public: metadata services of Azure and Oracle, local NAT64, and old IPv6 site addresses.
_NOT_PUBLIC = tuple(map(ip_network, ("168.63.129.16", "192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10")))


async def check_target(url: str, target: str) -> None:
    """Raise HttpError if `target`, to which `url` led, is in a private network and `url` is not."""
    await _check(url, target, await _addresses(target))  # a name that cannot be resolved here is left to the proxy


def connection_check(url: str, target: str) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Return a trace function for httpx that applies `check_target` to the address to which httpx really connected.

    The function runs before the request is sent: a name may resolve to another address after `check_target` asked.
    """
    host = ""

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        nonlocal host
        if event == "connection.connect_tcp.started":
            host = str(info["host"])
        if event == "connection.connect_tcp.complete" and host == urlsplit(target).hostname:  # else it is a proxy
            try:
                await _check(url, target, [peer(info["return_value"])])
            except HttpError:
                await info["return_value"].aclose()
                raise

    return trace


def peer(stream: Any) -> Address:
    """Return the IP address of the server at the other end of the connection `stream`."""
    return ip_address(str(stream.get_extra_info("server_addr")[0]).partition("%")[0])


async def _check(url: str, target: str, there: list[Address]) -> None:
    if there and not all(map(is_public, there)):
        here = await _addresses(url)
        if not here or any(map(is_public, here)):
            raise HttpError(
                f"{shown(url)}: leads from the internet to {shown(target)}, which is in a private network, and is refused"
            )


def is_public(address: Address) -> bool:
    """Tell whether `address` belongs to the internet; if an IPv6 address embeds an IPv4 address, that one decides."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _TRANSLATED:
            inner = IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOT_PUBLIC)


async def _addresses(url: str) -> list[Address]:
    parts = urlsplit(url)
    try:
        return await resolve(parts.hostname or "", parts.port or 0)
    except (OSError, UnicodeError, ValueError):
        return []


async def resolve(host: str, port: int) -> list[Address]:
    """Return the IP addresses of `host`, a name or an IP address. Raises OSError if the name cannot be resolved."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(where[0]).partition("%")[0]) for *_, where in found]


def bearer(file: Path) -> Mapping[str, str]:
    """Return a header with the token in `file`. Raises RefusedAddress if `file` is invalid or everybody can read it."""
    return {"Authorization": f"Bearer {_secret(file)}"}


def basic(file: Path) -> Mapping[str, str]:
    """Return a header with the `user:password` in `file`. Raises RefusedAddress as `bearer` does."""
    user, colon, password = _secret(file).partition(":")
    if not colon:
        raise RefusedAddress(f"{file}: must hold user:password, on one line")
    value = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {value}"}


def _secret(file: Path) -> str:
    try:
        if file.stat().st_mode & 0o007:
            raise RefusedAddress(f"{file}: holds a secret and can be read by everybody; run chmod o-rwx {file}")
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedAddress(f"{file}: cannot be read ({getattr(error, 'strerror', 'not text')})") from error
    if not text or not text.isprintable() or not text.isascii():
        raise RefusedAddress(f"{file}: must hold one line of plain text")
    return text
