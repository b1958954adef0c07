"""JSON Schemas of everything on the bus, with an example each; `make site` has them as files.

Readers of events ignore fields that they do not know: a version of an event may get new optional ones.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from contracts import events, examples, frames, messages

JSON = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

TYPES: Mapping[str, Sequence[type[msgspec.Struct]]] = {
    "events": events.EVENTS,
    "frames": frames.FRAMES,
    "messages": messages.MESSAGES,
}
"""What has a schema, by the folder it is in."""

EXAMPLES: Mapping[type[msgspec.Struct], msgspec.Struct] = {
    type(example): example
    for example in (*examples.EVENT_EXAMPLES, *examples.FRAME_EXAMPLES, *examples.MESSAGE_EXAMPLES)
}

_OURS = re.compile(r"\bcontracts\.(?=\w+\.\w+\Z)")


def schema_files() -> dict[str, bytes]:
    """The content of every schema's file, by its path: `events/Delta.json`."""
    return {
        f"{kind}/{cls.__name__}.json": as_text(_schema(kind, cls))
        for kind, classes in TYPES.items()
        for cls in classes
    }


def components(ref_template: str) -> tuple[dict[type[msgspec.Struct], JSON], dict[str, JSON]]:
    """For each type a reference to its schema, and the schemas by name; `{name}` is filled in.

    A name that an event and a frame share has its module before it: `events.Delta`, `frames.Delta`.
    """
    classes = [cls for group in TYPES.values() for cls in group]
    references, schemas = msgspec.json.schema_components(classes, ref_template=ref_template)
    return (
        {cls: _tidy(reference) for cls, reference in zip(classes, references, strict=True)},
        {_OURS.sub("", name): _tidy(schema) for name, schema in schemas.items()},
    )


def example_of(cls: type[msgspec.Struct]) -> Any:
    """The example of a type, as it is on the wire."""
    return msgspec.to_builtins(EXAMPLES[cls])


def description_of(cls: type[msgspec.Struct]) -> str:
    """The type's docstring."""
    return inspect.cleandoc(cls.__doc__ or "")


def as_text(value: object) -> bytes:
    """A document as a file."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _schema(kind: str, cls: type[msgspec.Struct]) -> JSON:
    (reference,), schemas = msgspec.json.schema_components([cls], ref_template="#/$defs/{name}")
    own = schemas.pop(reference["$ref"].removeprefix("#/$defs/"))
    schema: JSON = {
        "$schema": DIALECT,
        "$id": f"urn:agentchat:{kind}:{cls.__name__}",
        **own,
        "examples": [example_of(cls)],
    }
    tidied: JSON = _tidy(schema | {"$defs": schemas} if schemas else schema)
    return tidied


def _tidy(schema: Any) -> Any:
    """Descriptions without the indentation of their source, and names without that of this package."""
    match schema:
        case dict():
            return {name: _tidy_field(name, value) for name, value in schema.items()}
        case list() | tuple():
            return [_tidy(item) for item in schema]
        case msgspec.Struct():
            return msgspec.to_builtins(schema)
        case _:
            return schema


def _tidy_field(name: str, value: Any) -> Any:
    if name == "description" and isinstance(value, str):
        return inspect.cleandoc(value)
    if name == "$ref" and isinstance(value, str):
        return _OURS.sub("", value)
    return _tidy(value)
