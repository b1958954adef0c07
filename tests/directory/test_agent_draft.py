from typing import Any

import msgspec
import pytest

from directory.agent_draft import AgentChanges, AgentDraft, checked
from directory.agents import McpServer, Retrieval
from directory.errors import Invalid

pytestmark = pytest.mark.requirement("DIRECTORY")

SERVER = McpServer(name="shop", url="https://tools.example/api/mcp", headers={"Authorization": "Bearer x"})
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}}


def draft(**changes: Any) -> AgentDraft:
    return AgentDraft(**({"name": "Shop", "model": "claude-x"} | changes))


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
        draft(output_type="json", output_schema=SCHEMA, max_tool_rounds=0, on_interruption="fail"),
        draft(mcp_servers=(SERVER, McpServer(name="b", url="http://127.0.0.1:8081/mcp", allowed_tools=()))),
        draft(retrieval=Retrieval(knowledge_base_id="kb")),
        draft(provider_key="sk-ant-x"),
    ],
)
def test_a_good_draft_stays_as_it_is(good: AgentDraft) -> None:
    assert checked(good) == good


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (draft(name=""), "name"),
        (draft(name="x\x00"), "name"),
        (draft(model="x" * 201), "model"),
        (draft(system_prompt="\ud800"), "system_prompt"),
        (draft(system_prompt="x" * 65_537), "system_prompt"),
        (draft(max_tool_rounds=-1), "max_tool_rounds"),
        (draft(output_type="xml"), "output_type"),
        (draft(on_interruption="stop"), "on_interruption"),
        (draft(output_type="json"), "output_schema"),
        (draft(output_schema=SCHEMA), "output_schema"),
        (draft(output_type="json", output_schema={"type": "array"}), "output_schema.type"),
        (draft(parameters={"model": "other"}), "parameters.model"),
        (draft(parameters={"stream": False}), "parameters.stream"),
        (draft(parameters={"max_tokens": 0}), "parameters.max_tokens"),
        (draft(parameters={"max_tokens": True}), "parameters.max_tokens"),
        (draft(parameters={"temperature": 1.5}), "parameters.temperature"),
        (draft(parameters={"temperature": float("nan")}), "parameters.temperature"),
        (draft(parameters={"stop_sequences": ["", "x"]}), "parameters.stop_sequences"),
        (draft(parameters={"thinking": "on"}), "parameters.thinking"),
        (draft(parameters={"extra": {"a": "\x00"}}), "parameters.extra.a"),
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
        (draft(provider_key="a\nb"), "provider_key"),
        (draft(retrieval=Retrieval(knowledge_base_id="kb", top_k=0)), "retrieval.top_k"),
    ],
)
def test_a_bad_draft_is_refused_by_the_fields_path(bad: AgentDraft, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        checked(bad)
    assert caught.value.field == field


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Invalid, match="nested deeper"):
        checked(draft(parameters={"extra": nested(40)}))


@pytest.mark.requirement("SECRETS-SEALED")
def test_no_repr_shows_a_secret() -> None:
    shown = repr(draft(provider_key="hunter2", mcp_servers=(SERVER,))) + repr(SERVER)
    shown += repr(AgentChanges(provider_key="hunter2", mcp_servers=(SERVER,)))
    assert "hunter2" not in shown
    assert "Bearer" not in shown


def test_changes_know_what_was_given_and_null_is_given() -> None:
    changes = msgspec.json.decode(b'{"provider_key":null,"max_tool_rounds":3}', type=AgentChanges)
    assert changes.given() == {"provider_key": None, "max_tool_rounds": 3}
