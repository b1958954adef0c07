"""Which tools a person has to allow before they are run: per tool server, in OpenAI's words.

What a server says of its tools is believed only where the policy asks for it: it frees none by itself.
"""

from typing import Annotated, Literal

import msgspec

from agentchat.contracts.values import ToolSpec

ToolName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class ToolFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools by their own names, and by whether their server says that they only read."""

    tool_names: Annotated[tuple[ToolName, ...], msgspec.Meta(max_length=256)] | None = None
    read_only: bool | None = None


class ApprovalRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Exactly one of them. `always`: a tool that meets any of its criteria has to be allowed, no other has.
    `never`: one that meets all of its criteria has not, all others have.
    """

    always: ToolFilter | None = None
    never: ToolFilter | None = None

    @property
    def names(self) -> tuple[str, ...]:
        given = self.always or self.never
        return () if given is None else given.tool_names or ()


ApprovalPolicy = Literal["never", "always"] | ApprovalRules


def needs_approval(policy: ApprovalPolicy, tool: ToolSpec) -> bool:
    """Whether a person has to allow calls of this tool."""
    if not isinstance(policy, ApprovalRules):
        return policy == "always"
    if policy.always is not None:
        return any(_criteria(policy.always, tool))
    return policy.never is None or not all(_criteria(policy.never, tool))


def find_policy_problem(policy: ApprovalPolicy) -> str:
    """What is wrong with it; "" for nothing."""
    if not isinstance(policy, ApprovalRules):
        return ""
    given = [each for each in (policy.always, policy.never) if each is not None]
    if len(given) != 1:
        return "has exactly one of always and never"
    if given[0].tool_names is None and given[0].read_only is None:
        return "names tools by tool_names, read_only, or both"
    return ""


def _criteria(given: ToolFilter, tool: ToolSpec) -> list[bool]:
    fits = []
    if given.tool_names is not None:
        fits.append(tool.tool in given.tool_names)
    if given.read_only is not None:
        fits.append(tool.read_only == given.read_only)
    return fits
