"""Sign thinking blocks, and check that nothing before a returned one has changed.

This is the prefix check of models with preserved thinking: a block is valid only after the same system
prompt, tools and messages as when it was made, and directly after the same thinking block. Leading thinking
blocks may be left out, those between others may not. `cache_control` and the form of a content (string or
blocks) do not count. Source:
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agentchat.model_demo.errors import build_invalid_error

BETA = "thinking-binding-controls-2026-08-01"
_encode = msgspec.json.Encoder(order="deterministic").encode


class ThinkingPrefix(msgspec.Struct, frozen=True):
    """The prefix of the reply's thinking block, and the returned blocks that failed the check."""

    digest: str
    previous: str
    mismatches: tuple[str, ...]

    def sign(self, text: str) -> str:
        """Return the signature of a thinking block that follows this prefix."""
        return _sign(self.digest, self.previous, text)

    @property
    def transformations(self) -> list[dict[str, str]]:
        """Return the dropped blocks as the response lists them."""
        reason = "prefix_binding_mismatch"
        return [{"type": "thinking_dropped", "path": path, "reason": reason} for path in self.mismatches]


def check_thinking(body: Mapping[str, Any], headers: Mapping[str, str]) -> ThinkingPrefix:
    """Check the returned thinking blocks of a request.

    Raises:
        DemoApiError: 400 for a block whose prefix has changed, unless the request asks to drop such blocks.
    """
    thinking = body.get("thinking") or {}
    has_beta = BETA in headers.get("anthropic-beta", "")
    if "block_binding" in thinking and not has_beta:
        raise build_invalid_error(f"thinking.block_binding: requires `{BETA}` in the `anthropic-beta` header")
    drops = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior") == "drop_block"
    digest = _hash(_normalize(body.get("system") or ""), _normalize(body.get("tools", [])))
    previous = ""
    mismatches: list[str] = []
    for path, role, block in _list_blocks(body["messages"]):
        if block["type"] != "thinking":
            digest = _hash(digest, role, _normalize(block))
            continue
        signature = block["signature"]
        before = signature.partition(".")[0]
        is_valid = signature == _sign(digest, before, block["thinking"])
        if mismatches or not is_valid or previous not in ("", before):
            mismatches.append(path)
        else:
            previous = _tag(signature)
    if mismatches and not drops:
        raise build_invalid_error(
            f"{mismatches[0]}: Invalid `signature` in `thinking` block. The block is bound to a different "
            "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
            f'"drop_block". This setting requires the value `{BETA}` in the `anthropic-beta` header.'
        )
    return ThinkingPrefix(digest, previous, tuple(mismatches))


def _list_blocks(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            yield f"messages.{number}.content.{index}", message["role"], block


def _normalize(value: Any) -> Any:
    """Return a block, or a list of them, without what the check ignores."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return [_normalize(each) for each in value]
    kept = {name: each for name, each in value.items() if name != "cache_control"}
    if value.get("type") == "tool_result":
        kept["content"] = _normalize(kept.get("content") or "")
    return kept


def _sign(digest: str, before: str, text: str) -> str:
    return f"{before}.{_hash(digest, before, text)}"


def _tag(signature: str) -> str:
    return _hash(signature)[:16]


def _hash(*parts: Any) -> str:
    return hashlib.sha256(_encode(parts)).hexdigest()[:32]
