"""The body of a call, as each dialect wants it."""

from typing import Any

import pytest

from agentchat.contracts.values import ToolSpec
from agentchat.directory.model_parameters import DIALECTS as NAMES
from agentchat.orchestrator.models.model_interface import ModelCall, ModelFailure
from agentchat.orchestrator.models.openai.client import build_body, can_enforce
from agentchat.orchestrator.models.openai.dialects import DIALECTS, find_dialect
from tests.orchestrator.provider_caller import Caller, user
from tests.orchestrator.scripted import ScriptedProvider
from tests.orchestrator.scripted_chat import reply_with

OPENAI = "https://api.openai.com/v1"
TOOL = ToolSpec(name="find", server="s", tool="find", description="Finds.", input_schema={"type": "object"})
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}}}


def build_calls(
    *ids: str, data: dict[str, Any] | None = None, thought: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An assistant's message that calls tools."""
    blocks: list[dict[str, Any]] = [thought] if thought else []
    for each in ids:
        block = {"type": "tool_use", "id": each, "name": "find", "input": {"q": each}}
        blocks.append(block | {"provider_data": data} if data else block)
    return {"role": "assistant", "content": blocks}


def build_results(*ids: str, text: str = "") -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": each, "content": f'{{"of":"{each}"}}'} for each in ids]
    return {"role": "user", "content": [*blocks, *([{"type": "text", "text": text}] if text else [])]}


def body(base_url: str = "http://127.0.0.1:1/v1", **call: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"model": "m", "system": "", "messages": [user("hi")], "parameters": {}}
    return build_body(ModelCall(**given | call), base_url)


def messages(dialect: str, *more: dict[str, Any], **call: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = body(
        messages=[user("hi"), *more], parameters={"dialect": dialect}, tools=(TOOL,), **call
    )["messages"]
    return made


async def test_the_call_carries_everything_that_the_agent_is(
    provider: ScriptedProvider, caller: Caller
) -> None:
    provider.will(reply_with("ok"))
    parameters = {"temperature": 0.5, "max_completion_tokens": 77, "extra_body": {"top_k": 5}}
    await caller.stream(system="Be brief.", parameters=parameters, tools=(TOOL,))
    (call,) = provider.calls
    assert call.headers["authorization"] == "Bearer sk-test"
    assert call.body == {
        "model": "demo",
        "max_tokens": 77,
        "temperature": 0.5,
        "top_k": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object"}},
            }
        ],
    }


def test_only_openai_gets_the_pseudonym_of_the_user() -> None:
    assert body(OPENAI, user="0d6b")["safety_identifier"] == "0d6b"
    assert "safety_identifier" not in body(OPENAI)
    assert "safety_identifier" not in body("https://api.mistral.ai/v1", user="0d6b")


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        (OPENAI, "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://us.openai.azure.com/openai/v1", "azure"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("http://127.0.0.1:8000/v1", "compatible"),
        ("https://api.openai.com.example/v1", "compatible"),
        ("https://notopenai.azure.com/v1", "compatible"),
    ],
)
def test_the_host_tells_the_dialect(base_url: str, name: str) -> None:
    assert find_dialect(base_url, {}) is DIALECTS[name]


def test_an_agent_may_name_any_dialect_of_the_table_and_no_other() -> None:
    assert set(NAMES) == set(DIALECTS)


def test_a_parameter_tells_the_dialect_where_the_host_cannot() -> None:
    assert find_dialect("http://127.0.0.1:1", {"dialect": "mistral"}) is DIALECTS["mistral"]
    assert "dialect" not in body(parameters={"dialect": "mistral"})


@pytest.mark.parametrize("given", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    ("base_url", "sent"),
    [
        (OPENAI, "max_completion_tokens"),
        ("https://api.groq.com/openai/v1", "max_completion_tokens"),
        ("https://api.deepseek.com", "max_tokens"),
        ("http://127.0.0.1:1", "max_tokens"),
    ],
)
def test_the_cap_goes_out_by_the_dialects_name(given: str, base_url: str, sent: str) -> None:
    found = body(base_url, parameters={given: 9})
    assert {name: found[name] for name in found if "tokens" in name} == {sent: 9}


