"""Runs cachewatch in some 280 ways and writes what each run prints: `python -m outputs FOLDER`.

Two commits can then be compared with `diff -r`. Real commands run, at a fixed time (libfaketime), on the bundled demo, a
recorded build cache and weeks of a catalogue of 239 packages.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from archives import unpack
from helpers import catalogue, history, without
from scripted import NAMES, again, packages
from tools import all_commands, program

NOW = "2025-07-01 12:00:00"
_STATES = ("1-initial", "2-package-added", "3-version-bump", "4-variant-flip", "7-full-rebuild", "8-second-compiler")
# What names a run, and not what cachewatch does.
_NOISE = (
    (re.compile(r"in \d+(\.\d+)? (s|seconds|ms)\b"), "in SOME TIME"),
    (re.compile(r'("(?:duration|seconds|elapsed)\w*": )[\d.]+'), r"\1SOME"),
    (re.compile(r"\b(took|after) \d+(\.\d+)? ?(s|seconds|ms)\b"), r"\1 SOME TIME"),
    (re.compile(r"\d+(\.\d+)? [kM]B (of|in) memory"), "SOME MEMORY"),
)

_CONFIG = """\
version: 1
state: state
sources:
  catalogue: {{git: {repository}, since: "{since}"}}
channels:
  files: {{type: file, path: "out/{{subscription}}/{{period}}.{{ext}}", formats: [html, md, txt, json]}}
  box: {{type: maildir, from: cachewatch@example.org, path: Maildir}}
  feed: {{type: feed, path: "out/{{subscription}}.xml", url: "https://example.org/{{subscription}}.xml"}}
subscriptions:
  all: {{when: each revision, to: [kim@example.org], channels: [files, box, feed], changes: [all]}}
  part: {{when: each revision, channels: [files, feed], match: {{packages: ["py-*", "h*", "z*"]}}}}
  urgent: {{when: weekly mon 07:30, channels: [files], urgent: {{changes: [removed, stack-lost], channels: [files]}}}}
operators: {{channels: [files]}}
"""


@dataclass(frozen=True)
class Run:
    """One command line, the folder to run it in, and what to keep of it."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    stdin: str = ""
    kept: tuple[str, ...] = ()  # files and folders that it writes


@dataclass(frozen=True)
class Catalogue:
    """A repository, revisions and names in it that are worth asking about."""

    name: str
    repository: Path
    tag: str
    package: str
    stack: str
    far: str = "HEAD~3"
    more: tuple[tuple[str, ...], ...] = field(default=())


def main() -> None:
    """Write everything into the folder that is named."""
    into = Path(sys.argv[1]).absolute()
    program("faketime")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    scratch = Path(tempfile.gettempdir(), "cachewatch-outputs")  # the same each time: recorded revisions name it
    scratch.mkdir()
    try:
        world = World(scratch, into)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            catalogues = list(pool.map(lambda make: make(), (world.demo, world.recorded, world.weeks)))
            runs = [*world.helps(), *world.loaded(catalogues[0])]
            runs += [run for each in catalogues for run in world.questions(each)]
            list(pool.map(world.run, runs))
            list(pool.map(world.service, catalogues))
    finally:
        shutil.rmtree(scratch)
    print(f"{len(list(into.rglob('*')))} files in {into}")  # noqa: T201


