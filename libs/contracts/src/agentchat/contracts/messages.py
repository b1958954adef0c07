"""Define the messages on the bus, apart from live frames: requests for work, their results, and control.

Requests are imperative or end in Requested. Any of them may be delivered more than once.
"""

from typing import Any, Literal

import msgspec

from agentchat.contracts.files import StoredFile
from agentchat.contracts.message_base import BusMessage
from agentchat.contracts.tool_messages import ServerCheck
from agentchat.contracts.values import ClientToolResult, Decider, OnBusy, RunFacts, ShownMessage


class RunInput(RunFacts, frozen=True, kw_only=True):
    """The fields of a ChatRequested that a caller's request decides: `gateway.runs` copies them by name."""

    agent_id: str
    message: str = ""
    prompt: str | None = None
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    is_task: bool = False
    external_id: str | None = None
    title: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class ChatRequested(BusMessage, RunInput, frozen=True, kw_only=True, omit_defaults=True):
    """A caller's message to an agent, on `chat.requests.<account_id>`.

    Published by `gateway.runs.submit_request` and `projector.run_sweeper`, consumed by `orchestrator.inbox`.

    `attempt` counts the publications of this request and is part of its Nats-Msg-Id `<trace_id>:<attempt>`;
    the sweeper publishes again with a higher one. `deadline` is by Postgres' clock: a request that has
    appended nothing by then is void. `message_id` is the id under which the user message will be saved.

    If the protocol's callers send the complete conversation: a new conversation begins with `history`, before
    the message; a known one must end with the reply `after`; `instructions` follow the agent's prompt;
    `shown_sha256` is the hash of everything that was sent (`conversations.queries.find_by_history`).

    `is_task`: the client asks about a conversation, for example for its title. The run has no tools and no
    retrieval. A worker of an earlier release runs it like any other request.

    `output_schema`: the reply must be JSON by this schema, whatever the agent's own output type. A worker of
    an earlier release ignores it.

    `requested_model`: the agent as the caller named it, if the API calls agents models.

    `parameters`: the caller's own for the model's calls, by the names of `http.RunParameters`. `context`:
    values for the variables of the agent's prompt and for its tools.

    `client_tools`, `tool_choice`: as in `events.RunStarted`.

    `agent_version`: an operator asks this version of the agent, or a draft. No gateway has taken one of the
    account's run slots for it, so the worker does. A worker of an earlier release uses the current version.

    `on_busy`: what the message does to a run under way in its conversation; None: as the agent says.

    `user_id` is the end user who asks: the conversation must be that user's (`contracts.ownership`). A new
    conversation gets it, with `external_id`, `title` and `metadata`.

    `attachments` are the message's files, stored before this is published. `depth` counts the agents above:
    the agent answers another one's tool call, whose run has the slot.
    """

    trace_id: str
    attempt: int
    account_id: str
    conversation_id: str
    new_conversation: bool
    message_id: str
    requested_at: str
    deadline: str
    agent_version: int | None = None
    on_busy: OnBusy | None = None
    user_id: str | None = None
    attachments: tuple[StoredFile, ...] = ()


class CheckModel(BusMessage, frozen=True, kw_only=True):
    """Ask for one small model call with an agent version's key and parameters, on `chat.models.check`."""

    account_id: str
    agent_id: str
    agent_version: int


ProviderCode = Literal[
    "ok",
    "authentication",
    "permission",
    "billing",
    "model_not_found",
    "bad_parameter",
    "overloaded",
    "timeout",
    "unreachable",
    "address_refused",
    "wrong_base_url",
    "no_key",
    "key_unreadable",
    "agent_not_found",
    "unavailable",
    "provider_error",
]
"""The outcome of a provider check. `unavailable`: no orchestrator answered."""


class ProviderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a model call. `detail` says what is wrong and can be shown."""

    ok: bool
    code: ProviderCode
    detail: str = ""
    ms: int = 0


class ModelChecked(BusMessage, frozen=True, kw_only=True, omit_defaults=True):
    """The model provider's answer to a CheckModel, and those of the agent's fall-backs, in their order."""

    provider: ProviderCheck
    fallbacks: tuple[ProviderCheck, ...] = ()


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of checking an agent version's tool servers, model provider and fall-backs."""

    servers: tuple[ServerCheck, ...]
    provider: ProviderCheck
    fallbacks: tuple[ProviderCheck, ...] = ()

    @property
    def ok(self) -> bool:
        """True if the provider, all fall-backs and all servers work."""
        models = (self.provider, *self.fallbacks)
        return all(each.ok for each in models) and all(each.ok for each in self.servers)


class CancelRequested(BusMessage, frozen=True, kw_only=True):
    """Cancel a run, on `chat.control.cancel.<trace_id>`."""

    trace_id: str
    account_id: str


