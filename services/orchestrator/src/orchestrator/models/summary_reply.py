"""A reply that is a summary: the model's text, or what its provider made in a way of its own."""

from typing import Any

from orchestrator.models.port import Reply

COMPACTION = "compaction"
"""The type of a block that the provider made, which only it can read; as Anthropic's Messages API has it."""


def summary_of(reply: Reply) -> tuple[str, dict[str, Any] | None]:
    """The summary as text, "" for none, and the block that its provider is to be sent instead."""
    for block in reply.blocks:
        if block["type"] == COMPACTION:
            return str(block.get("content") or "").strip(), block
    return "".join(block["text"] for block in reply.blocks if block["type"] == "text").strip(), None
