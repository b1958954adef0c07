"""Define what we send of OpenAI's Chat Completions API (openai 3.54, its own types)."""

import msgspec

from agentchat.contracts.values import ApprovalNeeded


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer. `param` names the field that is wrong, `code` is to be branched on.

    These fields are ours: `approvals`, the tool calls that need approval, `conversation_id`, once the message
    is saved, and `running_trace_id`, the run because of which the conversation is busy.
    """

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    approvals: tuple[ApprovalNeeded, ...] | msgspec.UnsetType = msgspec.UNSET
    conversation_id: str | msgspec.UnsetType = msgspec.UNSET
    running_trace_id: str | msgspec.UnsetType = msgspec.UNSET


class OpenAIError(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every refusal, and the last event of a stream that failed."""

    error: ErrorObject


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An agent. `id` goes into `model`; `created` is in Unix seconds; `name` is for people."""

    id: str
    object: str = "model"
    created: int
    owned_by: str = "agent-chat"
    name: str


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The account's agents."""

    object: str = "list"
    data: tuple[ModelEntry, ...]


class UrlCitation(msgspec.Struct, frozen=True, kw_only=True):
    """A source, and its mark in the text, in code points; 0 to 0 if it is not cited."""

    url: str
    title: str
    start_index: int = 0
    end_index: int = 0


class Annotation(msgspec.Struct, frozen=True, kw_only=True):
    """A source that retrieval found."""

    type: str = "url_citation"
    url_citation: UrlCitation


class CompletionDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the completion tokens that the model thought with."""

    reasoning_tokens: int


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of all model calls of the run."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: CompletionDetails | None = None


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The client's own function, with the reply as its arguments: JSON as text."""

    name: str = ""
    arguments: str


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of the client's own function; in a stream `index` is sent, and the rest once."""

    index: int | None = None
    id: str = ""
    type: str = ""
    function: CalledFunction


class CompletionReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The complete reply. `reasoning_content` is no field of OpenAI's: DeepSeek and vLLM have it."""

    role: str
    content: str | None
    refusal: None = None
    reasoning_content: str = ""
    tool_calls: tuple[FunctionCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer."""

    index: int = 0
    message: CompletionReply
    logprobs: None = None
    finish_reason: str = "stop"


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The reply as a document."""

    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Tokens


class CompletionDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new part of the reply."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[FunctionCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer, piece by piece."""

    index: int = 0
    delta: CompletionDelta
    finish_reason: str | None = None


class CompletionChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of a stream. `usage` is only in the last of those that were asked for it."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: Tokens | None = None
