"""One world for all crash tests."""

import os
import shutil
from collections.abc import Iterator

import pytest

from crash.world import Post, World, Zygote


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with a process for each core, and one more, because they also wait for the disk."""
    if shutil.which("strace") is None:
        message = "strace is not installed, which injects the faults"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with Post() as post:
        zygotes = [Zygote() for _ in range((os.cpu_count() or 1) + 1)]
        built = World(tmp_path_factory.mktemp("world"), zygotes, post)
        built.build()
        yield built
        for zygote in zygotes:
            zygote.close()
