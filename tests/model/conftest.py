"""One stage for all tests of the model."""

from collections.abc import Iterator

import pytest

from model.stage import Stage, open_stage


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """What all examples share."""
    with open_stage() as made:
        yield made
