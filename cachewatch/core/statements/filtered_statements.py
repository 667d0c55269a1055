"""What of the statements a reader asked for: those of some kinds, without what somebody silenced.

Nothing is dropped: what is not select_statements line by line is still there to be summed up.
"""

from collections.abc import Callable, Iterable, Iterator, Set

from msgspec import Struct
from msgspec.structs import replace

from cachewatch.core.model import Kind
from cachewatch.core.statements.values import Counts, Line, Statement, graded, is_of_tag

WantsLine = Callable[[Line], bool]
WantsKinds = Callable[[Set[Kind]], bool]


class Selected(Struct, frozen=True):
    """Statements that are select_statements, and what is left of all others."""

    statements: tuple[Statement, ...] = ()
    rest: tuple[Statement, ...] = ()


def of_kinds(statements: Iterable[Statement], wants: WantsKinds) -> tuple[Statement, ...]:
    """Return the statements of the kinds that somebody asked for, without lines of other kinds."""
    return select_statements(statements, lambda line: wants(line.kinds), wants).statements


def select_statements(statements: Iterable[Statement], wants_line: WantsLine, wants: WantsKinds) -> Selected:
    """Part what is select_statements from the rest: whole tags by their own kinds, all else line by line."""
    shown: list[Statement] = []
    rest: list[Statement] = []
    for one in statements:
        if is_of_tag(one.kind):
            (shown if wants(one.kinds) else rest).append(one)
        else:
            sides: tuple[list[Line], list[Line]] = ([], [])
            for line in one.lines:
                sides[not wants_line(line)].append(line)
            shown += _with(one, sides[0])
            rest += _with(one, sides[1])
    return Selected(tuple(shown), tuple(rest))


def _with(statement: Statement, lines: list[Line]) -> Iterator[Statement]:
    """Yield the statement with no other than these lines; nothing, if there are none."""
    if len(lines) == len(statement.lines):
        yield statement
    elif lines:
        part = replace(
            statement,
            lines=tuple(lines),
            packages=tuple(sorted({line.package for line in lines})),
            stacks=tuple(sorted({stack for line in lines for stack in line.stacks})),
            here=None,
            counts=sum((line.counts for line in lines), start=Counts()),
            kinds=frozenset(kind for line in lines for kind in line.kinds),
        )
        yield graded(part)
