"""Forms out of JSON Schemas: how each kind of value is asked for, read, and shown again once refused."""

from typing import Any

import pytest
from litestar.datastructures import FormMultiDict
from msgspec import Struct

from administration.admin_values import NewPlan
from console.frame.forms import RefusedForm, SchemaForm, body_schema
from contracts.admin_errors import Invalid
from contracts.webhooks import NewEndpoint
from directory.agent_draft import AgentChanges
from directory.agents import McpServer

pytestmark = pytest.mark.requirement("CONSOLE-FORMS")

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
MAYBE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
COLOURS = {"enum": ["red", "green"]}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
SEVERAL = {"type": "array", "items": COLOURS}


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
    (field,) = form.fields({})
    assert field.kind == kind
    assert form.read(given(("it", sent))) == {"it": read}
    shown = form.fields({"it": read})[0]
    if kind not in ("flag", "several"):
        again = form.read(given(("it", shown.value)))
        assert again == {"it": read}, "what is shown is read as the same"


@pytest.mark.parametrize(
    ("schema", "options", "read"),
    [
        (TEXT, {}, {"it": ""}),
        (TEXT, {"required": False}, {}),
        (TEXT, {"required": False, "blank_is_text": True}, {"it": ""}),
        (NUMBER, {"required": False}, {}),
        (MAYBE, {"required": False}, {"it": None}),
        (TEXT, {"secrets": ("it",)}, {}),
        (FLAG, {}, {"it": False}),
        (SEVERAL, {}, {"it": []}),
    ],
)
def test_what_is_left_blank(schema: dict[str, Any], options: dict[str, Any], read: dict[str, Any]) -> None:
    sent = given() if schema in (FLAG, SEVERAL) else given(("it", " "))
    assert one(schema, **options).read(sent) == read


@pytest.mark.parametrize(("schema", "sent"), [(NUMBER, "seven"), ({"type": "object"}, "{")])
def test_what_cannot_be_read_is_shown_again_with_what_is_wrong(schema: dict[str, Any], sent: str) -> None:
    form, filled = one(schema), given(("it", sent))
    with pytest.raises(Invalid) as refusal:
        form.read(filled)
    (field,) = form.filled({"it": None}, RefusedForm(filled, refusal.value))
    assert (field.value, bool(field.problem)) == (sent, True)


def test_a_problem_deeper_down_stands_next_to_its_field() -> None:
    form = one({"type": "object"})
    (field,) = form.fields({}, given(("it", "{}")), Invalid("it.tool_names[0]", "is blank"))
    assert field.problem == "is blank"
    assert form.fields({}, given(("it", "{}")), Invalid("item", "is blank"))[0].problem == ""


def test_a_secret_is_never_shown() -> None:
    form = one(TEXT, secrets=("it",))
    (field,) = form.fields({"it": "sk-1"}, given(("it", "sk-2")))
    assert (field.kind, field.value) == ("secret", "")
    assert form.read(given(("it", "sk-2"))) == {"it": "sk-2"}


@pytest.mark.parametrize("kind", [NewPlan, NewEndpoint, AgentChanges, McpServer])
def test_bodies_of_the_administration_have_a_form_without_the_words_of_programs(kind: type[Struct]) -> None:
    fields = SchemaForm(body_schema(kind)).fields({})
    assert {field.name for field in fields} == set(kind.__struct_fields__)
    assert all(field.label == field.name.replace("_", " ") and field.note == "" for field in fields)


def test_only_what_differs_is_sent() -> None:
    form = SchemaForm(body_schema(NewPlan))
    plan = {"name": "Pro", "requests_per_minute": 5, "concurrent_runs": None, "tokens_per_month": None}
    plan |= {"form2_streaming": True, "max_message_bytes": None, "storage_bytes": None}
    sent = {"name": "Pro", "requests_per_minute": "6", "form2_streaming": "on"}
    assert form.changed(given(*sent.items()), plan) == {"requests_per_minute": 6}
