"""Images and PDFs: the demo model says what it sees, on both wires, in messages and in tool results."""

from typing import Any

import openai
import pytest

from tests.model_demo.messages import Ask, get_text

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}}
CALLED = {"type": "tool_use", "id": "c1", "name": "get_sales_trend", "input": {}}
SEEN = "I see image/png of 6 bytes."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([IMAGE], SEEN),
        ([IMAGE, PDF, {"type": "text", "text": "What is it?"}], "6 bytes and application/pdf of 3 bytes."),
    ],
)
async def test_a_message_with_files(ask: Ask, content: list[dict[str, Any]], said: str) -> None:
    assert said in get_text(await ask([{"role": "user", "content": content}]))


async def test_a_result_with_an_image(ask: Ask) -> None:
    returned = {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "{}"}, IMAGE],
    }
    told = await ask(
        [
            {"role": "user", "content": "Draw a chart of our sales"},
            {"role": "assistant", "content": [CALLED]},
            {"role": "user", "content": [returned]},
        ]
    )
    assert get_text(told).startswith(SEEN)


async def test_parts_of_a_completion(openai_client: openai.AsyncOpenAI) -> None:
    completion = await openai_client.chat.completions.create(
        model="demo-shop-1",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
                    },
                    {"type": "text", "text": "What is it?"},
                ],
            }
        ],
    )
    assert completion.choices[0].message.content == f"{SEEN[:-1]} and application/pdf of 3 bytes."
