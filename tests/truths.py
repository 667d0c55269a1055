"""The tables of TRUTH.md in the real build caches, and the series of states recorded as histories."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cachewatch.documents.records_parsing_diagnostics import Binary

V3 = ["1-initial", "2-package-added", "3-version-bump", "4-variant-flip", "5-spec-removed-still-referenced"]
V3 += ["6-pruned-to-current", "7-full-rebuild", "8-second-compiler", "9-reindex-no-change", "10-all-hashes-changed"]
STATES = [("v3", state) for state in V3] + [("v2", state) for state in V3[:9]] + [("v3-signed", V3[0])]
TRANSITIONS = [(kind, n) for kind, n in [*(("v3", n) for n in range(1, 10)), *(("v2", n) for n in range(1, 9))]]


@dataclass
class Truth:
    """What TRUTH.md says of one state."""

    version: str
    records: int
    specs: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by hash: all columns but it
    added: list[str] = field(default_factory=list)  # first seven characters of hashes
    removed: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def truths(buildcaches: Path) -> dict[tuple[str, str], Truth]:
    """The tables of TRUTH.md."""
    return dict(_truths((buildcaches / "TRUTH.md").read_text()))


def _truths(text: str) -> Iterator[tuple[tuple[str, str], Truth]]:
    for part in re.split(r"^# Tables: ", text, flags=re.MULTILINE)[1:]:
        kind = part.split()[0].strip()
        for section in re.split(r"^#### ", part, flags=re.MULTILINE)[1:]:
            state, version, records = re.match(r"(\S+): db version (\d+), (\d+) records", section).groups()  # type: ignore[union-attr]
            truth = Truth(version, int(records))
            for row in re.findall(r"^\| ([a-z0-9]{32}) \| (.*) \|$", section, re.MULTILINE):
                truth.specs[row[0]] = tuple(cell.strip(" `") for cell in row[1].split("|"))
            if told := re.search(r"^added: (\[.*?\]) removed: (\[.*?\])", section, re.MULTILINE):
                truth.added, truth.removed = (json.loads(side.replace("'", '"')) for side in told.groups())
            yield (kind, state), truth


def expected_compiler(cell: str) -> str:
    """Return the one compiler of a document: of C, or else of C++, or else of Fortran."""
    if "=" not in cell:
        return "none" if cell == "—" else cell
    parts = [part.strip().split("=") for part in cell.split(";")]
    by_language = {language: compiler for languages, compiler in parts for language in languages.split(",")}
    return next(by_language[language] for language in ("c", "cxx", "fortran") if language in by_language)


def row(binary: Binary) -> tuple[str, ...]:
    """Return a spec as the tables have it."""
    return (binary.package, binary.version, binary.compiler, binary.os, binary.target, " ".join(binary.variants))


def expected(truth: Truth) -> dict[str, tuple[str, ...]]:
    """Return the rows of a table as documents spell them: one compiler, patches by seven digits."""
    return {
        spec_hash: (name, version, expected_compiler(compiler), os, target, re.sub(r"(patches:=\w{7})\w+", r"\1", v))
        for spec_hash, (name, version, compiler, os, target, v) in truth.specs.items()
    }


@dataclass(frozen=True)
class History:
    """A recorded repository, and the revision of each state."""

    folder: Path
    revisions: dict[str, str]


def read_index(folder: Path) -> dict[str, Any]:
    if (folder / "build_cache").exists():
        return dict(json.loads((folder / "build_cache/index.json").read_text()))
    checksum = json.loads((folder / "v3/manifests/index/index.manifest.json").read_text())["data"][0]["checksum"]
    return dict(json.loads((folder / "blobs/sha256" / checksum[:2] / checksum).read_text()))


@pytest.fixture(scope="session")
def histories(buildcaches: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, History]:
    """Each series of states, recorded one after the other as if it were one mirror that changes."""
    from cachewatch.extensions.buildcaches.indexes_and_published_tags import Cache  # noqa: PLC0415
    from cachewatch.extensions.buildcaches.recording_and_suspicion import record  # noqa: PLC0415

    made: dict[str, History] = {}
    for kind in ("v3", "v2"):
        base = tmp_path_factory.mktemp(kind)
        mirror, repository = base / "mirror", base / "catalogue.git"
        revisions: dict[str, str] = {}
        for series, state in STATES:
            if series != kind:
                continue
            mirror.unlink(missing_ok=True)
            mirror.symlink_to(buildcaches / kind / state)
            done = record(Cache(address=str(mirror)), repository)
            assert (done.held, done.failed, done.diagnostics) == ((), (), ())
            revisions[state] = done.commit or revisions[V3[V3.index(state) - 1]]
        made[kind] = History(repository, revisions)
    return made
