"""A call's ToolFinished, and what a tool's result becomes in it: a string that parses as JSON
(docs/change/design.md 6).

structuredContent as JSON; else a single text block that parses as JSON, as it is; else {"text": ...}; errors
{"error": ...}. Over 256 KiB it is cut, with a notice, and is still JSON.
"""

import contextlib
import time
from typing import Any

import mcp_types
import msgspec
from opentelemetry.trace import StatusCode, get_current_span

from agentchat.contracts import tool_messages
from agentchat.contracts.text import cleaned, cleaned_json
from agentchat.runtime import genai, logs, metrics
from agentchat.tool_runner.faults import ToolFault
from agentchat.tool_runner.servers.elicitation import InputRequired

MAX_BYTES = 256 * 1024
MAX_ERROR_CHARS = 16_000
_NOTICE_BYTES = 256
_SERVERS = metrics.BoundedNames()


def finished_call(
    request: tool_messages.ToolRequested,
    outcome: mcp_types.CallToolResult | InputRequired | ToolFault,
    began: float,
) -> tool_messages.ToolFinished:
    """Return what to report, in words that a model may read; `began` is on `time.perf_counter()`."""
    seconds = time.perf_counter() - began
    asked: InputRequired | None = None
    match outcome:
        case InputRequired():
            asked, fault, detail = outcome, "", ""
            output = error_output(ToolFault("input").words)
        case ToolFault():
            output = error_output(outcome.words)
            fault, detail = str(outcome.kind), outcome.detail
        case mcp_types.CallToolResult():
            output = rendered(outcome)
            fault, detail = ("tool_error" if outcome.is_error else ""), ""
    if fault:
        span = get_current_span()
        span.set_attribute(genai.ERROR_TYPE, fault)
        span.set_status(StatusCode.ERROR)
    ended = fault or ("asks" if asked else "ok")
    metrics.TOOL_CALLS.labels(server=_SERVERS.value(request.server), outcome=ended).observe(seconds)
    ms = round(seconds * 1000)
    logs.get_logger("execute").info(
        "tool_finished",
        call_id=request.call_id,
        server=request.server,
        tool=request.tool,
        ms=ms,
        chars=len(output),
        fault=fault,
        detail=detail,
        asks=0 if asked is None else len(asked.requests),
    )
    return tool_messages.ToolFinished(
        trace_id=request.trace_id,
        call_id=request.call_id,
        output=output,
        is_error=bool(fault) or asked is not None,
        ms=ms,
        leg=request.leg,
        input_requests=() if asked is None else asked.requests,
        request_state=None if asked is None else asked.request_state,
    )


def rendered(result: mcp_types.CallToolResult) -> str:
    if result.is_error:
        return error_output(_error_text(result))
    if result.structured_content is not None:
        return _cut(_encoded(result.structured_content))
    if len(result.content) == 1 and isinstance(result.content[0], mcp_types.TextContent):
        return _single(result.content[0].text)
    return _cut(_encoded(_blocks(result.content)))


def error_output(words: str) -> str:
    """`{"error": words}`, with the words cut to a length that explains and does not flood."""
    words = cleaned(words)
    if len(words) > MAX_ERROR_CHARS:
        words = words[:MAX_ERROR_CHARS] + " … (cut)"
    return _encoded({"error": words})


def _single(text: str) -> str:
    text = cleaned(text)
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _cut_text(text)
    # A NUL or a lone surrogate may still be there, escaped.
    return _cut(text if "\\u" not in text else _encoded(parsed))


def _error_text(result: mcp_types.CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    if any(texts):
        return "\n".join(texts)
    if result.structured_content is not None:
        return _encoded(result.structured_content)
    return "The tool failed without saying why."


def _blocks(content: list[mcp_types.ContentBlock]) -> dict[str, Any]:
    """Several blocks: their texts together, and what else there is described (a model cannot read base64)."""
    texts = [block.text for block in content if isinstance(block, mcp_types.TextContent)]
    others = [_described(block) for block in content if not isinstance(block, mcp_types.TextContent)]
    found: dict[str, Any] = {"text": "\n".join(texts)}
    return found | {"attachments": others} if others else found


def _described(block: mcp_types.ContentBlock) -> dict[str, Any]:
    match block:
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return {"type": block.type, "mime_type": block.mime_type, "bytes": _size(block.data)}
        case mcp_types.ResourceLink():
            kept = ("uri", "name", "title", "description", "mime_type")
            return {"type": block.type} | _given(block, *kept)
        case mcp_types.EmbeddedResource():
            found = {"type": block.type} | _given(block.resource, "uri", "mime_type")
            if isinstance(block.resource, mcp_types.TextResourceContents):
                return found | {"text": block.resource.text}
            return found | {"bytes": _size(block.resource.blob)}
        case _:
            return {"type": block.type}


def _given(block: mcp_types.ResourceLink | mcp_types.ResourceContents, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(block, name)) is not None}


def _size(base64_text: str) -> int:
    return len(base64_text) * 3 // 4


def _encoded(value: Any) -> str:
    """JSON of `value`, cleaned; walked through only if there is something to clean, for it may be large."""
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
        encoded = msgspec.json.encode(value)
        if b"\\u0000" not in encoded:
            return encoded.decode()
    return msgspec.json.encode(cleaned_json(value)).decode()


def _cut(output: str) -> str:
    """JSON as it is, or, over the limit, the beginning of its text with a notice."""
    return output if len(output.encode()) <= MAX_BYTES else _shortened(output)


def _cut_text(text: str) -> str:
    output = _encoded({"text": text})
    return output if len(output.encode()) <= MAX_BYTES else _shortened(text)


def _shortened(text: str) -> str:
    size = len(text.encode())
    shown = text[: _fitting(text)]
    notice = f"The output had {size} bytes and was cut; these are its first {len(shown.encode())}."
    return _encoded({"notice": notice, "text": shown})


def _fitting(text: str) -> int:
    low, high = 0, min(len(text), MAX_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        if len(msgspec.json.encode(text[:middle])) <= MAX_BYTES - _NOTICE_BYTES:
            low = middle
        else:
            high = middle - 1
    return low
