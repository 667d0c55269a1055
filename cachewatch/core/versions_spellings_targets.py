"""Spack's rules for values: the order of versions, uniform spellings, and which targets run on which machines.

The rules of versions are those of `spack.version`: segments of digits or letters, separators without meaning, words
below numbers, a few words above all numbers, pre-releases, and git references, which are versions of their own even if
they are assigned the number of another. Strings and Python packages are ordered otherwise.

Two documents with the same meaning must compare equal, so every value is respelled before a comparison. Which targets
are compatible is known from archspec, as in Spack.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from cachewatch.errors import UsageError

# Above every number, in this order, as a whole version or as one segment of it.
_ENDLESS = ("stable", "nightly", "trunk", "head", "master", "main", "develop")

_SEGMENT = re.compile(r"[0-9]+|[A-Za-z]+")
_UNKNOWN = re.compile(r"[^0-9A-Za-z._=-]")
_PRERELEASES = ("alpha", "beta", "rc", "final")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FINAL: "Prerelease" = (3,)

_WRITTEN = re.compile(r"[A-Za-z0-9_.-][A-Za-z0-9_.=-]{0,199}")

Segment = tuple[int, int, str]
Prerelease = tuple[int] | tuple[int, int, str]  # a word, and perhaps a number
VersionKey = tuple[bool, tuple[Segment, ...], Prerelease, str, str]


@lru_cache(maxsize=65536)
def version_key(version: str) -> VersionKey:
    """Return a key that sorts versions; keys of versions that Spack considers equal differ only in the last part.

    The part before the last is the git reference; references that stand for the same version number are equally new.
    """
    reference, number = _parted(version)
    if reference and (not number or ":" in number):  # no number was assigned, so its place is unknown
        return (True, (), _FINAL, version.removeprefix("git."), version)
    segments, prerelease = _SEGMENT.findall(number), _FINAL
    # A word such as `rc`, and its number, are no segments, unless nothing else is left.
    if len(segments) > 1 and segments[-1] in _PRERELEASES:
        prerelease = (_PRERELEASES.index(segments.pop()),)
    elif len(segments) > 2 and segments[-2] in _PRERELEASES and segments[-1].isdigit():
        *segments, word, digits = segments
        prerelease = (_PRERELEASES.index(word), *_magnitude(digits))
    return (False, tuple(map(_segment, segments)), prerelease, reference, version)


def version_identity(version: str) -> VersionKey:
    """Return a value that is the same for all spellings of a version that Spack considers equal (1-2 and 1.2)."""
    # Signs that Spack does not know make versions unequal.
    return (*version_key(version)[:4], "".join(_UNKNOWN.findall(_parted(version)[1])))


def agrees(version: str, other: str) -> bool:
    """Tell whether two texts may be one version: equal in Spack, or equal but for a git reference in one of them."""
    one, another = version_identity(version), version_identity(other)
    return one[:3] == another[:3] and one[4] == another[4] and (one[3] == another[3] or not (one[3] and another[3]))


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Sort `versions` from oldest to newest."""
    return sorted(versions, key=version_key)


def newest(versions: Iterable[str]) -> str:
    """Return the newest version; `versions` must not be empty."""
    return max(versions, key=version_key)


def is_newer(version: str, than: str) -> bool:
    """Tell whether `version` is newer than `than`; False if Spack considers both equal, or if either is ""."""
    return bool(version and than) and version_key(version)[:3] > version_key(than)[:3]


def falls(version: str, to: str) -> bool:
    """Tell whether the first number of `to` is lower than that of `version`, as from 5.8.0 to 1.0: maybe a mistake."""
    before, after = (one.partition(".")[0] for one in (version, to))
    return before.isdecimal() and after.isdecimal() and int(after) < int(before)


