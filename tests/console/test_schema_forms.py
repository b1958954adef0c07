"""Forms out of JSON Schemas: how each kind of value is asked for, read, and shown again once refused."""

from typing import Any

import pytest
from litestar.datastructures import FormMultiDict
from msgspec import Struct

from agentchat.administration.admin_values import NewPlan
from agentchat.console.frame.schema_forms import RefusedForm, SchemaForm, build_body_schema
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.webhooks import NewEndpoint
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_draft import AgentChanges

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
MAYBE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COLOURS = {"enum": ["red", "green"]}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "items": COLOURS}


class Shown(Struct):
    it: str


def one(schema: dict[str, Any], *, required: bool = True, **options: Any) -> SchemaForm:
    properties = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    return SchemaForm(properties, **options)


def given(*pairs: tuple[str, str]) -> FormMultiDict:
    return FormMultiDict(list(pairs))


@pytest.mark.parametrize(
    ("schema", "kind", "sent", "read"),
    [
        (TEXT, "line", "a word", "a word"),
        ({"type": "string", "maxLength": 65_536}, "text", "two\r\nlines", "two\nlines"),
        (NUMBER, "number", "7", 7),
        ({"type": "number"}, "number", "0.5", 0.5),
        (FLAG, "flag", "on", True),
        (MAYBE, "number", "", None),
        ({"anyOf": [FLAG, {"type": "null"}]}, "choice", "true", True),
        (COLOURS, "choice", "green", "green"),
        ({"enum": [1, 2]}, "choice", "2", 2),
        (TITLED, "choice", "g", "g"),
        (SEVERAL, "several", "red", ["red"]),
        ({"type": "array", "items": TEXT}, "lines", " a \n\n b", ["a", "b"]),
        ({"type": "object"}, "json", '{"a": [1]}', {"a": [1]}),
        ({"anyOf": [COLOURS, {"type": "object"}]}, "json", "red", "red"),
    ],
)
def test_each_kind_is_read_as_its_schema_says(
    schema: dict[str, Any], kind: str, sent: str, read: Any
) -> None:
    form = one(schema)
    (field,) = form.build_fields({})
    assert field.kind == kind
    assert form.read(given(("it", sent))) == {"it": read}
    shown = form.build_fields({"it": read})[0]
    if kind not in ("flag", "several"):
        again = form.read(given(("it", shown.value)))
        assert again == {"it": read}, "what is shown is read as the same"


@pytest.mark.parametrize(
    ("schema", "options", "read"),
    [
        (TEXT, {}, {"it": ""}),
        (TEXT, {"required": False}, {}),
        (TEXT, {"required": False, "blank_is_empty": True}, {"it": ""}),
        (NUMBER, {"required": False}, {}),
        ({"type": "object"}, {}, {}),
        ({"type": "object"}, {"blank_is_empty": True}, {"it": {}}),
        ({"type": "array", "items": TEXT}, {"blank_is_empty": True}, {"it": []}),
        (MAYBE, {"required": False}, {"it": None}),
        (TEXT, {"secrets": ("it",)}, {}),
        (FLAG, {}, {"it": False}),
        (SEVERAL, {}, {"it": []}),
    ],
)
def test_what_is_left_blank(schema: dict[str, Any], options: dict[str, Any], read: dict[str, Any]) -> None:
    sent = given() if schema in (FLAG, SEVERAL) else given(("it", " "))
    assert one(schema, **options).read(sent) == read


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (NUMBER, "seven"),
        (NUMBER, "nan"),
        (NUMBER, "9" * 400),
        (NUMBER, "1" + "0" * 30),
        ({"type": "object"}, "{"),
    ],
)
def test_what_cannot_be_read_is_shown_again_with_what_is_wrong(schema: dict[str, Any], sent: str) -> None:
    form, filled = one(schema), given(("it", sent))
    with pytest.raises(Invalid) as refusal:
        form.read(filled)
    field, _ = form.fill(None, RefusedForm(filled, refusal.value))
    assert (field.value, bool(field.problem)) == (sent, True)


def test_a_problem_deeper_down_stands_next_to_its_field() -> None:
    form = one({"type": "object"})
    (field,) = form.build_fields({}, given(("it", "{}")), Invalid("it.tool_names[0]", "is blank"))
    assert field.problem == "is blank"
    assert form.build_fields({}, given(("it", "{}")), Invalid("item", "is blank"))[0].problem == ""


