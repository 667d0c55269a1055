"""When Python's collector searches."""

import gc

from cachewatch.cli import garbage_collection


def test_pauses_may_be_nested() -> None:
    """The collector stays off until the outer pause ends, and then searches again."""
    with garbage_collection.paused():
        with garbage_collection.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
