"""Write changesets for programs: JSON (see config/changesets.schema.json), and CSV with a line for each fact and spec.

JSON is ASCII, so that it is harmless wherever it is shown, and has a package on each line.
"""

import csv
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from cachewatch.core.changesets import Changeset
from cachewatch.core.escaping_and_mentions import UNSEEN, safe
from cachewatch.core.graphs_and_attribution import Attributed, Cause, Explanation, What, attribute
from cachewatch.core.kinds_and_specs import (
    FACTS,
    Diagnostic,
    Kind,
    Loss,
    LossClass,
    MatchKind,
    PackageChange,
    Place,
    Side,
    Signature,
    Specs,
    Verdict,
    known_hash,
)
from cachewatch.core.statement_kinds import Statement, StatementKind
from cachewatch.core.statements import BY_VERSION, Wants, of_kinds
from cachewatch.report import words, words_file

_NOT_ASCII = re.compile("[^\x00-\x7e]+")


def encode(value: Any) -> bytes:
    """Encode plain values as JSON in ASCII."""
    return ascii_only(msgspec.json.encode(value))


def ascii_only(data: bytes) -> bytes:
    """Return the JSON `data` with all characters escaped that are not printable ASCII."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], data.decode("utf-8")).encode("ascii")


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return the attributes `names` of `value` by name, for JSON."""
    return {name: getattr(value, name) for name in names}


def pretty_json(value: object) -> bytes:
    """Encode values as indented JSON in ASCII; values that JSON does not know become text."""
    return ascii_only(msgspec.json.format(msgspec.json.encode(value, enc_hook=str))) + b"\n"


SCHEMA = "cachewatch.changesets/3"

_encode = msgspec.json.encode


class PackageJson(NamedTuple):
    """The JSON of a package in pieces; `places_json` completes its places with the statements that explain them."""

    package: str
    head: bytes
    kinds: Set[Kind]
    # Of each: its JSON without the end; that of its loss; the place; whether a statement must explain it.
    places: list[tuple[bytes, bytes, Place, bool]]
    specs: bytes


def package_json(change: PackageChange) -> PackageJson:
    """Return the JSON of `change` in pieces."""
    counts = asdict(change.counts)
    # Under a package these are lists; their lengths are the counts.
    del counts["added"], counts["removed"], counts["unreferenced"]
    # Rebuilt specs are on both sides.
    added, removed = change.added_specs, change.removed_specs
    signatures = added.counts.keys() | removed.counts.keys()
    bodies = {signature: f",{_members(signature).decode()}}}" for signature in signatures}
    specs = [
        _members(counts),
        b'"added":' + _specs(added, bodies),
        b'"removed":' + _specs(removed, bodies),
        b'"restacked":' + _encode([picked(one, "hash", "gained", "lost") for one in change.restacked]),
        b'"unreferenced":' + _encode(list(filter(known_hash, change.unreferenced))),
        b'"newly_unreferenced":' + _encode([spec.hash for spec in change.newly_unreferenced if known_hash(spec.hash)]),
    ]
    head = {
        "name": change.package,
        "status": change.status,
        **{fact: change.facts[fact] for fact in FACTS},
        "stack_versions": [
            picked(one, "stack", "before", "after") | {"direction": _DIRECTIONS.get(one.verdict, "changed")}
            for one in change.stack_versions
        ],
    }
    rest = b',"specs":{' + b",".join(specs) + b"}}"
    places = []
    for place in change.places:
        values = picked(place, "stack", "target", "before", "after", "verdict")
        loss = b"" if place.loss is None else b',"loss":' + encode(loss_values(place.loss))
        places.append((encode(values)[:-1], loss, place.place, place.verdict in _OWNED))
    return PackageJson(change.package, ascii_only(b"{" + _members(head)), change.kinds, places, ascii_only(rest))


_OWNED = (Verdict.LOST, Verdict.UPGRADED, Verdict.DOWNGRADED)
# By package and place: the id of the statement that explains it, and whether this gives a class of loss.
Owners = Mapping[tuple[str, Place], tuple[str | None, bool]]