def test_a_secret_is_never_shown() -> None:
    form = one(TEXT, secrets=("it",))
    (field,) = form.build_fields({"it": "sk-1"}, given(("it", "sk-2")))
    assert (field.kind, field.value) == ("secret", "")
    assert form.read(given(("it", "sk-2"))) == {"it": "sk-2"}


@pytest.mark.parametrize("kind", [NewPlan, NewEndpoint, AgentChanges, McpServer])
def test_bodies_of_the_administration_have_a_form_without_the_words_of_programs(kind: type[Struct]) -> None:
    fields = SchemaForm(build_body_schema(kind)).build_fields({})
    assert {field.name for field in fields} == set(kind.__struct_fields__)
    assert all(
        field.label == field.name.replace("_", " ").capitalize() and field.note == "" for field in fields
    )


def test_only_what_differs_is_sent() -> None:
    form = SchemaForm(build_body_schema(NewPlan))
    plan = {"name": "Pro", "requests_per_minute": 5, "concurrent_runs": None, "tokens_per_month": None}
    plan |= {"form2_streaming": True, "max_message_bytes": None, "storage_bytes": None}
    sent = {"name": "Pro", "requests_per_minute": "6", "form2_streaming": "on"}
    assert form.read_changes(given(*sent.items()), plan) == {"requests_per_minute": 6}


def test_what_is_not_sent_and_what_is_the_same_in_json_does_not_differ() -> None:
    names = {"type": "array", "items": TEXT}
    form = SchemaForm({"properties": {"tools": names, "model": TEXT}})
    assert form.read_changes(given(("tools", "a\r\nb")), {"tools": ("a", "b"), "model": "m"}) == {}


_CALL = {
    "body": "Dear Ada,\r\nit is shipped.\n",
    "blank": " ",
    "any": "a text",
    "colour": "blue",
    "lines": [" a", "b\nc"],
    "number": 1.0,
    "more": {"that": ["the schema does not name"]},
}


def _call_form() -> SchemaForm:
    properties: dict[str, Any] = {
        "body": TEXT,
        "blank": TEXT,
        "any": True,
        "colour": COLOURS,
        "number": NUMBER,
    }
    properties |= {"lines": {"type": "array", "items": TEXT}, "maybe": {"type": ["string", "null"]}}
    properties |= {"flag": FLAG, "on": {**FLAG, "default": True}, "several": SEVERAL}
    return SchemaForm({"type": "object", "properties": properties, "required": ["body", "flag"]})


def _sent(form: SchemaForm, values: dict[str, Any]) -> dict[str, str]:
    """As a browser sends it."""
    text = {
        field.name: field.value
        for field in form.build_fields(values)
        if field.kind not in ("flag", "several")
    }
    lines = {name: "\r\n".join(value.splitlines()) for name, value in text.items()}
    lines["body"] += "\r\n"  # splitlines takes the last one
    return lines | {
        field.name: "on" for field in form.build_fields(values) if field.kind == "flag" and field.values
    }


def test_an_input_that_is_not_edited_stays_to_the_byte() -> None:
    form = _call_form()
    assert form.apply_edits(given(*_sent(form, _CALL).items()), _CALL) == _CALL
    assert next(field.kind for field in form.build_fields(_CALL) if field.name == "body") == "text"


@pytest.mark.parametrize(
    ("name", "sent", "value"),
    [
        ("colour", "red", "red"),
        ("any", "[1]", [1]),
        ("maybe", "x", "x"),
        ("flag", "on", True),
        ("lines", "a", ["a"]),
    ],
)
def test_what_is_edited_is_all_that_changes(name: str, sent: str, value: Any) -> None:
    form = _call_form()
    assert form.apply_edits(given(*(_sent(form, _CALL) | {name: sent}).items()), _CALL) == _CALL | {
        name: value
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"required": 1, "properties": {"it": None}},
        {"properties": {"it": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"it": {"anyOf": [True, {"enum": 1}], "oneOf": "x"}}},
        {"properties": {"it": {"type": "string", "maxLength": "long"}}},
        {"properties": {"it": {"type": "array", "items": [1]}}},
    ],
)
def test_a_schema_that_makes_no_sense_has_a_form_all_the_same(schema: dict[str, Any]) -> None:
    form = SchemaForm(schema)
    values = {"it": 'a "text"'}
    sent = {field.name: field.value for field in form.build_fields(values)}
    assert form.apply_edits(given(*sent.items()), values) == values


def test_another_form_of_the_page_leaves_it_as_it_is() -> None:
    refused = RefusedForm(given(("typed", "x")), Invalid("typed", "is not the name"))
    assert one(TEXT).fill(Shown(it="a"), refused)[0].value == "a"
