"""Show a server's tools to pick from, with their hints and approvals, and read the choice."""

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec
from litestar.datastructures import FormMultiDict

from agentchat.administration.admin_values import ShownServer
from agentchat.contracts.admin_errors import Conflict
from agentchat.contracts.values import ToolSpec
from agentchat.directory.approval_policy import ApprovalRules

SHOWN = "tool_shown"
"""The field that a form with this choice has."""

MADE_OF = "tools_made_of"
"""The field with the hash of what the choice was made of, to see if someone else has changed it since."""


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the server. `hints` are the server's own words about it."""

    name: str
    description: str
    hints: str
    is_allowed: bool
    needs_approval: bool


class ToolSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The tools, which of them the agent may call (`all` or `ticked`), and which need approval."""

    rows: tuple[ToolRow, ...]
    tools: str
    approval: str
    made_of: str


def build_choice(
    server: ShownServer, listed: Collection[ToolSpec], given: FormMultiDict | None = None
) -> ToolSelection | None:
    """Build the choice from the server as it is, or from a refused form.

    None if nothing is listed, or ticks cannot express the server's approval policy.
    """
    found = {each.tool: each for each in listed if each.server == server.name}
    policy = server.require_approval
    named = _get_named(policy)
    if not found or named is None:
        return None
    allowed = set(found if server.allowed_tools is None else server.allowed_tools)
    tools = "all" if server.allowed_tools is None else "ticked"
    approval: str = policy if isinstance(policy, str) else "ticked"
    if given is not None and SHOWN in given:
        allowed, named = set(given.getall("tool_allowed", [])), set(given.getall("tool_approval", []))
        tools, approval = str(given.get("tools", "all")), str(given.get("approval", "never"))
    names = sorted({*found, *(server.allowed_tools or ()), *named})
    rows = [
        ToolRow(
            name=name,
            description=found[name].description if name in found else "Not listed by the server.",
            hints=_describe_hints(found[name]) if name in found else "",
            is_allowed=name in allowed,
            needs_approval=name in named,
        )
        for name in names
    ]
    return ToolSelection(rows=tuple(rows), tools=tools, approval=approval, made_of=_hash_choice(server))


def read_choice(given: FormMultiDict, server: ShownServer) -> dict[str, Any]:
    """Read the fields `allowed_tools` and `require_approval` of the server's body.

    What the form does not say is the safer choice. Raises Conflict if someone changed them meanwhile.
    """
    if given.get(MADE_OF, "") != _hash_choice(server):
        raise Conflict(
            "Tools or approvals were changed by someone else since you opened this page. What you chose is "
            "kept below; save again to overwrite the other change"
        )
    shown = [str(name) for name in given.getall(SHOWN, [])]
    ticked = set(given.getall("tool_allowed", []))
    allowed = None if given.get("tools") == "all" else [name for name in shown if name in ticked]
    asked = set(given.getall("tool_approval", []))
    names = [name for name in shown if name in asked and (allowed is None or name in allowed)]
    approval: Any = given.get("approval", "always")
    if approval == "ticked":
        approval = {"always": {"tool_names": names}} if names else "never"
    return {"allowed_tools": allowed, "require_approval": approval}


def _hash_choice(server: ShownServer) -> str:
    choice = msgspec.json.encode((server.allowed_tools, server.require_approval))
    return hashlib.sha256(choice).hexdigest()[:16]


def _get_named(policy: Any) -> set[str] | None:
    """Return the tools that the policy names; None if it has other rules than these."""
    if not isinstance(policy, ApprovalRules):
        return set()
    if policy.always is None or policy.always.read_only is not None:
        return None
    return set(policy.always.tool_names or ())


def _describe_hints(tool: ToolSpec) -> str:
    hints = {
        "read-only": tool.read_only,
        "destructive": tool.destructive is True and not tool.read_only,
        "open world": tool.open_world is True,
        "may be repeated": tool.idempotent,
    }
    return ", ".join(name for name, holds in hints.items() if holds)
