"""Decide which tool calls need a person's approval, by the policy of each tool server.

The policies have the form of OpenAI's `require_approval`. A server's own annotation `read_only` counts only
if the policy names it.
"""

from typing import Annotated, Literal

import msgspec

from agentchat.contracts.values import ToolSpec

ToolName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class ToolFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools selected by name, and by their server's annotation `read_only`."""

    tool_names: Annotated[tuple[ToolName, ...], msgspec.Meta(max_length=256)] | None = None
    read_only: bool | None = None


class ApprovalRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules for approval; exactly one of the two is set.

    `always`: calls of a tool that meets any of the criteria need approval, others do not.
    `never`: calls of a tool that meets all criteria need no approval, others do.
    """

    always: ToolFilter | None = None
    never: ToolFilter | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of tools in the rules."""
        given = self.always or self.never
        return () if given is None else given.tool_names or ()


ApprovalPolicy = Literal["never", "always"] | ApprovalRules


def needs_approval(policy: ApprovalPolicy, tool: ToolSpec) -> bool:
    """Return True if a person must approve calls of this tool."""
    if not isinstance(policy, ApprovalRules):
        return policy == "always"
    if policy.always is not None:
        return any(_match_criteria(policy.always, tool))
    return policy.never is None or not all(_match_criteria(policy.never, tool))


def find_policy_problem(policy: ApprovalPolicy) -> str:
    """Return what is wrong with a policy; "" if it is valid."""
    if not isinstance(policy, ApprovalRules):
        return ""
    given = [each for each in (policy.always, policy.never) if each is not None]
    if len(given) != 1:
        return "must have exactly one of always and never"
    if given[0].tool_names is None and given[0].read_only is None:
        return "must have tool_names, read_only, or both"
    return ""


def _match_criteria(given: ToolFilter, tool: ToolSpec) -> list[bool]:
    matches = []
    if given.tool_names is not None:
        matches.append(tool.tool in given.tool_names)
    if given.read_only is not None:
        matches.append(tool.read_only == given.read_only)
    return matches