class World:
    """Where commands run, and where what they print is written."""

    def __init__(self, scratch: Path, into: Path) -> None:
        self.scratch, self.into = scratch, into
        (scratch / "home").mkdir()

    def demo(self) -> Catalogue:
        """Make the repository of the bundled documents."""
        self.run(Run("demo", ("demo", "demo.git"), self.scratch))
        return Catalogue("demo", self.scratch / "demo.git", "develop", "py-ml-dtypes", "e4s", far="HEAD~1")

    def recorded(self) -> Catalogue:
        """Record states of a build cache that Spack wrote."""
        caches = unpack("buildcaches", self.scratch)
        for state in _STATES:
            arguments = ("record", f"{caches}/v3/{state}", "--into", "recorded.git")
            self.run(Run(f"recorded/record-{state}", arguments, self.scratch))
        ends = ("HEAD~2", "HEAD~1", "HEAD")
        more = (("why", "app"), ("why", "app", "--between", *ends[1:]), ("impact", "zlib"), ("diff", ends[0], "--why"))
        return Catalogue("recorded", self.scratch / "recorded.git", "develop", "zlib", "cache", more=more)

    def weeks(self) -> Catalogue:
        """Make weeks in which something happens to a catalogue: upgrades, a lost stack, a migration, a prune, snapshots."""
        states = list(_weeks())
        repository = history(self.scratch / "weeks.git", *states)
        pairs = [(f"HEAD~{n}", f"HEAD~{n - 1}") for n in range(1, len(states))]
        more = tuple(("diff", *ends, *rest) for ends in pairs for rest in ((), ("--all",)))
        tags = ("HEAD:develop-2025-06-01", "HEAD:develop-2025-06-15")
        more += (("diff", *tags), ("diff", *tags, "--format", "json"))
        return Catalogue("weeks", repository, "develop", "hdf5", "radiuss", more=more)

    def helps(self) -> Iterator[Run]:
        """Yield the help of every command."""
        yield Run("help/cachewatch", ("--help",), self.scratch)
        for words, _ in all_commands():
            yield Run(f"help/{'-'.join(words)}", (*words, "--help"), self.scratch)

    def loaded(self, demo: Catalogue) -> Iterator[Run]:
        """Yield commands that say which libraries they load."""
        for words in (("diff", "HEAD~1", "HEAD"), ("show", demo.package), ("packages",)):
            yield Run(f"loaded/{words[0]}", ("--loaded", *words, "--repo", str(demo.repository)), self.scratch)

    def questions(self, of: Catalogue) -> Iterator[Run]:
        """Yield what people ask of a catalogue."""
        for number, arguments in enumerate((*_questions(of), *of.more)):
            name = re.sub(r"[^A-Za-z0-9@=.,~-]+", "_", " ".join(arguments))[:100]
            yield Run(f"{of.name}/{number:03}-{name}", (*arguments, "--repo", str(of.repository)), self.scratch)

    def service(self, of: Catalogue) -> None:
        """Let the service report one revision after the other, and keep all that it delivers."""
        folder = self.scratch / f"service-{of.name}"
        folder.mkdir()
        (folder / "cachewatch.yaml").write_text(_CONFIG.format(repository=of.repository, since=of.far), "utf-8")
        steps: tuple[tuple[str, ...], ...] = (
            ("config", "check"), ("config", "check", "--source"), ("config", "show"), ("preview", "all"), ("preview", "part", "--format", "json"),
            ("once",), ("once",), ("status",), ("status", "--format", "json"), ("status", "--check"), ("deliveries", "list"),
            ("config", "explain", of.package), ("preview", "urgent", "--urgent"), ("state", "check"),
        )  # fmt: skip
        for number, words in enumerate(steps):
            self.run(Run(f"{of.name}/service/{number:02}-{'-'.join(words)}", words, folder))
        self.keep(folder / "out", f"{of.name}/service/out")
        for number, mail in enumerate(sorted((folder / "Maildir").rglob("*"), key=lambda path: path.stat().st_size)):
            if mail.is_file() and mail.stat().st_size:
                self.keep(mail, f"{of.name}/service/mail-{number}.eml")
        self.run(Run(f"{of.name}/history/00-build", ("history", "build", "--repo", str(of.repository)), folder))
        for number, words in enumerate(_history(of)):
            name = f"{of.name}/history/{number + 1:02}-{'-'.join(words)}"
            self.run(Run(name, (*words, "--repo", str(of.repository)), folder))
        site = ("site", "site", "--repo", str(of.repository), "--no-progress", "--tag", of.tag)
        self.run(Run(f"{of.name}/site", site, folder, kept=("site",)))

    def run(self, run: Run) -> None:
        """Run one command, and write its exit code and what it prints."""
        is_loaded = run.arguments[0] == "--loaded"
        command = [sys.executable, "-c", _LOADED, *run.arguments[1:]] if is_loaded else [_COMMAND, *run.arguments]
        command, stdin = ["faketime", "-f", NOW, *command], run.stdin.encode()
        where, environment = run.folder, self._environment()
        done = subprocess.run(
            command, input=stdin, cwd=where, env=environment, capture_output=True, check=False, timeout=600
        )
        parts = [f"$ cachewatch {shlex.join(run.arguments)}", f"exit {done.returncode}"]
        parts += ["-- standard output", done.stdout.decode("utf-8", "replace")]
        parts += ["-- standard error", done.stderr.decode("utf-8", "replace")]
        self._write(f"{run.name}.txt", "\n".join(parts))
        for name in run.kept:
            self.keep(run.folder / name, f"{run.name}/{name}")

    def keep(self, path: Path, name: str) -> None:
        """Keep a file that was written, or all files of a folder."""
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                relative = f"{name}/{file.relative_to(path)}" if path.is_dir() else name
                self._write(relative, file.read_bytes().decode("utf-8", "replace"))

    def _write(self, name: str, text: str) -> None:
        text = text.replace(str(self.scratch), "SCRATCH")
        for pattern, word in _NOISE:
            text = pattern.sub(word, text)
        file = self.into / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def _environment(self) -> Mapping[str, str]:
        home = self.scratch / "home"
        fixed = {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "TZ": "UTC", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return fixed | git | {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}


_COMMAND = str(Path(sys.executable).parent / "cachewatch")
# Prints the libraries that a command loads, without those of Python.
_LOADED = """
import contextlib, os, sys
from cachewatch.__main__ import main
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.suppress(SystemExit):
    main()
names = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in names if not name.startswith("_")), sep="\\n")
"""


def _questions(of: Catalogue) -> Iterable[tuple[str, ...]]:
    far = ("diff", of.far, "HEAD")
    yield from (
        ("tags",), ("tags", "--format", "json"), ("stacks",), ("packages",), ("packages", "--format", "json"), ("packages", "--format", "csv"),
        ("show", of.package), ("show", of.package, "--format", "json"), ("show", f"{of.package}@1:"), ("show", "nothing-of-this-name"),
        ("why", of.package), ("diff",), ("diff", "HEAD~1", "HEAD", "--stat"), ("diff", "HEAD", "HEAD"), ("diff", "nowhere"),
        ("diff", "HEAD~1", "--exit-code"), ("diff", "HEAD~1", "--fail-on", "removed"), ("diff", "HEAD~1", "--fail-on", "place-lost"),
    )  # fmt: skip
    for kind in ("text", "json", "jsonl", "csv", "markdown", "html"):
        yield (*far, "--format", kind)
    yield from (
        (*far, "--all"), (*far, "--stat"), (*far, "--color", "always"), (*far, "--jobs", "2", "--format", "json"), (*far, "--tag", of.tag),
        (*far, "--package", of.package), (*far, "--stack", of.stack), (*far, "--stack", f"!{of.stack}"), (*far, "--compiler", "gcc"),
        (*far, "--target", "x86_64*"), (*far, "--os", "ubuntu*"), (*far, "--kind", "upgraded"), (*far, "--kind", "rebuilt"),
        (*far, "--versions", "@2:"), (*far, "--package", "nothing-*"), ("diff", "HEAD", of.far, "--all"),
    )  # fmt: skip


def _history(of: Catalogue) -> Iterable[tuple[str, ...]]:
    yield from (
        ("log", of.package), ("log", of.package, "--format", "json"), ("history", "when", of.package), ("history", "when", of.package, "--format", "csv"),
        ("history", "churn"), ("history", "churn", "--by", "stack"), ("log", "nothing-of-this-name"), ("history", "blame", "abcdefg"),
    )  # fmt: skip


def _weeks() -> Iterator[Mapping[str, bytes]]:
    """Yield the files of each week."""
    state = packages()
    snapshot = catalogue(state, "develop-2025-06-01")
    yield catalogue(state) | snapshot
    state = state | {name: again(state[name], "c", versions=["9.9.1"]) for name in ("hdf5", "petsc", "py-torch")}
    yield catalogue(state) | snapshot
    state = {name: again(found, "d") for name, found in state.items()}
    yield catalogue(state) | snapshot
    state = without({name: found for name, found in state.items() if name != "zfp"}, "radiuss")
    yield catalogue(state) | snapshot
    moved = {name: again(found, "e", compiler="gcc@13.3.0") for name, found in state.items()}
    snapshots = snapshot | catalogue(moved, "develop-2025-06-15")
    yield catalogue(moved) | snapshots
    yield catalogue({name: moved[name] for name in NAMES[:90] if name in moved}) | snapshots
    yield catalogue(moved | {"py-new": again(moved["zlib"], "f")}) | snapshots


if __name__ == "__main__":
    main()
