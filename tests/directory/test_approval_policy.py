"""Which tools a person has to allow, and which policies cannot be saved."""

from typing import Any

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_validation import AgentDraft, validate_draft
from agentchat.directory.approval_policy import ApprovalPolicy, ApprovalRules, ToolFilter, needs_approval


def make_tool(name: str, *, read_only: bool = False) -> ToolSpec:
    return ToolSpec(
        name=f"seen_{name}", server="shop", tool=name, description="", input_schema={}, read_only=read_only
    )


def make_rules(**given: Any) -> ApprovalRules:
    return ApprovalRules(**{name: ToolFilter(**fields) for name, fields in given.items()})


@pytest.mark.parametrize(
    ("policy", "needed"),
    [
        ("never", ()),
        ("always", ("find", "order")),
        (make_rules(always={"tool_names": ("order",)}), ("order",)),
        (make_rules(always={"read_only": False}), ("order",)),
        (make_rules(always={"tool_names": ("find",), "read_only": False}), ("find", "order")),
        (make_rules(never={"tool_names": ("find",)}), ("order",)),
        (make_rules(never={"read_only": True}), ("order",)),
        (make_rules(never={"tool_names": ("order",), "read_only": True}), ("find", "order")),
    ],
    ids=str,
)
def test_policy_decides_which_tools_need_approval(policy: ApprovalPolicy, needed: tuple[str, ...]) -> None:
    offered = (make_tool("find", read_only=True), make_tool("order"))
    assert tuple(each.tool for each in offered if needs_approval(policy, each)) == needed


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"require_approval": make_rules()}, "must have exactly one of always and never"),
        (
            {"require_approval": make_rules(always={"read_only": True}, never={"read_only": True})},
            "must have exactly one of always and never",
        ),
        ({"require_approval": make_rules(never={})}, "must have tool_names, read_only, or both"),
        (
            {"require_approval": make_rules(always={"tool_names": ("ordr",)}), "allowed_tools": ("order",)},
            "names a tool that is not in allowed_tools: ordr",
        ),
    ],
    ids=str,
)
def test_invalid_policy_is_refused(server: dict[str, Any], reason: str) -> None:
    draft = AgentDraft(
        name="a", model="m", mcp_servers=(McpServer(name="shop", url="https://shop.example/mcp", **server),)
    )
    with pytest.raises(Invalid) as raised:
        validate_draft(draft)
    assert (raised.value.field, raised.value.reason) == ("mcp_servers[0].require_approval", reason)
