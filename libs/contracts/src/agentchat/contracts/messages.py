"""The messages on the bus, next to the live frames: requests for work, their results, and control.

Requests are imperative or end in Requested; any of them may be delivered more than once.
"""

from typing import Any, Literal

import msgspec

from agentchat.contracts.bus_message import BusMessage
from agentchat.contracts.tool_messages import ServerCheck
from agentchat.contracts.values import Decider, Form, ShownMessage


class ChatRequested(BusMessage, frozen=True, kw_only=True):
    """A caller's message to an agent, on `chat.requests.<account_id>`.

    `attempt` counts the publications of this request (it makes the Nats-Msg-Id `<trace_id>:<attempt>`);
    the sweeper publishes again with a higher one. `deadline` is on the clock of Postgres: a request that
    has appended nothing by then is void. `message_id` is the id that the user message will be saved under.

    From protocols whose callers send the complete conversation: `history` is what a new conversation begins
    with, before the message; `after` is the id of the reply that a known one must end with; `instructions`
    stand after the agent's prompt; `shown_sha256` is of all that was shown (`queries.shown_history`).

    `is_task`: the client asks about a conversation, such as for its title. The run has no tools and retrieves
    nothing. A worker of an earlier release runs it like any other request.

    `output_schema`: the reply is to be JSON by this schema, whatever the agent's own output type is. A worker
    of an earlier release replies as the agent is set.

    `requested_model`: the agent as the caller named it, where the API calls it a model.

    `agent_version`: an operator asks this version of the agent, or a draft. No gateway has taken a slot among
    the account's runs for it: the worker does. A worker of an earlier release takes the current version.
    """

    trace_id: str
    attempt: int
    account_id: str
    agent_id: str
    conversation_id: str
    new_conversation: bool
    message_id: str
    message: str
    form: Form
    requested_at: str
    deadline: str
    prompt: str | None = None
    history: tuple[ShownMessage, ...] = ()
    after: str | None = None
    instructions: str | None = None
    shown_sha256: str | None = None
    is_task: bool = False
    output_schema: dict[str, Any] | None = None
    requested_model: str | None = None
    agent_version: int | None = None


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
    "no_key",
    "key_unreadable",
    "agent_not_found",
    "unavailable",
    "provider_error",
]
"""The outcome of a check of the provider; `unavailable`: no orchestrator did it."""


class ProviderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the model call; `detail` is what is wrong, and can be shown."""

    ok: bool
    code: ProviderCode
    detail: str = ""
    ms: int = 0


class ModelChecked(BusMessage, frozen=True, kw_only=True):
    """The model provider, as an agent version meets it."""

    provider: ProviderCheck


class AgentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an agent version needs of others: its tool servers and its model provider."""

    servers: tuple[ServerCheck, ...]
    provider: ProviderCheck

    @property
    def ok(self) -> bool:
        """Whether all of it works."""
        return self.provider.ok and all(server.ok for server in self.servers)


class CancelRequested(BusMessage, frozen=True, kw_only=True):
    """Cancel a run, on `chat.control.cancel.<trace_id>`."""

    trace_id: str
    account_id: str


class EraseConversation(BusMessage, frozen=True, kw_only=True):
    """Erase a conversation of an account, by request and reply on `chat.commands.<account_id>`.

    `trace_id` is that of the request for it; the ConversationErased that is stored carries it.
    """

    trace_id: str
    account_id: str
    conversation_id: str


class DescribeConversation(BusMessage, frozen=True, kw_only=True):
    """Set the title and the metadata of a conversation, by request and reply as EraseConversation.

    `trace_id` is that of the request for it: the same command is obeyed once. `title` None takes the title
    away. `metadata` are merged with those that are there: None as a value removes its pair, None for all of
    them removes all (RFC 7396). One that changes nothing is stored only where it is `keyed`: it came with an
    Idempotency-Key, and is known by its event whatever is set later.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    title: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, str | None] | None = msgspec.field(default_factory=dict)
    keyed: bool = False


class ForkConversation(BusMessage, frozen=True, kw_only=True):
    """Begin the conversation `conversation_id` with what another one has, as EraseConversation.

    `at` is the place up to which: a version, a time (ISO 8601), or the id of a message: of a reply, which is
    the last that it has, or of a user's message, before which it ends; None: all. The same command is obeyed
    once.
    """

    trace_id: str
    account_id: str
    conversation_id: str
    source_id: str
    at: int | str | None = None


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
"""`busy`: a run is under way, and no place before it is named. Nothing is begun but where it is `forked`."""


class ForkAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a ForkConversation; `version` is that of the fork, or of a source that has not come
    as far.
    """

    outcome: ForkOutcome
    version: int = 0


DescribeOutcome = Literal["described", "not_found", "too_many_pairs", "full", "unavailable"]
"""`too_many_pairs`: it would have more than MAX_PAIRS. `full`: it takes no more events. `unavailable` as for
erasing. Nothing was changed then."""


class DescribeAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a DescribeConversation; `version` is that of the conversation after it."""

    outcome: DescribeOutcome
    version: int = 0


class DecideApproval(BusMessage, frozen=True, kw_only=True):
    """Decide about a tool call, by request and reply on `chat.commands.<account_id>`.

    `trace_id` is that of the run that waits. `input`, where it is given, takes the place of the model's; `by`
    is who was authenticated.
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


class ApprovalAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a DecideApproval: it is decided so, now or before, where there is no `code`.

    Else nothing was, and `code` is one of `contracts.errors`.
    """

    code: str | None = None
    detail: str | None = None


class GiveFeedback(BusMessage, frozen=True, kw_only=True):
    """Store feedback on a reply, by request and reply as EraseConversation; without a `score` take it back.

    `trace_id` is that of the reply's run; the rest as in `events.FeedbackGiven`.
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


FeedbackOutcome = Literal["recorded", "not_found", "too_many", "full", "unavailable"]
"""`not_found`: there is no such reply. `too_many`: MAX_FEEDBACK others have given theirs. `upgrading`:
processes of the release before, which could not read it, may still run. `full` and `unavailable` as for
DescribeConversation."""


class FeedbackAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of a GiveFeedback; `version` is that of the conversation after it."""

    outcome: FeedbackOutcome
    version: int = 0


Command = EraseConversation | DescribeConversation | DecideApproval | ForkConversation | GiveFeedback

EraseOutcome = Literal["erased", "not_found", "unavailable"]
"""`unavailable`: Postgres or NATS did not answer, and whether it happened is unknown."""


class EraseAnswered(BusMessage, frozen=True, kw_only=True):
    """The outcome of an EraseConversation; `erased`: it is gone for every reader."""

    outcome: EraseOutcome


class EventTooLarge(BusMessage, frozen=True, kw_only=True):
    """Takes the place in EVENTS, on the subject of the event, of one larger than a NATS message can be.

    `event` is the stored event's type, `bytes` its size. Its content can be read by
    `GET /v1/conversations/{conversation_id}/messages`.
    """

    event: str
    trace_id: str
    at: str
    position: int
    conversation_id: str
    bytes: int


class DeadLettered(BusMessage, frozen=True, kw_only=True):
    """A message that failed past its last delivery, on `chat.dead.<stream>`; `payload` is it, as text."""

    stream: str
    subject: str
    reason: str
    payload: str
