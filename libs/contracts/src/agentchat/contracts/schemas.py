"""Write JSON Schemas of the public feed with an example each: `python -m agentchat.contracts.schemas FOLDER`.

Consumers ignore fields that they do not know: a version of an event may get new optional ones.
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
"""The types that have a schema, with their examples."""

_MODULE = re.compile(r"\bcontracts\.(?=\w+\.\w+\Z)")


def schema_files() -> dict[str, bytes]:
    """Return the content of every schema's file, by its path: `events/Delta.json`."""
    return {
        f"events/{cls.__name__}.json": msgspec.json.format(msgspec.json.encode(_schema(cls)), indent=2)
        + b"\n"
        for cls in EXAMPLES
    }


def write(folder: Path) -> None:
    """Write the schema files below `folder`."""
    for name, content in schema_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _schema(cls: type[msgspec.Struct]) -> JSON:
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
    write(Path(sys.argv[1]))
