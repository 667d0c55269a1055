"""Builders with defaults, so that a test names only what matters to it."""

import json
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct

from cachewatch.core.graphs_and_attribution import Dependency, GraphNode, Ingredients
from cachewatch.core.kinds_and_specs import Document, Signature
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.documents.spec_nodes_and_graphs import MadeOf
from cachewatch.git.git_processes import init_repository
from cachewatch.git.writing_revisions import AUTHOR, BRANCH, data_of, import_stream, quoted
from cachewatch.runtime.files_and_locks import demo_documents

START = datetime(2025, 6, 1, 4, tzinfo=UTC)

Record = dict[str, Any]
Packages = dict[str, list[Record]]


def record(number: int = 0, **values: Any) -> Record:
    """Return one record of `spec_details` as the generator writes it; a member that is `...` is left out."""
    machine = {"os": "ubuntu22.04", "platform": "linux", "target": "x86_64_v3"}
    built = {"compiler": "gcc@11.4.0", "variants": ["build_system=cmake", "+shared"], "versions": ["1.0"]}
    members = {"hash": spec_hash(number), "size": "-", "stacks": ["e4s", "root"], **machine, **built} | values
    return {name: value for name, value in sorted(members.items()) if value is not ...}


def spec_hash(number: int) -> str:
    digits = "abcdefghijklmnopqrstuvwxyz234567"
    text = ""
    for _ in range(32):
        number, digit = divmod(number, 32)
        text += digits[digit]
    return text


def records(numbers: Iterable[int], **values: Any) -> list[Record]:
    return [record(number, **values) for number in numbers]


def document(found: Iterable[Record], *, package: str = "zlib", tag: str = "develop", meta: Any = None) -> bytes:
    """Return a document of layout E, with a `meta` that agrees unless another is given."""
    found = list(found)
    if meta is None:
        meta = meta_of(found)
    return (
        f'---\ntitle: "{package}"\nlayout: cache\ncategories: [package, {tag}]\n'
        f"meta: {json.dumps(meta)}\nspec_details: {json.dumps(found)}\n---"
    ).encode()


def meta_of(found: list[Record]) -> Record:
    """Return what `meta` says of these records."""

    def values(name: str) -> list[str]:
        return sorted({r[name] for r in found if name in r})

    stacks = sorted({stack for r in found for stack in r["stacks"]})
    return {
        "compilers": values("compiler"),
        "num_specs": len(found),
        "num_specs_by_stack": {stack: sum(stack in r["stacks"] for r in found) for stack in stacks},
        "oss": values("os"),
        "platforms": values("platform"),
        "stacks": stacks,
        "targets": values("target"),
        "versions": sorted({version for r in found for version in r["versions"]}),
    }


def parsed(found: Iterable[Record], **values: Any) -> Document:
    return parse(document(found, **values), "specs.md")


def signature(**values: Any) -> Signature:
    machine = {"os": "ubuntu22.04", "platform": "linux", "target": "x86_64_v3", "compiler": "gcc@11.4.0"}
    defaults: dict[str, Any] = machine | {"versions": ("1.0",), "variants": ("+shared",), "stacks": ("e4s",)}
    return Signature(**(defaults | values))


def catalogue(
    packages: Mapping[str, list[Record]], tag: str = "develop", layout: str = "_cache/{tag}/{package}/specs.md"
) -> dict[str, bytes]:
    """Return the files of one tag."""
    return {
        layout.format(tag=tag, package=package): document(found, package=package, tag=tag)
        for package, found in packages.items()
    }


def demo_records() -> dict[str, list[Record]]:
    """Return the records of the five documents of the demo."""
    found = {}
    for package, data in demo_documents().items():
        (line,) = [line for line in data.decode().splitlines() if line.startswith("spec_details: ")]
        found[package] = json.loads(line.removeprefix("spec_details: "))
    return found


def lock(path: Path, *specs: tuple[str, str, str]) -> Path:
    """Write a lock file of these packages, versions and hashes."""
    arch = {"platform": "linux", "platform_os": "ubuntu22.04", "target": "x86_64_v3"}
    nodes = {key: {"name": name, "version": version, "arch": arch} for name, version, key in specs}
    path.write_text(json.dumps({"_meta": {"lockfile-version": 6}, "roots": [], "concrete_specs": nodes}))
    return path


# What strangers may write into names, versions and targets.
HOSTILE = (
    *("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(2)</script>"),
    *("../../../etc/passwd", "..", "/etc/passwd", "con", "a\nb\r\nc", "\u202egnp.exe", "\u200binvisible"),
    *("\x1b[31mred", "=cmd|' /C calc'!A0", "{{ 7 * 7 }}", "javascript:alert(3)", "x" * 1_000, "UPPER", "upper"),
)


