"""Build the smallest value that a JSON schema allows."""

from typing import Any
from urllib.parse import unquote

from agentchat.model_demo.model_request import Schema

_MOST_DEPTH = 24
_FORMATS = {"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "email": "ada@example.com"}
_SPEAKING = {"answer", "reply", "response", "message", "text", "summary", "content", "result", "description"}


def resolve(schema: Any, root: Schema, depth: int = 0) -> Schema:
    """Follow `$ref` and the first non-null branch of `anyOf` or `oneOf`.

    `type` is one type or None.
    """
    found: Schema = dict(schema) if isinstance(schema, dict) else {}
    linked = [each for name in ("anyOf", "oneOf") for each in found.get(name, ()) if each != {"type": "null"}]
    if "$ref" in found:
        target: Any = root
        for token in str(found["$ref"]).split("/")[1:]:
            step = unquote(token).replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        linked = [target]
    if linked and depth < _MOST_DEPTH:
        found = resolve(linked[0], root, depth + 1) | found
    kind = found.get("type", "object" if "properties" in found else None)
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    return found | {"type": kind}


def list_choices(schema: Schema) -> list[Any]:
    """Return the values that the schema lists."""
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def build_smallest(schema: Any, root: Schema, text: str, name: str = "", depth: int = 0) -> Any:
    """Return the smallest valid value; `text` fills fields named answer, text and the like."""
    found = resolve(schema, root)
    shown = [
        *list_choices(found),
        *found.get("examples", []),
        *([found["default"]] if "default" in found else []),
    ]
    if shown:
        return shown[0]
    match found["type"]:
        case "object" if depth <= _MOST_DEPTH:
            return complete({}, found, root, text, depth)
        case "array":
            least = found.get("minItems", 0) if depth <= _MOST_DEPTH else 0
            return [build_smallest(found.get("items"), root, text, name, depth + 1) for _ in range(least)]
        case "integer" | "number":
            return min(max(0, found.get("minimum", 0)), found.get("maximum", float("inf")))
        case "boolean":
            return False
        case "string":
            speaks = name.rpartition("_")[2].lower() in _SPEAKING
            value: str = _FORMATS.get(found.get("format", ""), text if speaks else name.replace("_", " "))
            return value.ljust(found.get("minLength", 0), ".")[: found.get("maxLength")]
    return None


def complete(
    given: dict[str, Any], schema: Schema, root: Schema, text: str, depth: int = 0
) -> dict[str, Any]:
    """Add the smallest values of the missing required properties."""
    properties = schema.get("properties", {})
    needed = [name for name in schema.get("required", ()) if name not in given]
    return given | {
        name: build_smallest(properties.get(name), root, text, name, depth + 1) for name in needed
    }
