"""Whether the peers come to the same answers as cachewatch."""

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from benchmarks.generate import Catalogue
from benchmarks.subject import Span, Subject, changed_documents

_SIDES = ("added", "removed")
_HASH = re.compile(r'"hash": "([a-z2-7]{32})"')

Told = tuple[frozenset[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was compared with whom, how many did agree, and the first that did not."""

    what: str
    same: int
    all: int
    first_other: str = ""

    @property
    def is_same(self) -> bool:
        """Tell whether there was something to compare and all of it agreed."""
        return self.all > 0 and self.same == self.all


def same_hashes(name: str, ours: Path, theirs: Path) -> Answer:
    """Compare, package by package, the hashes that were added and removed."""
    told = {package: {side: _hashes(specs[side]) for side in _SIDES} for package, specs in _packages(ours).items()}
    answers: dict[str, dict[str, list[str]]] = json.loads(theirs.read_text())
    others = [
        f"{package}: {answer.get('failed', 'other hashes')}"
        for package, answer in sorted(answers.items())
        if {side: sorted(found) for side, found in told.get(package, dict.fromkeys(_SIDES, ())).items()} != answer
    ]
    others += [f"{package}: not told" for package in sorted(told.keys() - answers.keys())]
    total = len(told.keys() | answers.keys())
    return Answer(f"{name}: hashes added and removed, by package", total - len(others), total, "".join(others[:1]))


def same_as_documents(catalogue: Catalogue, span: Span, ours: Path) -> Answer:
    """Compare, package by package, the hashes that were added and removed with those in the documents."""
    told = {package: tuple(_hashes(specs[side]) for side in _SIDES) for package, specs in _packages(ours).items()}
    documents = changed_documents(catalogue, span)
    contents = _contents(catalogue, [i for _, *both in documents for i in both])
    others = []
    for path, *_ in documents:
        old, new = (frozenset(_HASH.findall(next(contents))) for _ in _SIDES)
        package = PurePosixPath(path).parent.name
        if told.get(package, (frozenset(), frozenset())) != (new - old, old - new):
            others.append(package)
    records = sum(len(hashes) for both in told.values() for hashes in both)
    what = f"the documents themselves, far, json: {records:,} hashes added and removed, by package"
    return Answer(what, len(documents) - len(others), len(documents), "".join(others[:1]))


def same_history(cachewatch: Subject, catalogue: Catalogue, path: str, database: Path, work: Path) -> Answer:
    """Compare, revision by revision, the hashes that git-history saw first, or saw change."""
    package = PurePosixPath(path).parent.name
    theirs = _told_by_git_history(database)
    versions = versions_of(catalogue, path)
    output = work / "package.json"
    others = []
    for span in pairwise(versions):
        command = cachewatch.diff(catalogue, span, "--format=json", f"--package={package}", name=package, output=output)
        command.run()
        specs = _packages(output).get(package, {"added": [], "restacked": []})
        if (_hashes(specs["added"]), _hashes(specs["restacked"])) != theirs.get(span[1], (frozenset(), frozenset())):
            others.append(span[1])
    count = len(versions) - 1
    what = f"git-history, {package}: hashes that are new or changed, by revision"
    return Answer(what, count - len(others), count, "".join(others[:1]))


def versions_of(catalogue: Catalogue, path: str) -> list[str]:
    """Return the commits that wrote a document, from the oldest."""
    command = ["git", f"--git-dir={catalogue.folder}", "rev-list", "--reverse", "main", "--", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def _contents(catalogue: Catalogue, ids: list[str]) -> Iterator[str]:
    """Yield the text of each blob; an id of zeros is an empty one."""
    command = ["git", f"--git-dir={catalogue.folder}", "cat-file", "--batch", "--buffer"]
    printed = subprocess.run(command, check=True, capture_output=True, input="\n".join(ids).encode()).stdout
    position = 0
    for _ in ids:
        end = printed.index(b"\n", position)
        fields = printed[position:end].split()
        size = int(fields[2]) if len(fields) == 3 else -1
        yield printed[end + 1 : end + 1 + max(size, 0)].decode()
        position = end + size + 2


def _packages(file: Path) -> dict[str, dict[str, Any]]:
    changesets = json.loads(file.read_bytes())["changesets"]
    return {package["name"]: package["specs"] for changeset in changesets for package in changeset["packages"]}


def _hashes(specs: list[dict[str, str]]) -> frozenset[str]:
    return frozenset(spec["hash"] for spec in specs)


def _told_by_git_history(database: Path) -> dict[str, Told]:
    query = """
        select commits.hash, item.hash, item_version._version from item_version
        join item on item._id = item_version._item join commits on commits.id = item_version._commit
    """
    told: dict[str, tuple[set[str], set[str]]] = {}
    with closing(sqlite3.connect(database)) as connection:
        for commit, spec_hash, version in connection.execute(query):
            told.setdefault(commit, (set(), set()))[version > 1].add(spec_hash)
    return {commit: (frozenset(new), frozenset(changed)) for commit, (new, changed) in told.items()}
