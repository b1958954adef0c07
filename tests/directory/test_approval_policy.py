"""Which tools a person has to allow, and which policies cannot be saved."""

from typing import Any

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import McpServer
from agentchat.directory.agent_draft import AgentDraft, validate_draft
from agentchat.directory.approval_policy import ApprovalPolicy, ApprovalRules, ToolFilter, needs_approval


def tool(name: str, *, read_only: bool = False) -> ToolSpec:
    return ToolSpec(
        name=f"seen_{name}", server="shop", tool=name, description="", input_schema={}, read_only=read_only
    )


def rules(**given: Any) -> ApprovalRules:
    return ApprovalRules(**{name: ToolFilter(**fields) for name, fields in given.items()})


@pytest.mark.parametrize(
    ("policy", "needed"),
    [
        ("never", ()),
        ("always", ("find", "order")),
        (rules(always={"tool_names": ("order",)}), ("order",)),
        (rules(always={"read_only": False}), ("order",)),
        (rules(always={"tool_names": ("find",), "read_only": False}), ("find", "order")),
        (rules(never={"tool_names": ("find",)}), ("order",)),
        (rules(never={"read_only": True}), ("order",)),
        (rules(never={"tool_names": ("order",), "read_only": True}), ("find", "order")),
    ],
    ids=str,
)
def test_a_policy_says_which_tools_wait_for_a_person(policy: ApprovalPolicy, needed: tuple[str, ...]) -> None:
    offered = (tool("find", read_only=True), tool("order"))
    assert tuple(each.tool for each in offered if needs_approval(policy, each)) == needed


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ({"require_approval": rules()}, "has exactly one of always and never"),
        (
            {"require_approval": rules(always={"read_only": True}, never={"read_only": True})},
            "has exactly one of always and never",
        ),
        ({"require_approval": rules(never={})}, "names tools by tool_names, read_only, or both"),
        (
            {"require_approval": rules(always={"tool_names": ("ordr",)}), "allowed_tools": ("order",)},
            "names a tool that is not in allowed_tools: ordr",
        ),
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_right_is_not_saved(server: dict[str, Any], reason: str) -> None:
    draft = AgentDraft(
        name="a", model="m", mcp_servers=(McpServer(name="shop", url="https://shop.example/mcp", **server),)
    )
    with pytest.raises(Invalid) as raised:
        validate_draft(draft)
    assert (raised.value.field, raised.value.reason) == ("mcp_servers[0].require_approval", reason)
