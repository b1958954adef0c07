"""Translate a JSON Schema into the form of structured output; the rest goes into descriptions.

Objects are closed, references local and not recursive, numbers and lengths unbounded (platform.claude.com,
structured outputs, JSON Schema limitations; OpenAI's form is narrower: `openai.client.to_strict_schema`). A
reply is validated against the original schema all the same.
"""

from typing import Any
from urllib.parse import unquote

import msgspec

Schema = dict[str, Any]

_KEPT = ("title", "enum", "const", "default")
_SCALAR = (str, int, float, bool, type(None))
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri"}) | frozenset(
    {"ipv4", "ipv6", "uuid"}
)
_HEADS = frozenset({"$schema", "$comment", "examples", "description", "$defs", "definitions", "$ref"})
_HINT_CHARS = 500


class _Inexpressible(Exception):  # noqa: N818 - a property of the schema
    """Structured output has no form for this schema that permits all valid replies."""


def to_output_format(schema: Schema) -> Schema | None:
    """Return the schema as `output_config.format.schema`, or None if it has no such form.

    None for objects with keys of any name, values of any kind, combinations with `allOf`, and recursive
    schemas.
    """
    try:
        return _Translation(schema).translate()
    except _Inexpressible:
        return None


class _Translation:
    """The translation of one schema. `_open` are the references being followed."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._definitions: dict[str, Schema] = {}
        self._names: dict[str, str] = {}
        self._open: set[str] = set()

    def translate(self) -> Schema:
        found = self._translate(self._schema)
        return found | ({"$defs": self._definitions} if self._definitions else {})

    def _translate(self, schema: Any) -> Schema:
        if not isinstance(schema, dict):
            raise _Inexpressible
        if "$ref" in schema:
            return {"$ref": self._define_reference(schema["$ref"])}
        schema = _merge_single_all_of(schema)
        found: Schema = {}
        described = dict(schema)
        for keyword in _HEADS:
            described.pop(keyword, None)
        self._take_kind(schema, found, described)
        _take_scalars(schema, found, described)
        if not found:
            raise _Inexpressible
        description = _build_description(schema.get("description"), described)
        return found | ({"description": description} if description else {})

    def _take_kind(self, schema: Schema, found: Schema, described: Schema) -> None:
        """Translate the type, or the alternatives."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                found["anyOf"] = [self._translate(one) for one in described.pop(keyword)]
                return
        kinds = schema.get("type", "object" if "properties" in schema else None)
        if kinds is None:
            return
        described.pop("type", None)
        found["type"] = kinds
        names = [kinds] if isinstance(kinds, str) else kinds
        if "object" in names:
            self._take_object(found, described)
        if "array" in names:
            self._take_array(schema, found, described)
        if "string" in names and schema.get("format") in _FORMATS:
            found["format"] = described.pop("format")

    def _take_object(self, found: Schema, described: Schema) -> None:
        properties = described.pop("properties", {})
        if not properties and described.get("additionalProperties") is not False:
            raise _Inexpressible
        required = described.pop("required", [])
        if not set(required) <= properties.keys():
            raise _Inexpressible
        described.pop("additionalProperties", None)
        found["properties"] = {name: self._translate(one) for name, one in properties.items()}
        found["additionalProperties"] = False
        found["required"] = required

    def _take_array(self, schema: Schema, found: Schema, described: Schema) -> None:
        if "items" not in schema:
            raise _Inexpressible
        found["items"] = self._translate(described.pop("items"))
        if schema.get("minItems") in (0, 1):
            found["minItems"] = described.pop("minItems")

    def _define_reference(self, target: str) -> str:
        """Return a reference to a definition of our own for `target`."""
        if target in self._open:
            raise _Inexpressible
        if target not in self._names:
            name = self._names[target] = f"definition_{len(self._names) + 1}"
            self._open.add(target)
            self._definitions[name] = self._translate(_resolve(target, self._schema))
            self._open.discard(target)
        return f"#/$defs/{self._names[target]}"


def _merge_single_all_of(schema: Schema) -> Schema:
    """Replace `allOf` of one schema, which generators write around a reference, by that schema."""
    if "allOf" not in schema:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "allOf"}
    if len(schema["allOf"]) != 1 or not isinstance(schema["allOf"][0], dict) or "$ref" in schema["allOf"][0]:
        raise _Inexpressible
    return schema["allOf"][0] | rest


def _take_scalars(schema: Schema, found: Schema, described: Schema) -> None:
    for keyword in _KEPT:
        if keyword not in schema:
            continue
        values = schema[keyword] if keyword == "enum" else [schema[keyword]]
        if all(isinstance(value, _SCALAR) for value in values):
            found[keyword] = described.pop(keyword)


def _build_description(description: Any, described: Schema) -> str:
    """Append the constraints that structured output has no form for to the description."""
    parts = [description] if isinstance(description, str) else []
    if described:
        hint = msgspec.json.encode(described).decode()
        parts.append(hint if len(hint) <= _HINT_CHARS else ", ".join(described))
    return "\n\n".join(parts)


def _resolve(reference: str, root: Schema) -> Any:
    """Return the target of a local reference, which was checked when the schema was saved."""
    place: Any = root
    for token in reference.split("/")[1:]:
        key = unquote(token).replace("~1", "/").replace("~0", "~")
        place = place[int(key)] if isinstance(place, list) else place[key]
    return place
