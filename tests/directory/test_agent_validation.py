import contextlib
import time
from typing import Any

import msgspec
import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.directory.agent_config import Fallback, McpServer, Retrieval
from agentchat.directory.agent_validation import AgentChanges, AgentDraft, validate_draft
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


def make_draft(**changes: Any) -> AgentDraft:
    return AgentDraft(**({"name": "Shop", "model": "claude-x"} | changes))


def make_server(**headers: str) -> McpServer:
    return McpServer(name="shop", url="https://tools.example/api/mcp", headers=headers)


def make_fallback(**fields: Any) -> Fallback:
    return Fallback(**({"provider": "anthropic", "model": "claude-y"} | fields))


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "good",
    [
        make_draft(),
        make_draft(system_prompt="Be brief.\n🙂", parameters={"max_tokens": 1, "temperature": 0, "top_k": 0}),
        make_draft(
            parameters={"thinking": {"type": "enabled", "budget_tokens": 1024}, "service_tier": "auto"}
        ),
        make_draft(parameters={"thinking": {"type": "adaptive", "display": "omitted"}, "temperature": 1}),
        make_draft(parameters={"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        make_draft(
            parameters={"output_config": {"effort": "low"}, "metadata": {"user_id": "u-1"}, "speed": None}
        ),
        make_draft(parameters={"stop_sequences": ["END", "\n\nHuman:"], "cache_control": None}),
        make_draft(parameters={"cache_control": {"type": "off"}}),
        make_draft(output_type="json", output_schema=SCHEMA, max_tool_rounds=0, on_interruption="fail"),
        make_draft(output_type="json", output_schema=TREE),
        make_draft(mcp_servers=(make_server(**{"X-Host": "a", "Cookie": "b", "Mcp-Key": "c"}),)),
        make_draft(parameters={"max_tokens": 2**31 - 1, "top_k": 2**31 - 1}),
        make_draft(
            mcp_servers=(SERVER, McpServer(name="b", url="http://127.0.0.1:8081/mcp", allowed_tools=()))
        ),
        make_draft(retrieval=Retrieval(knowledge_base_id="kb")),
        make_draft(provider_key="sk-ant-x"),
        make_draft(compaction=None),
        make_draft(compaction=Compaction(by="provider")),
        make_draft(compaction=Compaction(context_window=32_000, at_share=0.5, keep_runs=0, prompt="Sum up.")),
        make_draft(provider="anthropic", base_url="https://models.example/v1"),
        make_draft(
            fallbacks=(
                make_fallback(provider_key="k", on=("refused", "context_too_long")),
                make_fallback(model="claude-x", base_url="https://models.example"),
                make_fallback(provider="openai", model="claude-x", parameters={}),
            )
        ),
    ],
)
def test_a_good_draft_stays_as_it_is(good: AgentDraft) -> None:
    assert validate_draft(good) == good


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (make_draft(name=""), "name"),
        (make_draft(name="x\x00"), "name"),
        (make_draft(model="x" * 201), "model"),
        (make_draft(provider="nobody"), "provider"),
        (make_draft(base_url="models.example"), "base_url"),
        (make_draft(base_url="ftp://models.example"), "base_url"),
        (make_draft(base_url="https://u:p@models.example"), "base_url"),
        (make_draft(base_url="https://models.example/?key=1"), "base_url"),
        (make_draft(base_url="https://models.example/" + "x" * 2048), "base_url"),
        (make_draft(system_prompt="\ud800"), "system_prompt"),
        (make_draft(system_prompt="x" * 65_537), "system_prompt"),
        (make_draft(max_tool_rounds=-1), "max_tool_rounds"),
        (make_draft(output_type="xml"), "output_type"),
        (make_draft(on_interruption="stop"), "on_interruption"),
        (make_draft(compaction=Compaction(context_window=999)), "compaction.context_window"),
        (make_draft(compaction=Compaction(at_share=1.0)), "compaction.at_share"),
        (make_draft(provider="openai", compaction=Compaction(by="provider")), "compaction.by"),
        (make_draft(compaction=Compaction(prompt=" \n")), "compaction.prompt"),
        (make_draft(compaction=Compaction(prompt="\x00")), "compaction.prompt"),
        (make_draft(output_type="json"), "output_schema"),
        (make_draft(output_schema=SCHEMA), "output_schema"),
        (make_draft(output_type="json", output_schema={"type": "array"}), "output_schema.type"),
        (make_draft(parameters={"model": "other"}), "parameters.model"),
        (make_draft(parameters={"stream": False}), "parameters.stream"),
        (make_draft(parameters={"max_tokens": 0}), "parameters.max_tokens"),
        (make_draft(parameters={"max_tokens": True}), "parameters.max_tokens"),
        (make_draft(parameters={"max_tokens": 2**31}), "parameters.max_tokens"),
        (make_draft(parameters={"max_tokens": 10**30}), "parameters.max_tokens"),
        (make_draft(parameters={"temperature": float("nan")}), "parameters.temperature"),
        (make_draft(parameters={"top_k": 10**30}), "parameters.top_k"),
        (make_draft(parameters={"stop_sequences": ["x", " "]}), "parameters.stop_sequences[1]"),
        (make_draft(parameters={"stop_sequences": "x"}), "parameters.stop_sequences"),
        (make_draft(parameters={"tool_choice": {"type": "any"}}), "parameters.tool_choice.type"),
        (
            make_draft(parameters={"tool_choice": {"type": "tool", "name": "x"}}),
            "parameters.tool_choice.type",
        ),
        (make_draft(parameters={"output_config": {"format": None}}), "parameters.output_config.format"),
        (make_draft(parameters={"betas": ["x"]}), "parameters.betas"),
        (make_draft(parameters={"metadata": {"user_id": "\x00"}}), "parameters.metadata.user_id"),
        (make_draft(mcp_servers=(SERVER, SERVER)), "mcp_servers[1].name"),
        (make_draft(mcp_servers=(McpServer(name="a b", url="https://x/"),)), "mcp_servers[0].name"),
        (make_draft(mcp_servers=(McpServer(name="a", url="file:///etc/passwd"),)), "mcp_servers[0].url"),
        (make_draft(mcp_servers=(McpServer(name="a", url="https://"),)), "mcp_servers[0].url"),
        (make_draft(mcp_servers=(McpServer(name="a", url="https://x:99999/"),)), "mcp_servers[0].url"),
        (make_draft(mcp_servers=(McpServer(name="a", url="https://u:p@x/"),)), "mcp_servers[0].url"),
        (
            make_draft(mcp_servers=(McpServer(name="a", url="https://x/", headers={"A:": "b"}),)),
            "mcp_servers[0].headers",
        ),
        (
            make_draft(mcp_servers=(McpServer(name="a", url="https://x/", headers={"A": "b\r\nC: d"}),)),
            "mcp_servers[0].headers.A",
        ),
        *(
            (make_draft(mcp_servers=(make_server(**{name: "x"}),)), f"mcp_servers[0].headers.{name}")
            for name in (
                *("Host", "content-length", "Transfer-Encoding", "Content-Type", "Accept", "User-Agent"),
                *("Connection", "Keep-Alive", "TE", "Upgrade", "Proxy-Authorization", "Expect"),
                *("Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Param-Region", "Last-Event-ID"),
            )
        ),
        (make_draft(mcp_servers=(make_server(**{"X-A": "b", "x-a": "c"}),)), "mcp_servers[0].headers.x-a"),
        (make_draft(provider_key="a\nb"), "provider_key"),
        (make_draft(retrieval=Retrieval(knowledge_base_id="kb", top_k=0)), "retrieval.top_k"),
        *(
            (make_draft(fallbacks=fallbacks), f"fallbacks{path}")
            for fallbacks, path in (
                ((make_fallback(model="claude-x"),), "[0]"),
                ((make_fallback(), make_fallback(parameters={"max_tokens": 9})), "[1]"),
                (
                    (
                        make_fallback(base_url="https://m.example"),
                        make_fallback(base_url="https://m.example/"),
                    ),
                    "[1]",
                ),
                ((make_fallback(model=" "),), "[0].model"),
                ((make_fallback(provider="nobody"),), "[0].provider"),
                ((make_fallback(base_url="ftp://m.example"),), "[0].base_url"),
                ((make_fallback(provider_key="a\nb"),), "[0].provider_key"),
                ((make_fallback(parameters={"stream": True}),), "[0].parameters.stream"),
                ((make_fallback(on=()),), "[0].on"),
                ((make_fallback(on=("bored",)),), "[0].on[0]"),
                (tuple(make_fallback(model=f"m{number}") for number in range(4)), ""),
            )
        ),
        (
            make_draft(fallbacks=(make_fallback(provider="openai"),), compaction=Compaction(by="provider")),
            "compaction.by",
        ),
    ],
)
def test_a_bad_draft_is_refused_by_the_fields_path(bad: AgentDraft, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate_draft(bad)
    assert caught.value.field == field


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Invalid, match="nested deeper"):
        validate_draft(make_draft(parameters={"extra": nest(40)}))


