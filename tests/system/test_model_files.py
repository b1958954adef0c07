"""Files of messages and images out of tools: the model sees them, and the caller gets their addresses."""

import base64
from typing import Any

import pytest

from tests.files.images import make_png
from tests.system.calling import MakeAgent, text_of

SEEN = "I see image/png of "
BOTH = pytest.mark.parametrize("provider", ["anthropic", "openai"])


@BOTH
async def test_an_image_of_a_message_is_seen(make_agent: MakeAgent, provider: str) -> None:
    caller = await make_agent("demo-shop-1", provider=provider)
    image = make_png(9, 9)
    url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    events = await caller.stream("What is this?", attachments=[{"url": url}])
    assert text_of(events) == f"{SEEN}{len(image)} bytes."
    conversation_id = events[0]["conversation_id"]
    asked, _ = await caller.messages(conversation_id)
    (file,) = asked["attachments"]
    assert (file["media_type"], file["bytes"]) == ("image/png", len(image))
    fork = await caller.send("POST", f"/v1/conversations/{conversation_id}/fork", json={})
    assert fork.status_code == 201, fork.text
    alone = await caller.stream(
        "", attachments=[{"file_id": file["file_id"]}], conversation_id=fork.json()["conversation_id"]
    )
    assert text_of(alone) == f"{SEEN}{len(image)} bytes."


@BOTH
async def test_a_chart_of_the_demo_shop_is_seen_and_has_an_address(
    make_agent: MakeAgent, provider: str
) -> None:
    caller = await make_agent("demo-shop-1", shop=True, provider=provider)
    events = await caller.stream("Draw a chart of our sales per week", "full")
    (result,) = (each for each in events if each["type"] == "tool_result")
    (file,) = result["files"]
    assert f"{SEEN}{file['bytes']:,} bytes." in text_of(events)
    assert (file["media_type"], file["name"]) == ("image/png", "get_sales_trend-2.png")
    assert file["url"] == f"/v1/files/{file['file_id']}/content"
    conversation_id = events[0]["conversation_id"]
    assert file["file_id"] in (await caller.messages(conversation_id))[-1]["tool_calls"][0]["output"]
    content = await caller.get(file["url"])
    assert (content.headers["content-type"], len(content.content)) == ("image/png", file["bytes"])
    again: list[dict[str, Any]] = await caller.stream("Thanks", conversation_id=conversation_id)
    assert again[-1]["type"] == "done"
