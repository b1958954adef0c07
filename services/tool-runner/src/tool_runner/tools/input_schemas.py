"""Input schemas of strangers, made fit for the model provider, which refuses a complete request for one of
them.

It takes JSON Schema draft 2020-12 with an object at the root, no combination there, and property names of a
certain form. Keywords in the form of older drafts are rewritten or left out: the server still validates.
Sources: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview and the API's own errors;
https://json-schema.org/draft/2020-12/schema.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from contracts.text import cleaned_json

MAX_BYTES = 64 * 1024
_DEPTH = 24
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_TYPES = {"null", "boolean", "object", "array", "number", "string", "integer"}

Schema = dict[str, Any]


class UnfitSchema(Exception):  # noqa: N818 - an outcome
    """The schema cannot be offered to a model; the text says why."""


def normalized(schema: Schema) -> Schema:
    """`schema` as the provider takes it. Raises UnfitSchema."""
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnfitSchema("its input is not an object")
    root = _flattened({key: value for key, value in schema.items() if key not in ("$schema", "$id")})
    found = _normalized(root, _DEPTH)
    assert isinstance(found, dict)
    found = _local(found, found) | {"type": "object"}
    found["properties"] = _named(found)
    if not found.get("required", True):
        del found["required"]
    result: Schema = cleaned_json(found)
    if len(msgspec.json.encode(result)) > MAX_BYTES:
        raise UnfitSchema("its schema is larger than 64 KiB")
    return result


def _flattened(root: Schema) -> Schema:
    """The combinations at the root as one object, with what any branch knows; what they require is lost."""
    merged = {key: value for key, value in root.items() if key not in ("allOf", "anyOf", "oneOf")}
    properties = dict(_object(root.get("properties")))
    required = list(_list(root.get("required")))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for branch in map(_object, _list(root.get(keyword))):
            for name, value in _object(branch.get("properties")).items():
                properties.setdefault(name, value)
            if keyword == "allOf":
                required += _list(branch.get("required"))
    merged["properties"] = properties
    if required:
        merged["required"] = required
    return merged


def _named(found: Schema) -> Schema:
    """The root's properties whose names the provider takes. Raises UnfitSchema where a required one has to
    go.
    """
    properties: Schema = found.get("properties", {})
    bad = [name for name in properties if not _PROPERTY.match(name)]
    for name in bad:
        if name in found.get("required", ()):
            raise UnfitSchema(f"a required property has an unusable name: {name[:80]}")
    return {name: value for name, value in properties.items() if name not in bad}


def _normalized(schema: Any, depth: int) -> Schema | bool:
    """One schema and those within it, without the keywords that draft 2020-12 does not take as they are."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        return {}
    if depth == 0:
        raise UnfitSchema(f"its schema is nested deeper than {_DEPTH}")
    found: Schema = {}
    for keyword, value in schema.items():
        if keyword == "items" and isinstance(value, list):
            keyword = "prefixItems"
        if keyword in _SCHEMA:
            if isinstance(value, dict | bool):
                found[keyword] = _normalized(value, depth - 1)
        elif keyword in _SCHEMAS:
            if isinstance(value, list) and value:
                found[keyword] = [_normalized(item, depth - 1) for item in value]
        elif keyword in _SCHEMA_MAPS:
            found[keyword] = {name: _normalized(item, depth - 1) for name, item in _object(value).items()}
        elif keyword not in _FORMS or _FORMS[keyword](value):
            found[keyword] = value
    return found


def _local(schema: Any, root: Schema) -> Any:
    """Without references that lead out of the document or nowhere."""
    if isinstance(schema, list):
        return [_local(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _local(value, root)
        for key, value in schema.items()
        if not (key == "$ref" and isinstance(value, str) and not _leads_somewhere(value, root))
    }


def _leads_somewhere(reference: str, root: Schema) -> bool:
    if not reference.startswith("#"):
        return False
    place: Any = root
    for token in filter(None, reference[1:].split("/")):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return False
    return isinstance(place, dict | bool)


def _object(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and _is_texts(value) and set(value) <= _TYPES
    return isinstance(value, str) and value in _TYPES


def _is_text_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_texts, value.values()))


def _is_full_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_SCHEMA = {
    *("additionalProperties", "items", "contains", "not", "if", "then", "else"),
    *("propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
}
_SCHEMAS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_SCHEMA_MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_FORMS: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": _is_full_list,
    "examples": lambda value: isinstance(value, list),
    "required": _is_texts,
    "dependentRequired": _is_text_lists,
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment", "$ref"), _is_text),
    **dict.fromkeys(("contentMediaType", "contentEncoding"), _is_text),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), _is_flag),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains"), _is_count),
    **dict.fromkeys(("maxContains", "minProperties", "maxProperties"), _is_count),
    # References by name need an anchor's scope, which a tool's schema has no use for.
    **dict.fromkeys(("$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor"), lambda _: False),
    **dict.fromkeys(("$vocabulary", "$recursiveRef", "additionalItems", "dependencies"), lambda _: False),
}
