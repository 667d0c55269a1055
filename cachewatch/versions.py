"""Spack's order of versions, which is neither string order nor that of Python packages.

The rules are those of `spack.version`: segments of digits or letters, separators without
meaning, words below numbers, a few words above all numbers, and pre-releases.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

# Above every number, in this order, as a whole version or as one segment of it.
_ENDLESS = ("stable", "trunk", "head", "master", "main", "develop")

_SEGMENT = re.compile(r"[0-9]+|[A-Za-z]+")
_PRERELEASE = re.compile(r"(?:^|(?<=[^A-Za-z]))(alpha|beta|rc)[._-]?([0-9]*)$")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FINAL = (3, 0, "")

Segment = tuple[int, int, str]
VersionKey = tuple[bool, tuple[Segment, ...], Segment, str]


@lru_cache(maxsize=65536)
def version_key(version: str) -> VersionKey:
    """Return what to sort `version` by; versions that Spack calls equal differ only in the last part."""
    reference, _, assigned = version.partition("=")
    is_git = reference.startswith("git.") or _COMMIT.fullmatch(reference) is not None
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