class VersionRange(Struct, frozen=True):
    """A version range as in Spack's `@low:high`: from `low` up to everything that begins with `high`.

    `1.2` is short for `1.2:1.2`, so it includes 1.2.3; `=1.2` is that version alone. A git reference or commit without
    a number includes all versions of that reference, `git.main` also `git.main=1.2`.
    """

    low: str = ""  # unbounded if empty
    high: str = ""
    exactly: str = ""

    def __contains__(self, version: str) -> bool:
        key = version_key(version)
        if self.exactly:
            reference, number = _parted(version)
            wanted, wanted_number = _parted(self.exactly)
            is_any_number = bool(wanted and not wanted_number)
            return reference == wanted and (is_any_number or version_key(number)[:3] == version_key(wanted_number)[:3])
        if key[0]:  # a bare commit, whose number is unknown
            return not self.low and not self.high
        if self.low and key[:3] < version_key(self.low)[:3]:
            return False
        return not self.high or key[:3] < _end_of(self.high)


def parse_ranges(text: str) -> tuple[VersionRange, ...]:
    """Parse `@1.2:`, `@1.2.3`, `@=1.2` and lists such as `@1.2:1.4,2:`; @ is optional. Raises UsageError if invalid."""
    return tuple(_parse_range(part, text) for part in text.removeprefix("@").split(","))


class Patterns(ABC):
    """A filter: a name must match one of the patterns without a leading !, if there are any, and none of those with it."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self.is_open = not self.patterns
        self._included = self._tests(tuple(p for p in self.patterns if not p.startswith("!")))
        self._excluded = self._tests(tuple(p[1:] for p in self.patterns if p.startswith("!")))

    @abstractmethod
    def _tests(self, patterns: tuple[str, ...]) -> Sequence[Callable[[str], object]]:
        """Return functions that test a name; the name matches `patterns` if any function returns something true."""

    def __reduce__(self) -> tuple[type["Patterns"], tuple[tuple[str, ...]]]:
        """Pickle only the patterns; they are compiled again when they are unpickled."""
        return type(self), (self.patterns,)

    def __call__(self, name: str) -> bool:
        """Tell whether the patterns select `name`."""
        if self.is_open:
            return True
        if self.excludes(name):
            return False
        return not self._included or any(matches(name) for matches in self._included)

    def excludes(self, name: str) -> bool:
        """Tell whether a pattern with ! matches `name`."""
        return any(matches(name) for matches in self._excluded)


class Versions(Patterns):
    """A filter for versions; its patterns are ranges as in `parse_ranges`."""

    def _tests(self, patterns: tuple[str, ...]) -> Sequence[Callable[[str], object]]:
        return [one.__contains__ for pattern in patterns for one in parse_ranges(pattern)]


def _parse_range(part: str, text: str) -> VersionRange:
    low, colon, high = part.strip().partition(":")
    exactly = "" if colon else low[1:] if low.startswith("=") else low if _is_git(low) else ""
    bounds = [exactly] if exactly else [bound for bound in (low, high) if bound] if colon else [low]
    if not all(_WRITTEN.fullmatch(bound) and _SEGMENT.search(bound) for bound in bounds):
        raise UsageError(f"{text!r} is not a version or range; write @1.2:, @:2, @1.2:1.4, @1.2.3 or @=1.2")
    if exactly:
        return VersionRange(exactly=exactly)
    if any(version_key(bound)[0] for bound in bounds):
        raise UsageError(f"{text!r} is not a version or range: a git reference has no place in it without a number")
    version_range = VersionRange(low=low, high=high if colon else low)
    if version_range.low and version_range.high and version_key(version_range.low)[:3] >= _end_of(version_range.high):
        raise UsageError(f"{text!r} is an empty range; write the lower version first")
    return version_range


def _is_git(version: str) -> bool:
    return version.startswith("git.") or "=" in version[1:] or _COMMIT.fullmatch(version) is not None


def _parted(version: str) -> tuple[str, str]:
    """Return the git reference of a version, or "", and the number of the version, which a reference may lack."""
    if not _is_git(version):
        return "", version
    reference, _, number = version.removeprefix("git.").partition("=")
    return reference or version, number


def _end_of(high: str) -> tuple[bool, tuple[Segment, ...], Prerelease]:
    """Return the end of a range as a key that is above the keys of all versions that begin with `high`."""
    _, segments, prerelease, *_ = version_key(high)
    if prerelease[0] != _FINAL[0]:
        number = str(int(prerelease[2] or 0) + 1) if len(prerelease) > 1 else "0"
        return (False, segments, (prerelease[0], *_magnitude(number)))
    return (False, (*segments[:-1], _next(segments[-1])), _FINAL)


def _next(segment: Segment) -> Segment:
    rank, number, text = segment
    if rank == 1:
        return (1, *_magnitude(str(int(text or 0) + 1)))
    if rank == 2:
        return (2, number + 1, "")
    following = "zA" if text[-1] == "z" else "a" if text[-1] == "Z" else chr(ord(text[-1]) + 1)
    return (0, 0, text[:-1] + following)


def _segment(text: str) -> Segment:
    if text[0].isdigit():
        return (1, *_magnitude(text))
    if text in _ENDLESS:
        return (2, _ENDLESS.index(text), "")
    return (0, 0, text)


def _magnitude(digits: str) -> tuple[int, str]:
    """Return a key that sorts digits as numbers: length and text, because int() refuses more than 4,300 digits."""
    significant = digits.lstrip("0")
    return len(significant), significant


NO_COMPILER = "none"  # the name for the compiler of a spec without one
UNION_STACK = "root"  # the name of the union of all stacks, which is not a stack itself
PATCH_DIGITS = 7  # of the checksum of a patch

# As in `spack/aliases.py` of Spack 1.0, where `intel-oneapi-compiler-classic` lacks the s that the package name has.
_PACKAGE_OF_COMPILER = {
    "clang": "llvm",
    "oneapi": "intel-oneapi-compilers",
    "dpcpp": "intel-oneapi-compilers",
    "intel": "intel-oneapi-compilers-classic",
    "intel-oneapi-compiler-classic": "intel-oneapi-compilers-classic",
    "rocmcc": "llvm-amdgpu",
    "arm": "acfl",
}


@lru_cache(maxsize=4096)
def compiler(text: str | None) -> str:
    """Return a compiler as Spack 1.0 spells it: `gcc@11.4.0` for `gcc@=11.4.0`, `llvm` for `clang`, "none" for None."""
    if text is None or text in {"", "none", "null", "~", "None"}:
        return NO_COMPILER
    name, at, version = text.partition("@")
    return _PACKAGE_OF_COMPILER.get(name, name) + at + version.removeprefix("=")


@lru_cache(maxsize=4096)
def variants(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return variants sorted and spelled alike: `x=a,b` for `x:=b,a`, `~x` for `-x`, without quotes around values."""
    # In Spack's order: by name, without the sign before it.
    return tuple(sorted(sorted(set(map(_variant, texts))), key=lambda variant: variant.lstrip("+~")))


