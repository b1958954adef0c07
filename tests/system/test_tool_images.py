"""An image out of a tool: the model sees it in the next round and later, and the caller gets its address."""

from typing import Any

import pytest

from tests.system.calling import MakeAgent, text_of

ASK = "Draw a chart of our sales per week"
SEEN = "I see image/png of "


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_a_chart_of_the_demo_shop_is_seen_and_has_an_address(
    make_agent: MakeAgent, provider: str
) -> None:
    caller = await make_agent("demo-shop-1", shop=True, provider=provider)
    events = await caller.stream(ASK, "full")
    (result,) = (each for each in events if each["type"] == "tool_result")
    (file,) = result["files"]
    assert f"{SEEN}{file['bytes']:,} bytes." in text_of(events)
    assert (file["media_type"], file["name"]) == ("image/png", "get_sales_trend-2.png")
    assert file["url"] == f"/v1/files/{file['file_id']}/content"
    conversation_id = events[0]["conversation_id"]
    assert file["file_id"] in (await caller.messages(conversation_id))[-1]["tool_calls"][0]["output"]
    again: list[dict[str, Any]] = await caller.stream("Thanks", conversation_id=conversation_id)
    assert again[-1]["type"] == "done"
