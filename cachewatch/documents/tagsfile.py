"""Read and write `_data/tags.yaml`, which says what stacks each tag has."""

import json
import re
from collections.abc import Collection, Mapping

from cachewatch.core.spack_spellings import UNION_STACK
from cachewatch.core.tag_names import in_order
from cachewatch.documents.yamltext import load_yaml
from cachewatch.errors import UnreadableDocument

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._+@-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"}


def read_tags_file(data: bytes) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag; a file that cannot be read says nothing about any."""
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
    """Write the file: the tags in the catalogue's order, and the stacks of each with the union."""
    lines = []
    for tag in in_order(stacks):
        lines.append(f"- name: {_scalar(tag)}\n  stacks:\n")
        lines += [f"  - {_scalar(stack)}\n" for stack in sorted({*stacks[tag], UNION_STACK})]
    return "".join(lines).encode()


def _scalar(name: str) -> str:
    """Spell a name so that YAML takes it for text, whatever it looks like."""
    return name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else json.dumps(name)
