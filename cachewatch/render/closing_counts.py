"""What became of all specs of a digest, in one sentence that adds up: every item of every statement, once."""

from collections.abc import Iterable

from cachewatch.core.statements import Statement, StatementKind
from cachewatch.core.statements.values import RANKS
from cachewatch.render.statement_phrases import SHARES, number

_MOST_SHARES = 6
# Kept specs of these are built by no stack any more.
_UNBUILT = (StatementKind.REBUILD_WAVE, StatementKind.UNREFERENCED, StatementKind.STACK_REMOVED)


def accounting(statements: Iterable[Statement]) -> str:
    """Return `+96: 64 rebuilt, 15 in upgrades; -79: 64 rebuilt, 15 in upgrades`; empty where nothing changed."""
    statements = sorted((one for one in statements if one.counts.total), key=lambda one: RANKS[one.kind])
    parts = [
        _side("+", [(SHARES[one.kind], one.counts.new) for one in statements]),
        _side("-", [(SHARES[one.kind], one.counts.vanished) for one in statements]),
    ]
    kept = [(one.counts.kept, one.kind in _UNBUILT) for one in statements]
    old = sum(count for count, is_old in kept if is_old)
    moved = sum(count for count, is_old in kept if not is_old)
    parts.append(f"{number(old, 'old build')} kept until the next prune" if old else "")
    parts.append(f"{number(moved, 'build')} kept, now in other stacks" if moved else "")
    return "; ".join(filter(None, parts))


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
