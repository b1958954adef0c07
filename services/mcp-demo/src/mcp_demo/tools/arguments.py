"""Turns a client's arguments into a tool's typed ones, or explains what is wrong with them.

A model reads these errors and tries again, so they name the argument, what it should be, and what was sent.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from mcp_demo.tools.tool_schemas import schema_of

T = TypeVar("T", bound=msgspec.Struct)

_SHOWN = 80


class BadArgumentsError(Exception):
    """The arguments do not match the tool's input schema; the text says what would."""


def read(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """The arguments as an instance of `kind`.

    Raises BadArgumentsError for the first thing wrong.
    """
    whole = {name: _whole(value) for name, value in arguments.items()}
    try:
        return msgspec.convert(whole, kind)
    except msgspec.ValidationError as error:
        raise BadArgumentsError(_explain(str(error), schema_of(kind), whole)) from None


def _whole(value: Any) -> Any:
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