def owners_of(statements: Iterable[Statement]) -> Owners:
    """Return, by package and lost or changed place, the id of its statement, and whether that classifies a loss."""
    owners: dict[tuple[str, Place], tuple[str | None, bool]] = {}
    for statement in statements:
        for lost in statement.losses:
            if not lost.machine:
                owner = (statement.id, lost.loss is not None)
                owners |= dict.fromkeys(((lost.package, place) for place in lost.was or (lost.place,)), owner)
        for line in statement.lines if statement.kind in BY_VERSION else ():
            owners |= {(line.package, place): (statement.id, False) for place in line.story.places}
    return owners


def places_json(one: PackageJson, owners: Owners, whole: str | None) -> bytes:
    """Return places as JSON with ids of statements: of `owners`, else `whole`, that the whole tag is new or gone."""
    places = []
    for members, loss, place, is_owned in one.places:
        known = owners.get((one.package, place))
        owner, has_class = known or (whole, not whole)
        statement = b',"statement":' + encode(owner) if known or is_owned else b""
        places.append(members + (loss if has_class else b"") + statement + b"}")
    return b',"places":[' + b",".join(places) + b"]"


_DIRECTIONS = {"gained": "added", "lost": "removed", "upgraded": "upgrade", "downgraded": "downgrade"}  # by verdict


def loss_values(loss: Loss) -> dict[str, str]:
    """Return `class` of a loss, and as `reason` what the tag still has, for each lost version if there are several."""
    own = words_file.words()
    reason = words.reasons_of_versions((loss, *loss.older), own) if loss.older else words.reason_of(loss, own)
    return {"class": loss.loss_class, "reason": reason or own.text("losses", f"{loss.loss_class}_alone")}


def side_values(side: Side) -> dict[str, Any]:
    """Return a side of a comparison, which is a revision or a folder, as plain data."""
    return picked(side, "revision", "tag", "time") | {"name": safe(side.name)}


def statement_values(statement: Statement) -> dict[str, Any]:
    """Return a statement as plain data."""
    causes = [cause_values(one.cause) | {"specs": one.specs, "packages": one.packages} for one in statement.causes]
    losses = Counter(one.loss.loss_class for one in statement.losses if one.loss)
    return {
        **picked(statement, "id", "kind", "severity"),
        "name": safe(statement.name),
        "from": statement.before,
        "to": statement.after,
        "kinds": sorted(statement.kinds),
        "packages": statement.packages,
        "places": [{"stack": place.stack, "target": place.target} for place in statement.places],
        "stacks": statement.stacks,
        "items": picked(statement.counts, "vanished", "new", "kept"),
        "losses": {one.value: losses[one] for one in LossClass if losses[one]},
        **picked(statement, "of", "exceptions"),
        "effects": [
            picked(effect, "kind", "packages")
            | ({"from": effect.before, "to": effect.after, "specs": effect.specs} if effect.attribute else {})
            for effect in statement.effects
        ],
        **({"turnover": {**asdict(statement.turnover), "gone": statement.turnover.gone}} if statement.turnover else {}),
        **({"causes": causes} if causes else {}),
    }


def cause_values(cause: Cause) -> dict[str, Any]:
    """Return a cause as plain data."""
    return {"package": cause.package or None, **picked(cause, "what", "before", "after")}


def cause_json(cause: Cause) -> dict[str, Any]:
    """Return a cause as plain data; for a change of compiler, with the languages that the compiler compiles."""
    return cause_values(cause) | ({"languages": cause.languages} if cause.what is What.COMPILER else {})


def attributed(found: Sequence[Explanation]) -> Sequence[Attributed]:
    """Return the causes in `found`, each with the specs that have it, and those counted for it (a spec counts once)."""
    return attribute({one.spec.hash: one.causes for one in found if one.causes})


