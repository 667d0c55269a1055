"""A package change as JSON, fast: a hundred specs of one signature encode it once.

The form is that of config/changesets.schema.json.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from cachewatch.core.model import (
    FACTS,
    Delta,
    Diagnostic,
    Event,
    PackageChange,
    PackageCounts,
    PlaceChange,
    Side,
    Signature,
    SpecCounts,
    Specs,
    StackChange,
    known_hash,
)
from cachewatch.core.statements import CauseCount, Statement
from cachewatch.core.untrusted_text import safe
from cachewatch.render.ascii_json import ascii_only

SCHEMA = "cachewatch.changesets/2"

_encode = msgspec.json.encode


def package_json(change: PackageChange) -> bytes:
    """Return everything about `change` as one JSON object on one line."""
    counts = asdict(change.counts)
    # Under a package these are lists; their lengths are the counts.
    del counts["added"], counts["removed"], counts["unreferenced"]
    # What was rebuilt is on both sides.
    bodies = {signature: _body(signature) for signature in change.came.counts.keys() | change.went.counts.keys()}
    specs = [
        _members(counts),
        b'"added":' + _specs(change.came, bodies),
        b'"removed":' + _specs(change.went, bodies),
        b'"restacked":' + _encode([_restacked(entry) for entry in change.restacked]),
        b'"unreferenced":' + _encode(list(filter(known_hash, change.unreferenced))),
        b'"newly_unreferenced":' + _encode([spec.hash for spec in change.newly_unreferenced if known_hash(spec.hash)]),
    ]
    head = {
        "name": change.package,
        "status": change.status,
        "kinds": sorted(change.kinds),
        **{fact: delta_values(change.facts[fact]) for fact in FACTS},
        "stack_versions": change.stack_versions,
        "places": [place_values(place) for place in change.places],
    }
    return ascii_only(b"{" + _members(head) + b',"specs":{' + b",".join(specs) + b"}}")


def spec_values(signature: Signature) -> dict[str, Any]:
    """Return what a signature says, under the names of a document."""
    return {
        "versions": signature.versions,
        "compiler": signature.compiler,
        "os": signature.os,
        "platform": signature.platform,
        "target": signature.target,
        "variants": signature.variants,
        "stacks": signature.stacks,
    }


def delta_values(delta: Delta) -> dict[str, Any]:
    """Return what came and went of one fact."""
    return {"added": delta.added, "removed": delta.removed}


def place_values(place: PlaceChange) -> dict[str, Any]:
    """Return what happened in one place."""
    return {
        "stack": place.stack,
        "target": place.target,
        "before": place.before,
        "after": place.after,
        "verdict": place.verdict,
    }


def side_values(side: Side) -> dict[str, Any]:
    """Return one of the two states."""
    return {"revision": side.revision, "tag": side.tag, "time": side.time, "name": safe(side.name)}


def event_values(event: Event) -> dict[str, Any]:
    """Return one event."""
    return asdict(event)


def statement_values(statement: Statement) -> dict[str, Any]:
    """Return one statement; places as in a package, items by what became of them."""
    return {
        "kind": statement.kind,
        "severity": statement.severity,
        "name": safe(statement.name),
        "from": statement.before,
        "to": statement.after,
        "kinds": sorted(statement.kinds),
        "packages": statement.packages,
        "places": [{"stack": place.stack, "target": place.target} for place in statement.places],
        "stacks": statement.stacks,
        "items": asdict(statement.counts),
        "of": statement.of,
        "exceptions": statement.exceptions,
        "effects": [{"kind": effect.kind, "packages": effect.packages} for effect in statement.effects],
    } | ({"causes": [_cause_values(one) for one in statement.causes]} if statement.causes else {})


def _cause_values(one: CauseCount) -> dict[str, Any]:
    cause = one.cause
    return {
        "package": cause.package or None,
        "what": cause.what,
        "before": cause.before,
        "after": cause.after,
        "specs": one.specs,
        "packages": one.packages,
    }


def fault_values(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return one warning."""
    return {"path": safe(diagnostic.path), "kind": diagnostic.kind, "message": diagnostic.message}


def summary_values(packages: PackageCounts, specs: SpecCounts) -> dict[str, Any]:
    """Return the totals."""
    return {"packages": asdict(packages), "specs": asdict(specs)}


def _members(values: Mapping[str, Any]) -> bytes:
    return _encode(values)[1:-1]


def _body(signature: Signature) -> str:
    """Return a spec as JSON, but for its hash."""
    return f",{_members(spec_values(signature)).decode()}}}"


def _specs(specs: Specs, bodies: Mapping[Signature, str]) -> bytes:
    parts = [f'{{"hash":{_hash(key)}{bodies[signature]}' for key, signature in specs.in_order()]
    return f"[{','.join(parts)}]".encode()


def _hash(key: str) -> str:
    return f'"{key}"' if known_hash(key) else "null"


def _restacked(entry: StackChange) -> dict[str, Any]:
    return {"hash": entry.hash, "gained": entry.gained, "lost": entry.lost}
