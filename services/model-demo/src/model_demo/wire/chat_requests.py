"""The body of `POST /v1/chat/completions`, as types: what a client may send."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from model_demo.wire.requests import Schema, Share

Tokens = Annotated[int, Meta(ge=1)]


class TextPart(msgspec.Struct, tag="text", frozen=True):
    text: str


Content = str | list[TextPart]


class Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class FunctionCall(msgspec.Struct, frozen=True):
    id: str
    function: Called
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any message. `reasoning_content` goes back as some providers want it; it is not looked at."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[FunctionCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None


class Function(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    description: str = ""
    parameters: Schema | None = None


class FunctionTool(msgspec.Struct, frozen=True):
    """A function to call, or, where `tool_choice` names it, its name alone."""

    function: Function
    type: Literal["function"] = "function"


class ChatStreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class NamedSchema(msgspec.Struct, frozen=True):
    name: str
    schema: Schema
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


WITHOUT_EFFECT = {
    *("frequency_penalty", "presence_penalty", "logit_bias", "reasoning_effort", "seed", "verbosity"),
    *("prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
}


class ChatCompletionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    stream: bool | None = False
    stream_options: ChatStreamOptions | None = None
    max_completion_tokens: Tokens | None = None
    max_tokens: Tokens | None = None
    stop: str | Annotated[list[str], Meta(max_length=4)] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | FunctionTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    metadata: Schema | None = None
