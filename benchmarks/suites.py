"""What is measured: each suite runs its commands and returns what they took."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import subject
from benchmarks.answers import Answer, same_as_documents, same_hashes
from benchmarks.generate import Catalogue
from benchmarks.measuring import Figures, race, tell
from benchmarks.memory import Memory, peak_memory
from benchmarks.subject import Peers, Span, Subject

FLOOR = "floor"
TEXT_1, TEXT_2 = "cachewatch, text, --jobs 1", "cachewatch, text, --jobs 2"
JSON_1, JSON_2 = "cachewatch, json, --jobs 1", "cachewatch, json, --jobs 2"
IMPORT_GIT = 'python -c "import git"'
PASS = 'python -c "pass"'
STAT = "git diff --stat"
IGNORE_ORDER = "DeepDiff ignore_order, python-frontmatter"


@dataclass(frozen=True, slots=True)
class Suite:
    """The seconds of each command, in the order of its table, and its memory where it was watched."""

    title: str
    about: str
    seconds: dict[str, Figures]
    memory: dict[str, Memory] = field(default_factory=dict)


def far(
    cachewatch: Subject, catalogue: Catalogue, rounds: int, work: Path, *, title: str = "Far"
) -> tuple[Suite, list[Answer]]:
    """Compare two revisions between which every document differs."""
    span = catalogue.far
    ours = [
        cachewatch.diff(catalogue, span, f"--format={form}", f"--jobs={jobs}", name=name)
        for name, form, jobs in ((TEXT_1, "text", 1), (TEXT_2, "text", 2), (JSON_1, "json", 1), (JSON_2, "json", 2))
    ]
    commands = [
        subject.floor(catalogue, span),
        subject.stat(catalogue, span),
        subject.bound(catalogue, span, "read", "Python: read all and drop it"),
        subject.bound(catalogue, span, "parse", "Python: read all, decode with msgspec, no more"),
        *ours,
    ]
    documents = subject.changed_documents(catalogue, span)
    about = (
        f"Two far revisions: {len(documents):,} documents differ, {_megabytes(catalogue, documents):.0f} MB are read."
    )
    seconds = race(commands, rounds)
    memory = {command.name: peak_memory(command) for command in commands}
    answer = work / "far.json"
    cachewatch.diff(catalogue, span, "--format=json", name=JSON_2, output=answer).run()
    return Suite(title, about, seconds, memory), [same_as_documents(catalogue, span, answer)]


def start_up(cachewatch: Subject, catalogue: Catalogue, rounds: int) -> Suite:
    """Ask for what needs no repository."""
    commands = [
        subject.python("pass", catalogue),
        *(cachewatch.command(catalogue, option, name=f"cachewatch {option}") for option in ("--version", "--help")),
    ]
    return Suite("Start-up", "What loading the program takes.", race(commands, rounds))


def small(
    cachewatch: Subject, catalogue: Catalogue, peers: Peers | None, rounds: int, work: Path
) -> tuple[Suite, list[Answer]]:
    """Compare two neighbours that differ in a few documents, as the peers do too."""
    span = catalogue.small
    answer = work / "small.json"
    commands = [
        subject.floor(catalogue, span),
        subject.stat(catalogue, span),
        subject.python("pass", catalogue),
        subject.python("import git", catalogue),
        cachewatch.diff(catalogue, (span[1], span[1]), name="cachewatch, nothing differs"),
        cachewatch.diff(catalogue, span, name="cachewatch, text"),
        cachewatch.diff(catalogue, span, "--format=json", name="cachewatch, json", output=answer),
    ]
    outputs: dict[str, Path] = {}
    if peers:
        ways = {
            "python-frontmatter, parsing only": "frontmatter",
            "csv-diff, python-frontmatter": "csv-diff",
            "DeepDiff group_by, python-frontmatter": "group-by",
            IGNORE_ORDER: "ignore-order",
        }
        for name, way in ways.items():
            outputs[name] = work / f"{way}.json"
            commands.append(peers.compare(catalogue, span, way, name=name, output=outputs[name]))
    documents = subject.changed_documents(catalogue, span)
    about = f"A small commit: {len(documents)} documents differ, {_megabytes(catalogue, documents):.2f} MB are read."
    seconds = race(commands, rounds)
    memory = {command.name: peak_memory(command) for command in commands[5:7]}
    compared = {name: file for name, file in outputs.items() if "parsing only" not in name}
    answers = [same_hashes(name, answer, file) for name, file in compared.items()]
    return Suite("Small", about, seconds, memory), answers


def phases(cachewatch: Subject, catalogue: Catalogue, span: Span, rounds: int, work: Path) -> dict[str, Figures]:
    """Take the seconds of each phase of one process."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        cachewatch.phases(catalogue, span, output=work / "phases.json").run()
        for phase, seconds in json.loads((work / "phases.json").read_text()).items():
            found.setdefault(phase, []).append(seconds)
    return {phase: Figures(tuple(seconds)) for phase, seconds in found.items()}


