"""Define the stored events: the facts of a conversation in order, and the service's only source of truth.

A tag is `<name>.v<version>` and never changes its meaning; a new shape gets a new version and an upcast. New
optional fields may be added to a version (docs/change/rules.md 3) if a reader may ignore them.
"""

from typing import Any, Literal, get_args

import msgspec

from agentchat.contracts import values
from agentchat.contracts.decision_events import ApprovalDecided as ApprovalDecided
from agentchat.contracts.decision_events import ApprovalRequested as ApprovalRequested
from agentchat.contracts.decision_events import ClientToolRequested as ClientToolRequested
from agentchat.contracts.decision_events import DecisionRequested as DecisionRequested
from agentchat.contracts.decision_events import ElicitationRequested as ElicitationRequested
from agentchat.contracts.event_base import Fact as Fact
from agentchat.contracts.files import StoredFile


class ConversationStarted(Fact, frozen=True, kw_only=True, tag="conversation_started.v1", omit_defaults=True):
    """A new conversation. Always its version 1.

    `user_id` is the account's end user who started it, `external_id` the account's own name for it. `title`
    and `metadata` hold until a ConversationDescribed.
    """

    account_id: str
    user_id: str | None = None
    external_id: str | None = None
    title: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


STARTED_WITH = tuple(
    name for name in ConversationStarted.__struct_fields__ if name not in Fact.__struct_fields__
)
"""The fields that a conversation begins with: requests, the event and readers use the same names."""


class ConversationForked(Fact, frozen=True, kw_only=True, tag="conversation_forked.v1"):
    """The conversation begins with copies of another one's first `source_version` events, which follow.

    Appended right after ConversationStarted. The copies stay whatever happens to the source, and have their
    own ids.
    """

    source_id: str
    source_version: int


class ConversationSeeded(Fact, frozen=True, kw_only=True, tag="conversation_seeded.v1"):
    """Earlier messages of a conversation that took place elsewhere, as the caller sent them.

    Appended right after ConversationStarted. The model sees them before all messages; they belong to no run
    of ours. EVENTS carries the event without them, since they can be a megabyte with each request.
    """

    messages: tuple[values.ShownMessage, ...]


class MessageSaved(Fact, frozen=True, kw_only=True, tag="message_saved.v1", omit_defaults=True):
    """A message of the conversation. `token_count`, on replies only, is that of the complete run.

    `interrupted`: the text of a run that failed or was cancelled, as far as it came. Its end follows.
    `steers`: the user's message joined the running run `trace_id`; the trace is that of its own request.
    `attachments`, on user messages only, are its files, in order; `content` is empty if there is only an
    image.
    """

    message_id: str
    role: values.Role
    agent_id: str
    content: str
    token_count: int | None = None
    interrupted: bool = False
    steers: str | msgspec.UnsetType = msgspec.UNSET
    attachments: tuple[StoredFile, ...] = ()

    def to_message(self, conversation_id: str) -> values.Message:
        """Return the message in the form of the API."""
        return values.Message(
            id=self.message_id,
            conversation_id=conversation_id,
            content=self.content,
            token_count=self.token_count or 0,
            created_at=self.at,
        )


class RunStarted(Fact, frozen=True, kw_only=True, tag="run_started.v1", omit_defaults=True):
    """A worker starts an attempt at a run. `attempt` counts from 1 and fences all earlier attempts.

    `worker` is the name of the worker's process and an id that is new at each of its starts. `offset` counts
    the code points of the run's text that readers had when the attempt started. `instructions` (after the
    agent's prompt), `output_schema` and `parameters` (`http.RunParameters`) are the caller's own; `context`
    has values for variables of the prompt and for tools. `shown_sha256` is the hash of all that the caller
    sent (`conversations.queries.find_by_history`), `requested_model` the agent as an API of models names it.
    `client_tools` are run by the client; the first reply must call `tool_choice`, or any tool if "required".
    `depth` counts the agents above this one, which have called it as a tool.
    """

    attempt: int
    agent_version: int
    model: str
    form: values.Form
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
    parameters: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    client_tools: tuple[values.ClientTool, ...] = ()
    tool_choice: str | None = None
    depth: int = 0


