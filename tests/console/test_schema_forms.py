"""Forms out of JSON Schemas: how each kind of value is asked for, read, and shown again once refused."""

import re
from typing import Any

import pytest
from litestar.datastructures import FormMultiDict
from msgspec import Struct

from agentchat.administration.admin_values import NewPlan
from agentchat.console.shared.schema_forms import RefusedForm, SchemaForm, build_body_schema
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.webhooks import NewEndpoint
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentChanges

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
MAYBE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COLOURS = {"enum": ["red", "green"]}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "items": COLOURS}


class Shown(Struct):
    it: str


def build_form(schema: dict[str, Any], *, required: bool = True, **options: Any) -> SchemaForm:
    properties = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    return SchemaForm(properties, **options)


def make_form(*pairs: tuple[str, str]) -> FormMultiDict:
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
    form = build_form(schema)
    (field,) = form.build_fields({})
    assert field.kind == kind
    assert form.read(make_form(("it", sent))) == {"it": read}
    shown = form.build_fields({"it": read})[0]
    if kind not in ("flag", "several"):
        again = form.read(make_form(("it", shown.value)))
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
def test_blank_fields_are_empty_null_or_left_out(
    schema: dict[str, Any], options: dict[str, Any], read: dict[str, Any]
) -> None:
    sent = make_form() if schema in (FLAG, SEVERAL) else make_form(("it", " "))
    assert build_form(schema, **options).read(sent) == read


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
def test_unreadable_fields_come_back_with_their_errors(schema: dict[str, Any], sent: str) -> None:
    form, filled = build_form(schema), make_form(("it", sent))
    with pytest.raises(Invalid) as refusal:
        form.read(filled)
    field, _ = form.fill(None, RefusedForm(filled, refusal.value))
    assert (field.value, bool(field.problem)) == (sent, True)


def test_nested_error_is_shown_next_to_its_field() -> None:
    form = build_form({"type": "object"})
    (field,) = form.build_fields({}, make_form(("it", "{}")), Invalid("it.tool_names[0]", "is blank"))
    assert field.problem == "is blank"
    assert form.build_fields({}, make_form(("it", "{}")), Invalid("item", "is blank"))[0].problem == ""


def test_a_secret_is_never_shown() -> None:
    form = build_form(TEXT, secrets=("it",))
    (field,) = form.build_fields({"it": "sk-1"}, make_form(("it", "sk-2")))
    assert (field.kind, field.value) == ("secret", "")
    assert form.read(make_form(("it", "sk-2"))) == {"it": "sk-2"}


@pytest.mark.parametrize("kind", [NewPlan, NewEndpoint, AgentChanges, McpServer])
def test_forms_of_bodies_show_no_class_names(kind: type[Struct]) -> None:
    fields = SchemaForm(build_body_schema(kind)).build_fields({})
    assert {field.name for field in fields} == set(kind.__struct_fields__)
    for field in fields:
        assert not re.search("[a-z][A-Z]", f"{field.label} {field.note}"), field


def test_only_what_differs_is_sent() -> None:
    form = SchemaForm(build_body_schema(NewPlan))
    plan = {"name": "Pro", "requests_per_minute": 5, "concurrent_runs": None, "tokens_per_month": None}
    plan |= {"form2_streaming": True, "max_message_bytes": None, "storage_bytes": None}
    sent = {"name": "Pro", "requests_per_minute": "6", "form2_streaming": "on"}
    assert form.read_changes(make_form(*sent.items()), plan) == {"requests_per_minute": 6}


def test_missing_and_equal_values_are_no_changes() -> None:
    names = {"type": "array", "items": TEXT}
    form = SchemaForm({"properties": {"tools": names, "model": TEXT}})
    assert form.read_changes(make_form(("tools", "a\r\nb")), {"tools": ("a", "b"), "model": "m"}) == {}


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


def _submit(form: SchemaForm, values: dict[str, Any]) -> dict[str, str]:
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


def test_unedited_input_stays_byte_for_byte() -> None:
    form = _call_form()
    assert form.apply_edits(make_form(*_submit(form, _CALL).items()), _CALL) == _CALL
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
def test_only_edited_fields_change(name: str, sent: str, value: Any) -> None:
    form = _call_form()
    assert form.apply_edits(make_form(*(_submit(form, _CALL) | {name: sent}).items()), _CALL) == _CALL | {
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
def test_odd_schema_still_has_a_form(schema: dict[str, Any]) -> None:
    form = SchemaForm(schema)
    values = {"it": 'a "text"'}
    sent = {field.name: field.value for field in form.build_fields(values)}
    assert form.apply_edits(make_form(*sent.items()), values) == values


def test_other_forms_of_the_page_are_ignored() -> None:
    refused = RefusedForm(make_form(("typed", "x")), Invalid("typed", "is not the name"))
    assert build_form(TEXT).fill(Shown(it="a"), refused)[0].value == "a"
