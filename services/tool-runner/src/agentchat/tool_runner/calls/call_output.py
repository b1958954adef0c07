"""Render the output of a tool call for the model.

It is a string that parses as JSON (docs/change/rules.md 5): a single text that is JSON, or else
{"text": ...}. structuredContent is added as {"structured": ...}, or replaces the texts if they say no more.
Errors are {"error": ...}. Over 256 KiB the output is cut, with a notice, and is still JSON.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import mcp_types
import msgspec

from agentchat.contracts.files import StoredFile
from agentchat.contracts.text_checks import clean_json, clean_text
from agentchat.tool_runner.calls.result_files import StoredOrReason
from agentchat.tool_runner.http.server_messages import FOREIGN

MAX_BYTES = 256 * 1024
MAX_ERROR_CHARS = 16_000
_NOTICE_BYTES = 256


def render_result(
    result: mcp_types.CallToolResult,
    stored: Mapping[int, StoredOrReason] = {},
) -> str:
    """Return the output of a call for the model, which gets `stored` files beside it."""
    if result.is_error:
        return render_error(_find_error_text(result))
    structured = result.structured_content
    if structured in (None, {}) and result.content:
        if len(result.content) == 1 and _is_text(result.content[0]):
            return _render_text(_get_texts(result)[0])
        return _cut(_encode(_describe_blocks(result, stored)))
    if structured is None:
        return _encode({"text": ""})
    if _repeats(result):
        return _cut(_encode(structured))
    return _cut(_encode(_describe_blocks(result, stored) | {"structured": structured}))


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
    texts = list(filter(None, _get_texts(result)))
    if result.structured_content not in (None, {}) and not (texts and _repeats(result)):
        texts.append(_encode(result.structured_content))
    return "\n".join(texts) or "The tool failed without saying why."


def _repeats(result: mcp_types.CallToolResult) -> bool:
    """Return True if the content says no more than structuredContent does.

    Servers repeat it as one JSON text, or as one text for each element. Some wrap a value that is no object:
    {"result": value}.
    """
    structured = result.structured_content
    values = [structured]
    if isinstance(structured, dict) and list(structured) == ["result"]:
        values.append(structured["result"])
    texts = _get_texts(result)
    if len(texts) != len(result.content):
        return False
    parsed = [_parse_or_keep(text) for text in texts]
    return (
        not any(texts)
        or (len(texts) == 1 and (parsed[0] in values or texts[0] in values))
        or parsed in values
        or texts in values
    )


def _parse_or_keep(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _get_texts(result: mcp_types.CallToolResult) -> list[str]:
    return [
        block.text for block in result.content if isinstance(block, mcp_types.TextContent) and _is_text(block)
    ]


def _is_text(block: mcp_types.ContentBlock) -> bool:
    return isinstance(block, mcp_types.TextContent) and FOREIGN not in (block.meta or {})


def _describe_blocks(
    result: mcp_types.CallToolResult, stored: Mapping[int, StoredOrReason]
) -> dict[str, Any]:
    """Join the texts of the blocks and describe the others: models cannot read base64."""
    others = [
        _describe_block(block) | _describe_file(stored.get(place))
        for place, block in enumerate(result.content)
        if not _is_text(block)
    ]
    found: dict[str, Any] = {"text": "\n".join(_get_texts(result))}
    return found | {"attachments": others} if others else found


def _describe_file(file: StoredOrReason | None) -> dict[str, Any]:
    if isinstance(file, StoredFile):
        return {"bytes": file.bytes, "file_id": file.file_id, "name": file.name}
    return {"problem": file} if file else {}


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
        case mcp_types.TextContent():
            return {
                "type": (block.meta or {}).get(FOREIGN),
                "text": "The content has a type that is not supported.",
            }


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
