import contextlib
import time
from typing import Any

import msgspec
import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.agent_config import McpServer, Retrieval
from agentchat.directory.agent_draft import AgentChanges, AgentDraft, validate_draft
from agentchat.directory.compaction_settings import Compaction

SERVER = McpServer(name="shop", url="https://tools.example/api/mcp", headers={"Authorization": "Bearer x"})
TREE = {
    "type": "object",
    "properties": {
        "root": {"$ref": "#/$defs/node"},
        "any": {},
        "code": {"type": "string", "pattern": "^[A-Z]+$"},
    },
    "$defs": {"node": {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/node"}}}}},
}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}


def draft(**changes: Any) -> AgentDraft:
    return AgentDraft(**({"name": "Shop", "model": "claude-x"} | changes))


def with_headers(**headers: str) -> McpServer:
    return McpServer(name="shop", url="https://tools.example/api/mcp", headers=headers)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "good",
    [
        draft(),
        draft(system_prompt="Be brief.\n🙂", parameters={"max_tokens": 1, "temperature": 0, "top_k": 0}),
        draft(parameters={"thinking": {"type": "enabled", "budget_tokens": 1024}, "service_tier": "auto"}),
        draft(parameters={"thinking": {"type": "adaptive", "display": "omitted"}, "temperature": 1}),
        draft(parameters={"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        draft(parameters={"output_config": {"effort": "low"}, "metadata": {"user_id": "u-1"}, "speed": None}),
        draft(parameters={"stop_sequences": ["END", "\n\nHuman:"], "cache_control": None}),
        draft(parameters={"cache_control": {"type": "off"}}),
        draft(output_type="json", output_schema=SCHEMA, max_tool_rounds=0, on_interruption="fail"),
        draft(output_type="json", output_schema=TREE),
        draft(mcp_servers=(with_headers(**{"X-Host": "a", "Cookie": "b", "Mcp-Key": "c"}),)),
        draft(parameters={"max_tokens": 2**31 - 1, "top_k": 2**31 - 1}),
        draft(mcp_servers=(SERVER, McpServer(name="b", url="http://127.0.0.1:8081/mcp", allowed_tools=()))),
        draft(retrieval=Retrieval(knowledge_base_id="kb")),
        draft(provider_key="sk-ant-x"),
        draft(compaction=None),
        draft(compaction=Compaction(by="provider")),
        draft(compaction=Compaction(context_window=32_000, at_share=0.5, keep_runs=0, prompt="Sum up.")),
        draft(provider="anthropic", base_url="https://models.example/v1"),
    ],
)
def test_a_good_draft_stays_as_it_is(good: AgentDraft) -> None:
    assert validate_draft(good) == good


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (draft(name=""), "name"),
        (draft(name="x\x00"), "name"),
        (draft(model="x" * 201), "model"),
        (draft(provider="nobody"), "provider"),
        (draft(base_url="models.example"), "base_url"),
        (draft(base_url="ftp://models.example"), "base_url"),
        (draft(base_url="https://u:p@models.example"), "base_url"),
        (draft(base_url="https://models.example/?key=1"), "base_url"),
        (draft(base_url="https://models.example/" + "x" * 2048), "base_url"),
        (draft(system_prompt="\ud800"), "system_prompt"),
        (draft(system_prompt="x" * 65_537), "system_prompt"),
        (draft(max_tool_rounds=-1), "max_tool_rounds"),
        (draft(output_type="xml"), "output_type"),
        (draft(on_interruption="stop"), "on_interruption"),
        (draft(compaction=Compaction(context_window=999)), "compaction.context_window"),
        (draft(compaction=Compaction(at_share=1.0)), "compaction.at_share"),
        (draft(provider="openai", compaction=Compaction(by="provider")), "compaction.by"),
        (draft(compaction=Compaction(prompt=" \n")), "compaction.prompt"),
        (draft(compaction=Compaction(prompt="\x00")), "compaction.prompt"),
        (draft(output_type="json"), "output_schema"),
        (draft(output_schema=SCHEMA), "output_schema"),
        (draft(output_type="json", output_schema={"type": "array"}), "output_schema.type"),
        (draft(parameters={"model": "other"}), "parameters.model"),
        (draft(parameters={"stream": False}), "parameters.stream"),
        (draft(parameters={"max_tokens": 0}), "parameters.max_tokens"),
        (draft(parameters={"max_tokens": True}), "parameters.max_tokens"),
        (draft(parameters={"max_tokens": 2**31}), "parameters.max_tokens"),
        (draft(parameters={"max_tokens": 10**30}), "parameters.max_tokens"),
        (draft(parameters={"temperature": float("nan")}), "parameters.temperature"),
        (draft(parameters={"top_k": 10**30}), "parameters.top_k"),
        (draft(parameters={"stop_sequences": ["x", " "]}), "parameters.stop_sequences[1]"),
        (draft(parameters={"stop_sequences": "x"}), "parameters.stop_sequences"),
        (draft(parameters={"tool_choice": {"type": "any"}}), "parameters.tool_choice.type"),
        (draft(parameters={"tool_choice": {"type": "tool", "name": "x"}}), "parameters.tool_choice.type"),
        (draft(parameters={"output_config": {"format": None}}), "parameters.output_config.format"),
        (draft(parameters={"betas": ["x"]}), "parameters.betas"),
        (draft(parameters={"metadata": {"user_id": "\x00"}}), "parameters.metadata.user_id"),
        (draft(mcp_servers=(SERVER, SERVER)), "mcp_servers[1].name"),
        (draft(mcp_servers=(McpServer(name="a b", url="https://x/"),)), "mcp_servers[0].name"),
        (draft(mcp_servers=(McpServer(name="a", url="file:///etc/passwd"),)), "mcp_servers[0].url"),
        (draft(mcp_servers=(McpServer(name="a", url="https://"),)), "mcp_servers[0].url"),
        (draft(mcp_servers=(McpServer(name="a", url="https://x:99999/"),)), "mcp_servers[0].url"),
        (draft(mcp_servers=(McpServer(name="a", url="https://u:p@x/"),)), "mcp_servers[0].url"),
        (
            draft(mcp_servers=(McpServer(name="a", url="https://x/", headers={"A:": "b"}),)),
            "mcp_servers[0].headers",
        ),
        (
            draft(mcp_servers=(McpServer(name="a", url="https://x/", headers={"A": "b\r\nC: d"}),)),
            "mcp_servers[0].headers.A",
        ),
        *(
            (draft(mcp_servers=(with_headers(**{name: "x"}),)), f"mcp_servers[0].headers.{name}")
            for name in (
                *("Host", "content-length", "Transfer-Encoding", "Content-Type", "Accept", "User-Agent"),
                *("Connection", "Keep-Alive", "TE", "Upgrade", "Proxy-Authorization", "Expect"),
                *("Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Param-Region", "Last-Event-ID"),
            )
        ),
        (draft(mcp_servers=(with_headers(**{"X-A": "b", "x-a": "c"}),)), "mcp_servers[0].headers.x-a"),
        (draft(provider_key="a\nb"), "provider_key"),
        (draft(retrieval=Retrieval(knowledge_base_id="kb", top_k=0)), "retrieval.top_k"),
    ],
)
def test_a_bad_draft_is_refused_by_the_fields_path(bad: AgentDraft, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate_draft(bad)
    assert caught.value.field == field


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Invalid, match="nested deeper"):
        validate_draft(draft(parameters={"extra": nested(40)}))


