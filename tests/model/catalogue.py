"""What upstream publishes: packages with sets of builds, in tags; some documents cannot be read.

Each build is one spec with a version of its own, so that a digest, which names versions, tells exactly which specs came
and went.
"""

from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

from helpers import document, record

from cachewatch.documents.records_parsing_diagnostics import parse
from cachewatch.errors import DocumentError

Builds = frozenset[int]


class Broken(NamedTuple):
    """A document that nobody can read."""

    how: str
    number: int  # makes each of them differ from all others


Document = Builds | Broken
Tags = dict[str, dict[str, Document]]

_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
BREAKS: Mapping[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "conflict markers": lambda data: data.replace(b"spec_details:", b"<<<<<<< HEAD\nspec_details:", 1),
    "NUL bytes": lambda data: data.replace(b'"hash"', b'"ha\0\0"'),
    "a YAML bomb": lambda data: b"---\n" + _BOMB.encode() + b"spec_details: *c\n" + data[4:],
    "empty": lambda _: b"",
    "another encoding": lambda data: data.decode().encode("utf-16"),
}


def version(build: int) -> str:
    """Return the version that only this build has; newer builds have newer versions."""
    return f"1.{build}"


def files_of(tags: Tags) -> dict[str, bytes]:
    """Return the files of a revision; one that is no document is always there."""
    files = {"README.md": b"A catalogue.\n"}
    for tag, packages in tags.items():
        for package, found in packages.items():
            files[f"_cache/{tag}/{package}/specs.md"] = _written(found, package, tag)
    return files


def readable(packages: Mapping[str, Document]) -> dict[str, Builds]:
    """Return the packages whose documents can be read."""
    return {package: found for package, found in packages.items() if not isinstance(found, Broken)}


def last_readable(before: Tags, tags: Tags) -> Tags:
    """Return `tags` with the last readable versions of broken documents, from `before`, unless they were absent since."""
    last: Tags = {}
    for tag, packages in tags.items():
        kept = {name: found for name, found in before.get(tag, {}).items() if name in packages}
        last[tag] = {**kept, **readable(packages)}
    return last


def _written(found: Document, package: str, tag: str) -> bytes:
    builds = [found.number] if isinstance(found, Broken) else sorted(found)
    # A stack of its own: that a stack is gone would be told in the place of its packages.
    stacks = [f"{package}-stack", "root"]
    specs = [record(build, versions=[version(build)], stacks=stacks) for build in builds]
    data = document(specs, package=package, tag=tag)
    if isinstance(found, Broken):
        data = BREAKS[found.how](data)
        assert not _is_readable(data), f"{found.how} can be read"
    return data


def _is_readable(data: bytes) -> bool:
    try:
        parse(data, "specs.md")
    except DocumentError:
        return False
    return True