def attributed_json(explained: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Return causes as data for JSON: `hashes` has all specs with a cause, `attributed` counts each spec only once."""
    return [
        cause_json(one.cause) | {"specs": len(one.hashes), "attributed": len(one.attributed), "hashes": one.hashes}
        for one in attributed(explained)
    ]


def machines_lost(statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """Return data on machines (system and target) lost by places that keep others, with the ids of their statements."""
    return [
        {
            "package": lost.package,
            "stack": lost.place.stack,
            **picked(lost.machine, "platform", "os"),
            "target": lost.place.target,
            "loss": lost.loss and loss_values(lost.loss),
            "statement": one.id,
        }
        for one in statements
        for lost in one.losses
        if lost.machine
    ]


def _fault_values(diagnostic: Diagnostic) -> dict[str, Any]:
    names = ("kind", "message", "side") if diagnostic.side else ("kind", "message")
    return {"path": safe(diagnostic.path), **picked(diagnostic, *names)}


def _members(values: msgspec.Struct | Mapping[str, Any]) -> bytes:
    return _encode(values)[1:-1]


def _specs(specs: Specs, bodies: Mapping[Signature, str]) -> bytes:
    """Return `specs` as a JSON list; `bodies` has, for each signature, the text that follows the hash."""
    parts = [
        f'{{"hash":"{key}"{bodies[signature]}' if known_hash(key) else f'{{"hash":null{bodies[signature]}'
        for key, signature in specs.in_order()
    ]
    return f"[{','.join(parts)}]".encode()


_IN_MEMORY = 8 * 2**20  # bytes of JSON


def write_json(changesets: Iterable[Changeset], *, wants: Wants) -> Iterator[bytes]:
    """Yield one JSON object with all changesets; statements and events of kinds that `wants` refuses are left out."""
    yield b'{"schema":' + encode(SCHEMA) + b',"changesets":['
    for tag, changeset in enumerate(changesets):
        yield b",\n" if tag else b"\n"
        yield b'{"before":' + encode(side_values(changeset.before))
        yield b',"after":' + encode(side_values(changeset.after))
        yield b',"packages":['
        for place, package in enumerate(_packages(changeset)):
            yield from (b",\n" if place else b"\n", *package)
        rest = (b",\n" + encode(name) + b":" + encode(values) for name, values in _rest(changeset, wants).items())
        yield b"]" + b"".join(rest) + b"}"
    yield b"]}\n"


# The `type` of an object of each list, where it has a line of its own.
_TYPES = {
    "statements": "statement",
    "machines_lost": "machine-lost",
    "causes": "cause",
    "events": "event",
    "warnings": "warning",
}


def write_jsonl(changesets: Iterable[Changeset], *, wants: Wants) -> Iterator[bytes]:
    """Yield one JSON object on each line; its `type` is changeset, package, statement, cause, event and so on."""
    for changeset in changesets:
        sides = {"before": side_values(changeset.before), "after": side_values(changeset.after)}
        yield encode({"type": "changeset", "schema": SCHEMA, **sides}) + b"\n"
        for head, places, specs in _packages(changeset):
            yield from (b'{"type":"package",', head[1:], places, specs, b"\n")
        rest = _rest(changeset, wants)
        for name, type_ in _TYPES.items():
            yield from (encode({"type": type_, **values}) + b"\n" for values in rest.get(name, ()))
        yield encode({"type": "summary", **rest["summary"]}) + b"\n"


def _rest(changeset: Changeset, wants: Wants) -> dict[str, Any]:
    """Return the values that follow packages in JSON: statements, lost machines, events and others, by name."""
    report = changeset.report
    causes = {} if changeset.explain is None else {"causes": attributed_json(changeset.explain())}
    return {
        "statements": list(map(statement_values, of_kinds(report.statements, wants))),
        "machines_lost": machines_lost(report.statements),
        "events": list(map(asdict, report.about(wants).events)),
        "summary": {"packages": asdict(report.packages), "specs": asdict(report.specs)},
        "warnings": list(map(_fault_values, report.diagnostics)),
        **causes,
    }


def _packages(changeset: Changeset) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield each package as three pieces of JSON: head, places with the ids of their statements, and specs."""
    # The ids are known only after the last package; until then a temporary file keeps the specs, which are large.
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        all_parts: Iterator[PackageJson] = chain.from_iterable(changeset.collected())
        packages = [(one._replace(specs=b""), file.tell(), file.write(one.specs)) for one in all_parts]
        statements = changeset.report.statements
        owners = owners_of(statements)
        tags = (StatementKind.TAG_ADDED, StatementKind.TAG_REMOVED)
        whole = next((one.id for one in statements if one.kind in tags), None)
        for one, start, size in sorted(packages, key=lambda each: each[0].package):
            file.seek(start)
            kinds = b',"kinds":' + _encode(sorted(changeset.report.kinds_of.get(one.package, one.kinds)))
            yield one.head + kinds, places_json(one, owners, whole), file.read(size)


COLUMNS = ("tag", "package", "change", "name", "before", "after", "count", "hash", *Signature.__struct_fields__)

# Names behind a sign, and nothing that calls, refers or computes.
_VARIANTS = re.compile(r"[+-][A-Za-z][A-Za-z0-9_]*(?: [+~]?[A-Za-z][A-Za-z0-9_.,:=-]*)*")
# Blanks and what nobody sees do not keep all spreadsheets from computing, and some know signs of full width.
_FORMULA = re.compile(rf"[\s{UNSEEN}]*[=+@\uff1d\uff0b\uff20\ufe62\ufe66\ufe6b\u2212\uff0d\ufe63-]")
# In half of the world, a spreadsheet begins another cell there.
_BEHIND_SEPARATOR = re.compile(rf";(?={_FORMULA.pattern})")

CsvLine = Mapping[str, object]


def csv_lines(change: PackageChange) -> list[CsvLine]:
    """Return the lines of CSV about one package, without its tag."""
    return [{"package": change.package, **line} for line in _lines(change)]


def write_csv(changesets: Iterable[Changeset], *, wants: Wants) -> Iterator[bytes]:
    """Yield the changes as CSV, with a heading; events of kinds that `wants` refuses are left out."""
    yield csv_rows([COLUMNS])
    for changeset in changesets:
        tag = changeset.after.tag or ""
        for packages in changeset.collected():
            yield csv_table({"tag": tag, **line} for lines in packages for line in lines)
        report = changeset.report
        events = report.about(wants).events
        last: list[CsvLine] = [{"change": event.kind, "name": event.name, "count": event.specs} for event in events]
        last += ({"change": one.kind, "name": one.path, "after": one.message} for one in report.diagnostics)
        last.append({"change": "total", "before": report.specs.before, "after": report.specs.after})
        yield csv_table({"tag": tag, **line} for line in last)


def _lines(change: PackageChange) -> Iterator[CsvLine]:
    yield {"change": f"package-{change.status}", "before": change.counts.before, "after": change.counts.after}
    for fact in FACTS:
        singular = "os" if fact == "oses" else fact.removesuffix("s")
        yield from ({"change": f"{singular}-added", "name": value} for value in change.facts[fact].added)
        yield from ({"change": f"{singular}-removed", "name": value} for value in change.facts[fact].removed)
    for entry in change.stack_versions:
        change_of = f"stack-versions-{_DIRECTIONS.get(entry.verdict, 'changed')}"
        yield {"change": change_of, "name": entry.stack, **_sides(entry.before, entry.after)}
    for place in change.places:
        where = {"stacks": place.stack, "target": place.target}
        # Where a compiler or system replaced another, a place has one less and one more.
        both = place.verdict is Verdict.NARROWED and Kind.WIDENED in place.kinds
        for verdict in (place.verdict, *([Verdict.WIDENED] if both else [])):
            yield {"change": f"place-{verdict}", **where, **_sides(place.before, place.after)}
    for lost in change.machines_lost:
        values = {**asdict(lost.machine), "stacks": lost.place.stack, **_sides(lost.versions, ())}
        yield {"change": "machine-lost", **values}
    counted = {kind.value: kind.value for kind in MatchKind} | {"unmatched-added": "new", "unmatched-removed": "gone"}
    for name, field_name in counted.items():
        if count := getattr(change.counts, field_name):
            yield {"change": name, "count": count}
    # Kept specs that left or joined the selected stacks have their own rows.
    for name, specs in (("spec-removed", change.removed_hashes), ("spec-added", change.added_hashes)):
        yield from ({"change": name, **_spec(*each)} for each in specs.in_order())
    for kept in change.restacked:
        yield {"change": "restacked", "hash": kept.hash, **_sides(kept.lost, kept.gained)}
    yield from ({"change": "unreferenced", "hash": known_hash(key) or ""} for key in change.unreferenced)


def _sides(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    return {"before": " ".join(before), "after": " ".join(after)}


def _spec(spec_hash: str, signature: Signature) -> CsvLine:
    values = asdict(signature).items()
    joined = {name: " ".join(value) if isinstance(value, tuple) else value for name, value in values}
    return {"hash": known_hash(spec_hash) or "", **joined}


def csv_table(lines: Iterable[CsvLine]) -> bytes:
    """Return `lines`, each a mapping of columns to values, as CSV without a heading; see `csv_rows`."""
    return csv_rows([line.get(name, "") for name in COLUMNS] for line in lines)


# Compressed. A mail makes a third more of it, and many servers refuse 10 MiB.
MOST_CSV = 4 * 2**20


class CsvTable(Struct, frozen=True):
    """The changed specs as lines of CSV without a heading, compressed with gzip."""

    content: bytes = b""
    size: int = 0  # bytes before compression
    is_complete: bool = True  # False if the table grew too large; it is then empty


class CsvPacker:
    """Compresses lines of CSV about `tag`; drops all if they have more than `most` bytes when compressed."""

    def __init__(self, tag: str, most: int) -> None:
        self._most = most
        self._tag = csv_table([{"tag": tag}]).split(b",", 1)[0]
        self._gzip: Any = None  # takes a quarter of a megabyte, and most tables stay empty
        self._packed = bytearray()
        self._size = 0

    def add(self, lines: bytes) -> None:
        """Add `lines` of CSV, with the tag put into the first cell of each, which is empty."""
        self._size += len(lines)
        if lines and len(self._packed) <= self._most:
            self._gzip = self._gzip or zlib.compressobj(6, wbits=31)
            self._packed += self._gzip.compress(b"".join(self._tag + line for line in lines.splitlines(keepends=True)))

    def finish(self) -> CsvTable:
        """Return the compressed table; an empty one, marked as incomplete, if there are more than `most` bytes."""
        self._packed += self._gzip.flush() if self._gzip else b""
        if len(self._packed) > self._most:
            return CsvTable(b"", self._size, is_complete=False)
        return CsvTable(bytes(self._packed), self._size)


def csv_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Return `rows` as CSV; cells that spreadsheets would take for formulas are escaped. None is an empty cell."""
    text = io.StringIO()
    plain = csv.writer(text, lineterminator="\r\n")
    quoting = csv.writer(text, lineterminator="\r\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = ["" if value is None else _cell(value) for value in row]
        (quoting if any(";" in cell for cell in cells) else plain).writerow(cells)
    return text.getvalue().encode("utf-8")


def _cell(value: object) -> str:
    text = value if type(value) is str else str(value)
    if text.isascii() and text.isalnum():
        return text  # nearly everything, and a spreadsheet sees nothing in it
    # A spreadsheet takes these for the beginning of a formula, which a mere list of variants cannot be.
    is_formula = _FORMULA.match(text) and not _VARIANTS.fullmatch(text)
    text = safe(_BEHIND_SEPARATOR.sub(";'", text) if ";" in text else text)
    return f"'{text}" if is_formula else text