def test_other_parameters_are_the_providers_affair() -> None:
    parameters = {"max_token": 5, "thinking": {"type": "new"}, "temperature": 1.5}
    assert validate_draft(draft(parameters=parameters)).parameters == parameters


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "array"}, "type"),
        ({"properties": {"a": {"type": "text"}}}, "properties.a.type"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern"),
        ({"patternProperties": {"(": {}}}, "patternProperties"),
        ({"properties": {"a": {"minLength": -1}}}, "properties.a.minLength"),
        ({"properties": {"a": {"anyOf": []}}}, "properties.a.anyOf"),
        ({"properties": {"a": {"$ref": "https://example.com/schema"}}}, "properties.a.$ref"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "properties.a.$ref"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "properties.a.$ref"),
        ({"x": {"pattern": 5}, "properties": {"a": {"$ref": "#/x"}}}, "properties.a.$ref"),
        ({"allOf": [{}, {"$ref": "#/$defs/~2"}]}, "allOf[1].$ref"),
        ({"$id": "https://example.com/"}, "$id"),
        ({"$defs": {"n": {"$dynamicAnchor": "n"}}}, "$defs.n.$dynamicAnchor"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "$schema"),
    ],
)
def test_what_is_no_schema_is_refused_by_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate_draft(draft(output_type="json", output_schema=SCHEMA | change))
    assert caught.value.field == f"output_schema.{field}"


def test_a_schema_is_bounded_in_size_and_depth() -> None:
    wide = {f"p{number}": {"type": "string", "description": "x" * 60} for number in range(1000)}
    for schema, words in ((SCHEMA | {"properties": wide}, "64 KiB"), (SCHEMA | nested(40), "nested deeper")):
        with pytest.raises(Invalid, match=words):
            validate_draft(draft(output_type="json", output_schema=schema))


@pytest.mark.parametrize(
    "change",
    [
        {"properties": {"a": {"pattern": "(" * 20_000 + "a" + ")" * 20_000}}},
        {"properties": {f"p{n}": {"pattern": rf"^(\w{{1,100}}){{1,{n + 1}}}$"} for n in range(1000)}},
        {"properties": {"a": {"pattern": "(?<=a{1000})" * 4000}}},
        {"properties": {f"p{n}": {"$ref": "#/$defs/d"} for n in range(1500)}, "$defs": {"d": {}}},
        {"anyOf": [{"type": "text"}] * 2000},
    ],
    ids=["groups", "bounds", "look-behinds", "references", "wrong types"],
)
def test_a_hostile_schema_is_checked_in_bounded_time(change: dict[str, Any]) -> None:
    began = time.process_time()
    with contextlib.suppress(Invalid):
        validate_draft(draft(output_type="json", output_schema=SCHEMA | change))
    assert time.process_time() - began < 3.0


def test_no_repr_shows_a_secret() -> None:
    shown = repr(draft(provider_key="hunter2", mcp_servers=(SERVER,))) + repr(SERVER)
    shown += repr(AgentChanges(provider_key="hunter2", mcp_servers=(SERVER,)))
    assert "hunter2" not in shown
    assert "Bearer" not in shown


def test_changes_know_what_was_given_and_null_is_given() -> None:
    changes = msgspec.json.decode(b'{"provider_key":null,"max_tool_rounds":3}', type=AgentChanges)
    assert changes.to_dict() == {"provider_key": None, "max_tool_rounds": 3}
