"""Turns a client's arguments into a tool's typed ones, or explains what is wrong with them.

A model reads these errors and tries again, so they name the argument, what it should be, and what was sent.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_SHOWN = 80


class BadArgumentsError(Exception):
    """The arguments do not match the tool's input schema; the text says what would."""


def read(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """The arguments as an instance of `kind`.

    Raises BadArgumentsError for the first thing wrong.
    """
    given = {name: _integral(value) for name, value in arguments.items()}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise BadArgumentsError(_explain(str(error), schema_of(kind), given)) from None


def _integral(value: Any) -> Any:
    """5.0 is an integer in JSON Schema, and some clients write all their numbers so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _explain(problem: str, schema: dict[str, Any], arguments: Mapping[str, Any]) -> str:
    properties: dict[str, dict[str, Any]] = schema["properties"]
    name = "".join(re.findall(r"field `(.*)`$", problem, re.DOTALL))
    if problem.startswith("Object missing required field"):
        return f"The argument {name} is missing: {_expected(properties[name])}"
    if problem.startswith("Object contains unknown field"):
        near = difflib.get_close_matches(name, properties, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return f"There is no argument {_shown(name)}: this tool takes {', '.join(properties)}.{hint}"
    reason, _, path = problem.rpartition(" - at `$.")
    field = re.split(r"[.\[`]", path)[0]
    return (
        f"The argument {path.rstrip('`')} cannot be {_shown(arguments[field])}: "
        f"{_reason(reason, properties[field])}. {_expected(properties[field])}"
    )


def _reason(reason: str, schema: dict[str, Any]) -> str:
    """msgspec's reason in the words of JSON; the choices of an enum are spelled out."""
    choices = [choice for part in (schema, *schema.get("anyOf", ())) for choice in part.get("enum", ())]
    if reason.startswith("Invalid enum value") and choices:
        return f"it must be one of {', '.join(choices)}"
    words = re.sub(r", got `.*`$", "", reason).replace("Expected `", "it must be `").replace("`", "")
    for python, json in _WORDS.items():
        words = re.sub(rf"\b{re.escape(python)}\b", json, words)
    return words


_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
    "Invalid RFC3339 encoded date": "it must be a date, YYYY-MM-DD",
}


def _expected(schema: dict[str, Any]) -> str:
    examples = schema.get("examples", ())
    example = f" For example {examples[0]}." if examples else ""
    return f"{schema['description']}{example}"


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema with the object itself at the root, as MCP requires, and `$defs` for nested types."""
    schema = msgspec.json.schema(kind)
    definitions: dict[str, Any] = schema.pop("$defs")
    for definition in definitions.values():
        del definition["title"]  # the name of a Python class, which means nothing to a model
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