class EraseConversation(BusMessage, frozen=True, kw_only=True):
    """Erase a conversation of an account, by request and reply on `chat.commands.<account_id>`.

    Sent by `bus.commands`; answered by `orchestrator.rpc.conversation_commands`, as are the other commands.
    `trace_id` is that of the request for it; the stored ConversationErased carries it. A command with a
    `user_id` is obeyed for that end user's conversations only. With `idle_since` it is
    refused if a run is open or a message has been saved since then.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    user_id: str | None = None
    idle_since: str | None = None


class DescribeConversation(BusMessage, frozen=True, kw_only=True):
    """Set the title and metadata of a conversation, by request and reply on `chat.commands.<account_id>`.

    `trace_id` is that of the request for it: the same command takes effect once. `title` None removes the
    title. `metadata` are merged into the existing ones: None as a value removes its pair, None for all
    removes all (RFC 7396). A command that changes nothing is stored only if it is `keyed`, that is, came with
    an Idempotency-Key: it must be recognised later.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    title: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, str | None] | None = msgspec.field(default_factory=dict)
    keyed: bool = False
    user_id: str | None = None


class ForkConversation(BusMessage, frozen=True, kw_only=True):
    """Start the conversation `conversation_id` with a copy of another one, as for EraseConversation.

    `at` says where the copy ends: a version, a time (ISO 8601), the id of a reply (the copy's last message),
    or the id of a user's message (the copy ends before it). None copies everything. The same command takes
    effect once.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    source_id: str
    at: int | str | None = None
    user_id: str | None = None


ForkOutcome = Literal[
    "forked",
    "not_found",
    "busy",
    "unknown_version",
    "unknown_message",
    "nothing_said",
    "too_large",
    "unreadable",
    "unavailable",
]
"""`busy`: a run is under way and the command names no place before it. Only `forked` created something."""


class ForkAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a ForkConversation.

    `version` is that of the fork, or that of a source that is shorter than the command says.
    """

    outcome: ForkOutcome
    version: int = 0


DescribeOutcome = Literal["described", "not_found", "too_many_pairs", "full", "unavailable"]
"""`too_many_pairs`: more than MAX_PAIRS. `full`: the conversation takes no more events. `unavailable`: as for
erasing. None of these changed anything.
"""


class DescribeAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a DescribeConversation. `version` is the conversation's version after it."""

    outcome: DescribeOutcome
    version: int = 0


class DecideApproval(BusMessage, frozen=True, kw_only=True):
    """Decide about a tool call, by request and reply on `chat.commands.<account_id>`.

    `trace_id` is that of the waiting run. If `input` is given, it replaces the model's. `by` was
    authenticated.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    approval_id: str
    decision: Literal["approved", "denied"]
    by: Decider
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None
    user_id: str | None = None


class ReturnToolResults(BusMessage, frozen=True, kw_only=True):
    """Return the results of all client tools that a run waits for. Sent like DecideApproval."""

    trace_id: str
    account_id: str
    user_id: str | None = None
    conversation_id: str
    results: tuple[ClientToolResult, ...]
    by: Decider


class ApprovalAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a DecideApproval or a ReturnToolResults: without a `code` it is done, now or before.

    Otherwise nothing was decided, and `code` is one of `contracts.errors`.
    """

    code: str | None = None
    detail: str | None = None


class GiveFeedback(BusMessage, frozen=True, kw_only=True):
    """Store feedback on a reply, or withdraw it if there is no `score`. Sent like EraseConversation.

    `trace_id` is that of the reply's run; the other fields are those of `events.FeedbackGiven`.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    message_id: str
    by: Decider
    on_behalf_of: str | None = None
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    user_id: str | None = None


FeedbackOutcome = Literal["recorded", "not_found", "too_many", "full", "unavailable"]
"""`not_found`: no such reply. `too_many`: MAX_FEEDBACK others gave feedback. `full` and `unavailable`: as for
DescribeConversation.
"""


class FeedbackAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a GiveFeedback. `version` is the conversation's version after it."""

    outcome: FeedbackOutcome
    version: int = 0


Command = (
    EraseConversation
    | DescribeConversation
    | DecideApproval
    | ReturnToolResults
    | ForkConversation
    | GiveFeedback
)

EraseOutcome = Literal["erased", "not_found", "unavailable"]
"""`unavailable`: Postgres or NATS did not answer, so it is unknown whether the conversation was erased."""


class EraseAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of an EraseConversation. After `erased` no reader sees the conversation."""

    outcome: EraseOutcome


class EventTooLarge(BusMessage, frozen=True, kw_only=True):
    """A stand-in on EVENTS, on the event's subject, for an event larger than a NATS message can be.

    `event` is the stored event's type, `bytes` its size. Read the content by `GET
    /v1/conversations/{conversation_id}/messages`.
    """

    event: str
    trace_id: str
    at: str
    position: int
    conversation_id: str
    bytes: int


class DeadLettered(BusMessage, frozen=True, kw_only=True):
    """A message that failed after its last delivery, on `chat.dead.<stream>`; `payload` is its text."""

    stream: str
    subject: str
    reason: str
    payload: str
