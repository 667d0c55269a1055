"""Globs and `/regular expressions/` that choose names; a pattern with ! before it excludes, and wins."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

import re2

from cachewatch.errors import ConfigError

Matches = Callable[[str], object]


class Globs:
    """Case-sensitive patterns; without any, everything matches."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self.patterns = tuple(patterns)
        self.is_open = not self.patterns
        self._included = _matchers(tuple(p for p in self.patterns if not p.startswith("!")))
        self._excluded = _matchers(tuple(p[1:] for p in self.patterns if p.startswith("!")))

    def __reduce__(self) -> tuple[type["Globs"], tuple[tuple[str, ...]]]:
        """Let another process compile them anew."""
        return Globs, (self.patterns,)

    def __call__(self, name: str) -> bool:
        """Tell whether `name` is chosen."""
        if self.is_open:
            return True
        if any(matches(name) for matches in self._excluded):
            return False
        return not self._included or any(matches(name) for matches in self._included)

    def deciding(self, name: str) -> str | None:
        """Return the pattern that decides on `name`: one that excludes it, else the first that includes it."""
        excluding = (p for p in self.patterns if p.startswith("!") and matcher(p[1:])(name))
        including = (p for p in self.patterns if not p.startswith("!") and matcher(p)(name))
        return next(excluding, None) or next(including, None)


def is_expression(pattern: str) -> bool:
    """Tell whether `pattern` is a regular expression rather than a glob."""
    return len(pattern) > 1 and pattern[0] == pattern[-1] == "/"


def is_plain(pattern: str) -> bool:
    """Tell whether `pattern` (without !) is a name."""
    return not is_expression(pattern) and not re.search(r"[*?\[]", pattern)


def matcher(pattern: str) -> Matches:
    """Compile one pattern (without !); a regular expression matches anywhere unless it says ^ or $."""
    if not is_expression(pattern):
        return re.compile(translate(pattern)).fullmatch
    return _expression(pattern)


def _expression(pattern: str) -> Matches:
    """Compile a regular expression with RE2, which never goes back: strangers choose the names that it is put to."""
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(pattern[1:-1], options=options).search
    except (re2.error, UnicodeError) as error:
        problem = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise ConfigError(
            f"{pattern!r} is not a regular expression that RE2 knows (it has no look-around and no references back): {problem}"
        ) from error
    # RE2 takes UTF-8, in which half a character cannot be written.
    return lambda name: search(name.encode("utf-8", "replace").decode())


@lru_cache(maxsize=4096)
def _matchers(patterns: tuple[str, ...]) -> Sequence[Matches]:
    """Return what matches any of `patterns`; all globs are one expression."""
    globs = "|".join(translate(pattern) for pattern in patterns if not is_expression(pattern))
    expressions = [matcher(pattern) for pattern in patterns if is_expression(pattern)]
    return [re.compile(globs).fullmatch, *expressions] if globs else expressions
