"""Answers out of a knowledge base: sources before the deltas, and a reply that cites them."""

import json

import pytest

from runtime.postgres import connection, open_pool
from tests.harness import RunningStack
from tests.system.calling import Caller, text_of

QUESTION = "How many days do I have to return an order?"
FIELDS = ["index", "id", "title", "url", "source_type", "score", "snippet"]


@pytest.mark.requirement("SOURCES", "CHAT-STREAM-FORM1")
async def test_sources_come_after_meta_and_before_the_deltas(policies: Caller) -> None:
    events = await policies.stream(QUESTION, form=1)
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["meta", "sources", "delta"]
    assert kinds[-1] == "done"
    assert kinds.count("sources") == 1
    sources = events[1]["sources"]
    assert [list(source) for source in sources] == [FIELDS] * len(sources)
    assert [source["index"] for source in sources] == list(range(1, len(sources) + 1))
    assert all(0 <= source["score"] <= 1 for source in sources)
    assert any("return" in source["title"].lower() for source in sources)
    assert "[1]" in text_of(events)


@pytest.mark.requirement("SOURCES")
async def test_a_question_that_nothing_answers_still_says_that_it_looked(policies: Caller) -> None:
    events = await policies.stream("Xyzzyplugh?", form=1)
    assert events[1] == {"type": "sources", "sources": []}
    assert events[-1]["type"] == "done"


@pytest.mark.requirement("SOURCES")
async def test_without_a_knowledge_base_there_is_no_sources_event(caller: Caller) -> None:
    assert "sources" not in [event["type"] for event in await caller.stream("Hello", form=1)]


@pytest.mark.requirement("SOURCES", "CHAT-JSON", "CHAT-STREAM-FORM2")
async def test_json_and_form_2_answer_from_the_same_documents(policies: Caller, stack: RunningStack) -> None:
    body = (await policies.chat(QUESTION)).json()
    assert list(body) == ["conversation_id", "message"]
    assert "[1]" in body["message"]["content"]
    events = await policies.stream(QUESTION, form=2)
    assert {event["type"] for event in events} == {"start", "delta", "done"}


@pytest.mark.requirement("SOURCES")
async def test_the_log_holds_the_sources_that_were_sent(policies: Caller, stack: RunningStack) -> None:
    events = await policies.stream(QUESTION, form=1)
    query = "SELECT convert_from(state, 'UTF8') FROM conversation_events WHERE originator_id = %s"
    async with open_pool(stack.environment.database_url) as pool, connection(pool) as conn:
        rows = await (await conn.execute(query, [events[0]["conversation_id"]])).fetchall()
    stored = [json.loads(state) for (state,) in rows]
    assert [event["sources"] for event in stored if "sources" in event] == [events[1]["sources"]]
