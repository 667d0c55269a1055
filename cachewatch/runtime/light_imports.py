"""Import libraries without their optional dependencies, which may take longer to load than they do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Let imports in this block fail for `modules`, as if they were not installed, unless they are loaded already."""
    loaded = cast("dict[str, object]", sys.modules)  # None stands for what cannot be imported
    hidden = [name for name in modules if name not in loaded]
    loaded |= dict.fromkeys(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del loaded[name]
