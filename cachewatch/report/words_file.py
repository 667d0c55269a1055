"""Read the sentences of reports, templates/words.toml; a user's folder may replace each. Jinja2 is not needed."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cachewatch.core.escaping_and_mentions import safe
from cachewatch.core.names_and_layouts import did_you_mean
from cachewatch.errors import TemplateError
from cachewatch.runtime.files_and_locks import read_inside, shipped_template

NAME = "words.toml"
_LONGEST = 2**20  # bytes
_COLOUR = re.compile("#(?:[0-9a-fA-F]{3}){1,2}")
_FIELD = re.compile(r"\{([^{}|]*)(?:\|([^{}|]*))?\}")

Entry = Mapping[str, Any]


class Words:
    """The texts of reports, by entry and key; an entry such as `stack-removed.gone` inherits from `stack-removed`."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.all = entries
        self._values = {(".".join(path), key): value for path, key, value in values_of(entries)}

    def find(self, path: str, key: str) -> Any:
        """Return the value of `key` in the entry `path` or in a parent (`a` of `a.b`); None if there is none."""
        while path and (path, key) not in self._values:
            path = path.rpartition(".")[0]
        return self._values.get((path, key))

    def text(self, path: str, key: str) -> str:
        """Return the text that `find` returns, with unfilled placeholders; "" if there is no text."""
        found = self.find(path, key)
        return found if isinstance(found, str) else ""

    def say(self, path: str, key: str, n: int = 2, **values: object) -> str:
        """Return the text that `find` returns, filled with `values` and `n`; `n` also chooses a word in {is|are}."""
        return fill(self.text(path, key), n, values)

    def forms(self, path: str, key: str, n: int = 2, **values: object) -> list[str]:
        """Return the wordings that `find` returns, filled like `say`, without those that need values not given here."""
        found = self.find(path, key) or ()
        known = {name for name, value in values.items() if value != ""}
        return [fill(one, n, values) for one in found if _fields(one) <= known | {"n"}]


def fill(text: str, n: int, values: Mapping[str, object]) -> str:
    """Return `text` with `values` in place of {name} and `n` in place of {n}; `n` also chooses a word in {is|are}."""

    def field(match: re.Match[str]) -> str:
        name, several = match.groups()
        if several is not None:
            return str(name if n == 1 else several)
        if name == "n":
            return f"{n:,}"
        return str(values.get(name, match[0]))

    return _FIELD.sub(field, text)


def words(folder: Path | None = None) -> Words:
    """Return our texts, replaced by texts in `folder` (None: none). Raises TemplateError if a text there is invalid."""
    if folder is None:
        return _ours()
    own_entries = entries(NAME, folder)
    # A text may only have placeholders that a text of ours under the same key has.
    known: defaultdict[tuple[str, str], set[str]] = defaultdict(lambda: {"n"})
    for path, key, value in values_of(_ours().all):
        known[path[0], key] |= _fields(value)
    for path, key, value in values_of(own_entries):
        for field in _fields(value) - known[path[0], key]:
            table, others = ".".join(path), ", ".join(f"{{{one}}}" for one in sorted(known[path[0], key]))
            raise TemplateError(f"{folder}/{NAME}: `{key}` of [{table}] has no {{{field}}}; it has {others}")
    own = Words(own_entries)
    for kind in own_entries["sections"]:
        if own.find(kind, "heading") != _ours().find(kind, "heading"):
            raise TemplateError(f"{folder}/{NAME}: [{kind}] heading: a digest has the heading `{kind}` of [sections]")
    return own


def entries(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return our entries in the file `name`, replaced by those in `folder`/`name`. Raises TemplateError if invalid."""
    own = tomllib.loads(shipped_template(name) or "")
    try:
        theirs = tomllib.loads(read_inside(folder, name, most=_LONGEST).decode() if folder else "")
    except FileNotFoundError:
        return own
    except (OSError, ValueError) as error:
        raise TemplateError(f"{folder}/{name}: {error}") from error
    _replace(own, theirs, f"{folder}/{name}")
    return own


@cache
def _ours() -> Words:
    return Words(entries(NAME))


def values_of(entry: Entry, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield, for each text or list of texts, its table's path, its key, and the value; `path` is that of `entry`."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from values_of(value, (*path, key))
        else:
            yield path, key, value


def _fields(value: str | list[str]) -> set[str]:
    text = value if isinstance(value, str) else " ".join(value)
    return {match[1] for match in _FIELD.finditer(text) if match[2] is None}


def _replace(own: dict[str, Any], theirs: Entry, where: str, table: tuple[str, ...] = ()) -> None:
    """Replace entries of our table `own` by a user's entries `theirs`; raise TemplateError if an entry is invalid.

    `where` names the user's file for the error, `table` is the path of our table.
    """
    for name, entry in theirs.items():
        if isinstance(entry, dict) and isinstance(own.get(name), dict):
            _replace(own[name], entry, where, (*table, name))
        elif mistake := _mistake(own, name, entry, table):
            raise TemplateError(f"{where}: {mistake}")
        else:
            own[name] = entry


def _mistake(own: Entry, name: str, entry: Any, table: tuple[str, ...]) -> str:
    """Return what is wrong with a user's `entry` for `name` in our table `own`, or ""; `table` is the path of `own`."""
    texts = entry if isinstance(entry, list) else [entry]
    if type(entry) is not type(own.get(name)) or not all(isinstance(one, str) for one in texts):
        inside = f"[{'.'.join(table)}] has" if table else "there is"
        forms: dict[type, str] = {str: "text", list: "list of texts", dict: "table"}
        other = f": it is a {forms[type(own[name])]}" if name in own else did_you_mean(name, own)
        return f"{inside} no entry {safe(name)} of this form{other}"
    if table in (("colors",), ("dark",)):  # of theme.toml
        is_other = isinstance(entry, list) and len(entry) != len(own[name])
        if is_other or not all(map(_COLOUR.fullmatch, texts)):
            return f"[{table[0]}] {name}: is not written like ours, {own[name]!r}"
    return ""
