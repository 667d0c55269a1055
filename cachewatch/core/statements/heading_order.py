"""The order in which statements are told, bad news first: everything that lists them follows it, headings of mails too."""

from collections.abc import Iterable

from cachewatch.core.statements.values import RANKS, Statement


def in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Sort statements by the rank of their kind; of one kind, those with the most specs and stacks come first."""
    return tuple(sorted(statements, key=_key))


def _key(one: Statement) -> tuple[object, ...]:
    return (RANKS[one.kind], -one.counts.total, -len(one.stacks), one.name, one.before, one.after)
