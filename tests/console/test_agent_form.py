"""The form of an agent: saved unchanged it changes nothing, and each field becomes what the API has."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from litestar.datastructures import FormMultiDict

from agentchat.administration.admin_values import Agent, SecretHint
from agentchat.console.pages.agent_form import EDIT, NEW
from agentchat.console.shared.schema_forms import FormField, RefusedForm
from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.agent_config import AgentSettings

AT = datetime(2026, 11, 28, tzinfo=UTC)
KEY = {"set": True, "last4": "wxyz"}
ON = ("overloaded", "timeout", "error")
FALLBACK = {
    "provider": "openai",
    "model": "gpt-1",
    "base_url": None,
    "provider_key": KEY,
    "parameters": None,
    "on": ON,
}
AGENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "numbers": {"parameters": {"temperature": 0.7, "max_tokens": 100, "stop_sequences": ["a"]}},
    "odd numbers": {"parameters": {"temperature": "warm", "max_tokens": True, "top_p": 1}},
    "knowledge": {"retrieval": {"knowledge_base_id": "base-1", "top_k": 7}},
    "fall-backs": {
        "fallbacks": [FALLBACK, FALLBACK | {"model": "b", "parameters": {"top_k": 3}, "on": ["refused"]}]
    },
    "texts": {"system_prompt": "One\n\ntwo  ", "variables": ["name"], "vision": False, "compaction": None},
    "json": {"output_type": "json", "output_schema": {"type": "object", "properties": {"a": {}}}},
}


def build_agent(**fields: Any) -> Agent:
    own = {"id": "agent-1", "account_id": "account-1", "version": 1, "disabled": False, "provider_key": KEY}
    settings = msgspec.to_builtins(AgentSettings(name="Shop", model="m-1"))
    return msgspec.convert(settings | own | {"created_at": AT, "changed_at": AT} | fields, Agent)


def fill_in(fields: tuple[FormField, ...], **written: str) -> FormMultiDict:
    """What a browser sends of the form, with `written` in some fields."""
    sent: list[tuple[str, Any]] = []
    for field in fields:
        if field.kind in ("flag", "several"):
            boxes = ("on",) if field.kind == "flag" else field.choices
            sent += [(field.name, value) for value in field.values if value in boxes]
        else:
            sent.append((field.name, written.get(field.name, field.value.replace("\n", "\r\n"))))
    return FormMultiDict(sent)


@pytest.mark.parametrize("fields", AGENTS.values(), ids=AGENTS.keys())
def test_form_saved_unchanged_changes_nothing(fields: dict[str, Any]) -> None:
    agent = build_agent(**fields)
    assert EDIT.read_changes_of(fill_in(EDIT.fill_agent(agent)), agent).to_dict() == {}


@pytest.mark.parametrize(
    ("before", "written", "expected"),
    [
        ({}, {"temperature": "0.5"}, {"parameters": {"temperature": 0.5}}),
        ("numbers", {"max_tokens": ""}, {"parameters": {"temperature": 0.7, "stop_sequences": ["a"]}}),
        ({}, {"other_parameters": '{"a": 1}'}, {"parameters": {"a": 1}}),
        ({}, {"knowledge_base_id": "b"}, {"retrieval": {"knowledge_base_id": "b", "top_k": 5}}),
        ("knowledge", {"knowledge_base_id": ""}, {"retrieval": None}),
        (
            {},
            {"fallback_1_provider": "openai", "fallback_1_model": "m"},
            {
                "fallbacks": [
                    {"provider": "openai", "model": "m", "base_url": None, "parameters": None, "on": [*ON]}
                ]
            },
        ),
        ("texts", {"note": "Why", "system_prompt": "New"}, {"system_prompt": "New", "note": "Why"}),
    ],
)
def test_field_becomes_what_the_api_has(
    before: str | dict[str, Any], written: dict[str, str], expected: dict[str, Any]
) -> None:
    agent = build_agent(**(AGENTS[before] if isinstance(before, str) else before))
    changes = EDIT.read_changes_of(fill_in(EDIT.fill_agent(agent), **written), agent)
    assert msgspec.json.decode(msgspec.json.encode(changes)) == expected


def test_removed_fall_back_keeps_the_others_without_their_keys() -> None:
    agent = build_agent(**AGENTS["fall-backs"])
    sent = fill_in(EDIT.fill_agent(agent), fallback_1_model="", fallback_1_provider="")
    (left,) = msgspec.to_builtins(EDIT.read_changes_of(sent, agent))["fallbacks"]
    assert (left["model"], left["on"], "provider_key" in left) == ("b", ("refused",), False)


def test_new_agent_is_read_from_its_form() -> None:
    sent = fill_in(NEW.fill_agent(None), name="Shop", model="m", temperature="1")
    made = NEW.read_new(sent, "019a0000-0000-7000-8000-00000000beef")
    assert (made.name, made.parameters, made.fallbacks, made.retrieval) == (
        "Shop",
        {"temperature": 1},
        (),
        None,
    )


@pytest.mark.parametrize(
    ("error", "field"),
    [
        ("parameters.temperature", "temperature"),
        ("parameters.metadata", "other_parameters"),
        ("retrieval.knowledge_base_id", "knowledge_base_id"),
        ("fallbacks[0].model", "fallback_1_model"),
        ("fallbacks[1].on", "fallback_2_on"),
        ("output_schema", "output_schema"),
    ],
)
def test_a_problem_is_shown_beside_its_field(error: str, field: str) -> None:
    agent = build_agent(**AGENTS["fall-backs"])
    sent = fill_in(EDIT.fill_agent(agent), temperature="warm")
    shown = EDIT.fill_agent(agent, RefusedForm(sent, Invalid(error, "is wrong")))
    assert [each.name for each in shown if each.problem] == [field]
    assert next(each.value for each in shown if each.name == "temperature") == "warm"


def test_every_field_has_a_help() -> None:
    fields = EDIT.fill_agent(build_agent())
    without = [each.name for each in fields if not each.note and each.kind != "hidden"]
    assert {name.removeprefix("fallback_").lstrip("123_") for name in without} <= {"provider", "base_url"}


def test_secrets_are_not_in_the_form() -> None:
    fields = EDIT.fill_agent(build_agent(provider_key=SecretHint(set=True, last4="wxyz")))
    assert "wxyz" not in str(fields)
