"""The body of `POST /v1/chat/completions`, as types: what a client may send.

Fields that have no effect here are named so that they can be sent; what no API of this kind has is refused.
"""

from typing import Annotated, Any, Literal

import msgspec

Json = Any


class TextPart(msgspec.Struct, tag="text", frozen=True):
    text: str


class RefusalPart(msgspec.Struct, tag="refusal", frozen=True):
    refusal: str


class ImagePart(msgspec.Struct, tag="image_url", frozen=True):
    image_url: dict[str, Json]


class AudioPart(msgspec.Struct, tag="input_audio", frozen=True):
    input_audio: dict[str, Json]


class FilePart(msgspec.Struct, tag="file", frozen=True):
    file: dict[str, Json]


Part = TextPart | RefusalPart | ImagePart | AudioPart | FilePart
Content = str | list[Part]


class Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    id: str
    function: Called
    type: Literal["function"] = "function"


class System(msgspec.Struct, tag="system", tag_field="role", frozen=True, forbid_unknown_fields=True):
    content: Content
    name: str | None = None


class Developer(msgspec.Struct, tag="developer", tag_field="role", frozen=True, forbid_unknown_fields=True):
    content: Content
    name: str | None = None


class User(msgspec.Struct, tag="user", tag_field="role", frozen=True, forbid_unknown_fields=True):
    content: Content
    name: str | None = None


class Assistant(msgspec.Struct, tag="assistant", tag_field="role", frozen=True, forbid_unknown_fields=True):
    """`reasoning_content` goes back as some providers want it; it is not looked at."""

    content: Content | None = None
    tool_calls: list[ToolCall] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    name: str | None = None


class ToolResult(msgspec.Struct, tag="tool", tag_field="role", frozen=True, forbid_unknown_fields=True):
    tool_call_id: str
    content: Content


Message = System | Developer | User | Assistant | ToolResult


class Function(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    parameters: dict[str, Json] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True):
    function: Function
    type: Literal["function"] = "function"


class NamedFunction(msgspec.Struct, frozen=True):
    name: str


class NamedTool(msgspec.Struct, frozen=True):
    function: NamedFunction
    type: Literal["function"] = "function"


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False
    include_obfuscation: bool | None = None


class JsonSchema(msgspec.Struct, frozen=True):
    name: str
    schema: dict[str, Json]
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(msgspec.Struct, tag="json_schema", frozen=True):
    json_schema: JsonSchema


class ObjectFormat(msgspec.Struct, tag="json_object", frozen=True):
    pass


class TextFormat(msgspec.Struct, tag="text", frozen=True):
    pass


Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Tokens = Annotated[int, msgspec.Meta(ge=1)]


class ChatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=100_000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_completion_tokens: Tokens | None = None
    max_tokens: Tokens | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=4)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: SchemaFormat | ObjectFormat | TextFormat | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1)] | None = None
    temperature: Temperature | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, float] | None = None
    metadata: dict[str, Json] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: str | None = None
    store: bool | None = None
    user: str | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
