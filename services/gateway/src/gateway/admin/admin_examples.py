"""Examples of what the admin API takes and gives, made from the types."""

from typing import Any

import msgspec

from contracts.examples import TRACE

_ID = "0192f0c1-7d10-7abc-8def-000000000001"
_AT = "2026-11-21T09:30:00.123456Z"

# By the names of fields; others have their default, or the least that their type allows.
_WORDS: dict[str, Any] = {
    "action": "change",
    "actor": "admin-api",
    "agent_id": _ID,
    "after": {"name": "Pro", "concurrent_runs": 20},
    "before": {"name": "Pro", "concurrent_runs": 10},
    "allowed_tools": ["find_orders"],
    "day": "2026-11-21",
    "header_names": ["Authorization"],
    "headers": {"Authorization": "Bearer <token>"},
    "id": _ID,
    "key": "sk-ac-<43 characters>",
    "kind": "markdown",
    "language": "english",
    "last4": "x9Qz",
    "model": "claude-sonnet-5-5",
    "month": "2026-11",
    "name": "Acme",
    "outcome": "added",
    "plan": "Pro",
    "provider": "anthropic",
    "provider_key": "<provider key>",
    "source_type": "markdown",
    "subject": "Pro",
    "system_prompt": "Answer briefly.",
    "text": "# Returns\n\nGoods may be returned within thirty days.",
    "snippet": "Goods may be returned within thirty days.",
    "title": "Returns",
    "trace_id": TRACE,
    "url": "https://shop.example/mcp",
    "versions": {"12": 95, "13": 5},
}


def example_of(kind: type) -> Any:
    """A value of this type, as JSON has it."""
    (schema,), schemas = msgspec.json.schema_components([kind])
    return _fitting(schema, schemas)


def _fitting(schema: dict[str, Any], schemas: dict[str, Any], name: str = "") -> Any:
    """A value that fits: of an object what it must have, or its first two members where that is nothing."""
    if "$ref" in schema:
        return _fitting(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        names = schema.get("required") or [*schema["properties"]][:2]
        return {each: _fitting(schema["properties"][each], schemas, each) for each in names}
    word = _WORDS.get(name)
    if word is not None and _fits(word, schema):
        return word
    if "anyOf" in schema:
        return _fitting(schema["anyOf"][0], schemas, name)
    if "default" in schema or "enum" in schema:
        return schema.get("default", schema.get("enum", [None])[0])
    if kind == "array":
        return [_fitting(schema["items"], schemas)] if schema.get("items") else []
    return _plain(schema, name)


def _fits(word: Any, schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return (kind is None or isinstance(word, _TYPES.get(kind, object))) and word in schema.get("enum", [word])


def _plain(schema: dict[str, Any], name: str) -> Any:
    match schema.get("type"):
        case "string":
            return _AT if name.endswith("_at") else _ID if name.endswith("_id") else "text"
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "object":
            return {}
        case _:
            return None


_TYPES: dict[str, type] = {
    "string": str,
    "array": list,
    "object": dict,
    "integer": int,
    "number": int,
    "boolean": bool,
}
