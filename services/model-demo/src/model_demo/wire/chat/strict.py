"""What strict structured output asks of a schema (platform.openai.com, structured outputs)."""

from collections.abc import Iterator
from typing import Any

from model_demo.wire.errors import invalid
from model_demo.wire.requests import Schema

_REFUSED = ("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf")
_REQUIRED = "'required' is required to be supplied and to be an array including every key in properties"


def check(name: str, schema: Schema) -> None:
    """Raises ApiError 400 for open objects, fields that may be left out, keywords not taken."""
    closed = schema.get("type") == "object"
    for path, problem in _problems(schema, ()) if closed else [((), 'schema must be of type "object"')]:
        said = f"Invalid schema for response_format '{name}': In context={path}, {problem}."
        raise invalid(said, "response_format")


def _problems(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(schema, dict):
        yield path, "schema must be an object"
        return
    yield from ((path, f"'{keyword}' is not permitted") for keyword in _REFUSED if keyword in schema)
    properties = schema.get("properties", {})
    if "object" in (schema.get("type"), *schema.get("type", ())):
        if schema.get("additionalProperties") is not False:
            yield path, "'additionalProperties' is required to be supplied and to be false"
        for key in sorted(set(properties) - set(schema.get("required", ()))):
            yield path, f"{_REQUIRED}. Missing '{key}'"
    inner = [("properties", key, one) for key, one in properties.items()]
    inner += [("$defs", key, one) for key, one in schema.get("$defs", {}).items()]
    inner += [("anyOf", str(index), one) for index, one in enumerate(schema.get("anyOf", ()))]
    inner += [("items", "", schema["items"])] if "items" in schema else []
    for group, key, one in inner:
        yield from _problems(one, (*path, group, *filter(None, [key])))
