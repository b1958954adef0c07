"""Define what we send of OpenAI's Responses API (openai 3.54, its own types)."""

import msgspec

from agentchat.contracts.values import Elicitation


class CitedUrl(msgspec.Struct, frozen=True, kw_only=True, tag="url_citation"):
    """A source of the reply, and its mark in the text, in code points; 0 to 0 if it is not cited."""

    url: str
    title: str
    start_index: int = 0
    end_index: int = 0


class OutputText(msgspec.Struct, frozen=True, kw_only=True, tag="output_text"):
    """The text of one call of the model."""

    text: str
    annotations: tuple[CitedUrl, ...] = ()
    logprobs: tuple[()] = ()


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag="message"):
    """The agent's text between its tools. `status`: in_progress, completed, incomplete."""

    id: str
    status: str
    role: str = "assistant"
    content: tuple[OutputText, ...] = ()


class SummaryText(msgspec.Struct, frozen=True, kw_only=True, tag="summary_text"):
    """The model's reasoning in one call."""

    text: str


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag="reasoning"):
    """The thinking before a message or a call. `status`: in_progress, completed, incomplete."""

    id: str
    summary: tuple[SummaryText, ...] = ()
    status: str


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True, tag="function_call"):
    """The client's own function, with the reply as its arguments.

    `status`: in_progress, completed, incomplete.
    """

    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: str


class CallError(msgspec.Struct, frozen=True, kw_only=True, tag="mcp_tool_execution_error"):
    """Why a tool failed."""

    content: tuple[dict[str, str], ...]


class McpCall(msgspec.Struct, frozen=True, kw_only=True, tag="mcp_call"):
    """A tool that the agent ran. `status`: in_progress, completed, failed, incomplete."""

    id: str
    status: str
    name: str
    server_label: str = "agent"
    arguments: str
    output: str | None = None
    error: CallError | None = None
    approval_request_id: str | None = None


class McpApprovalRequest(msgspec.Struct, frozen=True, kw_only=True, tag="mcp_approval_request"):
    """A tool that the agent runs once a person allows it. `id` is the approval's.

    With an `elicitation`, which is no field of OpenAI's, the tool asks a person in the middle of its call.
    """

    id: str
    name: str
    server_label: str = "agent"
    arguments: str
    elicitation: Elicitation | msgspec.UnsetType = msgspec.UNSET


Item = ReasoningItem | MessageItem | FunctionCallItem | McpCall | McpApprovalRequest


class InputDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The input tokens that were read from and written to the provider's cache."""

    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the output tokens that the model thought with, 0 if its provider does not count them."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of the run."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails = OutputDetails()
    total_tokens: int


class ConversationRef(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation; `id` may be sent as `conversation`."""

    id: str


class ResponseError(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why there is no reply. `code` is one of OpenAI's, since strict clients accept no other.

    `service_code` is ours, from the table of errors.
    """

    code: str = "server_error"
    message: str
    service_code: str


class Incomplete(msgspec.Struct, frozen=True, kw_only=True):
    """Why a reply ends before its time: max_output_tokens, content_filter."""

    reason: str


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One reply. `status`: queued, in_progress, completed, incomplete, failed, cancelled."""

    id: str
    object: str = "response"
    created_at: int
    status: str
    model: str
    conversation: ConversationRef
    previous_response_id: str | None = None
    output: tuple[Item, ...] = ()
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    background: bool = False
    instructions: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    temperature: None = None
    tool_choice: str = "auto"
    tools: tuple[()] = ()
    top_p: None = None
