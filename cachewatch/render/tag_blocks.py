"""What happened to a whole tag, as a block for each statement: its numbers, its exceptions, and what followed from it."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from cachewatch.core import tag_names
from cachewatch.core.model import Kind
from cachewatch.core.statements import Statement, StatementKind
from cachewatch.core.statements.values import Counts
from cachewatch.core.untrusted_text import safe_name
from cachewatch.render import rebuild_reasons, statement_phrases
from cachewatch.render.diff_totals import signed
from cachewatch.render.statement_phrases import number
from cachewatch.render.text_blocks import ALL, FEW_NAMES, Block, Chosen, Requested
from cachewatch.report.changes import Report

_TITLES = {
    StatementKind.TAG_REMOVED: "Tag removed",
    StatementKind.TAG_ADDED: "New tag",
    StatementKind.SUSPICIOUS: "Suspicious",
    StatementKind.STACK_REMOVED: "Stack removed",
    StatementKind.STACK_ADDED: "New stack",
    StatementKind.MIGRATION: "Migrated",
    StatementKind.PRUNE: "Pruned",
    StatementKind.REBUILD_WAVE: "Built again",
}
_REMARKS = {
    StatementKind.STACK_REMOVED: "often a failed pipeline",
    StatementKind.PRUNE: "copies, older versions, and what no stack builds",
    StatementKind.SUSPICIOUS: "check that the catalogue was published whole",
}
_EFFECTS = {
    StatementKind.PACKAGE_REMOVED: "packages removed with it",
    StatementKind.PACKAGE_ADDED: "new packages with it",
    StatementKind.PLACE_LOST: "no build there any more",
    StatementKind.PLACE_GAINED: "new there",
}
# Effects that a statement of this kind has by what it is.
_OWN_EFFECTS = {
    StatementKind.STACK_REMOVED: StatementKind.PLACE_LOST,
    StatementKind.STACK_ADDED: StatementKind.PLACE_GAINED,
}


def block_of(one: Chosen, report: Report, asked: Requested) -> Block:
    """Return the block of a statement on the whole tag."""
    statement, counts = one.statement, one.counts
    parts = [number(len(one.packages), "package"), signed(counts)] if one.packages else []
    if statement.kind is StatementKind.MIGRATION:
        parts.append(f"in {statement_phrases.stacks_named(statement.stacks, asked.most_names)}")
    return Block(
        kind=statement.kind,
        severity=statement.severity,
        title=_TITLES[statement.kind],
        name=name_of(statement),
        total=", ".join(filter(None, parts)),
        notes=tuple(filter(None, _notes(one, report, asked))),
        named=_packages_named(one.packages, asked),
        packages=len(one.packages),
    )


def name_of(statement: Statement) -> str:
    """Return what a statement on the whole tag is about: a stack, or what replaced what."""
    return (
        statement_phrases.replaced(statement)
        if statement.kind is StatementKind.MIGRATION
        else safe_name(statement.name)
    )


def occurrences(statements: Iterable[Statement], wants: Callable[[Kind], bool]) -> str:
    """Name what happened of the kinds that are wanted: changes of the whole tag, then packages, then lost places."""
    of_tag, packages, places = [], dict[str, None](), []
    for one in statements:
        if not any(map(wants, one.kinds)):
            continue
        if one.kind in _TITLES:
            of_tag.append(f"{_TITLES[one.kind].lower()} {name_of(one)}".strip())
        elif one.kind is StatementKind.PLACE_LOST and one.name:
            places.append(f"{statement_phrases.names(one.packages)} in {statement_phrases.place_name(one.name)}")
        else:
            packages |= dict.fromkeys(line.package for line in one.lines if any(map(wants, line.kinds)))
    named = [", ".join([*found[:FEW_NAMES], *_rest(found)]) for found in (of_tag, [safe_name(p) for p in packages])]
    return "; ".join(filter(None, [*named, "; ".join([*places[:FEW_NAMES], *_rest(places)])]))


def _rest(found: Sequence[str]) -> list[str]:
    return [f"{len(found) - FEW_NAMES:,} more"] if len(found) > FEW_NAMES else []


def _notes(one: Chosen, report: Report, asked: Requested) -> Iterator[str]:
    statement = one.statement
    most = ALL if asked.is_whole else FEW_NAMES
    if statement.kind is StatementKind.REBUILD_WAVE:
        yield _wave(one.counts, report)
        yield from rebuild_reasons.lines(statement, most)
    yield _REMARKS.get(statement.kind, "")
    if statement.of and statement.of > statement.counts.total:
        yield f"in the whole tag {number(statement.of, 'spec')} came or went with it"
    if statement.exceptions:
        yield f"still on {_old_value(statement)}: {statement_phrases.names(statement.exceptions, most)}"
    packages = set(one.packages)
    for effect in statement.effects:
        affected = tuple(name for name in effect.packages if name in packages)
        if affected and not _goes_without_saying(effect.kind, statement):
            yield f"{_EFFECTS[effect.kind]}: {statement_phrases.names(affected, most)}"


def _goes_without_saying(effect: StatementKind, statement: Statement) -> bool:
    if statement.kind is StatementKind.MIGRATION:
        # Who has another target has another place.
        return effect in _OWN_EFFECTS.values() and Kind.TARGET in statement.kinds
    return _OWN_EFFECTS.get(statement.kind) is effect


def _old_value(statement: Statement) -> str:
    return safe_name(" ".join(value.partition("@")[2] or value for value in statement.before))


def _wave(counts: Counts, report: Report) -> str:
    beside = counts.new - counts.vanished
    if beside <= 0:
        return "nothing else about them changed"
    goes = " and go at the next prune" if tag_names.is_mutable(report.after.tag) else ""
    old = "the old builds are" if not counts.vanished else f"{number(beside, 'old build')} are"
    return f"nothing else about them changed; {old} still there{goes}"


def _packages_named(packages: Sequence[str], asked: Requested) -> str:
    if asked.is_whole or asked.names_kinds or asked.names_packages or len(packages) <= FEW_NAMES:
        return statement_phrases.names(packages, asked.most)
    return ""
