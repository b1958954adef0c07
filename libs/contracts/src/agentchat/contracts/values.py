"""Define the values that events, messages, frames and the HTTP API share."""

from typing import Annotated, Any, Literal, get_args

import msgspec

from agentchat.contracts.files import StoredFile

Form = str
"""The protocol that requested a run: json, form1, form2, or a later one.

The set is open: a reader that does not know a name still reads the run.
"""

Role = Literal["user", "assistant"]

Approvers = Literal["account", "operator"]
"""The people who may decide about a tool call: holders of the account's keys, or only an operator."""

OnExpiry = Literal["continue", "fail"]
"""The fate of a run if nobody decides about its tool calls in time."""

OnNewMessage = Literal["refuse", "supersede"]
"""A new message while a run waits for approvals: refuse the message, or end the waiting run."""

OnBusy = Literal["queue", "refuse", "interrupt", "steer"]
"""A new message while a run is under way.

It waits its turn, is refused, ends the run and takes its place, or joins it at its next round.
"""

OnBusyName = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(get_args(OnBusy))})]
"""A request names one of OnBusy by it: `read_on_busy` checks it."""

ApprovalDecision = Literal["approved", "denied", "expired", "cancelled"]

Cut = Literal["length", "refusal"]
"""Why a saved reply is incomplete: the model reached its length limit or refused to continue."""

CUTS: dict[str, Cut] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""The provider's stop reasons that stand for a cut."""


MAX_TITLE = 256
MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512
MAX_EXTERNAL_ID = 255
"""Limits of a conversation's title and metadata: characters, pairs, characters of a key and of a value."""

MAX_LABEL = 64
MAX_COMMENT = 2000
MAX_FEEDBACK = 100
"""Limits of feedback on a reply: characters of a label and of a comment, and how many people may give it."""


TOKEN_KINDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
"""The fields of `Usage` that do not overlap."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one model call, or of several added up, as the provider counts them.

    This is the only way in which tokens are counted, in the API, the feed, the CLI, metrics and the console:
    four kinds that do not overlap, and their sum. `input_tokens` excludes tokens that were read from or
    written to the provider's cache. `reasoning_tokens` are those of `output_tokens` that the model thought
    with, if its provider counts them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def total(self) -> int:
        """Return all tokens, input and output, cached or not: the API's `token_count`."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_creation_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_creation_tokens=self.cache_creation_tokens + other.cache_creation_tokens,
            reasoning_tokens=(self.reasoning_tokens or 0) + (other.reasoning_tokens or 0) or msgspec.UNSET,
        )


class UnfinishedReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model call that the end of its run broke off: the model, the cost, and the time to its first text."""

    model: str
    usage: Usage = Usage()
    first_token_ms: int | msgspec.UnsetType = msgspec.UNSET


class Source(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that retrieval found (interface specification, section 2).

    A document without a `url` is named by `document_id` and `document`, its name, such as a file's path.
    """

    index: int
    id: str
    title: str
    url: str
    source_type: str
    score: float
    snippet: str
    document_id: str = ""
    document: str = ""


class RunWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a run continues without, as in `events.WarningRaised`."""

    code: str
    subject: str
    message: str


class AgentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `events.RunStarted` that describe the agent."""

    agent_version: int
    model: str
    max_tool_rounds: int = 8
    retrieves: bool = False
    on_interruption: Literal["continue", "fail"] = "continue"


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `events.RunStarted` that describe the request, with the same names everywhere.

    A request to the gateway, the message on the bus, the event and the folded run: a field declared here and
    in the event passes through all of them.
    """

    form: Form
    instructions: str | None = None
    shown_sha256: str | None = None
    output_schema: dict[str, Any] | None = None
    requested_model: str | None = None
    parameters: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    client_tools: tuple["ClientTool", ...] = ()
    tool_choice: str | None = None
    depth: int = 0


class ShownMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """An earlier message of a conversation as the caller sends it. It is not verified.

    `attachments`, on user messages only, are its files, in order.
    """

    role: Role
    content: str
    attachments: tuple[StoredFile, ...] = ()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A saved assistant message (interface specification, section 2)."""

    id: str
    conversation_id: str
    role: Role = "assistant"
    content: str
    token_count: int
    created_at: str


class FinishedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call as callers see it. `output` is a string that parses as JSON.

    `id` is the model's id of the call. With `is_error` the output says that the call failed.
    """

    name: str
    input: dict[str, Any]
    output: str
    id: str
    is_error: bool


class Decider(msgspec.Struct, frozen=True, kw_only=True):
    """The credential that decided about a tool call: a key's id or an operator's name.

    Kind `service` means that nobody decided: time ran out, or the run ended.
    """

    kind: Literal["account", "operator", "service"]
    id: str


class Elicitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool server's question to a person in the middle of a call: for values, or to open a link.

    In mode `form`, `requested_schema` is the JSON Schema of the values, a flat object. In mode `url`, `url`
    is the link. Source: MCP 2025-11-25 and 2026-07-28, elicitation.
    """

    message: str
    mode: Literal["form", "url"] = "form"
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


class InputAsked(Elicitation, frozen=True, kw_only=True):
    """A tool's question to a person, with the `name` and `input` of the call as the model made it.

    `key` is the server's name for the question, `leg` as in `ToolRequested`. `request_state` is opaque and
    goes back to the server when the call is repeated.
    """

    name: str
    input: dict[str, Any]
    key: str
    leg: int = 0
    request_state: str | None = None

    @property
    def elicitation(self) -> Elicitation:
        """The part that a person is shown."""
        return Elicitation(
            message=self.message, mode=self.mode, requested_schema=self.requested_schema, url=self.url
        )


ElicitationAction = Literal["accept", "decline", "cancel"]
"""The answer to an elicitation: the person agreed, refused, or did not choose."""


class ApprovalNeeded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call that waits for a person's approval, as callers receive it.

    `tool` is the tool's name as the model saw it. With an `elicitation` the tool itself asks the person
    during the call. A request that is refused because of a waiting approval receives only the id.
    """

    id: str
    tool: str | None = None
    input: dict[str, Any] | None = None
    expires_at: str | None = None
    elicitation: Elicitation | None = None


class ClientTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the client runs: declared with a request, offered to the model beside the agent's own.

    `input_schema` is a JSON Schema of an object.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$(?!\n)")]
    description: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    input_schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})


class PendingClientCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a client's tool, which the run waits for. `id` is unique among all calls."""

    id: str
    name: str
    input: dict[str, Any]


class ClientToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the call `id` of a client's tool. `output` is a string that parses as JSON."""

    id: str
    output: str
    is_error: bool = False


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that may be offered to a model.

    `name` is what the model sees; `server` and `tool` locate the tool. The hints are MCP's annotations, with
    MCP's defaults; `destructive` and `open_world`, which people are shown, are unset if the server is silent.
    """

    name: str
    server: str
    tool: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool = False
    idempotent: bool = False
    destructive: bool | msgspec.UnsetType = msgspec.UNSET
    open_world: bool | msgspec.UnsetType = msgspec.UNSET
