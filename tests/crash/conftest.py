"""One world for all crash tests."""

import os
from collections.abc import Iterator

import pytest
from tools import program

from crash.world import Post, World, Zygote


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a process for each core, and one more, because they also wait for the disk."""
    program("strace")
    with Post() as post:
        zygotes = [Zygote() for _ in range((os.cpu_count() or 1) + 1)]
        built = World(tmp_path_factory.mktemp("world"), zygotes, post)
        built.build()
        yield built
        for zygote in zygotes:
            zygote.close()
