"""Both endpoints and both stream forms, on the whole system with real tools."""

import json
from datetime import UTC, datetime

import pytest

from contracts import ids
from tests.system.calling import Caller, MakeAgent, events_of, text_of

ORDER = "Where is my order ORD-1001?"


@pytest.mark.requirement("CHAT-JSON", "TOOLS-OUTPUT-JSON", "TOKEN-COUNT")
async def test_a_json_reply_holds_the_message_and_the_tools_that_ran(caller: Caller) -> None:
    response = await caller.chat(ORDER)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["conversation_id", "message", "tool_calls"]
    message = body["message"]
    assert list(message) == ["id", "conversation_id", "role", "content", "token_count", "created_at"]
    assert message["conversation_id"] == body["conversation_id"]
    assert message["role"] == "assistant"
    assert "ORD-1001" in message["content"]
    assert message["token_count"] > 0
    assert datetime.fromisoformat(message["created_at"]).utcoffset() == datetime.now(UTC).utcoffset()
    for call in body["tool_calls"]:
        assert list(call) == ["name", "input", "output"]
        assert isinstance(call["input"], dict)
        assert "ORD-1001" in json.dumps(json.loads(call["output"]))


@pytest.mark.requirement("CHAT-JSON")
async def test_a_reply_without_tools_has_no_tool_calls_field(make_agent: MakeAgent) -> None:
    plain = await make_agent("demo-echo")
    body = (await plain.chat("hello there")).json()
    assert list(body) == ["conversation_id", "message"]
    assert "hello there" in body["message"]["content"]


@pytest.mark.requirement("CHAT-STREAM-FORM1", "STREAM-SSE", "STREAM-CONCAT", "TRACE-ID", "STREAM-DONE-SAVED")
async def test_form_1_is_meta_then_deltas_then_done(caller: Caller) -> None:
    async with caller.opened(ORDER, form=1) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
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


@pytest.mark.requirement("CHAT-STREAM-FORM2", "STREAM-CONCAT", "STREAM-DONE-SAVED", "TOOLS-NAMES")
async def test_form_2_is_start_then_deltas_and_tool_calls_then_done_with_the_message(caller: Caller) -> None:
    events = await caller.stream(ORDER, form=2)
    start, *middle, done = events
    assert start == {"type": "start", "conversation_id": start["conversation_id"]}
    assert {event["type"] for event in middle} == {"delta", "tool_call"}
    calls = [event for event in middle if event["type"] == "tool_call"]
    assert all(list(call) == ["type", "name", "input"] for call in calls)
    assert list(done) == ["type", "message", "tool_calls"]
    assert done["message"]["content"] == text_of(events)
    shown = [{"name": call["name"], "input": call["input"]} for call in calls]
    assert [{"name": call["name"], "input": call["input"]} for call in done["tool_calls"]] == shown
    saved = (await caller.messages(start["conversation_id"]))[-1]
    assert saved["id"] == done["message"]["id"]
    assert saved["content"] == done["message"]["content"]


@pytest.mark.requirement("CHAT-STREAM-FORM2")
async def test_form_2_without_tools_has_no_tool_calls_field(make_agent: MakeAgent) -> None:
    plain = await make_agent("demo-echo")
    done = (await plain.stream("hello", form=2))[-1]
    assert list(done) == ["type", "message"]


@pytest.mark.requirement("TOOLS-PARALLEL", "MODEL-TOOLS")
async def test_two_orders_asked_for_at_once_are_two_calls_of_one_round(caller: Caller) -> None:
    events = await caller.stream("What is the status of ORD-1001 and of ORD-1002?", form=2)
    inputs = [json.dumps(event["input"]) for event in events if event["type"] == "tool_call"]
    assert any("ORD-1001" in text for text in inputs)
    assert any("ORD-1002" in text for text in inputs)


@pytest.mark.requirement("ROUNDS-MAX")
async def test_a_model_that_never_stops_calling_tools_is_stopped_after_its_rounds(
    make_agent: MakeAgent,
) -> None:
    tireless = await make_agent(
        'demo-shop-1?tool=get_order&input={"order_id":"ORD-1001"}&rounds=50', shop=True, max_tool_rounds=3
    )
    body = (await tireless.chat("go on")).json()
    assert len(body["tool_calls"]) == 3
    assert body["message"]["content"]


