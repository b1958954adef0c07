"""Normalize the input schemas of tools for the model provider.

A provider refuses the complete request for one bad schema. It accepts JSON Schema draft 2020-12 with an
object at the root, without a combination there, and with property names of a certain form. A tool whose
schema is invalid, or refers to something outside of it, is left out with a reason. Source:
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview and the API's own errors.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentchat.contracts.text_checks import clean_json

MAX_BYTES = 64 * 1024
_DEPTH = 64
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_UNFIT = re.compile(r"[^a-zA-Z0-9_.-]")

Schema = dict[str, Any]


class UnfitSchema(Exception):  # noqa: N818 - an outcome
    """The schema cannot be offered to a model; the text says why."""


def normalize_schema(schema: Schema) -> Schema:
    """Return `schema` in the form that the provider accepts. Raises UnfitSchema."""
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnfitSchema("its input is not an object")
    references = list(_find_references(schema, _DEPTH))
    kept = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    found: Schema = clean_json(kept)
    if len(msgspec.json.encode(found)) > MAX_BYTES:
        raise UnfitSchema("its schema is larger than 64 KiB")
    found = _convert_tuples(found)
    try:
        Draft202012Validator.check_schema(found)
        resolver = Registry().with_resource("", DRAFT202012.create_resource(found)).resolver()
        for reference in references:
            resolver.lookup(reference)
    except SchemaError as error:
        raise UnfitSchema(f"its schema is not valid: {error.message[:200]}") from None
    except (Unresolvable, ValueError):
        raise UnfitSchema("its schema refers to something that is not in it") from None
    found = _flatten_root(_rename_definitions(found)) | {"type": "object"}
    found["properties"] = _select_properties(found)
    return found


def _find_references(schema: Any, depth: int) -> Iterator[str]:
    """Yield every `$ref`. Raises UnfitSchema if the schema is nested too deeply."""
    if depth == 0:
        raise UnfitSchema(f"its schema is nested deeper than {_DEPTH}")
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"]
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for each in inner:
        yield from _find_references(each, depth - 1)


def _rename_definitions(root: Schema) -> Schema:
    """Give definitions names that need no encoding in a reference: not every provider decodes a reference."""
    names: dict[tuple[str, str], str] = {}
    for keyword in ("$defs", "definitions"):
        definitions = root.get(keyword, {})
        for name in definitions:
            new = name if _PROPERTY.match(name) else f"{_UNFIT.sub('_', name)[:48]}_{len(names)}"
            names[keyword, name] = new
        if definitions:
            root = root | {keyword: {names[keyword, name]: each for name, each in definitions.items()}}
    renamed: Schema = _rename_references(root, names)
    return renamed


def _rename_references(schema: Any, names: dict[tuple[str, str], str]) -> Any:
    if isinstance(schema, list):
        return [_rename_references(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _rename_references(value, names) for key, value in schema.items()}
    tokens = _split_pointer(schema.get("$ref"))
    if len(tokens) > 1 and (new := names.get((tokens[0], tokens[1]))) is not None:
        renamed["$ref"] = "/".join(["#", tokens[0], new, *schema["$ref"].split("/")[3:]])
    return renamed


def _split_pointer(reference: Any) -> list[str]:
    """Return the decoded tokens of a local reference (RFC 6901, as a URI fragment); none for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return []
    return [unquote(token).replace("~1", "/").replace("~0", "~") for token in reference.split("/")[1:]]


def _follow_reference(schema: Any, root: Schema) -> Any:
    """Return what a schema refers to, merged into it; the schema itself without a reference."""
    for _ in range(_DEPTH):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        target: Any = root
        for token in _split_pointer(schema["$ref"]):
            target = target[int(token)] if isinstance(target, list) else target[token]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        if target is root or not isinstance(target, dict):
            return rest
        schema = target | rest
    return schema


def _convert_tuples(schema: Any) -> Any:
    """Rewrite the tuples of older drafts (a list of `items`).

    Their other differences are invalid here.
    """
    if isinstance(schema, list):
        return [_convert_tuples(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        "prefixItems" if key == "items" and isinstance(value, list) else key: _convert_tuples(value)
        for key, value in schema.items()
    }


def _flatten_root(root: Schema) -> Schema:
    """Merge the combinations at the root into one object.

    `required` of `anyOf` and `oneOf` is lost.
    """
    root = _follow_reference(root, root)
    merged = {key: value for key, value in root.items() if key not in ("allOf", "anyOf", "oneOf")}
    properties = dict(root.get("properties", {}))
    required = list(root.get("required", ()))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for branch in (_follow_reference(each, root) for each in root.get(keyword, ())):
            if isinstance(branch, dict):
                properties = branch.get("properties", {}) | properties
                required += branch.get("required", ()) if keyword == "allOf" else ()
    merged["properties"] = properties
    merged.pop("required", None)
    return merged | ({"required": list(dict.fromkeys(required))} if required else {})


def _select_properties(found: Schema) -> Schema:
    """Return the properties whose names the provider accepts.

    Raises:
        UnfitSchema: A required property has another name.
    """
    properties: Schema = found["properties"]
    bad = [name for name in properties if not _PROPERTY.match(name)]
    for name in bad:
        if name in found.get("required", ()):
            raise UnfitSchema(f"a required property has an unusable name: {name[:80]}")
    return {name: value for name, value in properties.items() if name not in bad}
