"""What a released version sends and stores, the next one reads, and the other way round.

`python tests/contracts/test_released.py > tests/contracts/released/VERSION.json` records a release.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.schemas import schema_files

ALWAYS_SENT = {"frames/Delta.json#.offset", "frames/ToolCalled.json#.round"}
"""What 0.9.0 declares as optional, for frames of before it, and always sends as a number."""

RELEASED = Path(__file__).parent / "released"
_WORDS = {"title", "description", "examples", "default", "$schema", "$id"}
Objects = dict[str, dict[str, Any]]


def recorded() -> Objects:
    """The JSON Schema, without its words, of every object on the bus and in the log, by where it is."""
    return {
        place: each
        for path, text in schema_files().items()
        for place, each in _objects(path, json.loads(text))
    }


def _objects(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in {"": schema, **schema.pop("$defs", {})}.items():
        yield f"{path}#{name}", _without_words(each)


def _without_words(schema: Any) -> Any:
    match schema:
        case dict():
            kept = {
                key: value for key, value in schema.items() if key not in _WORDS or isinstance(value, dict)
            }
            return {key: _without_words(value) for key, value in kept.items()}
        case list():
            return [_without_words(each) for each in schema]
        case _:
            return schema


def _differences(old: Objects, new: Objects) -> Iterator[str]:
    for place, before in old.items():
        if place not in new:
            yield f"{place} is gone"
            continue
        now = new[place]
        yield from _changed_fields(place, before, now)
        if {**before, "properties": {}, "required": []} != {**now, "properties": {}, "required": []}:
            yield f"{place} is something else"


def _changed_fields(place: str, before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    fields, known = now.get("properties", {}), before.get("properties", {})
    for field, schema in known.items():
        if f"{place}.{field}" not in ALWAYS_SENT and fields.get(field) != schema:
            yield f"{place}.{field} is gone, or has another type"
    for field in now.get("required", []):
        if field not in before.get("required", []) and f"{place}.{field}" not in ALWAYS_SENT:
            yield f"{place}.{field} is required, and was not always there"
    for field in before.get("required", []):
        if field not in now.get("required", []):
            yield f"{place}.{field} may be absent, and is required by the version before"


@pytest.mark.parametrize("release", sorted(RELEASED.iterdir()), ids=lambda path: path.stem)
def test_types_of_a_release_keep_their_fields(release: Path) -> None:
    """A new field has a default; what changes its meaning is a new tag (decision 83)."""
    assert list(_differences(json.loads(release.read_text()), recorded())) == []


OBJECT = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"properties": {"a": {"type": "integer"}}}, ["T#.a is gone, or has another type"]),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, ["T#.a is gone, or has another type"]),
        ({"properties": {}}, ["T#.a is gone, or has another type"]),
        ({"required": ["a", "b"]}, ["T#.b is required, and was not always there"]),
        ({"required": []}, ["T#.a may be absent, and is required by the version before"]),
        ({"type": "array"}, ["T# is something else"]),
        ({"properties": {"a": {"enum": ["x"]}, "b": {"type": "string"}}}, []),
    ],
)
def test_a_change_that_a_neighbour_cannot_read_is_found(change: dict[str, Any], found: list[str]) -> None:
    assert list(_differences({"T#": OBJECT}, {"T#": OBJECT | change})) == found


def test_a_type_that_is_gone_is_found() -> None:
    assert list(_differences({"T#": OBJECT}, {})) == ["T# is gone"]


def _main() -> None:
    lines = (f'"{place}": {json.dumps(each)}' for place, each in recorded().items())
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    _main()
