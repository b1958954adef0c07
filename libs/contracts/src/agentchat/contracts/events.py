"""The stored events: the facts of a conversation, in order, and the only truth of the service.

A tag is `<name>.v<version>` and never changes its meaning; a new shape gets a new version and an upcast.
New optional fields may be added to a version (docs/change/design.md 4), if a reader that ignores them still
does the right thing; what changes the meaning of an event is a new tag.
"""

from typing import Any, Literal, get_args

import msgspec

from agentchat.contracts.values import (
    ApprovalDecision,
    Approvers,
    Decider,
    Elicitation,
    Form,
    Message,
    OnExpiry,
    OnNewMessage,
    Role,
    ShownMessage,
    Source,
    Usage,
)


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every event carries: the trace (one request, one run) and the time, ISO 8601 UTC.

    In a fork, `inherited_from` is the trace of which the event is a copy: it happened there, and is counted
    there alone.
    """

    trace_id: str
    at: str
    inherited_from: str | msgspec.UnsetType = msgspec.UNSET


class ConversationStarted(Fact, frozen=True, kw_only=True, tag="conversation_started.v1"):
    """A new thread; always version 1 of its conversation."""

    account_id: str


class ConversationForked(Fact, frozen=True, kw_only=True, tag="conversation_forked.v1"):
    """The thread begins with copies of another one's first `source_version` events, which follow; right
    after its start.

    Those stay whatever becomes of the source, and have ids of their own.
    """

    source_id: str
    source_version: int


class ConversationSeeded(Fact, frozen=True, kw_only=True, tag="conversation_seeded.v1"):
    """What the caller shows of a conversation that went on elsewhere, right after its start here.

    The model is shown it before all messages; it is of no run of ours. EVENTS carries it without them: they
    are a megabyte at most, with each request.
    """

    messages: tuple[ShownMessage, ...]


class MessageSaved(Fact, frozen=True, kw_only=True, tag="message_saved.v1"):
    """A message of the thread. `token_count` is that of the complete run, on assistant messages only."""

    message_id: str
    role: Role
    agent_id: str
    content: str
    token_count: int | None = None

    def message(self, conversation_id: str) -> Message:
        """It as the API has it."""
        return Message(
            id=self.message_id,
            conversation_id=conversation_id,
            content=self.content,
            token_count=self.token_count or 0,
            created_at=self.at,
        )


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run records of its agent: fields of RunStarted."""

    agent_version: int
    model: str
    max_tool_rounds: int = 8
    retrieves: bool = False
    on_interruption: Literal["continue", "fail"] = "continue"


class RunStarted(Fact, frozen=True, kw_only=True, tag="run_started.v1"):
    """A worker takes up the run; `attempt` counts from 1 and fences every earlier attempt.

    `worker` is the name of its process and an id that is new at each start of it. `offset`: the code points
    of the run's text, over all rounds, that its readers had when the attempt began. `instructions` are the
    caller's own, after the agent's prompt; `shown_sha256` is of all that the caller sent with the message
    (`conversations.queries.find_by_history`). `output_schema` is the caller's own for the reply,
    `requested_model` the agent as the caller named it, where the API calls it a model.
    """

    attempt: int
    agent_version: int
    model: str
    form: Form
    prompt_override: str | None = None
    max_tool_rounds: int = 8
    retrieves: bool = False
    on_interruption: Literal["continue", "fail"] = "continue"
    worker: str | None = None
    offset: int = 0
    instructions: str | None = None
    shown_sha256: str | None = None
    output_schema: dict[str, Any] | None = None
    requested_model: str | None = None


class SourcesRetrieved(Fact, frozen=True, kw_only=True, tag="sources_retrieved.v1"):
    """What retrieval found, best first; empty where it found nothing."""

    sources: tuple[Source, ...]


class Delta(Fact, frozen=True, kw_only=True, tag="delta.v1"):
    """The text of one round, once. `cuts` are the ends of the frames it was sent in, in code points.

    With frames "He", "llo" it is text="Hello", cuts=(2, 5).
    """

    round: int
    text: str
    cuts: tuple[int, ...]


class ModelReplied(Fact, frozen=True, kw_only=True, tag="model_replied.v1"):
    """A complete model reply: the content blocks that must go back to the model in the next round.

    `prompt_sha256` is of the system prompt as it was sent, `tools_sha256` of the tools that were offered with
    it, both in hexadecimal: replies with equal ones were requested with the same prefix.
    The blocks have the shapes of Anthropic's Messages API, whichever `provider` answered. A block may carry
    `provider_data`, by provider: what that provider alone gets back with it.
    """

    round: int
    blocks: tuple[dict[str, Any], ...]
    stop_reason: str
    usage: Usage
    provider: str = "anthropic"
    prompt_sha256: str | None = None
    tools_sha256: str | None = None


class ReplyLost(Fact, frozen=True, kw_only=True, tag="reply_lost.v1"):
    """A worker that stops handed the run over, and another one does the step under way again.

    `usage` is what the model call of that round had cost, nothing where none was under way.
    """

    round: int
    usage: Usage


class ContextCompacted(Fact, frozen=True, kw_only=True, tag="context_compacted.v1"):
    """From here on the model is shown `summary` in the place of all up to `through_version`; nobody else is.

    It is of the run that made room by it, and comes before the model call that relies on it. The events
    after `through_version` begin with a run. `model` wrote the summary, which cost `usage`; `prompt_sha256`,
    in hexadecimal, is of the instruction for it. `provider_data`, by provider: what that provider
    alone is sent instead of the text.
    """

    through_version: int
    summary: str
    model: str
    prompt_sha256: str
    usage: Usage
    provider_data: dict[str, Any] | None = None


