"""Walking the history of documents: cachewatch against git-history."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import subject
from benchmarks.answers import Answer, same_history, versions_of
from benchmarks.generate import Catalogue
from benchmarks.measuring import Command, Figures, race
from benchmarks.subject import Peers, Subject

_SAMPLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What one version of one document costs, in seconds, and how many there were."""

    ours: Figures
    theirs: Figures
    their_start: Figures
    our_versions: int
    their_versions: int
    documents: int
    answers: tuple[Answer, ...]


def history(cachewatch: Subject, catalogue: Catalogue, peers: Peers, rounds: int, work: Path) -> History:
    """Walk all revisions of develop; git-history, one document at a time, walks a sample of the documents."""
    spans = catalogue.neighbours
    changed = [subject.changed_documents(catalogue, span) for span in spans]
    sample = list(_sample(catalogue))
    tree = work / "tree"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", catalogue.folder, tree], check=True)
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "main", "--", *sample], check=True)
    ours = cachewatch.diffs(catalogue, spans, "--format=json", "--jobs=1", name="cachewatch")
    theirs = peers.history(tree, sample, work / "databases")
    start = Command(name="start", arguments=[peers.folder / "bin/git-history", "--version"], folder=tree)
    seconds = race([ours, theirs, start], rounds)
    our_versions = sum(1 for rows in changed for _, _, new in rows if new.strip("0"))
    their_versions = sum(len(versions_of(catalogue, path)) for path in sample)
    answers = tuple(
        same_history(cachewatch, catalogue, path, work / "databases" / f"{number}.db", work)
        for number, path in enumerate(sample)
    )
    return History(
        ours=_each(seconds["cachewatch"], our_versions),
        theirs=_each(seconds["git-history"], their_versions),
        their_start=_each(seconds["start"], their_versions / len(sample)),
        our_versions=our_versions,
        their_versions=their_versions,
        documents=len(sample),
        answers=answers,
    )


def _each(seconds: Figures, count: float) -> Figures:
    return Figures(tuple(value / count for value in seconds.values))


def _sample(catalogue: Catalogue) -> Iterator[str]:
    """Yield some documents that no revision lacks, from small to large ones."""
    first, last = catalogue.far[0], "main"
    sizes, kept = (_sizes(catalogue, revision) for revision in (last, first))
    paths = sorted(sizes.keys() & kept.keys(), key=lambda path: sizes[path])
    for number in range(min(_SAMPLE, len(paths))):
        yield paths[len(paths) * (2 * number + 1) // (2 * _SAMPLE)]


def _sizes(catalogue: Catalogue, revision: str) -> dict[str, int]:
    command = ["git", f"--git-dir={catalogue.folder}", "ls-tree", "-rl", revision, "_cache/develop/"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {path: int(fields.split()[3]) for fields, path in (line.split("\t") for line in lines)}
