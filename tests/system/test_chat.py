"""Both endpoints and both stream forms, on the whole system with real tools."""

import json
from datetime import UTC, datetime

from agentchat.contracts import ids
from tests.system.calling import Caller, events_of, text_of

ORDER = "Where is my order ORD-1001?"


async def test_a_json_reply_holds_the_message_and_the_tools_that_ran(caller: Caller) -> None:
    response = await caller.chat(ORDER)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["conversation_id", "message", "tool_calls", "usage"]
    message = body["message"]
    assert list(message) == ["id", "conversation_id", "role", "content", "token_count", "created_at"]
    assert message["conversation_id"] == body["conversation_id"]
    assert message["role"] == "assistant"
    assert "ORD-1001" in message["content"]
    assert message["token_count"] > 0
    assert datetime.fromisoformat(message["created_at"]).utcoffset() == datetime.now(UTC).utcoffset()
    for call in body["tool_calls"]:
        assert {"name", "input", "output"} <= call.keys()
        assert isinstance(call["input"], dict)
        assert "ORD-1001" in json.dumps(json.loads(call["output"]))


async def test_form_1_is_meta_then_deltas_then_done(caller: Caller) -> None:
    async with caller.open_stream(ORDER, form=1) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        trace_id = response.headers["x-trace-id"]
        events = [event async for event in events_of(response)]
    meta, *deltas, done = events
    assert meta == {"type": "meta", "conversation_id": meta["conversation_id"], "trace_id": trace_id}
    assert done == {"type": "done", "conversation_id": meta["conversation_id"], "trace_id": trace_id}
    assert all(list(delta) == ["type", "content"] for delta in deltas)
    assert {delta["type"] for delta in deltas} == {"delta"}
    assert ids.is_trace_id(trace_id)
    saved = (await caller.messages(meta["conversation_id"]))[-1]
    assert saved["content"] == text_of(events)


async def test_form_2_is_start_deltas_tool_calls_done(caller: Caller) -> None:
    events = await caller.stream(ORDER, form=2)
    start, *middle, done = events
    assert start == {"type": "start", "conversation_id": start["conversation_id"]}
    assert {event["type"] for event in middle} == {"delta", "tool_call"}
    calls = [event for event in middle if event["type"] == "tool_call"]
    assert all({"type", "name", "input"} <= call.keys() for call in calls)
    assert list(done) == ["type", "message", "tool_calls"]
    assert done["message"]["content"] == text_of(events)
    shown = [{"name": call["name"], "input": call["input"]} for call in calls]
    assert [{"name": call["name"], "input": call["input"]} for call in done["tool_calls"]] == shown
    saved = (await caller.messages(start["conversation_id"]))[-1]
    assert saved["id"] == done["message"]["id"]
    assert saved["content"] == done["message"]["content"]


async def test_a_continued_conversation_remembers_what_was_said(caller: Caller) -> None:
    first = (await caller.chat("Hello, my name is Ada.")).json()
    thread = first["conversation_id"]
    await caller.chat(ORDER, conversation_id=thread)
    reply = (await caller.chat("What is my name?", conversation_id=thread)).json()
    assert reply["conversation_id"] == thread
    assert "Ada" in reply["message"]["content"]
    assert [message["role"] for message in await caller.messages(thread)] == ["user", "assistant"] * 3
