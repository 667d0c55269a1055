"""The order of versions in Spack, which differs from the order of strings and of Python packages.

The rules are those of `spack.version`: segments of digits or letters, separators without
meaning, words below numbers, a few words above all numbers, pre-releases, and git references,
which are versions of their own even where they are assigned the number of another.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from cachewatch.errors import ConfigError

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
    """Return what to sort `version` by; versions that Spack calls equal differ only in the last part.

    The part before that is the git reference: two references of one number are neither newer nor older.
    """
    reference, number = _parted(version)
    if reference and (not number or ":" in number):  # no number was assigned, so its place is unknown
        return (True, (), _FINAL, version.removeprefix("git."), version)
    release, prerelease = _split_prerelease(_SEGMENT.findall(number))
    return (False, tuple(map(_segment, release)), prerelease, reference, version)


def version_identity(version: str) -> VersionKey:
    """Return what is equal of two versions if Spack calls them equal (1-2 and 1.2); signs that it does not know differ."""
    return (*version_key(version)[:4], "".join(_UNKNOWN.findall(_parted(version)[1])))


def agrees(version: str, other: str) -> bool:
    """Tell whether two texts may name one version: Spack calls them equal, or one lacks the git reference (git.x=1.2 and 1.2)."""
    one, another = version_identity(version), version_identity(other)
    return one[:3] == another[:3] and one[4] == another[4] and (one[3] == another[3] or not (one[3] and another[3]))


def sorted_versions(versions: Iterable[str]) -> list[str]:
    """Sort `versions` from oldest to newest."""
    return sorted(versions, key=version_key)


def newest(versions: Iterable[str]) -> str:
    """Return the newest of `versions`, of which there must be at least one."""
    return max(versions, key=version_key)


def is_newer(version: str, than: str) -> bool:
    """Tell whether `version` comes after `than`; of spellings of one version (1-2 and 1.2) neither does."""
    return version_key(version)[:3] > version_key(than)[:3]


class VersionRange(Struct, frozen=True):
    """What Spack means by `@low:high`: from `low` up to everything that begins with `high`.

    `1.2` is short for `1.2:1.2`, so it has 1.2.3 in it; `=1.2` is that version alone. A git reference or
    commit without a number is that reference, whatever its number.
    """

    low: str = ""  # empty is unbounded
    high: str = ""
    exactly: str = ""

    def __contains__(self, version: str) -> bool:
        key = version_key(version)
        if self.exactly:
            reference, number = _parted(version)
            wanted, wanted_number = _parted(self.exactly)
            is_any_number = bool(wanted and not wanted_number)
            return reference == wanted and (is_any_number or version_key(number)[:3] == version_key(wanted_number)[:3])
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

    def __reduce__(self) -> tuple[type["Versions"], tuple[tuple[str, ...]]]:
        """Let another process read them anew."""
        return Versions, (self.patterns,)

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
        raise ConfigError(f"{text!r} is not a version or range; write @1.2:, @:2, @1.2:1.4, @1.2.3 or @=1.2")
    if exactly:
        return VersionRange(exactly=exactly)
    if not colon and _is_git(low):
        return VersionRange(exactly=low)
    if any(version_key(bound)[0] for bound in bounds):
        raise ConfigError(f"{text!r} is not a version or range: a git reference has no place in it without a number")
    found = VersionRange(low=low, high=high if colon else low)
    if found.low and found.high and version_key(found.low)[:3] >= _end_of(found.high):
        raise ConfigError(f"{text!r} is an empty range; write the lower version first")
    return found


def _is_git(version: str) -> bool:
    return version.startswith("git.") or "=" in version[1:] or _COMMIT.fullmatch(version) is not None


def _parted(version: str) -> tuple[str, str]:
    """Return the git reference of a version, empty if it is none, and the number that was assigned to it."""
    if not _is_git(version):
        return "", version
    reference, _, number = version.removeprefix("git.").partition("=")
    return reference or version, number


def _end_of(high: str) -> tuple[bool, tuple[Segment, ...], Prerelease]:
    """Return the key that lies behind everything that begins with `high`."""
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
    return (
        0,
        0,
        text + "A" if text.endswith("z") else text[:-1] + ("a" if text[-1] == "Z" else chr(ord(text[-1]) + 1)),
    )


def _split_prerelease(segments: list[str]) -> tuple[list[str], Prerelease]:
    """Take a word such as `rc`, and its number, off the end of `segments`, unless nothing is left of them."""
    if len(segments) > 1 and segments[-1] in _PRERELEASES:
        return segments[:-1], (_PRERELEASES.index(segments[-1]),)
    if len(segments) > 2 and segments[-2] in _PRERELEASES and segments[-1].isdigit():
        return segments[:-2], (_PRERELEASES.index(segments[-2]), *_magnitude(segments[-1]))
    return segments, _FINAL


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
