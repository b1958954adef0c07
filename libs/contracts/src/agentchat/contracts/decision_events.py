"""Define the events of waiting tool calls: what is asked of a person or a client, and the decision."""

from typing import Any

import msgspec

from agentchat.contracts import values
from agentchat.contracts.event_base import Fact


class DecisionRequested(Fact, frozen=True, kw_only=True):
    """A person must decide; until then nobody works on the run.

    Appended once the round's other calls have returned, together with those of all its waiting calls.
    `input_sha256`, in hexadecimal, is the hash of the call's input in canonical JSON
    (`wire.encode_canonical`). `server` and `tool` locate the tool. The other fields are the agent's
    configuration; from `expires_at` (ISO 8601 UTC) on it is too late to decide.
    """

    approval_id: str
    call_id: str
    round: int
    input_sha256: str
    expires_at: str
    agent_id: str
    server: str
    tool: str
    approvers: values.Approvers = "account"
    on_expiry: values.OnExpiry = "continue"
    on_new_message: values.OnNewMessage = "refuse"


class ApprovalRequested(DecisionRequested, frozen=True, kw_only=True, tag="approval_requested.v1"):
    """A person must decide whether a tool may be called.

    Earlier releases stored a tool's question under this tag, with `asked`: it is read as
    ElicitationRequested.
    """


class ElicitationRequested(DecisionRequested, frozen=True, kw_only=True, tag="elicitation_requested.v1"):
    """A tool was called and asks a person for input (MCP's elicitation).

    `approved` answers with the decision's input, `denied` declines; then the call is repeated. `offered_tool`
    is the tool as the model saw it: the log may not have the list of a run that has not waited before.
    """

    asked: values.InputAsked
    offered_tool: values.ToolSpec | msgspec.UnsetType = msgspec.UNSET


class ClientToolRequested(DecisionRequested, frozen=True, kw_only=True, tag="client_tool_requested.v1"):
    """The client must run a tool of its own. The call's result comes together with an ApprovalDecided."""


class ApprovalDecided(Fact, frozen=True, kw_only=True, tag="approval_decided.v1"):
    """A decision about a tool call. After the last one of a round the run continues.

    `by` was authenticated and claims to act for `on_behalf_of`. `input`, if it was changed, is what the tool
    is called with; the model's own is in ToolCalled. For a tool's question, `input` is the answer.
    `is_client`: it ends the wait of a ClientToolRequested, about which nobody decides.
    """

    approval_id: str
    decision: values.ApprovalDecision
    by: values.Decider
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None
    is_client: bool = False
