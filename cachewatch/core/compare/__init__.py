"""Two documents of one package in, what happened to the package out: whole_packages.py. The laws are in docs/laws.md.

It is loaded when it is first used: a question to the history takes only one of the steps.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cachewatch.core.compare.whole_packages import Pair, compare, compare_all, load_deepdiff

__all__ = ["Pair", "compare", "compare_all", "load_deepdiff"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cachewatch.core.compare import whole_packages  # noqa: PLC0415

    return globals().setdefault(name, getattr(whole_packages, name))
