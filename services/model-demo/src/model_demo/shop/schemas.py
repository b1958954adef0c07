"""JSON schemas made simple: references followed, the first choice that is not null taken, one type."""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
_DEPTH = 12


def simple(schema: Any, root: Schema) -> Schema:
    """`schema` without `$ref`, `anyOf`, `oneOf`, `allOf` at its top; its `type` is one word."""
    found: Schema = {}
    for part in _parts(schema, root, _DEPTH):
        for name, value in part.items():
            found.setdefault(name, value)
    kind = found.get("type")
    if isinstance(kind, list):
        found["type"] = next((one for one in kind if one != "null"), "null")
    elif kind is None and (guess := _guess(found)):
        found["type"] = guess
    return found


def properties(schema: Schema, root: Schema) -> dict[str, Schema]:
    """The properties of an object's schema, and the items of those that are arrays, made simple."""
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    made = {str(name): simple(value, root) for name, value in found.items()}
    for one in made.values():
        if isinstance(items := one.get("items"), dict):
            one["items"] = simple(items, root)
    return made


def required(schema: Schema) -> tuple[str, ...]:
    """The names of the properties that must be there."""
    names = schema.get("required")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def choices(schema: Schema) -> list[Any]:
    """The values that an enum allows, or that of an array's items."""
    for one in (schema, schema.get("items")):
        if isinstance(one, dict) and isinstance(found := one.get("enum"), list):
            return found
    return []


def _parts(schema: Any, root: Schema, depth: int) -> Iterator[Schema]:
    """The schema itself, then what it refers to, the nearest first."""
    if not isinstance(schema, dict) or depth <= 0:
        return
    yield {name: value for name, value in schema.items() if name not in _LINKS}
    if isinstance(target := schema.get("$ref"), str):
        yield from _parts(_followed(target, root), root, depth - 1)
    for name in ("anyOf", "oneOf"):
        if isinstance(options := schema.get(name), list):
            yield from _parts(next(filter(_not_null, options), None), root, depth - 1)
    if isinstance(both := schema.get("allOf"), list):
        yield from _merged([part for one in both for part in _parts(one, root, depth - 1)])


_LINKS = ("$ref", "anyOf", "oneOf", "allOf", "$defs", "definitions")


def _merged(parts: list[Schema]) -> Iterator[Schema]:
    """The parts of an allOf: their properties and required names are joined, of the rest the first counts."""
    yield (
        {
            "properties": {
                name: value for part in parts for name, value in part.get("properties", {}).items()
            },
            "required": [name for part in parts for name in part.get("required", [])],
        }
        if any("properties" in part for part in parts)
        else {}
    )
    yield from parts


def _followed(target: str, root: Schema) -> Any:
    found: Any = root
    for step in target.removeprefix("#").strip("/").split("/"):
        if step:
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _not_null(option: Any) -> bool:
    return not (isinstance(option, dict) and option.get("type") == "null")


def _guess(schema: Schema) -> str | None:
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None
