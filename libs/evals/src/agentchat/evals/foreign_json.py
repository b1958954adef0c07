"""Parse JSON of tools and callers without losing the values of names that an object has several times."""

import json
from typing import Any


class RepeatedValue(list[Any]):
    """The values of a name that a JSON object has several times; readers of JSON take the last one."""


def parse_json(text: str) -> Any:
    """Return the object or list that a text holds, else None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, object_pairs_hook=_build_object, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], RepeatedValue):
            found[name].append(value)
        else:
            found[name] = RepeatedValue([found[name], value])
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
