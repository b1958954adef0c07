"""The Messages API's own compaction (beta `compact-2026-09-04`), read by the official SDK."""

from typing import Any

import anthropic
from anthropic.types.beta import BetaMessageParam

BETA = "compact-2026-09-04"
TALK: list[BetaMessageParam] = [
    {"role": "user", "content": "Hi, my name is Ada. Where is ORD-1001?"},
    {"role": "assistant", "content": "It is on its way."},
]
ASKS: BetaMessageParam = {"role": "user", "content": "What is my name?"}


def build_request(messages: list[BetaMessageParam], **more: Any) -> dict[str, Any]:
    return {"model": "demo-shop-1", "max_tokens": 4000, "messages": messages, "betas": [BETA], **more}


async def test_a_summary_is_streamed_alone_and_stands_for_what_it_is_of(
    client: anthropic.AsyncAnthropic,
) -> None:
    async with client.beta.messages.stream(**build_request(TALK), compaction={"type": "summarize"}) as stream:
        made = await stream.get_final_message()
    (summary,) = made.content
    assert made.stop_reason == summary.type == "compaction"
    assert summary.content == "Hi, my name is Ada.\nWe spoke of ORD-1001."
    whole = await client.beta.messages.create(**build_request(TALK, compaction={"type": "summarize"}))
    assert whole.content == made.content
    back: Any = {"role": "assistant", "content": [summary.to_dict()]}
    (reply,) = (await client.beta.messages.create(**build_request([back, ASKS]))).content
    assert reply.type == "text"
    assert reply.text == "Your name is Ada."
