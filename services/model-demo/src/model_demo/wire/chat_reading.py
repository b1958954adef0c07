"""Reads a chat completion's body into the Messages API's request. Errors are worded as OpenAI's."""

from collections.abc import Iterator
from typing import Any

import msgspec

from model_demo.wire import requests as neutral
from model_demo.wire.chat_requests import (
    WITHOUT_EFFECT,
    ChatCompletionRequest,
    ChatMessage,
    FunctionCall,
    FunctionTool,
)
from model_demo.wire.errors import DemoApiError, Misfit, invalid, read
from model_demo.wire.requests import Asked, Schema

_MOST_TOKENS = 1_000_000
"""Without a bound in the request."""
_SYSTEM = ("system", "developer")
_CACHED = {"type": "ephemeral"}  # this API caches by itself
_NOT_STRICT = ("allOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else", "oneOf")
_REQUIRED = "'required' is required to be supplied and to be an array including every key in properties"


def asked(raw: bytes) -> Asked:
    """The request in a body. Raises DemoApiError 400."""
    request = read(raw, ChatCompletionRequest, WITHOUT_EFFECT, _refused)
    options = request.stream_options
    if options is not None and not request.stream:
        raise invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options"
        )
    return Asked(_neutral(request), options is not None and options.include_usage)


def _neutral(request: ChatCompletionRequest) -> neutral.MessageRequest:
    system = [_text(message) for message in request.messages if message.role in _SYSTEM]
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    return neutral.MessageRequest(
        model=request.model,
        messages=_messages(request.messages),
        system="\n\n".join(system),
        tools=[_tool(tool, index) for index, tool in enumerate(request.tools or ())],
        tool_choice=_tool_choice(request),
        output_config=_output(request),
        cache_control=_CACHED,
        max_tokens=request.max_completion_tokens or request.max_tokens or _MOST_TOKENS,
        stream=bool(request.stream),
        stop_sequences=[*filter(None, stops)],
        metadata=request.metadata,
    )


def _messages(messages: list[ChatMessage]) -> list[neutral.InputMessage]:
    """The conversation; tool results become blocks of the user's turn after the calls."""
    made: list[neutral.InputMessage] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                raise invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding"
                    " message with 'tool_calls'.",
                    f"messages.[{index}].role",
                )
            waiting.remove(message.tool_call_id)
            result = neutral.ToolResultBlock(message.tool_call_id, _text(message))
            made.append(neutral.InputMessage("user", [result]))
            continue
        _check_answered(waiting, index)
        waiting = [call.id for call in message.tool_calls or ()]
        if message.role not in _SYSTEM:
            made.append(
                neutral.InputMessage("assistant" if message.role == "assistant" else "user", _blocks(message))
            )
    _check_answered(waiting, len(messages))
    if not made or made[0].role != "user":
        raise invalid("Invalid 'messages': after the system's, the first must be a user's.", "messages")
    return made


def _check_answered(waiting: list[str], index: int) -> None:
    if waiting:
        raise invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            " 'tool_call_id'. The following tool_call_ids did not have response messages:"
            f" {', '.join(waiting)}",
            f"messages.[{index}].role",
        )


def _blocks(message: ChatMessage) -> list[neutral.Block]:
    texts: list[neutral.Block] = [neutral.TextBlock(text)] if (text := _text(message)) else []
    calls = message.tool_calls or ()
    return [*texts, *(neutral.ToolUseBlock(one.id, one.function.name, _arguments(one)) for one in calls)]


def _arguments(call: FunctionCall) -> dict[str, neutral.Json]:
    """Arguments that are no JSON object count as an empty one, as this API does not check them."""
    try:
        return msgspec.json.decode(call.function.arguments, type=dict[str, neutral.Json])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _text(message: ChatMessage) -> str:
    content = message.content or ""
    return content if isinstance(content, str) else "".join(part.text for part in content)


def _tool(tool: FunctionTool, index: int) -> neutral.ClientTool:
    function = tool.function
    parameters = function.parameters or {"type": "object", "properties": {}}
    if parameters.get("type") != "object":
        raise invalid(
            f"Invalid schema for function '{function.name}': schema must be of type \"object\".",
            f"tools[{index}].function.parameters",
            "invalid_function_parameters",
        )
    return neutral.ClientTool(function.name, parameters, function.description)


def _tool_choice(request: ChatCompletionRequest) -> neutral.ToolChoice:
    choice, one = request.tool_choice, request.parallel_tool_calls is False
    for name, given in (("tool_choice", choice), ("parallel_tool_calls", request.parallel_tool_calls)):
        if given is not None and not request.tools:
            raise invalid(f"'{name}' is only allowed when 'tools' are specified.", name)
    if isinstance(choice, FunctionTool):
        name = choice.function.name
        if name not in {tool.function.name for tool in request.tools or ()}:
            raise invalid(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")
        return neutral.ToolChoice("tool", name, one)
    if choice == "none":
        return neutral.ToolChoice("none")
    return neutral.ToolChoice("any" if choice == "required" else "auto", None, one)


def _output(request: ChatCompletionRequest) -> neutral.OutputSettings | None:
    if request.response_format is None or request.response_format.type == "text":
        return None
    named = request.response_format.json_schema
    if named is None:  # json_object: its form is in the prompt, if anywhere
        return neutral.OutputSettings(format=neutral.OutputFormat("json_schema", {"type": "object"}))
    if named.strict:
        _check_strict(named.name, named.schema)
    return neutral.OutputSettings(format=neutral.OutputFormat("json_schema", named.schema))


def _refused(misfit: Misfit) -> DemoApiError:
    where = misfit.path
    match misfit.kind:
        case "missing":
            return invalid(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
        case "unknown":
            return invalid(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
        case "broken":
            return invalid("We could not parse the JSON body of your request.")
    reason = misfit.reason.replace("matching regex", "matching the pattern")
    return invalid(f"Invalid value for '{where}': {reason}." if where else reason, where or None)


def _check_strict(name: str, schema: Schema) -> None:
    """Strict structured output: closed objects, no optional fields, fewer keywords. Raises DemoApiError
    400.
    """
    closed = schema.get("type") == "object"
    for path, problem in _problems(schema, ()) if closed else [((), 'schema must be of type "object"')]:
        problem_text = f"Invalid schema for response_format '{name}': In context={path}, {problem}."
        raise invalid(problem_text, "response_format")


def _problems(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(schema, dict):
        yield path, "schema must be an object"
        return
    yield from ((path, f"'{keyword}' is not permitted") for keyword in _NOT_STRICT if keyword in schema)
    properties = schema.get("properties", {})
    if "object" in (schema.get("type"), *schema.get("type", ())):
        if schema.get("additionalProperties") is not False:
            yield path, "'additionalProperties' is required to be supplied and to be false"
        for key in sorted(set(properties) - set(schema.get("required", ()))):
            yield path, f"{_REQUIRED}. Missing '{key}'"
    inner = [("properties", key, one) for key, one in properties.items()]
    inner += [("$defs", key, one) for key, one in schema.get("$defs", {}).items()]
    inner += [("anyOf", str(index), one) for index, one in enumerate(schema.get("anyOf", ()))]
    inner += [("items", "", schema["items"])] if "items" in schema else []
    for group, key, one in inner:
        yield from _problems(one, (*path, group, *filter(None, [key])))
