"""Validate the JSON Schema of an agent's replies when it is saved.

The schema is of draft 2020-12, has an object at its root, and refers only to places within itself. A provider
may enforce only parts of it; the service validates each reply against all of it.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.ecma_patterns import translate_pattern

MAX_BYTES = 64 * 1024
_FIELD = "output_schema"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_BY_NAME = ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary")
_REASON_CHARS = 200
_ONE = frozenset({"additionalProperties", "items", "contains", "not", "if", "then", "else"}) | frozenset(
    {"propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

Schema = dict[str, Any]
Place = tuple[str, Any]


def check_output_schema(schema: Schema) -> None:
    """Check a schema whose depth was checked before.

    Raises:
        Invalid: With the path of the part that is wrong.
    """
    if schema.get("type") != "object":
        raise Invalid(f"{_FIELD}.type", "must be object")
    if len(msgspec.json.encode(schema)) > MAX_BYTES:
        raise Invalid(_FIELD, f"is larger than {MAX_BYTES // 1024} KiB")
    if str(schema.get("$schema", _DRAFT)).rstrip("#") != _DRAFT:
        raise Invalid(f"{_FIELD}.$schema", f"must be {_DRAFT}")
    _check_form(schema)
    schemas = list(_iterate_schemas(_FIELD, schema))
    known = {id(found) for _, found in schemas}
    for path, found in schemas:
        _check_references(path, found, schema, known)
        _check_patterns(path, found)


def _check_form(schema: Schema) -> None:
    # Imported here: it takes a tenth of a second, and most processes save no agent.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    metaschema = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    error = best_match(metaschema.iter_errors(schema))
    if error is not None:
        raise Invalid(_FIELD + error.json_path[1:], error.message[:_REASON_CHARS])


def _check_references(path: str, found: Schema, root: Schema, known: set[int]) -> None:
    for keyword in _BY_NAME:
        if keyword in found:
            raise Invalid(f"{path}.{keyword}", "cannot be used here; refer to #/$defs/... with $ref")
    if "$ref" in found and id(_resolve_pointer(found["$ref"], root)) not in known:
        raise Invalid(f"{path}.$ref", "does not lead to a schema within this one")


def _resolve_pointer(reference: str, root: Schema) -> Any:
    """Return the target of a JSON pointer in a fragment (RFC 6901); None if there is none."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    place: Any = root
    for token in reference.split("/")[1:]:
        key = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict):
            place = place.get(key)
        elif isinstance(place, list) and key.isascii() and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        else:
            return None
    return place


def _check_patterns(path: str, found: Schema) -> None:
    patterns = [(f"{path}.pattern", found["pattern"])] if "pattern" in found else []
    patterns += [(f"{path}.patternProperties", name) for name in found.get("patternProperties", {})]
    for place, pattern in patterns:
        try:
            re.compile(translate_pattern(pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise Invalid(place, f"is not a valid regular expression: {error}") from None


def _iterate_schemas(path: str, schema: Any) -> Iterator[tuple[str, Schema]]:
    """Yield the schema and all schemas within it, with their paths."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for keyword, value in schema.items():
        for place, subschema in _list_subschemas(f"{path}.{keyword}", keyword, value):
            yield from _iterate_schemas(place, subschema)


def _list_subschemas(path: str, keyword: str, value: Any) -> list[Place]:
    if keyword in _ONE:
        return [(path, value)]
    if keyword in _LISTS:
        return [(f"{path}[{number}]", one) for number, one in enumerate(value)]
    if keyword in _MAPS:
        return [(f"{path}.{name}", one) for name, one in value.items()]
    return []
