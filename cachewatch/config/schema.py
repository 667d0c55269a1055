"""The configuration file as JSON Schema, for editors; made of the tables that read it."""

from typing import Any

import msgspec

from cachewatch.config.whole import WHOLE


def json_schema() -> bytes:
    """Return the schema, which ends with a newline."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cachewatch.yaml",
        **WHOLE.schema(),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=1) + b"\n"
