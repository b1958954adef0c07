"""Input schemas of strangers: mended for the provider, or left out with a reason."""

import json
from typing import Any

import jsonschema
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_runner.tools.input_schemas import MAX_BYTES, UnfitSchema, normalized
from tool_runner.tools.server_tool import MAX_TOOLS, check_tools

OBJECT = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({}, OBJECT),
        ({"type": "object"}, OBJECT),
        ({"type": ["object", "null"], "properties": {}}, OBJECT),
        ({"type": "object", "required": []}, OBJECT),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", **OBJECT}, OBJECT),
        (
            {"type": "object", "properties": {"bad name": {}, "good": {}}},
            {**OBJECT, "properties": {"good": {}}},
        ),
    ],
)
def test_a_root_is_mended(given_schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert normalized(given_schema) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, {"type": "integer", "minimum": 1}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "any"}, {}),
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "string"}]},
        ),
        ({"enum": []}, {}),
        ({"anyOf": []}, {}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"$ref": "https://example.com/schema.json"}, {}),
        ({"$ref": "#/definitions/none"}, {}),
        ({"$ref": "#"}, {"$ref": "#"}),
        ({"minLength": "3", "maxLength": -1, "multipleOf": 0, "pattern": 5}, {}),
        ({"additionalProperties": False, "default": {"type": "any"}}, None),
        ({"x-unknown": 1, "const": None}, None),
        (True, None),
        ("nonsense", {}),
    ],
)
def test_a_keyword_that_the_draft_does_not_take_is_left_out(field: Any, expected: Any) -> None:
    found = normalized({"type": "object", "properties": {"field": field}})
    assert found["properties"]["field"] == (field if expected is None else expected)
    jsonschema.Draft202012Validator.check_schema(found)


def test_a_combination_at_the_root_becomes_one_object() -> None:
    found = normalized(
        {
            "properties": {"a": {"type": "string"}},
            "anyOf": [
                {"properties": {"b": {"type": "string"}}, "required": ["b"]},
                {"properties": {"c": {"type": "string"}}, "required": ["c"]},
            ],
            "allOf": [{"properties": {"d": {"type": "string"}}, "required": ["d"]}],
        }
    )
    assert sorted(found["properties"]) == ["a", "b", "c", "d"]
    assert found["required"] == ["d"]
    assert not {"anyOf", "allOf", "oneOf"} & found.keys()


def test_references_within_the_schema_stay() -> None:
    schema = {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}, "old": {"$ref": "#/definitions/a~1b"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "definitions": {"a/b": {"type": "string"}},
    }
    assert normalized(schema) == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "not an object"),
        ({"properties": {"bad name": {}}, "required": ["bad name"]}, "unusable name"),
        ({"properties": {"x" * 65: {}}, "required": ["x" * 65]}, "unusable name"),
        ({"description": "x" * MAX_BYTES}, "larger than 64 KiB"),
    ],
)
def test_what_cannot_be_mended_is_left_out_with_a_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitSchema, match=reason):
        normalized(schema)


def test_a_schema_nested_without_end_is_left_out() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(150):
        schema = {"type": "object", "properties": {"deeper": schema}}
    with pytest.raises(UnfitSchema, match="nested deeper"):
        normalized(schema)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=8)
    | st.sampled_from(["object", "#/$defs/a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "required", "enum", "$ref", "$defs", "minimum", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "allOf", "required", "$defs", "a"]), JSON))
def test_whatever_is_mended_is_a_schema_of_the_draft_with_an_object_at_the_root(
    schema: dict[str, Any],
) -> None:
    try:
        found = normalized(schema)
    except UnfitSchema:
        return
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["type"] == "object"
    json.dumps(found)


async def test_a_servers_tools_are_bounded_in_number_and_size() -> None:
    listed = [mcp_types.Tool(name=f"t{n}", input_schema={"type": "object"}) for n in range(MAX_TOOLS + 5)]
    kept, left_out = await check_tools(listed)
    assert len(kept) == MAX_TOOLS
    assert [tool.name for tool in left_out] == [f"t{MAX_TOOLS + n}" for n in range(5)]
    large = {"type": "object", "description": "x" * 60_000}
    listed = [mcp_types.Tool(name=f"t{n}", input_schema=large) for n in range(10)]
    kept, left_out = await check_tools(listed)
    assert len(kept) == 6
    assert len(left_out) == 4


async def test_a_tool_that_cannot_be_offered_is_left_out_and_the_others_stay() -> None:
    listed = [
        mcp_types.Tool(name="good", title="Good", input_schema={"type": "object"}),
        mcp_types.Tool(name="", input_schema={"type": "object"}),
        mcp_types.Tool(name="good", input_schema={"type": "object"}),
        mcp_types.Tool(name="odd", input_schema={"type": "string"}),
        mcp_types.Tool(
            name="task",
            input_schema={"type": "object"},
            execution=mcp_types.ToolExecution(task_support="required"),
        ),
    ]
    kept, left_out = await check_tools(listed)
    assert list(kept) == ["good"]
    assert kept["good"].description == "Good"
    assert [tool.reason for tool in left_out] == [
        "its name is empty, too long or no text",
        "its name is listed twice",
        "its input is not an object",
        "it runs only as a task",
    ]
