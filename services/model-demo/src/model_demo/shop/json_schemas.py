"""JSON schemas: made simple to read, and the smallest value that fits one."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from model_demo.wire.requests import Schema

_MOST_DEPTH = 24
_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_SPEAKING = {"answer", "reply", "response", "message", "text", "summary", "content", "result", "description"}


def simple(schema: Any, root: Schema) -> Schema:
    """The schema with `$ref` and `allOf` followed, of `anyOf` and `oneOf` the first that is not null."""
    found: Schema = {"properties": {}, "required": []}
    for part in _parts(schema, root, _MOST_DEPTH):
        found["properties"] = part.get("properties", {}) | found["properties"]
        found["required"] = [*found["required"], *part.get("required", ())]
        found = part | found
    kinds = found.get("type", "object" if found["properties"] else None)
    kind = next((kind for kind in kinds if kind != "null"), "null") if isinstance(kinds, list) else kinds
    return found | {"type": kind}


def _parts(schema: Any, root: Schema, depth: int) -> Iterator[Schema]:
    """The schema and those that it is made of."""
    if not isinstance(schema, dict) or depth <= 0:
        return
    yield schema
    found: Any = root
    for step in str(schema.get("$ref", "")).split("/")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    linked = [*schema.get("allOf", ()), *([found] if "$ref" in schema else [])]
    for options in (schema.get("anyOf", ()), schema.get("oneOf", ())):
        linked += [one for one in options if one != {"type": "null"}][:1]
    for one in linked:
        yield from _parts(one, root, depth - 1)


def choices(schema: Schema) -> list[Any]:
    """The values that the schema allows, where it lists them."""
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def smallest(schema: Any, root: Schema, text: str, name: str = "", depth: int = 0) -> Any:
    """The smallest value that fits; `text` fills fields that are called answer, text and the like."""
    found = simple(schema, root)
    shown = [*choices(found), *found.get("examples", []), *([found["default"]] if "default" in found else [])]
    if shown:
        return shown[0]
    match found["type"]:
        case "object":
            return completed({}, found, root, text, depth)
        case "array":
            return _array(found, root, text, name, depth)
        case "integer" | "number" as kind:
            return _number(found, step=found.get("multipleOf", 1 if kind == "integer" else 0))
        case "boolean":
            return False
        case "string":
            speaks = name.rpartition("_")[2].lower() in _SPEAKING
            text = _FORMATS.get(found.get("format", ""), text if speaks else name.replace("_", " "))
            return text.ljust(found.get("minLength", 0), ".")[: found.get("maxLength")]
    return None


def completed(
    given: dict[str, Any], schema: Schema, root: Schema, text: str, depth: int = 0
) -> dict[str, Any]:
    """An object with what is given, and for the other properties that it needs the smallest values."""
    needed = [name for name in schema["required"] if name not in given and depth <= _MOST_DEPTH]
    properties = schema["properties"]
    return given | {name: smallest(properties.get(name), root, text, name, depth + 1) for name in needed}


def _array(schema: Schema, root: Schema, text: str, name: str, depth: int) -> list[Any]:
    item = smallest(schema.get("items"), root, text, name, depth + 1) if depth <= _MOST_DEPTH else None
    least = schema.get("minItems", 0)
    if schema.get("uniqueItems") and isinstance(item, str | int):
        return [item + str(n) if isinstance(item, str) else item + n for n, _ in zip(count(), range(least))]
    return [item] * least


def _number(schema: Schema, step: float) -> float | int:
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    least = schema.get("minimum", None if above is None else above + (step or 1e-3))
    most = schema.get("maximum", None if below is None else below - (step or 1e-3))
    value = max(0, 0 if least is None else least)
    value = value if most is None else min(value, most)
    return value + -value % step if step else value