def hostile_states() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return two states of a catalogue in which everything is called as it should not be."""
    packages = {
        f"p{n}": [
            record(n, stacks=[name, "root"], versions=[name], target=name, compiler=f"{name}@1", os=name),
            record(n + 100, stacks=["root"], versions=[name]),
        ]
        for n, name in enumerate(HOSTILE)
    }
    values = ({"stacks": [*HOSTILE, "root"], "versions": [name], "target": name} for name in HOSTILE)
    everything = [record(500 + n, **each) for n, each in enumerate(values)]
    return catalogue(packages), catalogue({**packages, "p0": everything})


class NewRevision(Struct, frozen=True, kw_only=True):
    """A revision to be: what it adds or replaces, and what it removes."""

    message: str
    time: datetime
    files: Mapping[str, bytes]
    removed: tuple[str, ...] = ()


def write_repository(folder: Path, revisions: Iterable[NewRevision]) -> None:
    """Make a bare repository at `folder` of these revisions; the same revisions give the same commits."""
    init_repository(folder, branch=BRANCH)
    with tempfile.TemporaryFile() as stdin:
        stdin.writelines(_stream(revisions))
        import_stream(folder, cast("BinaryIO", stdin))


def _stream(revisions: Iterable[NewRevision]) -> Iterator[bytes]:
    for revision in revisions:
        yield b"commit refs/heads/main\n"
        yield f"committer {AUTHOR} {int(revision.time.timestamp())} +0000\n".encode()
        yield data_of(revision.message.encode())
        for path in revision.removed:
            yield f"D {quoted(path)}\n".encode()
        for path, content in sorted(revision.files.items()):
            yield f"M 100644 inline {quoted(path)}\n".encode()
            yield data_of(content)
        yield b"\n"
    yield b"done\n"


def two_folders(
    folder: Path, before: Mapping[str, list[Record]], after: Mapping[str, list[Record]]
) -> tuple[Path, Path]:
    """Write two states of a tag as folders of documents, which is quicker than a repository."""
    return write(folder / "before", catalogue(before)), write(folder / "after", catalogue(after))


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder, and return it."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def secret(path: Path, text: str) -> Path:
    """Write a file that only its owner can read, and return it."""
    path.write_text(text)
    path.chmod(0o600)
    return path


def without(packages: Packages, stack: str) -> Packages:
    """Return the same packages without a stack."""
    return {
        name: [one | {"stacks": [each for each in one["stacks"] if each != stack]} for one in found]
        for name, found in packages.items()
    }


def flat(state: Mapping[str, list[Record]], ending: str = "md") -> dict[str, bytes]:
    """Return the files of a folder with a document for each package."""
    return catalogue(state, layout=f"{{package}}.{ending}")


def history(folder: Path, *states: Mapping[str, bytes]) -> Path:
    """Make a bare repository of these states, a day apart; what a state lacks is removed."""
    revisions = []
    before: Mapping[str, bytes] = {}
    for number, state in enumerate(states):
        changed = {path: data for path, data in state.items() if before.get(path) != data}
        removed, time = tuple(sorted(before.keys() - state.keys())), START + timedelta(days=number)
        revisions.append(NewRevision(message=f"State {number + 1}", time=time, files=changed, removed=removed))
        before = state
    write_repository(folder, revisions)
    return folder


def commit(repository: Path, files: Mapping[str, bytes], seconds: float) -> None:
    """Put a revision of this time, which adds or replaces these files, upon the branch of a repository."""
    stream = b"commit refs/heads/main\ncommitter x <x@x> %d +0000\n" % seconds
    stream += data_of(b"later") + b"from refs/heads/main^0\n"
    stream += b"".join(f"M 100644 inline {path}\n".encode() + data_of(content) for path, content in files.items())
    subprocess.run(["git", f"--git-dir={repository}", "fast-import", "--quiet"], input=stream, check=True)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database; commit at the end, roll back after an exception, and close it, as `sqlite3`'s own manager does not."""
    with closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def made_of(edges: Iterable[Dependency] = (), **values: Any) -> MadeOf:
    """Return ingredients, and the names of the specs that `edges` lead to."""
    edges = tuple(edges)
    return Ingredients(**values, uses=tuple(edge.use for edge in edges)), tuple(edge.hash for edge in edges)


def graph_spec(name: str, spec_hash: str, edges: Iterable[Dependency] = (), **values: Any) -> GraphNode:
    """Return a spec with these dependencies, attributes and ingredients."""
    others = {key: values.pop(key) for key in Ingredients.__struct_fields__ if key in values}
    ingredients, below = made_of(edges, **others)
    return GraphNode(name=name, hash=spec_hash, ingredients=ingredients, below=below, **values)
