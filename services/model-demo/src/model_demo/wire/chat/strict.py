"""What strict structured output asks of a schema (platform.openai.com, structured outputs)."""

from typing import Any

from model_demo.wire.chat.errors import InvalidRequestError

_REFUSED = ("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf")


def check(name: str, schema: dict[str, Any]) -> None:
    """Raises InvalidRequestError for open objects, fields that may be left out, keywords not taken."""
    if schema.get("type") != "object":
        raise _invalid(name, (), 'schema must be of type "object"')
    _check(name, schema, ())


def _check(name: str, schema: Any, path: tuple[str, ...]) -> None:
    if not isinstance(schema, dict):
        raise _invalid(name, path, "schema must be an object")
    for keyword in _REFUSED:
        if keyword in schema:
            raise _invalid(name, path, f"'{keyword}' is not permitted")
    if "object" in _kinds(schema):
        _check_object(name, schema, path)
    for group in ("properties", "$defs"):
        for key, inner in schema.get(group, {}).items():
            _check(name, inner, (*path, group, key))
    if "items" in schema:
        _check(name, schema["items"], (*path, "items"))
    for place, inner in enumerate(schema.get("anyOf", ())):
        _check(name, inner, (*path, "anyOf", str(place)))


def _check_object(name: str, schema: dict[str, Any], path: tuple[str, ...]) -> None:
    if schema.get("additionalProperties") is not False:
        raise _invalid(name, path, "'additionalProperties' is required to be supplied and to be false")
    missing = set(schema.get("properties", {})) - set(schema.get("required", ()))
    if missing:
        raise _invalid(
            name,
            path,
            "'required' is required to be supplied and to be an array including every key in properties."
            f" Missing '{min(missing)}'",
        )


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def _invalid(name: str, path: tuple[str, ...], problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Invalid schema for response_format '{name}': In context={path}, {problem}.", "response_format"
    )
