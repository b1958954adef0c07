"""Build the ToolFinished of a call.

Its output is a string that parses as JSON (docs/change/rules.md 5). The output is structuredContent as JSON;
else a single text block that parses as JSON, as it is; else {"text": ...}; for errors {"error": ...}. Over
256 KiB it is cut, with a notice, and is still JSON.
"""

import contextlib
import time
from typing import Any

import mcp_types
import msgspec
from opentelemetry.trace import StatusCode, get_current_span

from agentchat.contracts import tool_messages
from agentchat.contracts.text import clean_json, clean_text
from agentchat.runtime import genai, logs, metrics
from agentchat.tool_runner.faults import ToolFault
from agentchat.tool_runner.servers.elicitation import InputRequired

MAX_BYTES = 256 * 1024
MAX_ERROR_CHARS = 16_000
_NOTICE_BYTES = 256
_SERVERS = metrics.BoundedNames()


def build_finished_call(
    request: tool_messages.ToolRequested,
    outcome: mcp_types.CallToolResult | InputRequired | ToolFault,
    began: float,
) -> tool_messages.ToolFinished:
    """Build the report of a call, and count, log and trace it.

    `began` is on `time.perf_counter()`. The consumer is orchestrator.tools.tool_calls.
    """
    seconds = time.perf_counter() - began
    asked: InputRequired | None = None
    match outcome:
        case InputRequired():
            asked, fault, detail = outcome, "", ""
            output = render_error(ToolFault("input").words)
        case ToolFault():
            output = render_error(outcome.words)
            fault, detail = str(outcome.kind), outcome.detail
        case mcp_types.CallToolResult():
            output = render_result(outcome)
            fault, detail = ("tool_error" if outcome.is_error else ""), ""
    if fault:
        span = get_current_span()
        span.set_attribute(genai.ERROR_TYPE, fault)
        span.set_status(StatusCode.ERROR)
    ended = fault or ("asks" if asked else "ok")
    metrics.TOOL_CALLS.labels(server=_SERVERS.admit(request.server), outcome=ended).observe(seconds)
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


def render_result(result: mcp_types.CallToolResult) -> str:
    """Return the output of a call for the model."""
    if result.is_error:
        return render_error(_find_error_text(result))
    if result.structured_content is not None:
        return _cut(_encode(result.structured_content))
    if len(result.content) == 1 and isinstance(result.content[0], mcp_types.TextContent):
        return _render_text(result.content[0].text)
    return _cut(_encode(_describe_blocks(result.content)))


def render_error(words: str) -> str:
    """Return `{"error": words}`, with at most 16,000 characters of `words`."""
    words = clean_text(words)
    if len(words) > MAX_ERROR_CHARS:
        words = words[:MAX_ERROR_CHARS] + " … (cut)"
    return _encode({"error": words})


def _render_text(text: str) -> str:
    text = clean_text(text)
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _cut_text(text)
    # A NUL or a lone surrogate may still be there, escaped.
    return _cut(text if "\\u" not in text else _encode(parsed))


def _find_error_text(result: mcp_types.CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    if any(texts):
        return "\n".join(texts)
    if result.structured_content is not None:
        return _encode(result.structured_content)
    return "The tool failed without saying why."


def _describe_blocks(content: list[mcp_types.ContentBlock]) -> dict[str, Any]:
    """Join the texts of the blocks and describe the others: models cannot read base64."""
    texts = [block.text for block in content if isinstance(block, mcp_types.TextContent)]
    others = [_describe_block(block) for block in content if not isinstance(block, mcp_types.TextContent)]
    found: dict[str, Any] = {"text": "\n".join(texts)}
    return found | {"attachments": others} if others else found


def _describe_block(block: mcp_types.ContentBlock) -> dict[str, Any]:
    match block:
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return {
                "type": block.type,
                "mime_type": block.mime_type,
                "bytes": _count_decoded_bytes(block.data),
            }
        case mcp_types.ResourceLink():
            kept = ("uri", "name", "title", "description", "mime_type")
            return {"type": block.type} | _get_set_fields(block, *kept)
        case mcp_types.EmbeddedResource():
            found = {"type": block.type} | _get_set_fields(block.resource, "uri", "mime_type")
            if isinstance(block.resource, mcp_types.TextResourceContents):
                return found | {"text": block.resource.text}
            return found | {"bytes": _count_decoded_bytes(block.resource.blob)}
        case _:
            return {"type": block.type}


def _get_set_fields(
    block: mcp_types.ResourceLink | mcp_types.ResourceContents, *names: str
) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(block, name)) is not None}


def _count_decoded_bytes(base64_text: str) -> int:
    return len(base64_text) * 3 // 4


def _encode(value: Any) -> str:
    """Encode `value` as clean JSON.

    It may be large, so it is walked only if there is something to clean.
    """
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
        encoded = msgspec.json.encode(value)
        if b"\\u0000" not in encoded:
            return encoded.decode()
    return msgspec.json.encode(clean_json(value)).decode()


def _cut(output: str) -> str:
    """Return `output`, or its beginning with a notice if it exceeds MAX_BYTES."""
    return output if len(output.encode()) <= MAX_BYTES else _shorten(output)


def _cut_text(text: str) -> str:
    output = _encode({"text": text})
    return output if len(output.encode()) <= MAX_BYTES else _shorten(text)


def _shorten(text: str) -> str:
    size = len(text.encode())
    shown = text[: _count_fitting_chars(text)]
    notice = f"The output had {size} bytes and was cut; these are its first {len(shown.encode())}."
    return _encode({"notice": notice, "text": shown})


def _count_fitting_chars(text: str) -> int:
    low, high = 0, min(len(text), MAX_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        if len(msgspec.json.encode(text[:middle])) <= MAX_BYTES - _NOTICE_BYTES:
            low = middle
        else:
            high = middle - 1
    return low
