"""Input schemas of tool servers: made fit for the provider, or left out with a reason."""

import json
from typing import Any
from urllib.parse import quote

import jsonschema
import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.tool_runner.tools.input_schemas import MAX_BYTES, UnfitSchema, normalize_schema
from agentchat.tool_runner.tools.server_tool import MAX_TOOLS, check_tools

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
def test_a_root_is_made_fit(given_schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert normalize_schema(given_schema) == expected


@pytest.mark.parametrize(
    "field",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"$ref": "#"},
        {"additionalProperties": False, "default": {"type": "any"}},
        {"x-unknown": 1, "const": None},
        True,
    ],
)
def test_a_valid_property_stays(field: Any) -> None:
    assert normalize_schema({"properties": {"field": field}})["properties"]["field"] == field


ITEM = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
NAMES = ["Item", "Line Item", "List[int]", "Item%", "a/b", "a~b", "Ünit", "Item`1", "«x»", "x" * 80]


def encode_pointer(name: str) -> list[str]:
    """Return the forms in which generators write a name in a reference."""
    token = name.replace("~", "~0").replace("/", "~1")
    return [quote(token, safe="~"), quote(token, safe="~").lower()] + ([token] if "%" not in name else [])


@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
@pytest.mark.parametrize("name", NAMES)
def test_encoded_reference_keeps_its_parameter(name: str, keyword: str) -> None:
    for token in encode_pointer(name)[: 1 if name != name.lower() else 3]:
        schema = {
            "type": "object",
            "properties": {
                "item": {"$ref": f"#/{keyword}/{token}"},
                "sku": {"$ref": f"#/{keyword}/{token}/properties/sku"},
            },
            keyword: {name: ITEM, "other": {"$ref": f"#/{keyword}/{token}"}},
        }
        found = normalize_schema(schema)
        for value, valid in (({"sku": "1"}, True), ({"sku": 1}, False), ({}, False)):
            assert jsonschema.Draft202012Validator(found).is_valid({"item": value}) is valid
        assert not jsonschema.Draft202012Validator(found).is_valid({"sku": 1})
        reference = found["properties"]["item"]["$ref"].split("/")
        assert reference[2] in found[keyword]
        assert "%" not in reference[2]


@pytest.mark.parametrize(
    "root",
    [
        {"$ref": "#/$defs/Line%20Item"},
        {"allOf": [{"$ref": "#/$defs/Line%20Item"}]},
        {"$ref": "#/$defs/alias"},
    ],
)
def test_reference_at_the_root_keeps_the_parameters(root: dict[str, Any]) -> None:
    found = normalize_schema(root | {"$defs": {"Line Item": ITEM, "alias": {"$ref": "#/$defs/Line%20Item"}}})
    assert found["properties"] == ITEM["properties"]
    assert found["required"] == ["sku"]


def test_tuples_of_older_drafts_are_rewritten() -> None:
    found = normalize_schema({"properties": {"field": {"type": "array", "items": [{"type": "string"}]}}})
    assert found["properties"]["field"] == {"type": "array", "prefixItems": [{"type": "string"}]}


def test_a_combination_at_the_root_becomes_one_object() -> None:
    found = normalize_schema(
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


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "not an object"),
        ({"properties": {"bad name": {}}, "required": ["bad name"]}, "unusable name"),
        ({"properties": {"x" * 65: {}}, "required": ["x" * 65]}, "unusable name"),
        ({"description": "x" * MAX_BYTES}, "larger than 64 KiB"),
        ({"properties": {"field": {"type": "any"}}}, "not valid"),
        ({"properties": {"field": {"minimum": 1, "exclusiveMinimum": True}}}, "not valid"),
        ({"properties": {"field": {"$ref": "https://example.com/schema.json"}}}, "refers to something"),
        ({"properties": {"field": {"$ref": "#/definitions/none"}}}, "refers to something"),
    ],
)
def test_an_unfit_schema_is_left_out_with_a_reason(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnfitSchema, match=reason):
        normalize_schema(schema)


def test_a_schema_nested_without_end_is_left_out() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(150):
        schema = {"type": "object", "properties": {"deeper": schema}}
    with pytest.raises(UnfitSchema, match="nested deeper"):
        normalize_schema(schema)


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
def test_every_result_is_a_valid_schema_of_an_object(
    schema: dict[str, Any],
) -> None:
    try:
        found = normalize_schema(schema)
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


async def test_unfit_tool_is_left_out_and_others_stay() -> None:
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
        "its name is empty, too long or not plain text",
        "its name is listed twice",
        "its input is not an object",
        "it runs only as a task",
    ]
