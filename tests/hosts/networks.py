"""Hosts as network namespaces: a database and a mail server between two of them, with cables that can be cut."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Network:
    """The namespaces of one test: two hosts and two servers, and a cable from each host to each server."""

    def __init__(self) -> None:
        self.prefix = f"cw{os.getpid()}"
        self.database, self.mail = self.servers = (f"{self.prefix}d", f"{self.prefix}m")
        self.hosts = (f"{self.prefix}a", f"{self.prefix}b")

    def address(self, host: str, server: str = "") -> str:
        """Return where a host finds a server, the database if none is named."""
        return f"10.{77 + self.servers.index(server or self.database)}.{self.hosts.index(host)}.1"

    def make(self) -> None:
        """Lay the cables."""
        for name in (*self.servers, *self.hosts):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for host in self.hosts:
            for server in self.servers:
                self._connect(host, server)

    def cut(self, host: str, server: str = "") -> None:
        """Let what a host sends to a server go nowhere, and nothing come back."""
        ip("-n", server or self.database, "link", "set", self._cable(host, server), "down")

    def repair(self, host: str, server: str = "") -> None:
        """Connect a host again."""
        ip("-n", server or self.database, "link", "set", self._cable(host, server), "up")

    def remove(self) -> None:
        """Take the namespaces away, and the cables with them."""
        for name in (*self.servers, *self.hosts):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def _connect(self, host: str, server: str) -> None:
        near, far = self._cable(host, server), self._cable(host, server)
        ip("link", "add", near, "netns", server, "type", "veth", "peer", "name", far, "netns", host)
        net = self.address(host, server).removesuffix(".1")
        for space, link, end in ((server, near, 1), (host, far, 2)):
            ip("-n", space, "address", "add", f"{net}.{end}/24", "dev", link)
            ip("-n", space, "link", "set", link, "up")

    def _cable(self, host: str, server: str) -> str:
        return f"{self.prefix}{self.hosts.index(host)}{(server or self.database)[-1]}"


def inside(space: str) -> tuple[str, ...]:
    """Return what to put before a command that is to run in a namespace."""
    return "ip", "netns", "exec", space


def ip(*arguments: str) -> None:
    """Change the network."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def network() -> Iterator[Network]:
    """Make a network; without root the test is skipped."""
    made = Network()
    try:
        made.make()
    except (OSError, subprocess.CalledProcessError):
        made.remove()
        pytest.skip("network namespaces take root")
    try:
        yield made
    finally:
        made.remove()
