"""The smallest instance of a JSON schema: for structured output, and for inputs that must be there."""

from collections.abc import Mapping
from typing import Any

from model_demo.shop import words
from model_demo.shop.schemas import Schema, properties, required, simple

_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "uri": "https://example.com/",
    "uri-reference": "/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}
_SPEAKING = words.listed("answer reply response message text summary content result description output")
_DEPTH = 24


class Maker:
    """Makes instances of schemas that share the definitions of `root`; `text` fills speaking fields."""

    def __init__(self, root: Schema, text: str = "") -> None:
        self._root = root
        self._text = text

    def make(
        self, schema: Any, name: str = "", given: Mapping[str, Any] | None = None, depth: int = 0
    ) -> Any:
        """The smallest instance; at the top `given` fills fields by name."""
        found = simple(schema, self._root)
        if "const" in found:
            return found["const"]
        if isinstance(choices := found.get("enum"), list) and choices:
            return choices[0]
        match found.get("type"):
            case "object":
                return self._object(found, given or {}, depth)
            case "array":
                return self._array(found, name, depth)
            case "integer" | "number" as kind:
                return _number(found, whole=kind == "integer")
            case "boolean":
                return False
            case "null":
                return None
            case "string":
                return self._string(found, name)
        return self._text if name else {}

    def _object(self, schema: Schema, given: Mapping[str, Any], depth: int) -> dict[str, Any]:
        if depth > _DEPTH:
            return {}
        known = properties(schema, self._root)
        made = dict(given)
        for name in required(schema):
            if name not in made:
                made[name] = self.make(known.get(name, {}), name, depth=depth + 1)
        return made

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        if not isinstance(least, int) or depth > _DEPTH:
            return []
        heads = schema.get("prefixItems", [])
        made: list[Any] = [self.make(head, name, depth=depth + 1) for head in heads[:least]]
        while len(made) < least:
            item = self.make(schema.get("items", {}), name, depth=depth + 1)
            made.append(_another(item, made) if schema.get("uniqueItems") else item)
        return made

    def _string(self, schema: Schema, name: str) -> str:
        for told in ("default", "examples"):
            value = schema.get(told)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, str):
                return value
        if (text := _FORMATS.get(str(schema.get("format")))) is not None:
            return text
        text = self._text if name.rpartition("_")[2].lower() in _SPEAKING else name.replace("_", " ")
        filled = text + "." * max(0, schema.get("minLength", 0) - len(text))
        most = schema.get("maxLength")
        return str(filled[:most] if isinstance(most, int) else filled)


def _number(schema: Schema, *, whole: bool) -> float | int:
    step = schema.get("multipleOf", 1 if whole else 0)
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    value: float | int = 0
    if least is not None and (value < least or (value == least and "minimum" not in schema)):
        value = least if "minimum" in schema else least + (step or 1)
    elif most is not None and (value > most or (value == most and "maximum" not in schema)):
        value = most if "maximum" in schema else most - (step or 1)
    if step and value % step:
        value += step - value % step
    return int(value) if whole else value


def _another(item: Any, made: list[Any]) -> Any:
    """An item like the given one that is not there yet, where one can be counted up."""
    count = 1
    fresh = item
    while fresh in made and count <= len(made):
        count += 1
        if isinstance(item, str):
            fresh = f"{item}{count}"
        elif isinstance(item, int | float) and not isinstance(item, bool):
            fresh = item + count - 1
    return fresh
