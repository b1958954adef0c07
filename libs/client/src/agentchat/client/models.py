"""Define what the service returns (interface specification, section 2). Unknown fields are ignored."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that retrieval found."""

    index: int
    id: str
    title: str
    url: str
    source_type: str
    score: float
    snippet: str
    document_id: str = ""
    document: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A saved reply; `token_count` covers every model call of the request, `created_at` is ISO 8601 UTC."""

    id: str
    conversation_id: str
    role: str = "assistant"
    content: str
    token_count: int
    created_at: str


class ClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a client's tool, which the run waits for."""

    id: str
    name: str
    input: dict[str, Any]


class ToolRun(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that ran for a reply: `output` is a string that parses as JSON; `is_error` if it failed."""

    name: str
    input: dict[str, Any]
    output: str
    id: str
    is_error: bool


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of a reply in four kinds that do not overlap, and their sum; `reasoning` is in `output`."""

    input: int
    cache_read: int
    cache_write: int
    output: int
    total: int
    reasoning: int = 0


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete reply; `tool_calls` and `sources` are empty if there are none.

    `trace_id` names the request to support.
    """

    conversation_id: str
    message: Message
    tool_calls: tuple[ToolRun, ...] = ()
    sources: tuple[Source, ...] = ()
    usage: TokenCounts | None = None
    model: str | None = None
    trace_id: str | None = None

    @property
    def text(self) -> str:
        """The reply's text."""
        return self.message.content


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file. `media_type` was found in its content; `url` is the path of its bytes."""

    file_id: str
    media_type: str
    bytes: int
    name: str
    url: str = ""


class ForkOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The thread that a fork was copied from, and up to which version."""

    conversation_id: str
    version: int


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation. `title` is as set, or the beginning of the first message.

    `agent_id` is that of the last message; `metadata` is as set. `user_id` is the end user who started it,
    `external_id` your own name for it.
    """

    conversation_id: str
    title: str | None
    agent_id: str | None
    message_count: int
    created_at: str
    updated_at: str
    metadata: dict[str, str] = {}
    forked_from: ForkOrigin | None = None
    user_id: str | None = None
    external_id: str | None = None


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """One person's opinion of a reply: `score` is from -1 (bad) to 1 (good)."""

    message_id: str
    conversation_id: str
    trace_id: str
    score: float
    label: str | None
    comment: str | None
    on_behalf_of: str | None
    by: dict[str, str]
    at: str


class FeedbackSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The number of opinions of a reply, the mean of their scores, and the newest one."""

    count: int
    mean_score: float
    newest: Feedback


class HistoryMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a thread, `user` or `assistant`; `token_count` and `feedback` on the assistant's only.

    `attachments` are the files of a user's message. `interrupted`: its run failed or was cancelled, and this
    is as far as it came.
    """

    id: str
    conversation_id: str
    role: str
    content: str
    created_at: str
    agent_id: str
    trace_id: str
    token_count: int | None = None
    interrupted: bool = False
    feedback: FeedbackSummary | None = None
    tool_calls: tuple[ToolRun, ...] = ()
    sources: tuple[Source, ...] = ()
    attachments: tuple[File, ...] = ()


class Elicitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool's question to a person: values that match `requested_schema` (JSON Schema), or to open `url`."""

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that a person must approve; with an `elicitation`, a question of a running tool.

    A conversation that waits for one has only its `id`.
    """

    id: str
    tool: str | None = None
    input: dict[str, Any] | None = None
    expires_at: str | None = None
    elicitation: Elicitation | None = None


class ApprovalTool(msgspec.Struct, frozen=True, kw_only=True):
    """The tool of a call that needs approval: its name, and the agent's name for its server."""

    name: str
    server: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a tool call. `by` was authenticated, `on_behalf_of` was not."""

    decision: str
    by: dict[str, str]
    at: str
    on_behalf_of: str | None = None
    input: dict[str, Any] | None = None
    reason: str | None = None


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that needs approval, or was decided: pending, approved, denied, expired or cancelled.

    `message` is what the user wrote to start the run, cut after 4,000 characters.
    """

    id: str
    status: str
    trace_id: str
    conversation_id: str
    agent_id: str
    tool: ApprovalTool
    input: dict[str, Any]
    requested_at: str
    expires_at: str
    elicitation: Elicitation | None = None
    decision: Decision | None = None
    message: str | None = None


class WebhookEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that receives webhooks. `secret` is set only when it was just created or rotated."""

    id: str
    url: str
    events: tuple[str, ...]
    payload: str
    disabled: bool
    disabled_reason: str | None
    secret_last4: str
    position: int
    failing_since: str | None
    created_at: str
    secret: str | None = None

    def __repr__(self) -> str:
        """Leave out the secret."""
        return f"WebhookEndpoint(id={self.id!r}, url={self.url!r})"


class WebhookAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a delivery: the answer's status, or why there is none."""

    at: str
    ms: int
    status: int | None = None
    error: str | None = None
    message: str | None = None


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an endpoint; `id` is its `webhook-id`."""

    id: str
    type: str
    position: int | None
    status: str
    attempts: tuple[WebhookAttempt, ...]
    next_attempt_at: str | None
    created_at: str


class ApiPage(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `next_cursor` is None on the last one."""

    data: tuple[T, ...]
    next_cursor: str | None = None
