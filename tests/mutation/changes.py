"""Small changes to a module, each of which a test should notice: those of mutmut, and three more."""

import difflib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

Operator = Callable[[Any], Iterable[cst.CSTNode]]


@dataclass(frozen=True)
class Mutant:
    """One change to one module."""

    path: Path
    first: int  # line
    last: int
    operator: str
    module: cst.Module
    old: cst.CSTNode
    new: cst.CSTNode

    @cached_property
    def code(self) -> str:
        """The whole module with the change."""
        changed = self.module.deep_replace(self.old, self.new)
        assert isinstance(changed, cst.Module)
        return changed.code

    @cached_property
    def diff(self) -> str:
        """The change as a unified diff."""
        old, new, path = self.module.code, self.code, str(self.path)
        return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), path, path, n=1))


def _drop_call(node: cst.SimpleStatementLine) -> Iterator[cst.CSTNode]:
    """Leave out a call that is made for what it does."""
    if len(node.body) == 1 and isinstance(node.body[0], cst.Expr) and isinstance(node.body[0].value, cst.Call):
        yield node.with_changes(body=[cst.Pass()])


def _negate(node: cst.If | cst.CompIf) -> Iterator[cst.CSTNode]:
    """Do what is done under a condition where it does not hold."""
    test = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), test))


def _return_none(node: cst.Return) -> Iterator[cst.CSTNode]:
    """Return nothing."""
    if node.value is not None and not (isinstance(node.value, cst.Name) and node.value.value == "None"):
        yield node.with_changes(value=cst.Name("None"))


_OPERATORS: Sequence[tuple[Any, str, Operator]] = (
    *((kind, change.__name__.removeprefix("operator_"), change) for kind, change in mutation_operators),
    (cst.SimpleStatementLine, "drop_call", _drop_call),
    ((cst.If, cst.CompIf), "negate", _negate),
    (cst.Return, "return_none", _return_none),
)
# What is written for readers and type checkers, and does nothing.
_NOTHING = (cst.Annotation, cst.Decorator, cst.Import, cst.ImportFrom)
# What only raises where our own code is wrong.
_GUARDS = {"frozen", "gc", "kw_only", "strict"}


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: Path, module: cst.Module) -> None:
        super().__init__()
        self.found: list[Mutant] = []
        self._path, self._module = path, module

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _NOTHING) or _is_type(node) or _is_words(node) or _is_guard(node):
            return False
        place = self.get_metadata(PositionProvider, node, None)
        if place is not None:
            lines = place.start.line, place.end.line
            for kind, name, change in _OPERATORS:
                if isinstance(node, kind):
                    changed = list(change(node))[: 1 if name == "string" else None]  # its case is no change of its own
                    done = [new for new in changed if not _differs_in_guards_alone(node, new)]
                    self.found += [Mutant(self._path, *lines, name, self._module, node, new) for new in done]
        return True


def _is_type(node: cst.CSTNode) -> bool:
    """Tell whether a name is given to a type: `Key = Callable[[Signature], Hashable]`."""
    if not (isinstance(node, cst.Assign) and isinstance(node.value, cst.Subscript)):
        return False
    name = node.value.value.value if isinstance(node.value.value, cst.Name) else ""
    return name in ("dict", "frozenset", "list", "set", "tuple", "type") or name[:1].isupper()


def _is_guard(node: cst.CSTNode) -> bool:
    """Tell whether an argument guards against mistakes of ours, such as `frozen=True`."""
    return isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in _GUARDS


def _differs_in_guards_alone(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    if not (isinstance(old, cst.Call) and isinstance(new, cst.Call)):
        return False
    left = [call.with_changes(args=[arg for arg in call.args if not _is_guard(arg)]) for call in (old, new)]
    return bool(left[0].deep_equals(left[1]))


def _is_words(node: cst.CSTNode) -> bool:
    """Tell whether something is a sentence: people read those, and tests need not repeat them."""
    return isinstance(node, cst.SimpleString) and " " in node.value


def changes(path: Path, code: str) -> list[Mutant]:
    """Return every change to a module."""
    wrapped = MetadataWrapper(cst.parse_module(code))
    finder = _Finder(path, wrapped.module)
    wrapped.visit(finder)
    return finder.found


def sample(found: Mapping[Path, Sequence[Mutant]], size: int, seed: int) -> list[Mutant]:
    """Choose from each module in proportion to its lines, at least one, and as many kinds as can be."""
    chance = random.Random(seed)
    ordered = {path: _in_turns(mutants, chance) for path, mutants in sorted(found.items()) if mutants}
    lines = {path: len({mutant.first for mutant in mutants}) for path, mutants in ordered.items()}
    taken = Counter(chance.sample(list(ordered), min(size, len(ordered))))
    while sum(taken.values()) < size and (left := [path for path in ordered if taken[path] < len(ordered[path])]):
        taken[min(left, key=lambda path: (taken[path] + 1) / lines[path])] += 1
    return [mutant for path, mutants in ordered.items() for mutant in mutants[: taken[path]]]


def _in_turns(mutants: Sequence[Mutant], chance: random.Random) -> list[Mutant]:
    """Shuffle, and let each kind of change have its turn."""
    kinds: defaultdict[str, int] = defaultdict(int)
    turns = []
    for mutant in chance.sample(mutants, len(mutants)):
        turns.append((kinds[mutant.operator], mutant))
        kinds[mutant.operator] += 1
    return [mutant for _, mutant in sorted(turns, key=lambda turn: turn[0])]
