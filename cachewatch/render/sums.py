"""What became of all specs of a digest, in one sentence that adds up: every item of every statement, once."""

from collections.abc import Iterable

from cachewatch.render.phrases import SHARES, number
from cachewatch.statements import Statement
from cachewatch.statements.values import RANKS

_MOST_SHARES = 6


def accounting(statements: Iterable[Statement]) -> str:
    """Return `+96: 64 rebuilt, 15 in upgrades; -79: 64 rebuilt, 15 in upgrades`; empty where nothing changed."""
    statements = sorted((one for one in statements if one.counts.total), key=lambda one: RANKS[one.kind])
    parts = [
        _side("+", [(SHARES[one.kind], one.counts.new) for one in statements]),
        _side("-", [(SHARES[one.kind], one.counts.vanished) for one in statements]),
    ]
    kept = sum(one.counts.kept for one in statements)
    moved = f"{number(kept, 'spec')} kept, in other stacks or none" if kept else ""
    return "; ".join(filter(None, (*parts, moved)))


def total(statements: Iterable[Statement]) -> tuple[int, int, int]:
    """Return how many specs are new, how many vanished, and how many were kept in other stacks."""
    counts = [one.counts for one in statements]
    return sum(c.new for c in counts), sum(c.vanished for c in counts), sum(c.kept for c in counts)


def _side(sign: str, shares: Iterable[tuple[str, int]]) -> str:
    counts: dict[str, int] = {}
    for words, count in shares:
        counts[words] = counts.get(words, 0) + count
    told = sorted(((count, words) for words, count in counts.items() if count), reverse=True)
    if not told:
        return ""
    listed = [f"{count:,} {words}" for count, words in told[:_MOST_SHARES]]
    rest = sum(count for count, _ in told[_MOST_SHARES:])
    return f"{sign}{sum(counts.values()):,}: {', '.join([*listed, *([f'{rest:,} others'] if rest else [])])}"
