"""Changesets as JSON, written as they come: one package a line, totals behind the packages."""

from collections.abc import Iterable, Iterator

from cachewatch.core.changesets import Changeset, Outcome
from cachewatch.core.model import PackageChange
from cachewatch.core.statements.filtered_statements import WantsKinds, of_kinds
from cachewatch.render.ascii_json import encode
from cachewatch.render.causes import attributed, attributed_json
from cachewatch.render.json_packages import (
    SCHEMA,
    event_values,
    fault_values,
    package_json,
    side_values,
    statement_values,
    summary_values,
)


class JsonCollector:
    """Encoded packages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, change: PackageChange) -> None:
        """Encode one package."""
        self._parts.append(package_json(change))

    def take(self) -> list[bytes]:
        """Hand over what was encoded."""
        taken, self._parts = self._parts, []
        return taken


def write_json(changesets: Iterable[Changeset], *, wants: WantsKinds) -> Iterator[bytes]:
    """Yield one JSON object with all changesets, and of their statements and events those of the kinds that are wanted."""
    yield b'{"schema":' + encode(SCHEMA) + b',"changesets":['
    for number, changeset in enumerate(changesets):
        yield b",\n" if number else b"\n"
        yield b'{"before":' + encode(side_values(changeset.before))
        yield b',"after":' + encode(side_values(changeset.after))
        yield b',"packages":['
        separator = b"\n"
        for parts in changeset.collected():
            for part in parts:
                yield separator
                yield part
                separator = b",\n"
        yield b"]" + _rest(changeset.outcome, wants) + _causes(changeset) + b"}"
    yield b"]}\n"


def write_jsonl(changesets: Iterable[Changeset], *, wants: WantsKinds) -> Iterator[bytes]:
    """Yield one JSON object a line, told apart by `type`: changeset, package, statement, cause, event, warning, summary."""
    for changeset in changesets:
        sides = {"before": side_values(changeset.before), "after": side_values(changeset.after)}
        yield encode({"type": "changeset", "schema": SCHEMA, **sides}) + b"\n"
        for parts in changeset.collected():
            yield b"".join(b'{"type":"package",' + part[1:] + b"\n" for part in parts)
        outcome = changeset.outcome
        for statement in of_kinds(outcome.statements, wants):
            yield encode({"type": "statement", **statement_values(statement)}) + b"\n"
        for cause in attributed_json(attributed(changeset.explain())) if changeset.explain else ():
            yield encode({"type": "cause", **cause}) + b"\n"
        for event in filter(lambda event: wants({event.kind}), outcome.events):
            yield encode({"type": "event", **event_values(event)}) + b"\n"
        for diagnostic in outcome.diagnostics:
            yield encode({"type": "warning", **fault_values(diagnostic)}) + b"\n"
        yield encode({"type": "summary", **summary_values(outcome.packages, outcome.tally.specs)}) + b"\n"


def _causes(changeset: Changeset) -> bytes:
    if changeset.explain is None:
        return b""
    return b',\n"causes":' + encode(attributed_json(attributed(changeset.explain())))


def _rest(outcome: Outcome, wants: WantsKinds) -> bytes:
    events = encode([event_values(event) for event in outcome.events if wants({event.kind})])
    summary = encode(summary_values(outcome.packages, outcome.tally.specs))
    warnings = encode([fault_values(diagnostic) for diagnostic in outcome.diagnostics])
    statements = encode([statement_values(statement) for statement in of_kinds(outcome.statements, wants)])
    return (
        b',\n"statements":'
        + statements
        + b',\n"events":'
        + events
        + b',\n"summary":'
        + summary
        + b',\n"warnings":'
        + warnings
    )
