"""Spack's order of versions, which is neither string order nor that of Python packages.

The rules are those of `spack.version`: segments of digits or letters, separators without
meaning, words below numbers, a few words above all numbers, and pre-releases.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from cachewatch.errors import ConfigError

# Above every number, in this order, as a whole version or as one segment of it.
_ENDLESS = ("stable", "trunk", "head", "master", "main", "develop")

_SEGMENT = re.compile(r"[0-9]+|[A-Za-z]+")
_PRERELEASE = re.compile(r"(?:^|(?<=[^A-Za-z]))(alpha|beta|rc)[._-]?([0-9]*)$")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FINAL = (3, 0, "")

_WRITTEN = re.compile(r"[A-Za-z0-9_.-][A-Za-z0-9_.=-]{0,199}")

Segment = tuple[int, int, str]
VersionKey = tuple[bool, tuple[Segment, ...], Segment, str]


@lru_cache(maxsize=65536)
def version_key(version: str) -> VersionKey:
    """Return what to sort `version` by; versions that Spack calls equal differ only in the last part."""
    assigned = version.partition("=")[2]
    is_git = _is_git(version)
    if is_git and not assigned:
        return (True, (), _FINAL, version)
    number = assigned if is_git else version
    release, prerelease = _split_prerelease(number)
    return (False, tuple(map(_segment, _SEGMENT.findall(release))), prerelease, version)


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Sort `versions` from oldest to newest."""
    return sorted(versions, key=version_key)


def newest(versions: Iterable[str]) -> str:
    """Return the newest of `versions`, of which there must be at least one."""
    return max(versions, key=version_key)


def is_newer(version: str, than: str) -> bool:
    """Tell whether `version` comes after `than`; spellings of one version are equal (1-2 and 1.2)."""
    return version_key(version)[:3] > version_key(than)[:3]


class VersionRange(Struct, frozen=True):
    """What Spack means by `@low:high`: from `low` up to everything that begins with `high`.

    `1.2` is short for `1.2:1.2`, so it has 1.2.3 in it; `=1.2` is that version alone.
    """

    low: str = ""  # empty is unbounded
    high: str = ""
    exactly: str = ""

    def __contains__(self, version: str) -> bool:
        key = version_key(version)
        if self.exactly:
            is_git = _is_git(version) or _is_git(self.exactly)
            return version == self.exactly if is_git else key[:3] == version_key(self.exactly)[:3]
        if key[0]:  # a bare commit, of which nothing is known
            return not self.low and not self.high
        if self.low and key[:3] < version_key(self.low)[:3]:
            return False
        return not self.high or key[:3] < _end_of(self.high)


def parse_ranges(text: str) -> tuple[VersionRange, ...]:
    """Understand `@1.2:`, `@:2`, `@1.2.3`, `@=1.2` and lists of them, `@1.2:1.4,2:`; the @ may be left out."""
    return tuple(_parse_range(part, text) for part in text.removeprefix("@").split(","))


class Versions:
    """Versions that ranges choose; a range with ! before it excludes, and wins. Without any, all are chosen."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self.is_open = not self.patterns
        self._included = [r for p in self.patterns if not p.startswith("!") for r in parse_ranges(p)]
        self._excluded = [r for p in self.patterns if p.startswith("!") for r in parse_ranges(p[1:])]

    def __call__(self, version: str) -> bool:
        """Tell whether `version` is chosen."""
        if any(version in excluded for excluded in self._excluded):
            return False
        return not self._included or any(version in included for included in self._included)


def _parse_range(part: str, text: str) -> VersionRange:
    low, colon, high = part.strip().partition(":")
    exactly = low[1:] if low.startswith("=") and not colon else ""
    bounds = [exactly] if exactly else [bound for bound in (low, high) if bound] if colon else [low]
    if not all(_WRITTEN.fullmatch(bound) and _SEGMENT.search(bound) for bound in bounds):
        raise ConfigError(f"{text!r} is no version or range; write @1.2:, @:2, @1.2:1.4, @1.2.3 or @=1.2")
    if exactly:
        return VersionRange(exactly=exactly)
    if _is_git(part):
        return VersionRange(exactly=part.strip())
    found = VersionRange(low=low, high=high if colon else low)
    if found.low and found.high and version_key(found.low)[:3] >= _end_of(found.high):
        raise ConfigError(f"{text!r} is an empty range; write the lower version first")
    return found


def _is_git(version: str) -> bool:
    reference = version.partition("=")[0]
    return reference.startswith("git.") or _COMMIT.fullmatch(reference) is not None


def _end_of(high: str) -> tuple[bool, tuple[Segment, ...], Segment]:
    """Return the key that lies behind everything that begins with `high`."""
    _, segments, prerelease, _ = version_key(high)
    if prerelease != _FINAL:
        rank, _, digits = prerelease
        return (False, segments, (rank, *_magnitude(str(int(digits or 0) + 1))) if digits else (rank, 0, "0"))
    return (False, (*segments[:-1], _next(segments[-1])), _FINAL)


def _next(segment: Segment) -> Segment:
    rank, number, text = segment
    if rank == 1:
        return (1, *_magnitude(str(int(text or 0) + 1)))
    if rank == 2:
        return (2, number + 1, "")
    return (
        0,
        0,
        text + "A" if text.endswith("z") else text[:-1] + ("a" if text[-1] == "Z" else chr(ord(text[-1]) + 1)),
    )


def _split_prerelease(version: str) -> tuple[str, Segment]:
    match = _PRERELEASE.search(version)
    if match is None:
        return version, _FINAL
    rank = ("alpha", "beta", "rc").index(match[1])
    return version[: match.start()], (rank, *_magnitude(match[2]))


def _segment(text: str) -> Segment:
    if text[0].isdigit():
        return (1, *_magnitude(text))
    if text in _ENDLESS:
        return (2, _ENDLESS.index(text), "")
    return (0, 0, text)


def _magnitude(digits: str) -> tuple[int, str]:
    # Length first, then the digits: the order of the numbers without making numbers, which
    # Python refuses beyond 4,300 digits.
    significant = digits.lstrip("0")
    return len(significant), significant
