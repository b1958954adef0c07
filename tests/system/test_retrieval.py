"""Answers out of a knowledge base: sources before the deltas, and a reply that cites them."""

from tests.system.calling import Caller, text_of

QUESTION = "How many days do I have to return an order?"
FIELDS = ["index", "id", "title", "url", "source_type", "score", "snippet"]


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
    done = (await policies.stream(QUESTION, form=2))[-1]
    reply = (await policies.chat(QUESTION)).json()
    assert done["sources"] == reply["sources"] == sources, "[1] can be looked up in all of them"
    assert reply["usage"]["total"] == reply["message"]["token_count"]


async def test_a_question_that_nothing_answers_still_says_that_it_looked(policies: Caller) -> None:
    events = await policies.stream("Xyzzyplugh?", form=1)
    assert events[1] == {"type": "sources", "sources": []}
    assert events[-1]["type"] == "done"
