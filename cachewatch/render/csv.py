"""Changesets as a table: one line for each fact, spec, judgement, event and warning."""

import csv
import io
import re
from collections.abc import Iterable, Iterator

from cachewatch.core.changesets import Changeset
from cachewatch.core.model import FACTS, MatchKind, PackageChange, Spec, known_hash
from cachewatch.core.untrusted_text import UNSEEN, safe

COLUMNS = (
    "tag",
    "package",
    "change",
    "name",
    "before",
    "after",
    "count",
    "hash",
    "versions",
    "compiler",
    "os",
    "platform",
    "target",
    "variants",
    "stacks",
)

# The singular of a fact, as in the kinds of change: version-added.
_SINGULAR = {
    "versions": "version",
    "stacks": "stack",
    "compilers": "compiler",
    "oses": "os",
    "platforms": "platform",
    "targets": "target",
    "variants": "variant",
}

# Names behind a sign, and nothing that calls, refers or computes.
_VARIANTS = re.compile(r"[+-][A-Za-z][A-Za-z0-9_]*(?: [+~]?[A-Za-z][A-Za-z0-9_.,:=-]*)*")
# Blanks and what nobody sees do not keep all spreadsheets from computing, and some know signs of full width.
_FORMULA = re.compile(rf"[\s{UNSEEN}]*[=+@\uff1d\uff0b\uff20\ufe62\ufe66\ufe6b\u2212\uff0d\ufe63-]")
# In half of the world, a spreadsheet begins another cell there.
_BEHIND_SEPARATOR = re.compile(rf";(?={_FORMULA.pattern})")

Line = dict[str, object]


class CsvCollector:
    """The lines of packages."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def add(self, change: PackageChange) -> None:
        """Take the lines of one package."""
        self._lines += ({"package": change.package, **line} for line in _lines(change))

    def take(self) -> list[Line]:
        """Hand over the lines."""
        taken, self._lines = self._lines, []
        return taken


def write_csv(changesets: Iterable[Changeset]) -> Iterator[bytes]:
    """Yield the table with its heading, as spreadsheets read it."""
    yield csv_table([dict(zip(COLUMNS, COLUMNS, strict=True))])
    for changeset in changesets:
        tag = changeset.after.tag or ""
        for lines in changeset.collected():
            yield csv_table({"tag": tag, **line} for line in lines)
        outcome = changeset.outcome
        specs = outcome.tally.specs
        last: list[Line] = [
            {"change": event.kind, "name": event.name, "count": event.specs} for event in outcome.events
        ]
        last += [
            {"change": diagnostic.kind, "name": diagnostic.path, "after": diagnostic.message}
            for diagnostic in outcome.diagnostics
        ]
        last.append({"change": "total", "before": specs.before, "after": specs.after})
        yield csv_table({"tag": tag, **line} for line in last)


def _lines(change: PackageChange) -> Iterator[Line]:
    yield {"change": f"package-{change.status}", "before": change.counts.before, "after": change.counts.after}
    yield from _fact_lines(change)
    for name in (*(kind.value for kind in MatchKind), "new", "gone"):
        if count := getattr(change.counts, name):
            yield {"change": name, "count": count}
    yield from _spec_lines(change)


def _fact_lines(change: PackageChange) -> Iterator[Line]:
    for fact in FACTS:
        for value in change.facts[fact].added:
            yield {"change": f"{_SINGULAR[fact]}-added", "name": value}
        for value in change.facts[fact].removed:
            yield {"change": f"{_SINGULAR[fact]}-removed", "name": value}
    for entry in change.stack_versions:
        versions = {"before": " ".join(entry.before), "after": " ".join(entry.after)}
        yield {"change": f"stack-versions-{entry.direction}", "name": entry.stack, **versions}
    for place in change.places:
        versions = {"before": " ".join(place.before), "after": " ".join(place.after)}
        yield {"change": f"place-{place.verdict}", "stacks": place.stack, "target": place.target, **versions}


def _spec_lines(change: PackageChange) -> Iterator[Line]:
    for spec in change.removed:
        yield {"change": "spec-removed", **_spec(spec)}
    for spec in change.added:
        yield {"change": "spec-added", **_spec(spec)}
    for kept in change.restacked:
        stacks = {"before": " ".join(kept.lost), "after": " ".join(kept.gained)}
        yield {"change": "restacked", "hash": kept.hash, **stacks}
    for spec_hash in change.unreferenced:
        yield {"change": "unreferenced", "hash": known_hash(spec_hash) or ""}


def _spec(spec: Spec) -> dict[str, str]:
    s = spec.signature
    return {
        "hash": known_hash(spec.hash) or "",
        "versions": " ".join(s.versions),
        "compiler": s.compiler,
        "os": s.os,
        "platform": s.platform,
        "target": s.target,
        "variants": " ".join(s.variants),
        "stacks": " ".join(s.stacks),
    }


def csv_table(lines: Iterable[Line]) -> bytes:
    """Return `lines` as CSV, each on one line, with nothing in them that a spreadsheet would run."""
    return csv_rows([line.get(name, "") for name in COLUMNS] for line in lines)


def csv_rows(rows: Iterable[Iterable[object]]) -> bytes:
    """Return `rows` as CSV, with nothing in them that a spreadsheet would run; None is an empty cell."""
    text = io.StringIO()
    plain, quoting = (
        csv.writer(text, lineterminator="\r\n", quoting=each) for each in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
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
