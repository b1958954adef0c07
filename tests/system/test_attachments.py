"""Images and PDFs from real clients reach the model, and stay in the conversation."""

import base64
from typing import Any

import pytest

from agentchat.client import AsyncAgentChat
from tests.files.images import make_png
from tests.system.calling import Caller
from tests.system.openai_api.conftest import TalkTo, talk_to

__all__ = ["talk_to"]

PNG, PDF = make_png(), b"%PDF-1.4\n%%EOF\n"
SEES_BOTH = f"I see image/png of {len(PNG):,} bytes and application/pdf of {len(PDF):,} bytes."


def encode(content: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


IMAGE_URL, PDF_URL = encode(PNG, "image/png"), encode(PDF, "application/pdf")


async def test_our_client_uploads_and_attaches(caller: Caller) -> None:
    key, url = caller.headers["X-Api-Key"], caller.base_url
    async with AsyncAgentChat(key, base_url=url, agent_id=caller.agent_id) as client:
        file = await client.files.upload("order.pdf", PDF)
        reply = await client.chat("", attachments=[IMAGE_URL, file])
        assert SEES_BOTH in reply.text
        question, _ = [each async for each in client.messages(reply.conversation_id)]
        assert [(each.media_type, each.name) for each in question.attachments] == [
            ("image/png", "file"),
            ("application/pdf", "order.pdf"),
        ]
        thread = await client.conversation(reply.conversation_id)
        assert thread.title == "file, order.pdf"
        kept = await caller.http.get(url + question.attachments[0].url, headers={"X-Api-Key": key})
        assert kept.content == PNG


@pytest.mark.parametrize("key", [None, "a-picture"])
async def test_openais_client_shows_an_image_again_in_each_turn(
    talk_to: TalkTo, caller: Caller, key: str | None
) -> None:
    talk = talk_to(caller, key)
    content: Any = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": IMAGE_URL}},
        {"type": "file", "file": {"filename": "order.pdf", "file_data": PDF_URL}},
    ]
    messages: list[Any] = [{"role": "user", "content": content}]
    create = talk.client.chat.completions.with_raw_response.create
    first = await create(model=talk.model, messages=messages)
    said = first.parse().choices[0].message.content
    assert said is not None
    assert SEES_BOTH in said
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "Thanks!"}]
    second = await create(model=talk.model, messages=messages)
    threads = [each.headers["x-conversation-id"] for each in (first, second)]
    assert (threads[0] == threads[1]) is (key is not None)
    shown = await caller.messages(threads[1])
    assert [len(each.get("attachments", ())) for each in shown] == ([2, 0, 0, 0] if key else [0, 0])


async def test_responses_take_images_and_files(talk_to: TalkTo, caller: Caller) -> None:
    talk = talk_to(caller)
    uploaded = await talk.client.files.create(file=("order.pdf", PDF), purpose="user_data")
    content: Any = [
        {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"},
        {"type": "input_file", "file_id": uploaded.id},
    ]
    given: Any = [{"role": "user", "content": content}]
    reply = await talk.client.responses.create(model=talk.model, input=given)
    assert SEES_BOTH in reply.output_text
    again = await talk.client.responses.create(model=talk.model, input=given, previous_response_id=reply.id)
    assert SEES_BOTH in again.output_text
