"""Two documents of one package in, what happened to the package out: whole_packages.py. The laws are in docs/laws.md."""

from cachewatch.core.compare.whole_packages import Pair, compare, compare_all

__all__ = ["Pair", "compare", "compare_all"]