class SourcesRetrieved(Fact, frozen=True, kw_only=True, tag="sources_retrieved.v1"):
    """The sources that retrieval found, best first; empty if it found none."""

    sources: tuple[values.Source, ...]


class Delta(Fact, frozen=True, kw_only=True, tag="delta.v1"):
    """The complete text of one round. `cuts` are the ends of the frames it was sent in, in code points.

    With frames "He", "llo" it is text="Hello", cuts=(2, 5).
    """

    round: int
    text: str
    cuts: tuple[int, ...]


class ModelReplied(Fact, frozen=True, kw_only=True, tag="model_replied.v1", omit_defaults=True):
    """A complete model reply: the content blocks that must go back to the model in the next round.

    `prompt_sha256` and `tools_sha256`, in hexadecimal, are hashes of the system prompt and of the offered
    tools as they were sent. The blocks have the shapes of Anthropic's Messages API, whichever `provider` and
    `model` answered. A block may carry `provider_data` by provider: only that provider gets it back.
    `repaired` is what was wrong with a first reply, if the model was asked for valid JSON once more; `usage`
    includes both calls. `prefix_sha256` is the hash of what preceded the run's own messages; None if the
    reply followed messages that are in no later prompt.

    A reply that calls tools records what the run's later calls must repeat: after thinking, if a call waits
    for approval, or if a missing tool server ends the agent's runs, `offered_tools`, unless the conversation
    has them under `tools_sha256`; and once in a run the `documents`, as they were sent.
    `first_token_ms`, of the run's first reply with text, is the time from the message to its first piece.
    """

    round: int
    blocks: tuple[dict[str, Any], ...]
    stop_reason: str
    usage: values.Usage
    provider: str = "anthropic"
    model: str | None = None
    prompt_sha256: str | None = None
    tools_sha256: str | None = None
    repaired: str | None = None
    prefix_sha256: str | None = None
    offered_tools: tuple[values.ToolSpec, ...] | None = None
    documents: str | None = None
    first_token_ms: int | msgspec.UnsetType = msgspec.UNSET


class WarningRaised(Fact, frozen=True, kw_only=True, tag="warning_raised.v1", omit_defaults=True):
    """The run continues without the tool server `subject`, or with another model, `subject`, from here on.

    That model is number `fallback` of the agent's fall-backs, from 1. The failed one, `failed_model`, cost
    `usage` this round.
    """

    code: Literal["tool_server_unavailable", "model_changed"]
    subject: str
    message: str
    fallback: int = 0
    usage: values.Usage = values.Usage()
    failed_model: str | msgspec.UnsetType = msgspec.UNSET

    def to_warning(self) -> values.RunWarning:
        """Return the warning in the form that readers get."""
        return values.RunWarning(code=self.code, subject=self.subject, message=self.message)


class ReplyLost(Fact, frozen=True, kw_only=True, tag="reply_lost.v1"):
    """A stopping worker handed the run over, and another worker repeats the step that was under way.

    `usage` is the cost of that round's call of `model` so far, zero if none was under way. `first_token_ms`
    as in ModelReplied.
    """

    round: int
    usage: values.Usage
    model: str | msgspec.UnsetType = msgspec.UNSET
    first_token_ms: int | msgspec.UnsetType = msgspec.UNSET


class ContextCompacted(Fact, frozen=True, kw_only=True, tag="context_compacted.v1"):
    """A summary that the model sees in place of everything up to `through_version`. Nobody else sees it.

    It precedes the model call that relies on it. The events after `through_version` begin with a run. `model`
    wrote it at the cost of `usage`; `prompt_sha256`, in hexadecimal, is the hash of the instruction.
    `provider_data`, by provider, is what only that provider gets instead of the text.
    """

    through_version: int
    summary: str
    model: str
    prompt_sha256: str
    usage: values.Usage
    provider_data: dict[str, Any] | None = None


