"""From a body to the request that the behaviours know. What does not fit is told in OpenAI's way."""

import re
from collections.abc import Sequence

import msgspec

from model_demo.wire import requests as neutral
from model_demo.wire.chat import strict
from model_demo.wire.chat.errors import InvalidRequestError
from model_demo.wire.chat.requests import (
    Assistant,
    ChatRequest,
    Content,
    Developer,
    NamedTool,
    RefusalPart,
    SchemaFormat,
    System,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    User,
)
from model_demo.wire.protocol import Asked

_MOST_TOKENS = 1_000_000
"""Where the request names no bound."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>[^`]+)`")
_CACHED = {"type": "ephemeral"}  # this API caches by itself

_decoder = msgspec.json.Decoder(ChatRequest)


def asked(raw: bytes) -> Asked:
    """The request in a body. Raises InvalidRequestError."""
    try:
        request = _decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequestError("We could not parse the JSON body of your request.") from None
    options = request.stream_options
    if options is not None and not request.stream:
        raise InvalidRequestError(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"
        )
    return Asked(_neutral(request), options is not None and options.include_usage)


def _neutral(request: ChatRequest) -> neutral.MessageRequest:
    tools = [_tool(tool, place) for place, tool in enumerate(request.tools or ())]
    system = [m for m in request.messages if isinstance(m, System | Developer)]
    return neutral.MessageRequest(
        model=request.model,
        messages=_messages(request),
        system="\n\n".join(_text(message.content) for message in system),
        tools=tools,
        tool_choice=_tool_choice(request, {tool.name for tool in tools}),
        thinking=_thinking(request),
        output_config=_output(request),
        cache_control=_CACHED,
        max_tokens=request.max_completion_tokens or request.max_tokens or _MOST_TOKENS,
        stream=bool(request.stream),
        stop_sequences=_stops(request),
        metadata=request.metadata,
    )


def _messages(request: ChatRequest) -> list[neutral.Message]:
    """The conversation; results of tools become blocks of the user's turn behind the calls."""
    made: list[neutral.Message] = []
    open_calls: list[str] = []
    for place, message in enumerate(request.messages):
        if open_calls and not isinstance(message, ToolResult):
            raise _unanswered(open_calls, place)
        match message:
            case ToolResult(tool_call_id=call_id):
                if call_id not in open_calls:
                    raise InvalidRequestError(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceding"
                        " message with 'tool_calls'.",
                        f"messages.[{place}].role",
                    )
                open_calls.remove(call_id)
                made.append(neutral.Message("user", [_result(message)]))
            case User():
                made.append(neutral.Message("user", _blocks(message.content)))
            case Assistant():
                open_calls = [call.id for call in message.tool_calls or ()]
                made.append(neutral.Message("assistant", _said(message)))
    if open_calls:
        raise _unanswered(open_calls, len(request.messages))
    if not made or made[0].role != "user":
        raise InvalidRequestError(
            "Invalid 'messages': behind the system's, the first must be a user's.", "messages"
        )
    return made


def _unanswered(call_ids: Sequence[str], place: int) -> InvalidRequestError:
    return InvalidRequestError(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
        f" 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(call_ids)}",
        f"messages.[{place}].role",
    )


def _said(message: Assistant) -> list[neutral.Block]:
    calls = [
        neutral.ToolUseBlock(call.id, call.function.name, _arguments(call))
        for call in message.tool_calls or ()
    ]
    return [*_blocks(message.content or ""), *calls]


def _arguments(call: ToolCall) -> dict[str, neutral.Json]:
    """What is no JSON object goes for an empty one: this API does not look into it."""
    try:
        found = msgspec.json.decode(call.function.arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _result(message: ToolResult) -> neutral.ToolResultBlock:
    return neutral.ToolResultBlock(message.tool_call_id, _text(message.content))


def _blocks(content: Content) -> list[neutral.Block]:
    """The texts; pictures, sounds and files are taken and not looked at."""
    if isinstance(content, str):
        return [neutral.TextBlock(content)] if content else []
    return [
        neutral.TextBlock(_text([part]))
        if isinstance(part, TextPart | RefusalPart)
        else neutral.ImageBlock({})
        for part in content
    ]


def _text(content: Content) -> str:
    if isinstance(content, str):
        return content
    texts = [part.text for part in content if isinstance(part, TextPart)]
    return "".join([*texts, *(part.refusal for part in content if isinstance(part, RefusalPart))])


def _tool(tool: Tool, place: int) -> neutral.Tool:
    function = tool.function
    if not _TOOL_NAME.fullmatch(function.name):
        raise InvalidRequestError(
            f"Invalid 'tools[{place}].function.name': it must match the pattern '^[a-zA-Z0-9_-]{{1,64}}$'.",
            f"tools[{place}].function.name",
        )
    parameters = function.parameters or {"type": "object", "properties": {}}
    if parameters.get("type") != "object":
        raise InvalidRequestError(
            f"Invalid schema for function '{function.name}': schema must be of type \"object\".",
            f"tools[{place}].function.parameters",
            "invalid_function_parameters",
        )
    return neutral.Tool(function.name, parameters, function.description)


def _tool_choice(request: ChatRequest, names: set[str]) -> neutral.ToolChoice | None:
    choice, one = request.tool_choice, request.parallel_tool_calls is False
    if (choice is not None or request.parallel_tool_calls is not None) and not names:
        wrong = "tool_choice" if choice is not None else "parallel_tool_calls"
        raise InvalidRequestError(f"'{wrong}' is only allowed when 'tools' are specified.", wrong)
    if isinstance(choice, NamedTool):
        if choice.function.name not in names:
            raise InvalidRequestError(
                f"Tool choice '{choice.function.name}' not found in 'tools' parameter.", "tool_choice"
            )
        return neutral.ToolChoice("tool", choice.function.name, one)
    if choice == "none":
        return neutral.ToolChoice("none")
    return neutral.ToolChoice("any" if choice == "required" else "auto", None, one)


def _thinking(request: ChatRequest) -> neutral.Thinking | None:
    thinks = request.reasoning_effort not in (None, "none", "minimal")
    return neutral.Thinking("adaptive") if thinks else None


def _output(request: ChatRequest) -> neutral.OutputConfig | None:
    if not isinstance(request.response_format, SchemaFormat):
        return None
    wanted = request.response_format.json_schema
    if wanted.strict:
        strict.check(wanted.name, wanted.schema)
    return neutral.OutputConfig(format=neutral.OutputFormat("json_schema", wanted.schema))


def _stops(request: ChatRequest) -> list[str]:
    if isinstance(request.stop, str):
        return [request.stop] if request.stop else []
    return [sequence for sequence in request.stop or () if sequence]


def _refusal(problem: str) -> InvalidRequestError:
    reason, _, path = problem.partition(" - at `$")
    where = path.rstrip("`").removeprefix(".")
    match = _FIELD.match(reason)
    if match is None:
        return InvalidRequestError(
            f"Invalid value for '{where}': {reason}." if where else reason, where or None
        )
    name = f"{where}.{match['field']}" if where else match["field"]
    if match["what"] == "missing required":
        return InvalidRequestError(
            f"Missing required parameter: '{name}'.", name, "missing_required_parameter"
        )
    return InvalidRequestError(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
