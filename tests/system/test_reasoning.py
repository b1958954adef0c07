"""A model's reasoning as its readers get it: by clients of OpenAI's APIs, again, not once it is hidden."""

import httpx
import pytest
from openai import AsyncOpenAI

from tests.gateway.admin import AdminClient
from tests.system.calling import Caller, Event, MakeAgent, text_of

MODEL = "demo-shop-1?think=1"
QUESTION = "Where is my order ORD-1001?"
THOUGHT = f"The user asks: {QUESTION}"
ROUNDS = 2  # the order is looked up


@pytest.fixture(params=["anthropic", "openai"])
async def thinker(make_agent: MakeAgent, request: pytest.FixtureRequest) -> Caller:
    return await make_agent(MODEL, shop=True, reasoning="summary", provider=request.param)


def open_client(caller: Caller) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{caller.base_url}/openai/v1", api_key=caller.headers["X-Api-Key"])


def join_reasoning(events: list[Event]) -> str:
    return "".join(event["content"] for event in events if event["type"] == "reasoning")


async def read_events(caller: Caller, trace_id: str, **headers: str) -> list[tuple[str, Event]]:
    """The events of a run in the form `full`, with their ids."""
    response = await caller.send(
        "GET", f"/v1/chat/{trace_id}/events", headers={"X-Stream-Form": "full", **headers}
    )
    assert response.status_code == 200, response.text
    blocks = [block.splitlines() for block in response.text.split("\n\n") if block.startswith("id: ")]
    return [(lines[0][4:], httpx.Response(200, text=lines[1][6:]).json()) for lines in blocks]


async def test_reasoning_is_streamed_apart_and_read_again(thinker: Caller) -> None:
    told = await thinker.stream(QUESTION, form="full")
    kinds = [event["type"] for event in told]
    assert join_reasoning(told) == THOUGHT * ROUNDS
    assert kinds.index("reasoning") < kinds.index("delta") < kinds.index("tool_call")
    done = told[-1]
    assert text_of(told) == done["message"]["content"]
    assert "The user asks" not in done["message"]["content"]
    assert 0 < done["usage"]["reasoning"] < done["usage"]["output"]
    again = await read_events(thinker, told[0]["trace_id"])
    assert join_reasoning([event for _, event in again]) == THOUGHT * ROUNDS
    for count, (cursor, _) in enumerate(again, 1):
        rest = await read_events(thinker, told[0]["trace_id"], **{"Last-Event-ID": cursor})
        assert rest == again[count:]
    (saved,) = [each for each in await thinker.messages(told[0]["conversation_id"]) if each["role"] != "user"]
    assert saved["content"] == done["message"]["content"]
    for form in (1, 2):
        assert join_reasoning(await thinker.stream("Hello", form=form)) == ""


async def test_an_old_run_shows_none_once_the_agent_hides_it(
    make_agent: MakeAgent, admin_api: AdminClient
) -> None:
    caller = await make_agent(MODEL, reasoning="summary")
    told = await caller.stream("Hello", form="full")
    async with open_client(caller) as client:
        response = await client.responses.create(model=caller.agent_id, input="Hello")
        assert [item.type for item in response.output] == ["reasoning", "message"]
        await admin_api.patch(f"/agents/{caller.agent_id}", {"reasoning": "hidden"})
        again = [event for _, event in await read_events(caller, told[0]["trace_id"])]
        assert join_reasoning(told) == "The user asks: Hello"
        assert [event for event in again if event["type"] != "delta"] == [
            event for event in told if event["type"] not in ("reasoning", "delta")
        ]
        assert [item.type for item in (await client.responses.retrieve(response.id)).output] == ["message"]
