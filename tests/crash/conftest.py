"""One world for all crash tests, and one whose states are in PostgreSQL."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from model.mail import MailServer
from postgres import Server
from tools import program

from crash.world import World, Zygote


@contextmanager
def _built(folder: Path, server: Server | None) -> Iterator[World]:
    """Build a world with a process for each core, and one more, because they also wait for the disk."""
    program("strace")
    with MailServer() as post, ExitStack() as stack:
        zygotes = [stack.enter_context(Zygote()) for _ in range((os.cpu_count() or 1) + 1)]
        built = World(folder, zygotes, post, server)
        built.build()
        yield built


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with states in SQLite."""
    with _built(tmp_path_factory.mktemp("world"), None) as built:
        yield built


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[World]:
    """A world with states in PostgreSQL."""
    with _built(tmp_path_factory.mktemp("shared-world"), postgres) as built:
        yield built
