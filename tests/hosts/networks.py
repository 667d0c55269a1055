"""Hosts as network namespaces: a database between two of them, each with a cable of its own that can be cut."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Network:
    """The namespaces of one test, and the addresses of the database from each host."""

    def __init__(self) -> None:
        self.prefix = f"cw{os.getpid()}"
        self.database = f"{self.prefix}d"
        self.hosts = (f"{self.prefix}a", f"{self.prefix}b")

    def address(self, host: str) -> str:
        """Return where a host finds the database."""
        return f"10.77.{self.hosts.index(host)}.1"

    def make(self) -> None:
        """Lay a cable from the database to each host."""
        for name in (self.database, *self.hosts):
            ip("netns", "add", name)
        for number, host in enumerate(self.hosts):
            near, far = self._cable(host), f"{host}0"
            ip("link", "add", near, "netns", self.database, "type", "veth", "peer", "name", far, "netns", host)
            for space, link, end in ((self.database, near, 1), (host, far, 2)):
                ip("-n", space, "address", "add", f"10.77.{number}.{end}/24", "dev", link)
                ip("-n", space, "link", "set", link, "up")

    def cut(self, host: str) -> None:
        """Let what a host sends go nowhere, and nothing reach it."""
        ip("-n", self.database, "link", "set", self._cable(host), "down")

    def repair(self, host: str) -> None:
        """Connect a host again."""
        ip("-n", self.database, "link", "set", self._cable(host), "up")

    def remove(self) -> None:
        """Take the namespaces away, and the cables with them."""
        for name in (self.database, *self.hosts):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def _cable(self, host: str) -> str:
        return f"{self.prefix}{self.hosts.index(host)}"


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
