"""The choice of a server's tools: saved unchanged it is what the server has, and ticks become its fields."""

from typing import Any

import msgspec
import pytest
from litestar.datastructures import FormMultiDict

from agentchat.administration.admin_values import ShownServer
from agentchat.console.pages.tool_choice import ToolSelection, build_choice, read_choice
from agentchat.contracts.admin_errors import Conflict
from agentchat.contracts.values import ToolSpec
from agentchat.directory.agent_config import McpServer

LISTED = tuple(
    ToolSpec(name=name, server="shop", tool=name, description=name, input_schema={}, **hints)
    for name, hints in (("look", {"read_only": True}), ("order", {}), ("wipe", {"destructive": True}))
)


def build_server(**fields: Any) -> ShownServer:
    plain = msgspec.to_builtins(McpServer(name="shop", url="https://x"))
    del plain["headers"]
    return msgspec.convert(plain | {"header_names": []} | fields, ShownServer)


def send(choice: ToolSelection | None, **written: Any) -> FormMultiDict:
    """What a browser sends of the choice, with other values of some fields."""
    assert choice is not None
    sent = {
        "tool_shown": [each.name for each in choice.rows],
        "tool_allowed": [each.name for each in choice.rows if each.is_allowed],
        "tool_approval": [each.name for each in choice.rows if each.needs_approval],
        "tools": [choice.tools],
        "approval": [choice.approval],
        "tools_made_of": [choice.made_of],
    }
    return FormMultiDict([(name, value) for name, values in (sent | written).items() for value in values])


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_tools": None, "require_approval": "never"},
        {"allowed_tools": ["look", "order"], "require_approval": "always"},
        {"allowed_tools": ["gone"], "require_approval": "never"},
        {"allowed_tools": None, "require_approval": {"always": {"tool_names": ["order", "wipe"]}}},
    ],
)
def test_choice_saved_unchanged_is_the_same(fields: dict[str, Any]) -> None:
    server = build_server(**fields)
    assert read_choice(send(build_choice(server, LISTED)), server) == fields


@pytest.mark.parametrize(
    ("written", "allowed", "approval"),
    [
        ({"tools": ["ticked"], "tool_allowed": ["look"]}, ["look"], "never"),
        ({"approval": ["ticked"], "tool_approval": ["wipe"]}, None, {"always": {"tool_names": ["wipe"]}}),
        ({"approval": ["ticked"]}, None, "never"),
        ({"tools": [], "approval": []}, ["look", "order", "wipe"], "always"),
        (
            {
                "tools": ["ticked"],
                "tool_allowed": ["look"],
                "approval": ["ticked"],
                "tool_approval": ["wipe"],
            },
            ["look"],
            "never",
        ),
    ],
)
def test_ticks_become_fields(written: dict[str, Any], allowed: Any, approval: Any) -> None:
    sent = send(build_choice(build_server(), LISTED), **written)
    assert read_choice(sent, build_server()) == {"allowed_tools": allowed, "require_approval": approval}
    again = build_choice(build_server(), LISTED, sent)
    assert send(again) == sent or not all(written.values()), "nothing that was ticked is lost"


def test_another_persons_change_of_approvals_is_not_undone() -> None:
    sent = send(build_choice(build_server(), LISTED))
    changed = build_server(require_approval="always")
    with pytest.raises(Conflict, match="changed by someone else"):
        read_choice(sent, changed)
    again = send(build_choice(changed, LISTED, sent))
    assert read_choice(again, changed)["require_approval"] == "never", "saved again, it is meant"


@pytest.mark.parametrize(
    "policy", [{"never": {"read_only": True}}, {"always": {"read_only": False, "tool_names": ["a"]}}]
)
def test_other_policies_stay_json(policy: dict[str, Any]) -> None:
    assert build_choice(build_server(require_approval=policy), LISTED) is None
    assert build_choice(build_server(), ()) is None


def test_hints_are_shown() -> None:
    choice = build_choice(build_server(), LISTED)
    assert choice is not None
    assert [each.hints for each in choice.rows] == ["read-only", "", "destructive"]