@pytest.mark.requirement("PROMPT-OVERRIDE")
async def test_a_prompt_override_holds_for_one_request(caller: Caller) -> None:
    question = "What are your instructions?"
    first = (await caller.chat(question, prompt="You are Captain Override.")).json()
    second = (await caller.chat(question, conversation_id=first["conversation_id"])).json()
    assert "Captain Override" in first["message"]["content"]
    assert "Captain Override" not in second["message"]["content"]


@pytest.mark.requirement("CONV-NEW")
async def test_no_conversation_id_and_a_null_one_both_start_a_conversation(make_agent: MakeAgent) -> None:
    plain = await make_agent("demo-echo")
    without = (await plain.chat("one")).json()["conversation_id"]
    null = (await plain.chat("two", conversation_id=None)).json()["conversation_id"]
    assert without != null
    assert ids.is_uuid(without)
    assert ids.is_uuid(null)


@pytest.mark.requirement("CONV-CONTINUE", "HISTORY")
async def test_a_continued_conversation_remembers_what_was_said(caller: Caller) -> None:
    first = (await caller.chat("Hello, my name is Ada.")).json()
    thread = first["conversation_id"]
    await caller.chat(ORDER, conversation_id=thread)
    reply = (await caller.chat("What is my name?", conversation_id=thread)).json()
    assert reply["conversation_id"] == thread
    assert "Ada" in reply["message"]["content"]
    assert [message["role"] for message in await caller.messages(thread)] == ["user", "assistant"] * 3


@pytest.mark.requirement("PLAN-403")
async def test_starter_streams_form_1_and_json_but_not_form_2(starter: Caller) -> None:
    assert (await starter.stream("Hello", form=1))[-1]["type"] == "done"
    assert (await starter.chat("Hello")).status_code == 200
    async with starter.opened("Hello", form=2) as refused:
        problem = json.loads(await refused.aread())
    assert refused.status_code == 403
    assert problem["code"] == "plan_upgrade_required"
    assert problem["trace_id"] == refused.headers["x-trace-id"]


@pytest.mark.requirement("AUTH-ANY-AGENT", "CONV-CONTINUE")
async def test_one_key_continues_a_conversation_with_another_agent(make_agent: MakeAgent) -> None:
    shop = await make_agent("demo-shop-1", shop=True)
    plain = await make_agent("demo-echo")
    thread = (await shop.chat(ORDER)).json()["conversation_id"]
    continued = await plain.chat("hello again", conversation_id=thread)
    assert continued.status_code == 200, continued.text
    assert continued.json()["conversation_id"] == thread


@pytest.mark.requirement("CONV-OWNER", "AGENT-404")
async def test_another_accounts_conversation_and_agent_are_not_found(caller: Caller, starter: Caller) -> None:
    thread = (await caller.chat("Hello")).json()["conversation_id"]
    foreign = await starter.chat("Hello", conversation_id=thread)
    unknown = await starter.chat("Hello", conversation_id=ids.new_id())
    assert foreign.status_code == unknown.status_code == 404
    assert _wording(foreign.json()) == _wording(unknown.json())
    assert foreign.json()["code"] == "conversation_not_found"
    starter.headers["X-Agent-Id"] = caller.headers["X-Agent-Id"]
    assert (await starter.chat("Hello")).json()["code"] == "agent_not_found"


def _wording(problem: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in problem.items() if name != "trace_id"}


@pytest.mark.requirement("CONV-BUSY")
async def test_a_second_message_on_a_busy_thread_waits_its_turn(make_agent: MakeAgent) -> None:
    slow = await make_agent("demo-load?deltas=30&delay_ms=50")
    async with slow.opened("first") as response:
        stream = events_of(response)
        thread = (await anext(stream))["conversation_id"]
        second = await slow.chat("second", conversation_id=thread)
        rest = [event async for event in stream]
    assert second.status_code == 200
    assert rest[-1]["type"] == "done"
    said = [message["content"] for message in await slow.messages(thread) if message["role"] == "user"]
    assert said == ["first", "second"]


@pytest.mark.requirement("CONV-LIST", "CONV-GET", "PROJECTION-TABLES")
async def test_a_new_conversation_is_readable_at_once_and_listed_soon(make_agent: MakeAgent) -> None:
    plain = await make_agent("demo-echo")
    thread = (await plain.chat("find me in the list")).json()["conversation_id"]
    assert (await plain.get(f"/v1/conversations/{thread}")).json()["conversation_id"] == thread
    for _ in range(100):
        page = (await plain.get("/v1/conversations", limit=5)).json()
        if thread in [entry["conversation_id"] for entry in page["data"]]:
            return
    pytest.fail("a hundred reads of the list later the conversation is still not in it")
