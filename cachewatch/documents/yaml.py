"""Read front matter as YAML or as careful JSON, where the fast parser gives up; read and write `_data/tags.yaml`.

PyYAML's C composer recurses and crashes on a deeply nested document, so its events are checked first: they come
one by one without recursion. All scalars stay text as written: 1.10 is a version, not a number.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import yaml

from cachewatch.core.names import in_order
from cachewatch.core.spack import UNION_STACK
from cachewatch.documents.frontmatter import MAX_EVENTS, MAX_PATIENT_BYTES, FrontMatter, front_lines
from cachewatch.errors import UnreadableDocument

_MAX_DEPTH = 64
_MANY_KEYS = 1_000  # documents have ten, and each costs as much as a small document
# The start of a key's first line; all other lines continue a value. In quotes, only our keys count: members of broken
# JSON look like keys, too.
_KEY = re.compile(r"""(?:([\w.-]+)|(["'])(title|layout|categories|meta|spec_details)\2) *:(?= |$)""")
_COMMENT = re.compile("^#.*", re.MULTILINE)
_TOO_MUCH = f"is not written as the generator writes documents; of such the limit is {MAX_PATIENT_BYTES // 2**20} MiB"
_NOT_NUMBERS = {"nan", ".nan", "infinity", "-infinity", "inf", ".inf", "-.inf", "+.inf"}


class _TextLoader(yaml.CSafeLoader):
    """The safe loader of PyYAML, but every scalar stays a text."""


_TextLoader.yaml_implicit_resolvers = {}


def read_yaml(data: bytes) -> FrontMatter:
    """Read the front matter of `data`, in any form; raise UnreadableDocument with the reason if it cannot be read."""
    if len(data) > MAX_PATIENT_BYTES:
        raise UnreadableDocument(_TOO_MUCH)
    lines = front_lines(data)
    values = _values_by_key(lines)
    if values is None:
        values = load_yaml("\n".join(lines))
    if not isinstance(values, dict):
        raise UnreadableDocument("the front matter is not a mapping")
    _refuse_bad_text(values)
    categories = values.get("categories")
    return FrontMatter(
        title=str(values.get("title", "")),
        tag=str(categories[1]) if isinstance(categories, list) and len(categories) > 1 else "",
        details=values.get("spec_details"),
        meta=values.get("meta"),
        is_legacy="spec_files" in values,
    )


def load_yaml(text: str) -> Any:
    """Load untrusted YAML; refuse anchors, aliases, tags, repeated keys, great depth and size with UnreadableDocument."""
    if len(text) > MAX_PATIENT_BYTES:
        raise UnreadableDocument(_TOO_MUCH)
    try:
        _check_events(text)
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506  a subclass of the safe loader
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 2}, column {mark.column + 1})" if mark else ""
        raise UnreadableDocument(f"cannot be read as YAML: {problem}{where}") from error


def _values_by_key(lines: list[str]) -> dict[str, Any] | None:
    """Read the value of each key from its own lines, if possible as JSON.

    None if the lines cannot be assigned to keys without parsing YAML as a whole.
    """
    texts: list[list[str]] = []
    for line in lines:
        if _KEY.match(line):
            texts.append([line])
        elif texts:
            texts[-1].append(line)
        elif line and not line.isspace() and not line.startswith("#"):
            return None
    if len(texts) > _MANY_KEYS:
        return None
    values: dict[str, Any] = {}
    for text in map("\n".join, texts):
        key = _KEY.match(text)
        found = _value(key[1] or key[3], text[key.end() :].strip(" "), text) if key else None
        if found is None:
            return None
        for name in values.keys() & found.keys():
            raise UnreadableDocument(f"the key {name!r} stands twice")
        values |= found
    return values


def _value(name: str, value: str, text: str) -> dict[str, Any] | None:
    """Return a mapping of key `name` to its value; None if `text`, all lines of the key, is no mapping in YAML."""
    if value.startswith(("{", "[")):
        value = _COMMENT.sub("", value)
    if name == "meta" and value.startswith("{"):
        return {name: value}  # its errors do not make the document unreadable: parsing.py reports them
    try:
        if value.startswith(("{", "[")):
            how: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": str, "parse_int": str}
            return {name: json.loads(value, object_pairs_hook=_unique, **how)}
    except RecursionError as error:
        raise UnreadableDocument("is nested too deeply") from error
    except json.JSONDecodeError:
        pass
    try:
        found = load_yaml(text)
    except UnreadableDocument:
        return None
    return found if isinstance(found, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise UnreadableDocument(f"the key {twice[:60]!r} stands twice in one record")
    return mapping


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableDocument(f"holds {name}, which is not a number that JSON knows")


def _check_events(text: str) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if number > MAX_EVENTS:
            raise UnreadableDocument(f"holds more than {MAX_EVENTS:,} values in YAML, which no document does")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UnreadableDocument("uses YAML anchors or aliases, which no document needs")
        if tag := getattr(event, "tag", None):
            raise UnreadableDocument(f"uses the YAML tag {tag}, which no document needs")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise UnreadableDocument(f"is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value.lower() in _NOT_NUMBERS:
            raise UnreadableDocument(f"holds {event.value}, which is not a number that JSON knows")


def _construct_unique(loader: _TextLoader, node: yaml.MappingNode) -> dict[str, Any]:
    pairs = [
        (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
        for key, value in node.value
    ]
    if not all(isinstance(name, str) for name, _ in pairs):
        raise UnreadableDocument("has a key that is not text")
    return _unique(pairs)


_TextLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_unique)


def _refuse_bad_text(value: Any) -> None:
    """Raise UnreadableDocument if a text in `value` has lone surrogates, which cannot be stored or shown."""
    waiting: list[Any] = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += [*found.keys(), *found.values()]
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, str) and any("\ud800" <= character <= "\udfff" for character in found):
            raise UnreadableDocument("holds half a character (a lone surrogate)")


def read_tags_file(data: bytes) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag from the text of a tags file; empty if it cannot be read."""
    try:
        listed = load_yaml(data.decode("utf-8", "replace"))
    except UnreadableDocument:
        return {}
    if isinstance(listed, dict):
        listed = listed.get("tags")
    if not isinstance(listed, list):
        return {}
    return {
        entry["name"]: frozenset(map(str, entry["stacks"])) - {UNION_STACK}
        for entry in listed
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("stacks"), list)
    }


def write_tags_file(stacks: Mapping[str, Collection[str]]) -> bytes:
    """Return the text of a tags file: the tags in the catalogue's order, each with its stacks and the union stack."""
    listed = [{"name": tag, "stacks": sorted({*stacks[tag], UNION_STACK})} for tag in in_order(stacks)]
    return yaml.safe_dump(listed, sort_keys=False, width=1000).encode() if listed else b""
