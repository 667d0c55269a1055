"""Repositories with everything that happens to a catalogue, and two ways to tell their history: the index, and all documents.

The second one reads every document of every revision, remembers nothing and compares whole states.
"""

import json
import sqlite3
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from helpers import START, document, record

from cachewatch.core.comparison.package_changes import compare
from cachewatch.core.kinds_and_specs import Document, Signature, SpecCounts
from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.errors import DocumentError
from cachewatch.extensions.history.build import bring_up_to_date, in_jobs
from cachewatch.extensions.history.schema_and_location import prefixes, unpack
from cachewatch.git.local_repository import Repository

# A file, or where a link leads.
Files = Mapping[str, bytes | str]
Dump = dict[str, list[Any]]
Key = tuple[str, str]


# Repositories


def write(folder: Path, states: Sequence[Files], *, seed: int = 0, onto: str = "") -> Path:
    """Write a revision for each state; some are merges, and their dates do not increase. `onto` names the parent of the first."""
    if not folder.exists():
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder], check=True)
    random = Random(seed)
    stream = b"".join(_commit(number, files, random, onto) for number, files in enumerate(states))
    subprocess.run(["git", f"--git-dir={folder}", "fast-import", "--quiet", "--force"], input=stream, check=True)
    return folder


def _commit(number: int, files: Files, random: Random, onto: str) -> bytes:
    time = int(START.timestamp()) + 86_400 * (number + random.randrange(-3, 3))
    side = merged = b""
    if random.random() < 0.2:
        # A side branch with other documents, which the merge does not take.
        side = _head("refs/heads/side", time - 50, f"side {number} {random.randrange(10**9)}")
        side += _entries({"_cache/develop/side/specs.md": document([record(999)], package="side")})
        merged = b"merge refs/heads/side\n"
    head = _head("refs/heads/main", time, f"state {number} {random.randrange(10**9)}")
    parent = f"from {onto}\n".encode() if onto and number == 0 else b""
    return side + head + parent + merged + b"deleteall\n" + _entries(files)


def _head(branch: str, time: int, message: str) -> bytes:
    return f"commit {branch}\ncommitter c <c@localhost> {time} +0000\ndata {len(message)}\n{message}\n".encode()


