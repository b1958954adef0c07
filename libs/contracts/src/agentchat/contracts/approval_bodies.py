"""Define bodies of the HTTP API about approvals: tool calls that a person decides about."""

from typing import Annotated, Any, Literal

import msgspec

from agentchat.contracts.values import ApprovalDecision, Decider, Elicitation


class CalledTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call's tool: its `name` as the model saw it and the agent's name for its `server`."""

    name: str
    server: str


class DecisionMade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision about a tool call: when (ISO 8601 UTC), and by which credential.

    `on_behalf_of` is what that credential's holder sent. `input` is what the tool was called with if it was
    changed, or the answer to its elicitation.
    """

    decision: ApprovalDecision
    by: Decider
    at: str
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


ApprovalStatus = Literal["pending"] | ApprovalDecision


class ApprovalRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that a person decides about, or has decided about. `input` is the model's own.

    `message` is what the user wrote to start the run, cut after 4,000 characters. With an `elicitation` the
    tool asks the person during the call.
    """

    id: str
    status: ApprovalStatus
    trace_id: str
    conversation_id: str
    agent_id: str
    tool: CalledTool
    input: dict[str, Any]
    requested_at: str
    expires_at: str
    elicitation: Elicitation | None = None
    decision: DecisionMade | None = None
    message: str | None = None


class DecisionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision about a tool call.

    `input` replaces the model's complete input of an approved call; for an elicitation it is the answer and
    must fit the requested schema. The model sees the `reason` of a denial. `on_behalf_of` is recorded, not
    verified.
    """

    decision: Literal["approved", "denied"]
    input: dict[str, Any] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    on_behalf_of: Annotated[str, msgspec.Meta(max_length=200)] | None = None