def deliveries(cachewatch: Subject, olds: Sequence[int], rounds: int, work: Path) -> dict[int, Figures]:
    """Take the CPU seconds of delivering one digest to 100 readers, by how many each of them got before."""
    found: dict[int, list[float]] = {old: [] for old in olds}
    for number in range(rounds):
        for old in olds:
            folder = work / f"outbox-{number}-{old}"
            folder.mkdir()
            cachewatch.delivery(folder, 100, old, output=folder / "seconds.json").run()
            found[old].append(json.loads((folder / "seconds.json").read_text())["seconds"])
            shutil.rmtree(folder)
    return {old: Figures(tuple(seconds)) for old, seconds in found.items()}


def growth(cachewatch: Subject, catalogues: Sequence[Catalogue], rounds: int) -> list[Suite]:
    """Compare far revisions of repositories that are ten times as large each."""
    suites = []
    for catalogue in catalogues:
        tell(f"growth: {catalogue.shape.packages:,} packages")
        span = catalogue.far
        commands = [subject.floor(catalogue, span)]
        commands += [
            cachewatch.diff(catalogue, span, f"--jobs={jobs}", name=name) for name, jobs in ((TEXT_1, 1), (TEXT_2, 2))
        ]
        seconds = race(commands, rounds, budget=30)
        memory = {command.name: peak_memory(command) for command in commands}
        suites.append(Suite(f"{catalogue.shape.packages:,}", f"{catalogue.shape.specs:,} specs", seconds, memory))
    return suites


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How often cachewatch asked git for documents, against how many differ."""

    differing: int
    asked: int
    distinct: int
    others: int

    @property
    def is_exact(self) -> bool:
        """Tell whether each document that differs was read once, and no other."""
        return self.differing == self.asked == self.distinct and not self.others


def tags(cachewatch: Subject, catalogue: Catalogue, rounds: int, work: Path) -> tuple[Suite, Reads]:
    """Compare HEAD with its predecessor over all dated tags, a few documents of which differ."""
    span = ("HEAD~1", "HEAD")
    option = "--tag=develop-*"
    commands = [
        subject.floor(catalogue, span),
        subject.stat(catalogue, span),
        cachewatch.diff(catalogue, span, option, name="cachewatch, --tag 'develop-*'"),
        cachewatch.diff(catalogue, catalogue.small, name="cachewatch, small commit of develop"),
    ]
    documents = subject.changed_documents(catalogue, span)
    about = (
        f"HEAD and its predecessor over {catalogue.shape.tags} dated tags: {len(documents)} documents of "
        f"{len({path.split('/')[1] for path, *_ in documents})} tags differ."
    )
    seconds = race(commands, rounds)
    log = work / "asked"
    cachewatch.spied(catalogue, span, option, log=log).run()
    asked = _blobs(catalogue, log.read_text().splitlines())
    ids = {i for _, *both in documents for i in both if i.strip("0")}
    reads = Reads(
        differing=len(ids),
        asked=len(asked),
        distinct=len({*asked} & ids),
        others=len([i for i in asked if i not in ids]),
    )
    return Suite("Tags", about, seconds), reads


def _git(catalogue: Catalogue, arguments: Sequence[str], lines: Sequence[str]) -> list[str]:
    command = ["git", f"--git-dir={catalogue.folder}", *arguments]
    text = "".join(f"{line}\n" for line in lines)
    return subprocess.run(command, check=True, capture_output=True, text=True, input=text).stdout.splitlines()


def _megabytes(catalogue: Catalogue, documents: Sequence[tuple[str, str, str]]) -> float:
    ids = [i for _, *both in documents for i in both if i.strip("0")]
    sizes = _git(catalogue, ["cat-file", "--batch-check=%(objectsize)"], ids)
    return sum(map(int, sizes)) / 1e6


def _blobs(catalogue: Catalogue, names: Sequence[str]) -> list[str]:
    """Return the ids of those names that are documents, as often as they are named."""
    known = _git(catalogue, ["cat-file", "--batch-check=%(objecttype) %(objectname)"], names)
    return [line.split()[1] for line in known if line.startswith("blob ")]