def test_other_parameters_are_not_checked() -> None:
    parameters = {"max_token": 5, "thinking": {"type": "new"}, "temperature": 1.5}
    assert validate_draft(make_draft(parameters=parameters)).parameters == parameters


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
def test_invalid_schema_is_refused_with_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate_draft(make_draft(output_type="json", output_schema=SCHEMA | change))
    assert caught.value.field == f"output_schema.{field}"


def test_a_schema_is_bounded_in_size_and_depth() -> None:
    wide = {f"p{number}": {"type": "string", "description": "x" * 60} for number in range(1000)}
    for schema, words in ((SCHEMA | {"properties": wide}, "64 KiB"), (SCHEMA | nest(40), "nested deeper")):
        with pytest.raises(Invalid, match=words):
            validate_draft(make_draft(output_type="json", output_schema=schema))


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
        validate_draft(make_draft(output_type="json", output_schema=SCHEMA | change))
    assert time.process_time() - began < 3.0


def test_no_repr_shows_a_secret() -> None:
    shown = repr(make_draft(provider_key="hunter2", mcp_servers=(SERVER,))) + repr(SERVER)
    shown += repr(AgentChanges(provider_key="hunter2", mcp_servers=(SERVER,)))
    assert "hunter2" not in shown
    assert "Bearer" not in shown


def test_changes_keep_null_and_drop_unset_fields() -> None:
    changes = msgspec.json.decode(b'{"provider_key":null,"max_tool_rounds":3}', type=AgentChanges)
    assert changes.to_dict() == {"provider_key": None, "max_tool_rounds": 3}
