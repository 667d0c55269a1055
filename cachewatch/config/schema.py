"""The configuration file as JSON Schema, for editors; made of the models that read it."""

import msgspec
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from cachewatch.config.base_section import Key, Section, keys_of
from cachewatch.config.model import Config
from cachewatch.config.showing import written

_OF_PYTHON = ("default", "description", "if_left_out", "keys", "required", "title")


def json_schema() -> bytes:
    """Return the schema, which ends with a newline."""
    schema = Config.model_json_schema(schema_generator=_OfFile)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "cachewatch.yaml"}
    return msgspec.json.format(msgspec.json.encode(head | schema), indent=1) + b"\n"


class _OfFile(GenerateJsonSchema):
    """Describes the text of a file, which has no null, instead of the values that it becomes."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Refuse the names that do not match the pattern; pydantic would allow anything under them."""
        found = super().dict_schema(schema)
        ((pattern, values),) = found.pop("patternProperties").items()
        return found | {"propertyNames": {"pattern": pattern}, "additionalProperties": values}

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Let the type say which keys a channel has, so that editors name the one that is wrong."""
        types = {str(name): self.generate_inner(each) for name, each in schema["choices"].items()}
        return {
            "type": "object",
            "properties": {"type": {"enum": list(types)}},
            "required": ["type"],
            "allOf": [
                {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": each}
                for name, each in types.items()
            ],
        }

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Describe each key, also where several keys fill one field."""
        found = super().model_schema(schema)
        found.pop("title", None)
        keys = keys_of(schema["cls"])
        found["properties"] = {name: _property(each, found["properties"]) for name, each in keys.items()}
        found["required"] = [name for name, each in keys.items() if each.is_required]
        return found


def default_of(key: Key) -> str:
    """Say what holds without the key, where anything does."""
    default = key.field.default
    if (
        key.if_left_out
        or key.is_required
        or key.field.is_required()
        or isinstance(default, Section)
        or default in (None, {})
    ):
        return key.if_left_out
    value = [*default] if isinstance(default, tuple) else written(default, key.attribute)
    return f"`[{', '.join(value)}]`" if isinstance(value, list) else f"`{value}`"


def _property(key: Key, properties: dict[str, JsonSchemaValue]) -> JsonSchemaValue:
    if key.is_obsolete:
        return {"deprecated": True}
    form = {word: value for word, value in properties[key.names[0]].items() if word not in _OF_PYTHON}
    default = f" Default: {default}." if (default := default_of(key)) else ""
    return form | {"description": f"{key.about[:1].upper()}{key.about[1:]}.{default}"}
