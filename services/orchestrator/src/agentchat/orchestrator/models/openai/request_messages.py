"""Build the messages of a completion: a system message, users, assistants, and one message a tool result.

Images and PDFs are parts of users' messages; those of tool results are in a message after the results.
A block's `provider_data` of this provider goes back if the dialect accepts it; that of other providers, and
their thinking, is left out.
"""

import hashlib
from typing import Any

import msgspec

from agentchat.orchestrator.models.continue_reply import add_continuation
from agentchat.orchestrator.models.model_interface import ModelCall
from agentchat.orchestrator.models.openai.dialects import Dialect

PROVIDER = "openai"
_INTERRUPTED = "(interrupted)"
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Signatures for calls by other models: Gemini 3 refuses unsigned ones (ai.google.dev)."""
_RETURNED = "The tools returned these files:"

Block = dict[str, Any]
Message = dict[str, Any]


def build_messages(call: ModelCall, dialect: Dialect) -> list[Message]:
    """Build the messages of a call."""
    made: list[Message] = [{"role": "system", "content": call.system}] if call.system else []
    ids: dict[str, str] = {}  # ids of the calls so far: ours to the provider's
    for message in _add_continuation(call):
        blocks = message["content"]
        if message["role"] == "assistant":
            ids |= {
                block["id"]: _choose_call_id(block, dialect)
                for block in blocks
                if block["type"] == "tool_use"
            }
            _add_assistant(made, blocks, ids, dialect)
        else:
            results = [block for block in blocks if block["type"] == "tool_result"]
            made += [_encode_result(block, ids) for block in results]
            _add_user(made, [*_list_returned_files(results), *blocks], dialect)
    return made


def _add_continuation(call: ModelCall) -> list[dict[str, Any]]:
    """Add what was sent as an assistant message, and the order to continue: the roles alternate."""
    partial = add_continuation(call.messages, call.already_sent, prefill=True)
    return add_continuation(partial, call.already_sent, prefill=False)


def _list_returned_files(results: list[Block]) -> list[Block]:
    """Return the images and documents of tool results, after a text that says so."""
    contents = (block["content"] for block in results if not isinstance(block["content"], str))
    files = [each for content in contents for each in content if each["type"] in _FILES]
    return [{"type": "text", "text": _RETURNED}, *files] if files else []


def _add_user(made: list[Message], blocks: list[Block], dialect: Dialect) -> None:
    """Add texts and files. Neighbours become one message: many chat templates require alternating roles."""
    parts = [_encode_part(block) for block in blocks if block["type"] in _PARTS]
    if not parts:
        return
    has_files = any(part["type"] != "text" for part in parts)
    content = parts if has_files else "\n\n".join(part["text"] for part in parts)
    if made and made[-1]["role"] == "user":
        made[-1]["content"] = _join_contents(made[-1]["content"], content)
        return
    if made and made[-1]["role"] == "tool" and not dialect.user_after_tool:
        made.append({"role": "assistant", "content": _INTERRUPTED})
    made.append({"role": "user", "content": content})


def _join_contents(first: str | list[Block], second: str | list[Block]) -> str | list[Block]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_list_parts(first), *_list_parts(second)]


def _list_parts(content: str | list[Block]) -> list[Block]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_FILES = frozenset({"image", "document"})
_PARTS = _FILES | {"text"}


def _encode_part(block: Block) -> Block:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    source = block["source"]
    url = f"data:{source['media_type']};base64,{source['data']}"
    if block["type"] == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": block["title"], "file_data": url}}


def _add_assistant(made: list[Message], blocks: list[Block], ids: dict[str, str], dialect: Dialect) -> None:
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    used = [block for block in blocks if block["type"] == "tool_use"]
    calls = [_encode_call(block, ids[block["id"]], dialect) for block in used]
    if calls and dialect.extra_content and not any(map(get_provider_data, used)):
        calls[0]["extra_content"] = _UNSIGNED
    if not text and not calls:
        return
    message: Message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    made.append(message | _build_reasoning(blocks, dialect))


def _build_reasoning(blocks: list[Block], dialect: Dialect) -> dict[str, str]:
    """Return the thinking, in the field in which it came."""
    if dialect.reasoning == "never":
        return {}
    fields = {"reasoning_content": ""} if dialect.reasoning == "always" else {}
    for block in blocks:
        field = get_provider_data(block).get("field") if block["type"] == "thinking" else None
        if field:  # of tags in the text nothing goes back: chat templates leave it out
            fields[field] = fields.get(field, "") + block["thinking"]
    return fields


def _encode_call(block: Block, call_id: str, dialect: Dialect) -> dict[str, Any]:
    arguments = msgspec.json.encode(block["input"]).decode()
    call = {
        "id": call_id,
        "type": "function",
        # A name from an earlier version may be longer than this API accepts.
        "function": {"name": block["name"][:64], "arguments": arguments},
    }
    extra = get_provider_data(block).get("extra_content")
    return call | {"extra_content": extra} if dialect.extra_content and extra else call


def _encode_result(block: Block, ids: dict[str, str]) -> Message:
    content = block["content"]
    if not isinstance(content, str):
        content = "\n\n".join(each["text"] for each in content if each["type"] == "text")
    return {"role": "tool", "tool_call_id": ids[block["tool_use_id"]], "content": content}


def _choose_call_id(block: Block, dialect: Dialect) -> str:
    """Return the provider's own id of the call, or ours, or a hash if the dialect does not accept it."""
    own = str(get_provider_data(block).get("id") or block["id"])
    return own if dialect.call_id.fullmatch(own) else hashlib.sha256(own.encode()).hexdigest()[:9]


def get_provider_data(block: Block) -> dict[str, Any]:
    """Return what this provider had kept with a block."""
    data = (block.get("provider_data") or {}).get(PROVIDER)
    return data if isinstance(data, dict) else {}
