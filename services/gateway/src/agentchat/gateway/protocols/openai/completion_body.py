"""Read the body of a chat completion, and refuse what would be wrong to ignore.

Calls of tools that ran elsewhere, and their results, are sent to the model as text.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from agentchat.contracts import http, ids, wire
from agentchat.contracts.examples import AGENT
from agentchat.contracts.ownership import MAX_USER_ID
from agentchat.contracts.values import ClientToolResult
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.protocols.client_history import MessageBuilder
from agentchat.gateway.protocols.client_tools import encode_output
from agentchat.gateway.protocols.openai.content_parts import OpenAiPart, read_content
from agentchat.gateway.protocols.openai.structured_output import CompletionFormat

_INSTRUCTING = ("system", "developer")
_OF_TOOLS = ("tool", "function")
_OUTPUT_CALL = re.compile(r"call_[0-9a-f]{32}(?:_\d+)*\Z")
"""The id of a call whose arguments were the reply."""


class OpenAiFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that an assistant elsewhere called. `arguments` are JSON as text; `input` is a custom tool's."""

    name: str = ""
    arguments: Any = None
    input: Any = None


class OpenAiToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One of an assistant's `tool_calls`."""

    id: str = ""
    function: OpenAiFunction | None = None
    custom: OpenAiFunction | None = None


class OpenAiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as clients send it."""

    role: Annotated[
        str,
        msgspec.Meta(
            extra_json_schema={"enum": ["system", "developer", "user", "assistant", "tool", "function"]}
        ),
    ]
    content: str | tuple[OpenAiPart, ...] | None = None
    name: str | None = None
    tool_calls: tuple[OpenAiToolCall, ...] | None = None
    function_call: OpenAiFunction | None = None
    tool_call_id: str | None = None


def read_messages(
    given: Sequence[OpenAiMessage],
    field: str,
    output_function: str | None = None,
    *,
    keeps_client_calls: bool = True,
) -> MessageBuilder:
    """Read the instructions and the messages, the user's new one last. Raises Refusal: 400, of `field`.

    Without `keeps_client_calls`, the conversation here has the calls of the client's tools and their results.
    """
    _check_last(given, field)
    read = _Reading(output_function, keeps_client_calls=keeps_client_calls)
    for index, message in enumerate(given):
        read.add(message, f"{field}[{index}]", is_last=index == len(given) - 1)
    return read.messages


def read_tool_results(
    given: Sequence[OpenAiMessage], output_function: str | None
) -> tuple[ClientToolResult, ...]:
    """Return the results of the client's tools, if the request brings no message but these.

    The result of an output function is none: its run has ended with the call, so it is a message.
    """
    last = [message for message in given if message.role not in _INSTRUCTING]
    results: list[ClientToolResult] = []
    for message in reversed(last):
        call_id = message.tool_call_id or ""
        is_output = output_function is not None or _OUTPUT_CALL.match(call_id) is not None
        if message.role != "tool" or (is_output and ids.find_request_id(call_id) is None):
            break
        text, _ = read_content(message.content, "messages")
        results.insert(0, ClientToolResult(id=call_id, output=encode_output(text)))
    return tuple(results)


def _check_last(given: Sequence[OpenAiMessage], field: str) -> None:
    messages = [message for message in given if message.role not in _INSTRUCTING]
    if not messages or messages[-1].role not in ("user", *_OF_TOOLS):
        raise build_field_refusal(field, 'The last message must have role "user" or "tool".')


class _Reading:
    """The messages of a request as they are read.

    Arguments of the output function are an earlier reply. Its results are left out, unless the last asks for
    another try.
    """

    def __init__(self, output_function: str | None, *, keeps_client_calls: bool) -> None:
        self.messages = MessageBuilder()
        self._keeps_client_calls = keeps_client_calls
        self._output_function = output_function
        self._called: dict[str, str] = {}  # the names of tools, by the ids of their calls

    def add(self, message: OpenAiMessage, place: str, *, is_last: bool) -> None:
        takes_files = message.role == "user"
        text, files = read_content(message.content, f"{place}.content", takes_files=takes_files)
        match message.role:
            case "system" | "developer":
                self.messages.add_system(text)
            case "user":
                self.messages.add_user(text, files)
            case "assistant":
                self.messages.add_assistant("\n".join(filter(None, (text, *self._read_calls(message)))))
            case "tool" if self._is_left_out(message.tool_call_id or ""):
                pass
            case "tool" | "function":
                name = self._called.get(message.tool_call_id or "") or message.name or "?"
                if is_last or name != self._output_function:
                    self.messages.add_user(f"[Tool result {name}: {text}]")
            case _:
                known = "This must be system, developer, user, assistant or tool."
                raise build_field_refusal(f"{place}.role", known)

    def _is_left_out(self, call_id: str) -> bool:
        return not self._keeps_client_calls and ids.find_request_id(call_id) is not None

    def _read_calls(self, message: OpenAiMessage) -> list[str]:
        calls = list(message.tool_calls or ())
        if message.function_call is not None:
            calls.append(OpenAiToolCall(function=message.function_call))
        texts = []
        for call in calls:
            if self._is_left_out(call.id):
                continue
            called = call.function or call.custom or OpenAiFunction()
            self._called[call.id] = called.name
            given = called.arguments if called.input is None else called.input
            text = given if isinstance(given, str) else wire.encode(given).decode()
            is_reply = called.name == self._output_function
            texts.append(text if is_reply else f"[Tool call {called.name}: {text}]")
        return texts


NULL = {"type": "null"}
PASSED_OVER = "As OpenAI's. Fields that are not named here are passed over."


def allow_one_of(*values: object) -> Meta:
    """Describe a field in OpenAPI as one of these values or null. `check_fit` refuses others."""
    return Meta(extra_json_schema={"enum": [*values, None]})


_UserName = Annotated[
    str | None,
    Meta(
        description="The end user, unless X-User-Id names one; `safety_identifier` wins over `user`.",
        extra_json_schema={"minLength": 1, "maxLength": MAX_USER_ID},
    ),
]


class OpenAiRequest(http.RunOptions, frozen=True, kw_only=True):
    """The fields that count of a request of either of OpenAI's APIs."""

    model: Annotated[str, Meta(description="The agent's id, or its name if no other agent has it.")]
    stream: bool | None = None
    tools: Annotated[
        tuple[Any, ...] | None, Meta(description="Functions that the client runs. Others are ignored.")
    ] = None
    tool_choice: Annotated[
        Any,
        Meta(description="auto, none, required, or a function of `tools`: its arguments are the reply."),
    ] = None
    top_logprobs: Annotated[int | None, allow_one_of(0)] = None
    safety_identifier: _UserName = None
    user: _UserName = None
    temperature: http.Temperature | None = None
    top_p: http.TopP | None = None
    parallel_tool_calls: bool | None = None
    metadata: Annotated[dict[str, Any] | None, Meta(description="Of a new conversation: pairs of texts.")] = (
        None
    )


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`include_usage`: one more chunk has the tokens."""

    include_usage: bool | None = None


class ChatCompletion(OpenAiRequest, frozen=True, kw_only=True):
    """A request for a chat completion."""

    messages: Annotated[
        tuple[OpenAiMessage, ...],
        Meta(
            description="The conversation; last the user's message, or results of tools.",
            extra_json_schema={"minItems": 1},
        ),
    ]
    stream_options: StreamOptions | None = None
    n: Annotated[int | None, allow_one_of(1)] = None
    logprobs: Annotated[bool | None, Meta(extra_json_schema={"anyOf": [{"const": False}, NULL]})] = None
    function_call: Annotated[Any, allow_one_of("auto", "none")] = None
    modalities: Annotated[
        tuple[str, ...] | None, Meta(extra_json_schema={"maxItems": 1, "items": {"enum": ["text"]}})
    ] = None
    response_format: CompletionFormat | None = None
    max_tokens: http.MaxTokens | None = None
    max_completion_tokens: http.MaxTokens | None = None
    stop: http.Stop | None = None
    seed: http.Seed | None = None
    reasoning_effort: http.ReasoningEffort | None = None

    def read_parameters(self) -> http.RunParameters:
        """Return the parameters for the model's calls."""
        return http.RunParameters(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_completion_tokens or self.max_tokens,
            stop=self.stop or None,
            seed=self.seed,
            reasoning_effort=self.reasoning_effort,
            parallel_tool_calls=self.parallel_tool_calls,
        )


CompletionData = Annotated[
    ChatCompletion,
    BodyKwarg(
        description=PASSED_OVER,
        examples=[
            Example(
                summary="A question",
                value={
                    "model": AGENT,
                    "messages": [{"role": "user", "content": "Where is my order ORD-1001?"}],
                },
            )
        ],
    ),
]


def check_fit(body: ChatCompletion) -> None:
    """Refuse what the caller would miss in the answer. Raises Refusal: 400."""
    if body.n not in (None, 1):
        raise build_field_refusal("n", "`n` must be 1.")
    if body.logprobs or body.top_logprobs:
        raise build_field_refusal("logprobs", "Log probabilities are not available.")
    check_tool_choice("function_call", body.function_call)
    if body.modalities not in (None, (), ("text",)):
        raise build_field_refusal("modalities", "An agent answers in text.")


def check_tool_choice(name: str, value: Any) -> None:
    """Refuse a tool choice other than auto and none. Raises Refusal: 400."""
    if value not in (None, "auto", "none"):
        raise build_field_refusal(
            name,
            'This must be "auto", "none", or one function. For JSON output use response_format json_schema.',
        )
