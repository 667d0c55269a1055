"""What a subscription or a silence selects: its `match` in the configuration as patterns."""

from collections.abc import Iterable

from cachewatch.config.model import Match
from cachewatch.core.model import Kind
from cachewatch.core.selection import Globs, Selection, Versions, every_compiler


def selection_of(match: Match, kinds: Iterable[Kind] | None = None) -> Selection:
    """Return what a subscription or a silence selects; `kinds=None` selects every kind."""
    return Selection(
        tags=Globs(match.tags),
        packages=Globs(match.packages),
        stacks=Globs(match.stacks),
        targets=Globs(match.targets),
        oses=Globs(match.oses),
        compilers=Globs(every_compiler(match.compilers)),
        versions=Versions(match.versions),
        kinds=Globs() if kinds is None else Globs(sorted(kinds)),
    )
