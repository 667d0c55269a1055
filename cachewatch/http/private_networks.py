"""Who is reached from where: a server of the internet sends nobody into a private network."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from cachewatch.errors import HttpError
from cachewatch.http.urls import shown

Address = IPv4Address | IPv6Address

_TRANSLATED = IPv6Network("64:ff9b::/96")  # NAT64: its last four bytes are an address of IPv4


async def check_way(url: str, target: str) -> None:
    """Raise HttpError where the server of `url` is public, and the one of `target`, which it names, is not.

    All addresses that a name stands for count. What no name is known for here is left to a proxy.
    """
    there = await _addresses(target)
    if there and not all(map(is_public, there)):
        here = await _addresses(url)
        if not here or any(map(is_public, here)):
            raise HttpError(
                f"{shown(url)}: leads from the internet to {shown(target)}, which is in a private network, and is refused"
            )


def is_public(address: Address) -> bool:
    """Tell whether `address` is one of the internet, also where it is one of IPv4 in the dress of IPv6."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _TRANSLATED:
            inner = IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


async def _addresses(url: str) -> list[Address]:
    parts = urlsplit(url)
    try:
        return await resolve(parts.hostname or "", parts.port or 0)
    except (OSError, UnicodeError, ValueError):
        return []


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses that `host` stands for, which may be one itself."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(where[0]).partition("%")[0]) for *_, where in found]