class ToolCalled(Fact, frozen=True, kw_only=True, tag="tool_called.v1", omit_defaults=True):
    """The model requested a tool call. Appended before the tool is called.

    `needs_approval`: a person must approve the call first. `is_client`: the client runs the tool.
    """

    round: int
    call_id: str
    name: str
    input: dict[str, Any]
    needs_approval: bool = False
    is_client: bool = False


class ToolReturned(Fact, frozen=True, kw_only=True, tag="tool_returned.v1"):
    """A tool's result. `output` parses as JSON, `files` are its images and files, `ms` is the time it took.

    `quotes_server`: the error has text of the tool's server, which may hold addresses and secrets. The model
    and operators get it, API clients do not.
    """

    round: int
    call_id: str
    output: str
    is_error: bool
    ms: int
    quotes_server: bool = False
    files: tuple[StoredFile, ...] = ()


class MessageReceived(Fact, frozen=True, kw_only=True, tag="message_received.v1", omit_defaults=True):
    """Another request's message for the running run `trace_id`, which its worker is to save.

    Without `started` it joins the run: it is saved at the next round boundary, if there is one. With
    `started` it interrupts: the run ends, and `message` and `started` follow in the same append.
    """

    message: MessageSaved
    started: RunStarted | None = None


class RunCompleted(Fact, frozen=True, kw_only=True, tag="run_completed.v1"):
    """The run ended with a saved reply."""

    usage: values.Usage
    rounds: int


class RunFailed(Fact, frozen=True, kw_only=True, tag="run_failed.v1"):
    """The run ended without a reply. `code` is one of `contracts.errors`, `usage` the cost so far.

    `message` is for callers; `provider_message`, the model provider's own sentence, for administrators only.
    `unfinished`, a part of `usage`, is the model call that no event before records.
    """

    code: str
    message: str
    usage: values.Usage = values.Usage()
    provider_message: str | None = None
    unfinished: values.UnfinishedReply | msgspec.UnsetType = msgspec.UNSET


class RunCancelled(Fact, frozen=True, kw_only=True, tag="run_cancelled.v1"):
    """The caller cancelled the run, or a newer message, of the trace `interrupted_by`, took its place.

    The text so far is in its last Delta. `unfinished` as in RunFailed.
    """

    usage: values.Usage = values.Usage()
    unfinished: values.UnfinishedReply | msgspec.UnsetType = msgspec.UNSET
    interrupted_by: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def code(self) -> str:
        """The code of the run: one of `contracts.errors`."""
        return "cancelled" if self.interrupted_by is msgspec.UNSET else "interrupted"


class ConversationDescribed(Fact, frozen=True, kw_only=True, tag="conversation_described.v1"):
    """The conversation's complete title and metadata from here on, as its account set them.

    `trace_id` is that of the request, which is not a run. Without a `title` the title comes from the first
    message.
    """

    title: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class FeedbackGiven(Fact, frozen=True, kw_only=True, tag="feedback_given.v1"):
    """Feedback on a reply. It replaces what the same person gave before. `trace_id` is the reply's.

    `score` is from -1 (bad) to 1 (good). `by` claims to give it for `on_behalf_of`; each name counts once.
    """

    message_id: str
    score: float
    by: values.Decider
    on_behalf_of: str | None = None
    label: str | None = None
    comment: str | None = None


class FeedbackWithdrawn(Fact, frozen=True, kw_only=True, tag="feedback_withdrawn.v1"):
    """The feedback for `on_behalf_of` on a reply no longer counts."""

    message_id: str
    by: values.Decider
    on_behalf_of: str | None = None


class ConversationErased(Fact, frozen=True, kw_only=True, tag="conversation_erased.v1"):
    """The removal of all earlier events of the conversation, at the account's request."""

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
    | WarningRaised
    | ReplyLost
    | ToolCalled
    | ApprovalRequested
    | ElicitationRequested
    | ClientToolRequested
    | ApprovalDecided
    | ToolReturned
    | MessageReceived
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


def get_tag(event: Fact | type[Fact]) -> str:
    """Return the stored tag of an event or of its type, for example `message_saved.v1`."""
    return str(event.__struct_config__.tag)
