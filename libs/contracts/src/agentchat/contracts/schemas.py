"""Write the JSON Schemas of the public feed: `python -m agentchat.contracts.schemas FOLDER`.

Each schema has an example. Consumers ignore fields that they do not know, since a version of an event may get
new optional fields.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentchat.contracts.examples import EVENT_EXAMPLES, FEED_EXAMPLES

JSON = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

EXAMPLES: Mapping[type[msgspec.Struct], msgspec.Struct] = {
    type(example): example for example in (*EVENT_EXAMPLES, *FEED_EXAMPLES)
}
"""Every type that has a schema, with its example."""

_MODULE = re.compile(r"\bcontracts\.(?=\w+\.\w+\Z)")


def render_schemas() -> dict[str, bytes]:
    """Return the content of every schema file by its path, for example `events/Delta.json`."""
    return {
        f"events/{cls.__name__}.json": msgspec.json.format(msgspec.json.encode(_build_schema(cls)), indent=2)
        + b"\n"
        for cls in EXAMPLES
    }


def write_schemas(folder: Path) -> None:
    """Write the schema files below `folder`."""
    for name, content in render_schemas().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _build_schema(cls: type[msgspec.Struct]) -> JSON:
    (reference,), schemas = msgspec.json.schema_components([cls], ref_template="#/$defs/{name}")
    own = schemas.pop(reference["$ref"].removeprefix("#/$defs/"))
    schema: JSON = {
        "$schema": DIALECT,
        "$id": f"urn:agentchat:events:{cls.__name__}",
        **own,
        "examples": [msgspec.to_builtins(EXAMPLES[cls])],
    }
    tidied: JSON = _tidy(schema | {"$defs": schemas} if schemas else schema)
    return tidied


def _tidy(schema: Any) -> Any:
    """Remove the indentation of descriptions and this package's name from references."""
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
        return _MODULE.sub("", value)
    return _tidy(value)


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