class Editor:
    """Changes a catalogue step by step; a step that makes no sense at the moment does nothing."""

    def __init__(self, tags: Tags) -> None:
        self.tags: Tags = {tag: dict(packages) for tag, packages in tags.items()}
        self._numbers = count(1000)
        self._last_read: dict[tuple[str, str], Builds] = {}  # and of those that are gone
        self._gone: Tags = {}
        self._remember()

    def apply(self, step: "Step") -> None:
        """Take one step."""
        getattr(self, f"_{step.name}")(step)
        self._remember()

    def revert(self, tags: Tags) -> None:
        """Be what upstream was before."""
        self.tags = {tag: dict(packages) for tag, packages in tags.items()}
        self._remember()

    def repair(self) -> None:
        """Let every document be readable: half of them as it was, half with something new."""
        for tag, packages in self.tags.items():
            for number, package in enumerate(sorted(packages)):
                if isinstance(packages[package], Broken):
                    self._mend(tag, package, is_new=bool(number % 2))
        self._remember()

    def _remember(self) -> None:
        for tag, packages in self.tags.items():
            for package, builds in readable(packages).items():
                self._last_read[tag, package] = builds

    def _new(self) -> Builds:
        return frozenset({next(self._numbers)})

    def _tag(self, step: "Step") -> str:
        """Return the tag of a step: mostly develop."""
        names = sorted(self.tags)
        return names[step.tag % len(names)] if names else "develop"

    def _upgrade(self, step: "Step") -> None:
        self._edit(step, lambda builds: builds - {min(builds)} | self._new())

    def _extend(self, step: "Step") -> None:
        self._edit(step, lambda builds: builds | self._new())

    def _shrink(self, step: "Step") -> None:
        self._edit(step, lambda builds: builds - {max(builds)} if len(builds) > 1 else builds)

    def _edit(self, step: "Step", change: Callable[[Builds], Builds]) -> None:
        packages = self.tags.get(self._tag(step), {})
        found = packages.get(step.package)
        if found is not None and not isinstance(found, Broken):
            packages[step.package] = change(found)

    def _remove(self, step: "Step") -> None:
        packages = self.tags.get(self._tag(step), {})
        packages.pop(step.package, None)
        if not packages:
            self.tags.pop(self._tag(step), None)

    def _add(self, step: "Step") -> None:
        """Let a package be there that is not: as it was, or anew."""
        tag = self._tag(step)
        packages = self.tags.setdefault(tag, {})
        if step.package not in packages:
            self._mend(tag, step.package, is_new=step.is_new)

    def _break(self, step: "Step") -> None:
        packages = self.tags.get(self._tag(step), {})
        if step.package in packages:
            packages[step.package] = Broken(step.how, next(self._numbers))

    def _repair(self, step: "Step") -> None:
        tag = self._tag(step)
        if isinstance(self.tags.get(tag, {}).get(step.package), Broken):
            self._mend(tag, step.package, is_new=step.is_new)

    def _mend(self, tag: str, package: str, *, is_new: bool) -> None:
        last = self._last_read.get((tag, package), frozenset())
        self.tags[tag][package] = self._new() if is_new or not last else last

    def _snapshot(self, step: "Step") -> None:
        """Copy develop into the next dated tag, or into the next release."""
        series, form = ("v", "v1.{}") if step.is_new else ("develop-", "develop-2025-07-{:02}")
        known = [tag for tag in {*self.tags, *self._gone} if tag.startswith(series)]
        if self.tags.get("develop") and len(known) < 9:
            self.tags[form.format(len(known) + 1)] = dict(self.tags["develop"])

    def _remove_tag(self, step: "Step") -> None:
        tag = self._tag(step)
        if tag in self.tags:
            self._gone[tag] = self.tags.pop(tag)

    def _return_tag(self, step: "Step") -> None:
        """Let a tag be there again: as it was, or with each package upgraded."""
        names = sorted(self._gone.keys() - self.tags.keys())
        if names:
            tag = names[step.tag % len(names)]
            self.tags[tag] = self._gone.pop(tag)
            if step.is_new:
                self._upgrade_all(tag)

    def _empty(self, _: "Step") -> None:
        """Publish nothing at all, by mistake."""
        self._gone |= self.tags
        self.tags = {}

    def _restore(self, step: "Step") -> None:
        """Let everything be there again that was ever taken away."""
        for tag in sorted(self._gone.keys() - self.tags.keys()):
            self.tags[tag] = self._gone.pop(tag)
            if step.is_new:
                self._upgrade_all(tag)

    def _wave(self, step: "Step") -> None:
        """Upgrade every package of a tag."""
        self._upgrade_all(self._tag(step))

    def _upgrade_all(self, tag: str) -> None:
        packages = self.tags.get(tag, {})
        for package, builds in readable(packages).items():
            packages[package] = builds - {min(builds)} | self._new()

    def _collapse(self, step: "Step") -> None:
        """Leave but two packages of a tag, which looks suspicious."""
        packages = self.tags.get(self._tag(step), {})
        for package in sorted(packages)[2:]:
            del packages[package]


class Step(NamedTuple):
    """One change of a catalogue."""

    name: str
    tag: int = 0
    package: str = "pa"
    how: str = "truncated"
    is_new: bool = False


# Those that happen most often stand more than once.
STEPS = (
    *("upgrade", "upgrade", "upgrade", "extend", "shrink", "remove", "add", "break", "break", "repair", "snapshot"),
    *("remove_tag", "return_tag", "return_tag", "empty", "restore", "restore", "wave", "collapse"),
)
