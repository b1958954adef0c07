"""JSON Schemas (2020-12) of the argument and result types, in the shape that MCP clients expect."""

from typing import Any

import msgspec


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema with the object itself at the root, as MCP requires, and `$defs` for nested types."""
    schema = msgspec.json.schema(kind)
    definitions: dict[str, Any] = schema.pop("$defs")
    for definition in definitions.values():
        del definition["title"]  # the name of a Python class, which tells a model nothing
    root: dict[str, Any] = definitions.pop(schema["$ref"].rpartition("/")[2])
    if definitions:
        root["$defs"] = definitions
    _type_enums(root)
    return root


def _type_enums(node: Any) -> None:
    """Add the type to each enum, in place: some model providers refuse an enum without one."""
    if isinstance(node, list):
        for part in node:
            _type_enums(part)
    elif isinstance(node, dict):
        if "enum" in node and all(isinstance(choice, str) for choice in node["enum"]):
            node["type"] = "string"
        for part in node.values():
            _type_enums(part)