def variant_name(variant: str) -> str:
    """Return the name of a variant: mpi of `+mpi`, api of `api=v1`."""
    return variant.lstrip("+~-").partition("=")[0]


def that_matter(variants: Iterable[str]) -> frozenset[str]:
    """Return the variants that users of a binary care about: all but `patches` and `build_system`."""
    return frozenset(one for one in variants if not one.startswith(("patches=", "build_system=")))


@lru_cache(maxsize=4096)
def stacks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sorted names of stacks, each once, without `root`, which stands for the union of all stacks."""
    return tuple(sorted(set(names) - {UNION_STACK}))


@lru_cache(maxsize=16384)
def _variant(text: str) -> str:
    if text.startswith("-"):
        return "~~" + text[2:] if text.startswith("--") else "~" + text[1:]
    name, equals, value = text.partition("=")
    if not equals:
        return text
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    name = name.removesuffix(":")
    if (name == "patches" or "," in value) and not value.startswith("-"):  # commas in compiler flags are another thing
        value = ",".join(sorted({one[:PATCH_DIGITS] if name == "patches" else one for one in value.split(",")}))
    return f"{name}={value}"


USUAL_TARGET = "x86_64_v4"


@cache
def runnable(target: str) -> frozenset[str]:
    """Return the targets whose binaries run on machines of `target`: itself and the ancestors that archspec knows."""
    from archspec.cpu import TARGETS  # noqa: PLC0415  slow to load, and seldom needed

    known = TARGETS.get(target)
    return frozenset({target, *(ancestor.name for ancestor in known.ancestors)} if known else {target})


def runs(machine: str, target: str) -> bool:
    """Tell whether machines of the target `machine` run binaries built for `target`."""
    return machine == target or target in runnable(machine)