def _entries(files: Files) -> bytes:
    parts = []
    for path, content in files.items():
        mode, data = ("120000", content.encode()) if isinstance(content, str) else ("100644", content)
        parts.append(f"M {mode} inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    return b"".join(parts)


class Catalogue:
    """A catalogue to which something happens each night."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._hash = 0
        self.files: dict[str, bytes | str] = {"README.md": b"a catalogue", "_cache/zlib/specs.md": b"layout of 2022"}
        self._records: dict[Key, list[dict[str, Any]]] = {}
        self._kept: dict[str, bytes | str] = {}
        for package in ("zlib", "cmake", "gcc"):
            self._add("develop", package)

    def night(self) -> Files:
        """Let a few things happen, and return all files."""
        for _ in range(self._random.randrange(4)):
            self._random.choice(
                (
                    self._rebuild, self._rebuild, self._come, self._go, self._restack, self._upgrade, self._rename,
                    self._break, self._break, self._break, self._twice, self._rewrite, self._unusual, self._old_compilers, self._snapshot, self._drop_tag,
                    self._reuse, self._reuse, self._reuse, self._reuse, self._link, self._back, self._back, self._respell, self._empty, self._odd_hash, self._odd_tag,
                )
            )()  # fmt: skip
        return dict(self.files)

    def _add(self, tag: str, package: str) -> None:
        self._records[tag, package] = [self._record() for _ in range(self._random.randrange(1, 9))]
        self._write(tag, package)

    def _record(self, **values: Any) -> dict[str, Any]:
        self._hash += 1
        defaults = {
            "stacks": [*self._random.sample(["e4s", "ml", "hpc"], self._random.randrange(3)), "root"],
            "versions": [self._random.choice(["1.0", "1.1", "2.0"])],
            "target": self._random.choice(["x86_64_v3", "aarch64"]),
        }
        return record(self._hash, **(defaults | values))

    def _path(self, tag: str, package: str) -> str:
        return f"_cache/{tag}/{package}/specs.md"

    def _write(self, tag: str, package: str) -> None:
        if any(path == f"_cache/{tag}" for path in self.files):
            return
        self.files.pop(f"_cache/{tag}/{package}", None)
        self.files[self._path(tag, package)] = document(self._records[tag, package], package=package, tag=tag)

    def _any(self) -> Key:
        if not self._records:
            self._add("develop", "zlib")
        return self._random.choice(sorted(self._records))

    def _rebuild(self) -> None:
        key = self._any()
        for each in self._records[key]:
            if self._random.random() < 0.5:
                self._hash += 1
                each["hash"] = record(self._hash)["hash"]
        self._write(*key)

    def _come(self) -> None:
        self._add(self._any()[0], self._random.choice(["hdf5", "py-torch", "libx"]))

    def _go(self) -> None:
        key = self._any()
        if len(self._records) > 1:
            del self._records[key]
            self.files.pop(self._path(*key), None)

    def _rename(self) -> None:
        tag, package = self._any()
        self._records[tag, f"{package[:9]}-ng"] = self._records.pop((tag, package))
        self.files.pop(self._path(tag, package), None)
        self._write(tag, f"{package[:9]}-ng")

    def _restack(self) -> None:
        key = self._any()
        for each in self._records[key]:
            each["stacks"] = [*self._random.sample(["e4s", "ml", "hpc"], self._random.randrange(3)), "root"]
        self._write(*key)

    def _upgrade(self) -> None:
        key = self._any()
        self._records[key] = [*self._records[key][1:], self._record(versions=["3.0"])]
        self._write(*key)

    def _reuse(self) -> None:
        """Let a few hashes name other specs, or say less or more of the same ones."""
        key = self._any()
        for each in self._records[key]:
            if self._random.random() < 0.6:
                name, value = self._random.choice(
                    [("versions", ["1.0"]), ("versions", ["4.0"]), ("versions", []), ("target", ""), ("target", "zen4")]
                )
                each[name] = value
        self._write(*key)

    def _respell(self) -> None:
        key = self._any()
        for each in self._records[key]:
            self._hash += 1
            each |= {"hash": record(self._hash)["hash"], "versions": [v.replace(".", "-") for v in each["versions"]]}
        self._write(*key)

    def _old_compilers(self) -> None:
        """Write compilers as before Spack 1.0, or not at all; some specs were rebuilt."""
        key = self._any()
        are_missing = self._hash % 3 == 0
        for each in self._records[key]:
            each["compiler"] = self._random.choice(["gcc@=11.4.0", "gcc@11.4.0", "none"])
            if are_missing:
                del each["compiler"]
            if self._random.random() < 0.3:
                self._hash += 1
                each["hash"] = record(self._hash)["hash"]
        self._write(*key)

    def _rewrite(self) -> None:
        """Change the order of records, and the sizes, which is nothing."""
        key = self._any()
        self._random.shuffle(self._records[key])
        for each in self._records[key]:
            each["size"] = self._random.randrange(100)
        self._write(*key)

    def _unusual(self) -> None:
        """Write a document as nobody does: with a record of its own form."""
        key = self._any()
        records = [{"hash": one["hash"], **{k: one[k] for k in reversed(one)}} for one in self._records[key]]
        self._place(key, document(records, package=key[1], tag=key[0], meta={}).replace(b"}, {", b"},  {"))

    def _odd_hash(self) -> None:
        key = self._any()
        self._hash += 1
        odd = self._random.choice([f"0189{self._hash:028}", f"short{self._hash}"])
        self._records[key].append(self._record(hash=odd))
        self._write(*key)

    def _twice(self) -> None:
        key = self._any()
        first = self._records[key][0] if self._records[key] else self._record()
        self._place(key, document([*self._records[key], first | {"target": "zen4"}], package=key[1], tag=key[0]))

    def _break(self) -> None:
        key = self._any()
        whole = document(self._records[key], package=key[1], tag=key[0])
        contents = [whole[: len(whole) // 2], b"", b"---\ntitle: x\n---", b"\xff\xfe", whole.replace(b"}]", b"]")]
        self._place(key, self._random.choice(contents))

    def _empty(self) -> None:
        key = self._any()
        self._records[key] = []
        self._write(*key)

    def _place(self, key: Key, content: bytes) -> None:
        if self._path(*key) in self.files:
            self.files[self._path(*key)] = content

    def _link(self) -> None:
        tag, package = key = self._any()
        if self.files.pop(self._path(*key), None) is None:
            return
        self.files[self._random.choice([self._path(*key), f"_cache/{tag}/{package}"])] = "../elsewhere"

    def _odd_tag(self) -> None:
        """Let a tag be a link for a while."""
        tag, _ = self._any()
        for path in [path for path in self.files if path.startswith(f"_cache/{tag}/")]:
            self._kept[path] = self.files.pop(path)
        self.files[f"_cache/{tag}"] = "elsewhere"

    def _back(self) -> None:
        """Write all documents of a tag as they should be."""
        tag, _ = self._any()
        self.files.pop(f"_cache/{tag}", None)
        for key in self._records:
            if key[0] == tag:
                self._write(*key)

    def _snapshot(self) -> None:
        tag = f"develop-2025-0{self._random.randrange(1, 5)}-01"
        for (of, package), records in list(self._records.items()):
            if of == "develop":
                self._records[tag, package] = [dict(one) for one in records]
                self._write(tag, package)

    def _drop_tag(self) -> None:
        tag, _ = self._any()
        if tag != "develop":
            self._records = {key: records for key, records in self._records.items() if key[0] != tag}
            folder = f"_cache/{tag}/"
            self.files = {path: data for path, data in self.files.items() if not f"{path}/".startswith(folder)}


# The index


def build(folder: Path, path: Path, jobs: int = 1) -> Dump:
    """Bring the index up to date, and return all that it says."""
    repository = Repository(folder)
    bring_up_to_date(repository, path, in_jobs(repository, jobs))
    repository.close()
    return dump(path)


def dump(path: Path) -> Dump:
    """Return all values of an index, without its numbers."""
    connection = sqlite3.connect(path)
    names = "SELECT tag.name, package.name, {} FROM {} JOIN tag ON tag.id = tag JOIN package ON package.id = package"
    found: Dump = {
        name: sorted(map(_sortable, connection.execute(names.format(columns, name))))
        for name, columns in (
            ("document", "blob, revision, baseline, old_compilers"),
            ("diagnostic", "revision, message"),
            ("step", "revision, added, removed, rebuilt, compilers_differ, there"),
        )
    }
    found["tally"] = sorted(
        connection.execute(
            "SELECT tag.name, names, revision, added, removed, rebuilt FROM tally JOIN tag ON tag.id = tag "
            "JOIN stacks ON stacks.id = stacks"
        )
    )
    intervals = connection.execute(
        "SELECT tag.name, package.name, versions, compiler, os, platform, target, variants, names, first, last, size, hashes "
        "FROM interval JOIN tag ON tag.id = tag JOIN package ON package.id = package JOIN build ON build.id = build "
        "JOIN stacks ON stacks.id = stacks"
    )
    found["interval"] = sorted((*_sortable(row[:-1]), unpack(row[-1])) for row in intervals)
    found["revision"] = list(connection.execute('SELECT n, "commit" FROM revision ORDER BY n'))
    found["progress"] = [*connection.execute("SELECT indexed FROM progress"), *connection.execute("SELECT * FROM unit")]
    wanted = {(p, i) for i, h in connection.execute("SELECT id, hashes FROM interval") for p in prefixes(h)}
    found["spec is right"] = [set(connection.execute("SELECT prefix, interval FROM spec")) == wanted]
    stacks = connection.execute("SELECT id, names FROM stacks")
    members = {(i, name) for i, names in stacks for name in json.loads(names)}
    found["stack is right"] = [set(connection.execute("SELECT stacks, name FROM stack")) == members]
    connection.close()
    return found


def _sortable(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(-1 if value is None else value for value in row)


# All documents


def by_brute_force(folder: Path) -> Dump:
    """Return what an index has to say, from every document of every revision."""
    commits = commits_of(folder)
    told = Told()
    for number, commit in enumerate(commits):
        told.revision(number, listed(folder, commit), folder)
    return told.dump(commits)


class Told:
    """What all documents say, revision by revision."""

    def __init__(self) -> None:
        self.states: dict[Key, Document | None] = {}
        self.documents: dict[Key, tuple[Any, ...]] = {}
        self.diagnostics: list[Any] = []
        self.steps: list[Any] = []
        self.tallies: defaultdict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
        self.alive: dict[tuple[Key, str], tuple[Signature, int]] = {}
        self.rows: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
        self.seen: dict[Key, str] = {}
        self.baselines: dict[Key, int | None] = {}
        self.unread: set[Key] = set()
        self.odd_tags: set[str] = set()
        self.newest = -1

    def revision(self, number: int, listed: Mapping[Key, str], folder: Path) -> None:
        """Take in all documents of one revision; of a tag that is a link everything stays as it was."""
        odd = {tag for tag, package in listed if not package}
        for key in {key for key in self.seen.keys() | listed.keys() if key[1] and key[0] not in odd}:
            now = listed.get(key, "")
            # Of what is the same object as before, there is nothing new to say.
            if now != self.seen.get(key, ""):
                self._version(number, key, now, folder)
        self.seen = {k: v for k, v in listed.items() if k[1]} | {k: v for k, v in self.seen.items() if k[0] in odd}
        self.newest = number

    def _version(self, number: int, key: Key, entry: str, folder: Path) -> None:
        before = self.states.get(key)
        after: Document | None = None
        if entry.startswith("!"):
            if not (entry == "!folder" and self.seen.get(key, "") == entry):
                self._cannot(number, key)
            return
        if entry:
            try:
                after = parse(_git_bytes(folder, entry), f"_cache/{key[0]}/{key[1]}/specs.md")
            except DocumentError:
                self._cannot(number, key)
                return
        is_baseline = after is not None and key not in self.documents and (number == 0 or key in self.unread)
        self._compare(number, key, before, after, is_baseline=is_baseline)
        self.baselines.setdefault(key, number if is_baseline else None)
        self.states[key] = after
        self.unread.discard(key)
        baseline = -1 if self.baselines[key] is None else self.baselines[key]
        self.documents[key] = (entry or -1, number, baseline, after.compiler_form if after else 0)

    def _cannot(self, number: int, key: Key) -> None:
        self.diagnostics.append((*key, number))
        if key not in self.documents:
            self.unread.add(key)

    def _compare(
        self, number: int, key: Key, before: Document | None, after: Document | None, *, is_baseline: bool
    ) -> None:
        old = dict(before.specs) if before else {}
        new = dict(after.specs) if after else {}
        for one in old:
            if new.get(one) != old[one]:
                signature, first = self.alive.pop((key, one))
                self.rows[key, signature, first, number].append(one)
        for one in new:
            if new[one] != old.get(one):
                self.alive[key, one] = new[one], number
        change = None if before is None and after is None else compare(key[1], before, after)
        if is_baseline or (change is None and old == new):
            return
        counts = change.counts if change else SpecCounts()
        differ = bool(before and after and before.compiler_form is not after.compiler_form)
        if counts.added or counts.removed or differ or (before is None) != (after is None):
            self.steps.append((*key, number, counts.added, counts.removed, counts.rebuilt, differ, after is not None))
        if change is not None:
            self._tally(number, key, old, new, change)

    def _tally(
        self, number: int, key: Key, old: Mapping[str, Signature], new: Mapping[str, Signature], change: Any
    ) -> None:
        def add(stacks: Sequence[str], what: str, count: int = 1) -> None:
            self.tallies[key[0], json.dumps(list(stacks)), number][what] += count

        kept = (old.keys() & new.keys()) - (change.removed_hashes.hashes & change.added_hashes.hashes)
        for one in old.keys() - kept:
            add(old[one].stacks, "removed")
        for one in new.keys() - kept:
            add(new[one].stacks, "added")
        for match in change.matches:
            if match.kind == "rebuilt":
                add(match.before.stacks, "rebuilt", match.count)
        for one in kept:
            for what, some, others in (("added", new, old), ("removed", old, new)):
                left = sorted(set(some[one].stacks) - set(others[one].stacks))
                if left or (not some[one].stacks and others[one].stacks):
                    add(left, what)

    def dump(self, commits: Sequence[str]) -> Dump:
        """Return it in the form of `dump`."""
        for (key, one), (signature, first) in self.alive.items():
            self.rows[key, signature, first, None].append(one)
        return {
            "document": sorted((*key, *row) for key, row in self.documents.items()),
            "diagnostic": sorted(self.diagnostics),
            "step": sorted(self.steps),
            "tally": sorted((*key, c["added"], c["removed"], c["rebuilt"]) for key, c in self.tallies.items()),
            "interval": sorted(self._intervals()),
            "revision": list(enumerate(commits)),
            "progress": [(len(commits) - 1,)],
            "spec is right": [True],
            "stack is right": [True],
        }

    def _intervals(self) -> Iterator[tuple[Any, ...]]:
        for (key, s, first, last), hashes in self.rows.items():
            lists = [json.dumps(list(values)) for values in (s.versions, s.variants, s.stacks)]
            end = -1 if last is None else last
            machine = (s.compiler, s.os, s.platform, s.target)
            yield (*key, lists[0], *machine, *lists[1:], first, end, len(hashes), sorted(hashes))


def listed(folder: Path, commit: str) -> Mapping[Key, str]:
    """Return the object of each document, "!" and what is wrong if it is none; a tag that is a link has no package."""
    found: dict[Key, str] = {}
    for line in run_git(folder, "ls-tree", "-r", "-t", commit, "_cache/").splitlines():
        head, path = line.split("\t")
        mode, kind, name = head.split()
        match path.split("/")[1:]:
            case [tag] if mode == "120000":
                found[tag, ""] = "!"
            case [tag, package] if mode == "120000":
                found[tag, package] = f"!folder {name}"
            case [tag, package, "specs.md"]:
                found[tag, package] = name if kind == "blob" and mode == "100644" else f"!file {name}"
            case _:
                pass
    return found


def run_git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", f"--git-dir={folder}", *arguments], check=True, capture_output=True, text=True).stdout


def commits_of(folder: Path) -> list[str]:
    return run_git(folder, "rev-list", "--first-parent", "--reverse", "HEAD").split()


def _git_bytes(folder: Path, name: str) -> bytes:
    command = ["git", f"--git-dir={folder}", "cat-file", "blob", name]
    return subprocess.run(command, check=True, capture_output=True).stdout


def without_messages(found: Dump) -> Dump:
    """Return the same, with when a document was unreadable and not why."""
    return found | {"diagnostic": [row[:3] for row in found["diagnostic"]]}