def test_no_cap_of_ours_is_sent_and_no_null() -> None:
    assert not [name for name in body(parameters={"max_tokens": None, "temperature": None}) if "te" in name]
    assert not [name for name in body(OPENAI) if "tokens" in name]


def test_a_server_that_tells_its_usage_unasked_is_not_asked() -> None:
    assert "stream_options" not in body(parameters={"dialect": "mistral"})


def test_results_of_parallel_calls_are_messages_before_the_next_user() -> None:
    sent = messages("compatible", build_calls("a", "b"), build_results("a", "b", text="and now?"))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["a", "b"]
    assert sent[1]["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"q":"a"}'}
    assert sent[1]["content"] is None
    assert [message["tool_call_id"] for message in sent[2:4]] == ["a", "b"]
    assert sent[3]["content"] == '{"of":"b"}'


def test_no_user_follows_results_where_that_is_refused() -> None:
    sent = messages("mistral", build_calls("a"), build_results("a", text="and now?"))
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("own", ["call_1", "x" * 100, "toolu_01ABCDEFGHIJKLMNOPQRSTUV", "chatcmpl-tool-1"])
def test_call_ids_match_results_and_suit_the_dialect(dialect: str, own: str) -> None:
    sent = messages(dialect, build_calls(own, f"{own}2"), build_results(own, f"{own}2"))
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert all(DIALECTS[dialect].call_id.fullmatch(each) for each in ids)
    assert len(set(ids)) == 2
    assert ids == [message["tool_call_id"] for message in sent[2:4]]


def test_the_providers_own_id_goes_back_to_it() -> None:
    data = {"openai": {"id": "functions.find:0"}}
    sent = messages("moonshot", build_calls("call_1", data=data), build_results("call_1"))
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"] == "functions.find:0"


@pytest.mark.parametrize(("dialect", "kept"), [("gemini", True), ("openai", False), ("compatible", False)])
def test_a_signature_goes_back_to_those_who_made_it(dialect: str, kept: bool) -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    sent = messages(dialect, build_calls("a", data={"openai": {"extra_content": extra}}), build_results("a"))
    assert sent[1]["tool_calls"][0].get("extra_content") == (extra if kept else None)


def test_gemini_learns_that_another_model_made_the_calls() -> None:
    sent = messages("gemini", build_calls("a"), build_results("a"))
    signature = sent[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
    assert signature == "skip_thought_signature_validator"


def thought(field: str | None) -> dict[str, Any]:
    block = {"type": "thinking", "thinking": "Hm.", "signature": "" if field else "of another provider"}
    return block | {"provider_data": {"openai": {"field": field}}} if field else block


@pytest.mark.parametrize(
    ("dialect", "field", "sent"),
    [
        ("compatible", "reasoning", {"reasoning": "Hm."}),
        ("vllm", "reasoning_content", {"reasoning_content": "Hm."}),
        ("deepseek", "reasoning_content", {"reasoning_content": "Hm."}),
        ("deepseek", None, {"reasoning_content": ""}),
        ("openai", "reasoning_content", {}),
        ("mistral", "", {}),
        ("compatible", None, {}),
        ("compatible", "", {}),
    ],
)
def test_reasoning_goes_back_where_it_must_or_may(
    dialect: str, field: str | None, sent: dict[str, str]
) -> None:
    assistant = messages(dialect, build_calls("a", thought=thought(field)), build_results("a"))[1]
    assert {name: assistant[name] for name in assistant if name.startswith("reasoning")} == sent


def test_a_message_of_thinking_alone_is_left_out() -> None:
    alone = {"role": "assistant", "content": [thought("reasoning")]}
    assert messages("compatible", alone, user("again"), user("and again")) == [
        {"role": "user", "content": "hi\n\nagain\n\nand again"}
    ]


def test_tools_are_listed_and_forbidden_in_the_last_round() -> None:
    found = body(tools=(TOOL,), use_tools=False, parameters={"parallel_tool_calls": True})
    assert len(found["tools"]) == 1
    assert found["tool_choice"] == "none"
    assert "parallel_tool_calls" not in found


def test_no_word_of_tools_where_there_are_none() -> None:
    found = body(parameters={"tool_choice": "auto", "parallel_tool_calls": False})
    assert not [name for name in found if "tool" in name]


def test_a_closed_and_complete_schema_is_strict() -> None:
    sent = body(OPENAI, output_schema=SCHEMA | {"title": "T"}, tools=(TOOL,))["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"] == {
        "name": "reply",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    }
    assert can_enforce(OPENAI, {}, SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [
        OPTIONAL,
        {"type": "array", "items": SCHEMA},
        {"type": "object", "properties": {"a": OPTIONAL}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": OPTIONAL}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"anyOf": [OPTIONAL, {"type": "null"}]}}, "required": ["a"]},
        {"type": "object"},
    ],
)
def test_schema_beyond_strict_is_sent_and_put_into_the_prompt(
    schema: dict[str, Any],
) -> None:
    sent = body(OPENAI, output_schema=schema)["response_format"]["json_schema"]
    assert sent == {"name": "reply", "schema": schema}
    assert not can_enforce(OPENAI, {}, schema)


def test_fields_may_be_called_like_keywords() -> None:
    words = {name: {"type": "string", "default": "x"} for name in ("title", "default", "format")}
    schema = {"type": "object", "properties": words, "required": list(words)}
    sent = body(OPENAI, output_schema=schema)["response_format"]["json_schema"]["schema"]
    assert list(sent["properties"]) == list(words)
    assert "default" not in sent["properties"]["title"]


@pytest.mark.parametrize(
    ("dialect", "kind"), [("vllm", "json_schema"), ("ollama", "json_schema"), ("deepseek", "json_object")]
)
def test_other_servers_get_what_they_accept_and_the_model_knows(dialect: str, kind: str) -> None:
    parameters = {"dialect": dialect}
    assert body(output_schema=SCHEMA, parameters=parameters)["response_format"]["type"] == kind
    assert not can_enforce("http://127.0.0.1:1", parameters, SCHEMA)


def test_a_format_does_not_keep_the_model_from_its_tools() -> None:
    assert "response_format" not in body(output_schema=SCHEMA, tools=(TOOL,))
    assert "response_format" in body(output_schema=SCHEMA, tools=(TOOL,), use_tools=False)


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_going_on_is_an_order_behind_the_partial_reply(dialect: str) -> None:
    sent = messages(dialect, build_calls("a"), build_results("a"), already_sent="So far")
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[-2]["content"] == "So far"
    assert "<already_sent>So far</already_sent>" in sent[-1]["content"]


SPECS = [
    ToolSpec(name=f"tool_{number}", server="s", tool="t", description="x" * 2000, input_schema={})
    for number in range(129)
]


@pytest.mark.parametrize(("dialect", "length"), [("openai", 1024), ("azure", 1024), ("compatible", 2000)])
def test_long_descriptions_are_shortened_visibly(dialect: str, length: int) -> None:
    (tool,) = body(parameters={"dialect": dialect}, tools=tuple(SPECS[:1]))["tools"]
    description = tool["function"]["description"]
    assert len(description) == length
    assert description.endswith("… [shortened]") == (length < 2000)


@pytest.mark.parametrize(("dialect", "most"), [("openai", 128), ("azure", 128), ("vllm", None)])
def test_more_tools_than_the_provider_takes_are_an_error(dialect: str, most: int | None) -> None:
    parameters = {"dialect": dialect}
    assert len(body(parameters=parameters, tools=tuple(SPECS[:128]))["tools"]) == 128
    if most is None:
        assert len(body(parameters=parameters, tools=tuple(SPECS))["tools"]) == 129
        return
    with pytest.raises(ModelFailure, match="has 129 tools; its provider accepts at most 128") as caught:
        body(parameters=parameters, tools=tuple(SPECS))
    assert (caught.value.code, caught.value.kind) == ("provider_error", "too_many_tools")
