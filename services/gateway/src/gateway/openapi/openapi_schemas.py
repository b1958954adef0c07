"""The components: JSON Schemas of the types, with what their Python types cannot say."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from contracts import errors, http
from gateway.chat.chat_body import MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES

FORM1 = (http.MetaEvent, http.SourcesEvent, http.DeltaEvent, http.DoneEvent, http.ErrorEvent)
FORM2 = (http.StartEvent, http.DeltaEvent, http.ToolCallEvent, http.MessageDoneEvent, http.ErrorEvent)
TYPES: tuple[type, ...] = (*FORM1, *(event for event in FORM2 if event not in FORM1))

_UUID = {"format": "uuid"}
_TIME = {"format": "date-time"}
_TRACE = {"pattern": "^[0-9a-f]{32}$"}
_CODE = {"enum": [*errors.ERRORS]}
# By the name of the property, where it is no number.
_READ = {
    "conversation_id": _UUID,
    "agent_id": _UUID,
    "trace_id": _TRACE,
    "created_at": _TIME,
    "updated_at": _TIME,
}
_SAID: dict[tuple[str, str], dict[str, Any]] = {
    # At least one character that is no white space, and not only of those that Python alone counts as such.
    ("ChatBody", "message"): {
        "minLength": 1,
        "maxLength": MAX_MESSAGE_BYTES,
        "pattern": "[^\\s\\x1c-\\x1f\\x85]",
        "description": f"Not blank; at most {MAX_MESSAGE_BYTES} bytes of UTF-8, or as many as the plan says.",
        "examples": ["Where is my order ORD-1001?"],
    },
    ("ChatBody", "conversation_id"): {
        "description": "The conversation to go on with; absent or null starts a new one.",
    },
    ("ChatBody", "prompt"): {
        "maxLength": MAX_PROMPT_BYTES,
        "description": "Takes the place of the agent's system prompt for this request only; at most "
        f"{MAX_PROMPT_BYTES} bytes of UTF-8.",
    },
    ("Problem", "code"): _CODE,
    ("ErrorEvent", "code"): _CODE,
    ("Message", "id"): _UUID,
    ("MessageRow", "id"): _UUID,
    ("Message", "token_count"): {
        "minimum": 0,
        "description": "All tokens of every model call of the request.",
    },
    ("ToolCall", "output"): {
        "contentMediaType": "application/json",
        "description": "A string that parses as JSON.",
    },
    ("Source", "index"): {"minimum": 1},
}


def ref(name: str) -> dict[str, Any]:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def referred(described: Any, types: dict[type, None]) -> Any:
    """A part of the document with a reference for each type in it, which is added to `types`."""
    match described:
        case type():
            types[described] = None
            return ref(described.__name__)
        case dict():
            return {name: referred(value, types) for name, value in described.items()}
        case list() | tuple():
            return [referred(value, types) for value in described]
        case _:
            return described


def page_of(item: Any) -> dict[str, Any]:
    """The schema of a page of `item`."""
    return {
        "type": "object",
        "required": ["data", "next_cursor"],
        "properties": {
            "data": {"type": "array", "items": item},
            "next_cursor": {"type": ["string", "null"], "description": "Null on the last page."},
        },
    }


def components(types: Iterable[type]) -> dict[str, Any]:
    """Every component by its name."""
    _, found = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    for name, schema in found.items():
        for field, property_ in schema.get("properties", {}).items():
            if property_.get("type") != "integer":
                property_ |= _READ.get(field, {})
            property_ |= _SAID.get((name, field), {})
    for schema in found.values():
        _for_generators(schema)
    found["EventOfForm1"] = _events("The JSON of one event of a stream in form 1.", FORM1)
    found["EventOfForm2"] = _events("The JSON of one event of a stream in form 2.", FORM2)
    return dict(sorted(found.items()))


def _for_generators(schema: dict[str, Any]) -> None:
    """Change a schema so that generated clients have what it means.

    Some generators refuse an array without `items`, and take a property with a `default` for a required one.
    """
    if schema.get("type") == "array" and "prefixItems" not in schema:
        schema.setdefault("items", {})
    for property_ in schema.get("properties", {}).values():
        default = property_.pop("default", None)
        if default not in (None, [], {}):
            text = f"{property_.get('description', '')} Default: `{json.dumps(default)}`."
            property_["description"] = text.strip()
    for inner in _inner(schema):
        _for_generators(inner)


def _inner(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from schema.get("properties", {}).values()
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(name, ())
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name]


def _events(description: str, form: tuple[type[http.StreamEvent], ...]) -> dict[str, Any]:
    names = {str(kind.__struct_config__.tag): ref(kind.__name__) for kind in form}
    mapping = {tag: each["$ref"] for tag, each in names.items()}
    return {
        "description": description,
        "oneOf": [*names.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


EVENT: dict[str, Any] = {
    "description": "One event: one line of JSON. Lines that begin with a colon are to be ignored.",
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [ref("EventOfForm1"), ref("EventOfForm2")]},
        }
    },
}
"""The schema of a stream of ours, event by event."""