class ToolCalled(Fact, frozen=True, kw_only=True, tag="tool_called.v1", omit_defaults=True):
    """The model requested a tool; appended before the tool is run.

    `needs_approval`: it is not run before a person has allowed it.
    """

    round: int
    call_id: str
    name: str
    input: dict[str, Any]
    needs_approval: bool = False


class InputAsked(Elicitation, frozen=True, kw_only=True):
    """What a tool asks of a person, of the call of that `name` and `input` as the model made it.

    `key` is the server's name for it, `leg` as in `ToolRequested`; `request_state` is opaque, and goes
    back to the server when the call is made again.
    """

    name: str
    input: dict[str, Any]
    key: str
    leg: int = 0
    request_state: str | None = None

    @property
    def elicitation(self) -> Elicitation:
        """What a person is shown of it."""
        return Elicitation(
            message=self.message, mode=self.mode, requested_schema=self.requested_schema, url=self.url
        )


class DecisionRequested(Fact, frozen=True, kw_only=True):
    """A person is to decide, and from now on nobody works on the run.

    It is appended once the round's other calls have returned, with those of all its calls that wait.
    `input_sha256`, in hexadecimal, is of the call's input in canonical JSON (`wire.encode_canonical`).
    `server` and `tool` say where the tool is. The rest is how the agent was configured: at `expires_at` (ISO
    8601 UTC) it is too late to decide.
    """

    approval_id: str
    call_id: str
    round: int
    input_sha256: str
    expires_at: str
    agent_id: str
    server: str
    tool: str
    approvers: Approvers = "account"
    on_expiry: OnExpiry = "continue"
    on_new_message: OnNewMessage = "refuse"


class ApprovalRequested(DecisionRequested, frozen=True, kw_only=True, tag="approval_requested.v1"):
    """A person is to decide whether a tool call may run.

    Earlier releases stored what a tool asks under this tag, with `asked`: it is read as ElicitationRequested.
    """


class ElicitationRequested(DecisionRequested, frozen=True, kw_only=True, tag="elicitation_requested.v1"):
    """A tool was called, and asks a person for input (MCP's elicitation).

    Approved is answered with the decision's input, denied is declined, and the call is made again.
    """

    asked: InputAsked


class ApprovalDecided(Fact, frozen=True, kw_only=True, tag="approval_decided.v1"):
    """What was decided about a tool call. After the last one of a round the run continues.

    `by` was authenticated, and claims to act for `on_behalf_of`. `input`, where it was changed, is what the
    tool is run with; the model's own is in ToolCalled. Where the tool asks, it is the answer.
    """

    approval_id: str
    decision: ApprovalDecision
    by: Decider
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


class ToolReturned(Fact, frozen=True, kw_only=True, tag="tool_returned.v1"):
    """What came back; `output` is a string that parses as JSON. `ms` is the time it took."""

    round: int
    call_id: str
    output: str
    is_error: bool
    ms: int


class RunCompleted(Fact, frozen=True, kw_only=True, tag="run_completed.v1"):
    """The run ended with a saved reply."""

    usage: Usage
    rounds: int


class RunFailed(Fact, frozen=True, kw_only=True, tag="run_failed.v1"):
    """The run ended without a reply; `code` is one of `contracts.errors`, `usage` what it cost so far."""

    code: str
    message: str
    usage: Usage = Usage()


class RunCancelled(Fact, frozen=True, kw_only=True, tag="run_cancelled.v1"):
    """The caller cancelled the run; the text so far is in its last Delta."""

    usage: Usage = Usage()


class ConversationDescribed(Fact, frozen=True, kw_only=True, tag="conversation_described.v1"):
    """The conversation's complete title and metadata from here on, as its account has set them.

    `trace_id` is that of the request for it, which is no run. Without a `title` it has the one that its
    first message gives it.
    """

    title: str | None = None
    metadata: dict[str, str] = {}


class FeedbackGiven(Fact, frozen=True, kw_only=True, tag="feedback_given.v1"):
    """What somebody thinks of a reply, in the place of what they gave before. `trace_id` is the reply's.

    `score` is from -1 (bad) to 1 (good). `by` was authenticated, and claims to give it for `on_behalf_of`:
    one piece of feedback a reply for each name, and one without.
    """

    message_id: str
    score: float
    by: Decider
    on_behalf_of: str | None = None
    label: str | None = None
    comment: str | None = None


class FeedbackWithdrawn(Fact, frozen=True, kw_only=True, tag="feedback_withdrawn.v1"):
    """The feedback for `on_behalf_of` on a reply no longer counts."""

    message_id: str
    by: Decider
    on_behalf_of: str | None = None


class ConversationErased(Fact, frozen=True, kw_only=True, tag="conversation_erased.v1"):
    """All earlier events of the conversation were removed on the account's request."""

    account_id: str


RunEnd = RunCompleted | RunFailed | RunCancelled

Event = (
    ConversationStarted
    | ConversationForked
    | ConversationSeeded
    | MessageSaved
    | RunStarted
    | SourcesRetrieved
    | ContextCompacted
    | Delta
    | ModelReplied
    | ReplyLost
    | ToolCalled
    | ApprovalRequested
    | ElicitationRequested
    | ApprovalDecided
    | ToolReturned
    | RunCompleted
    | RunFailed
    | RunCancelled
    | ConversationDescribed
    | FeedbackGiven
    | FeedbackWithdrawn
    | ConversationErased
)

EVENTS: tuple[type[Fact], ...] = get_args(Event)
"""Every event type, in the order a conversation meets them."""


def tag_of(event: Fact | type[Fact]) -> str:
    """The stored tag of an event or of its type, for example `message_saved.v1`."""
    return str(event.__struct_config__.tag)
