"""What a tool's result becomes for model and callers: a string that parses as JSON (docs/change/design.md 6).

structuredContent as JSON; else a single text block that parses as JSON, as it is; else {"text": ...}; errors
{"error": ...}. Over 256 KiB it is cut, with a notice, and is still JSON.
"""

import contextlib
from typing import Any

import mcp_types
import msgspec

from contracts.text import cleaned, cleaned_json

MAX_BYTES = 256 * 1024
MAX_ERROR_CHARS = 16_000
_NOTICE_BYTES = 256


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
