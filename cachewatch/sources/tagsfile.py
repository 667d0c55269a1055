"""Read `_data/tags.yaml`, which says what stacks each tag has."""

from collections.abc import Mapping

from cachewatch.spelling import UNION_STACK


def read_tags_file(data: bytes) -> Mapping[str, frozenset[str]]:
    """Return the stacks of each tag; a file that cannot be read says nothing about any."""
    from cachewatch.documents.yamltext import load_yaml  # noqa: PLC0415  few comparisons ask
    from cachewatch.errors import UnreadableDocument  # noqa: PLC0415

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
