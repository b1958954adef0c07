"""What a completion says: text, tokens, sources, cut replies, failures."""

import re
from typing import Any

import openai
import pytest

from tests.system.calling import Caller, MakeAgent
from tests.system.openai_api.conftest import ORDER, TalkTo


async def test_a_completion_is_the_saved_reply_and_its_tokens(talk_to: TalkTo, caller: Caller) -> None:
    talk = talk_to(caller, "a-completion")
    raw = await talk.client.chat.completions.with_raw_response.create(
        model=talk.model, messages=[{"role": "user", "content": ORDER}]
    )
    done = raw.parse()
    (choice,) = done.choices
    question, reply = await caller.messages(raw.headers["x-conversation-id"])
    assert question["content"] == ORDER
    assert reply["content"] == choice.message.content
    assert done.id == f"chatcmpl-{raw.headers['x-trace-id']}"
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None), "we ran the tools"
    assert done.usage is not None
    assert done.usage.total_tokens == reply["token_count"]
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    assert done.usage.completion_tokens > 0


async def test_a_stream_is_the_same_text_and_ends_with_a_finish(talk_to: TalkTo, caller: Caller) -> None:
    talk = talk_to(caller)
    stream = await talk.client.chat.completions.create(
        model=talk.model,
        messages=[{"role": "user", "content": ORDER}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    conversation_id = stream.response.headers["x-conversation-id"]
    told = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in told)
    assert text == (await talk.read_saved_texts(conversation_id))[-1]
    assert told[0].delta.role == "assistant"
    assert [choice.finish_reason for choice in told] == [None] * (len(told) - 1) + ["stop"]
    assert not any(choice.delta.tool_calls for choice in told)
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


async def test_sources_are_annotations(talk_to: TalkTo, policies: Caller) -> None:
    talk = talk_to(policies)
    asked: dict[str, Any] = {
        "model": talk.model,
        "messages": [{"role": "user", "content": "May I return an order?"}],
    }
    message = (await talk.client.chat.completions.create(**asked)).choices[0].message
    found = [note.url_citation for note in message.annotations or ()]
    cited = [each.url for each in found]
    assert found[0].end_index > 0
    for each in found:
        mark = (message.content or "")[each.start_index : each.end_index]
        assert re.fullmatch(r"\[\d+\]" if each.end_index else "", mark)
    stream = await talk.client.chat.completions.create(**asked, stream=True)
    notes = [note async for chunk in stream for note in _notes(chunk)]
    assert [note["url_citation"]["url"] for note in notes] == cited


def _notes(chunk: Any) -> list[dict[str, Any]]:
    return [note for choice in chunk.choices for note in getattr(choice.delta, "annotations", None) or ()]


async def test_a_run_that_fails_is_an_error_before_or_in_the_stream(
    talk_to: TalkTo, make_agent: MakeAgent
) -> None:
    failing = talk_to(await make_agent("demo-echo?fail=400"))
    asked: dict[str, Any] = {"model": failing.model, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(openai.InternalServerError) as refused:
        await failing.client.chat.completions.create(**asked)
    assert refused.value.status_code == 502
    assert refused.value.code == "provider_error"
    assert refused.value.response.headers["x-should-retry"] == "false", "the provider refuses it each time"
    assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"
    stream = await failing.client.chat.completions.create(**asked, stream=True)
    with pytest.raises(openai.APIError) as broken:
        _ = [chunk async for chunk in stream]
    assert broken.value.code == "provider_error"
