"""Streams in both forms: exactly the specification's events, in order."""

import asyncio
import json

import httpx
import pytest

from agentchat.contracts import errors, frames
from agentchat.contracts.values import Source
from agentchat.conversations.event_store.store import ConversationStore
from tests.gateway import stored
from tests.gateway.client import Client, check_problem, is_accepted
from tests.gateway.conftest import Accounts, StartGateway
from tests.gateway.worker import Worker

CALL = {"id": "call-2", "is_error": False}
SOURCE = Source(
    index=1, id="returns#2", title="Returns", url="u", source_type="document", score=0.83, snippet="30 days"
)


async def test_form_1_is_meta_deltas_done(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker, message="hello") as (turn, events):
        response = events.response
        ends = {
            "conversation_id": turn.request.conversation_id,
            "trace_id": response.headers["x-trace-id"],
        }
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        assert await events.next() == {"type": "meta", **ends}
        await turn.delta("Hel")
        assert await events.next() == {"type": "delta", "content": "Hel"}
        await turn.delta("lo.")
        await turn.complete()
        assert await events.rest() == [{"type": "delta", "content": "lo."}, {"type": "done", **ends}]
    assert turn.request.trace_id == ends["trace_id"]
    assert turn.request.form == "form1"
    assert events.bytes.count(b"\n") == 2 * events.bytes.count(b"data: ") == 8


async def test_form_2_is_start_deltas_tool_calls_done(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    async with is_accepted(client, worker, form=2) as (turn, events):
        await turn.delta("Let me see. ")
        await turn.tool("get_order", '{"status":"shipped"}')
        await turn.delta("It has shipped.")
        message = await stored.complete(store, turn)
        conversation_id = turn.request.conversation_id
        assert await events.rest() == [
            {"type": "start", "conversation_id": conversation_id},
            {"type": "delta", "content": "Let me see. "},
            {"type": "tool_call", "name": "get_order", "input": {"id": 1}, "id": "call-2"},
            {"type": "delta", "content": "It has shipped."},
            {
                "type": "done",
                "message": {
                    "id": message.id,
                    "conversation_id": conversation_id,
                    "role": "assistant",
                    "content": "Let me see. It has shipped.",
                    "token_count": 7,
                    "created_at": message.created_at,
                },
                "tool_calls": [
                    {"name": "get_order", "input": {"id": 1}, "output": '{"status":"shipped"}', **CALL}
                ],
            },
        ]
    assert turn.request.form == "form2"


async def test_form_2_has_tool_calls_only_when_tools_ran(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker, form=2) as (turn, events):
        await turn.delta("Hello")
        await turn.complete()
        assert (await events.rest())[-1].keys() == {"type", "message"}


async def test_form_1_ends_after_a_tool_without_a_read_of_the_log(client: Client, worker: Worker) -> None:
    """Nothing of the run is in the log here, so an end that waited for it would not come."""
    async with is_accepted(client, worker, form=1) as (turn, events):
        await turn.tool("find", "{}")
        await turn.delta("ok")
        await turn.complete(tool_calls=1)
        assert [event["type"] for event in await events.rest()] == ["meta", "delta", "done"]


async def test_form_1_tells_no_tools_and_form_2_no_sources(
    client: Client, worker: Worker, store: ConversationStore
) -> None:
    for form, types in (
        (1, ["meta", "sources", "delta", "done"]),
        (2, ["start", "tool_call", "delta", "done"]),
    ):
        async with is_accepted(client, worker, form=form) as (turn, events):
            await turn.say(frames.SourcesFound(seq=turn.number(), attempt=1, sources=(SOURCE,)))
            await turn.tool("find", "{}")
            await turn.delta("ok")
            await stored.complete(store, turn)
            assert [event["type"] for event in await events.rest()] == types


async def test_sources_are_told_whole_and_before_the_deltas(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker) as (turn, events):
        await turn.say(frames.SourcesFound(seq=turn.number(), attempt=1, sources=(SOURCE,)))
        await turn.answer_from_here("ok")
        seen = await events.rest()
    assert seen[1] == {
        "type": "sources",
        "sources": [
            {
                "index": 1,
                "id": "returns#2",
                "title": "Returns",
                "url": "u",
                "source_type": "document",
                "score": 0.83,
                "snippet": "30 days",
            }
        ],
    }


@pytest.mark.parametrize("form", [1, 2])
async def test_a_failure_after_the_start_is_an_error_event(client: Client, worker: Worker, form: int) -> None:
    async with is_accepted(client, worker, form=form) as (turn, events):
        await turn.delta("Hel")
        await turn.fail("provider_timeout", "The provider did not answer.")
        assert (await events.rest())[1:] == [
            {"type": "delta", "content": "Hel"},
            {"type": "error", "code": "provider_timeout", "message": "The provider did not answer."},
        ]


async def test_a_code_that_is_not_in_the_table_is_not_shown(client: Client, worker: Worker) -> None:
    async with is_accepted(client, worker) as (turn, events):
        await turn.fail("secret_detail", "")
        error = (await events.rest())[-1]
    assert error == {
        "type": "error",
        "code": "internal_error",
        "message": errors.ERRORS["internal_error"].title,
    }


async def test_no_text_breaks_the_lines(client: Client, worker: Worker) -> None:
    text = 'a\nb\r\nc\rd\u2028e\u2029f\x85g\x0bh\x0ci\x1cj "data: {}" 😀\u0000'
    async with is_accepted(client, worker) as (turn, events):
        await turn.delta(text)
        await turn.complete()
        seen = await events.rest()
    assert seen[1] == {"type": "delta", "content": text}
    lines = [line for line in events.bytes.decode().splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert [json.loads(line[6:]) for line in lines] == seen


async def test_the_deployment_chooses_the_form_that_a_request_does_not(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts, worker: Worker
) -> None:
    process = await start_gateway(AGENTCHAT_STREAM_FORM="2")
    async with is_accepted(accounts.free.at(http, process), worker) as (turn, events):
        assert (await events.next())["type"] == "start"
        await turn.answer_from_here("ok")
        assert (await events.rest())[-1]["type"] == "done"
    starter = accounts.starter.at(http, process)
    check_problem(await starter.post("/v1/chat/stream"), 403, "plan_upgrade_required")
    async with is_accepted(starter, worker, form=1) as (turn, events):
        assert (await events.next())["type"] == "meta"
        await turn.complete("")


async def test_form_2_is_not_for_the_starter_plan(starter: Client, worker: Worker) -> None:
    check_problem(await starter.post("/v1/chat/stream", x_stream_form="2"), 403, "plan_upgrade_required")
    async with is_accepted(starter, worker, form=1) as (turn, events):
        await turn.answer_from_here("ok")
        assert [event["type"] for event in await events.rest()] == ["meta", "delta", "done"]


async def test_thirty_streams_at_once_keep_their_texts_apart(client: Client, worker: Worker) -> None:
    async def one(number: int) -> str:
        async with is_accepted(client, worker, message=f"number {number}") as (turn, events):
            for word in ("I ", "am ", str(number)):
                await turn.delta(word)
                await asyncio.sleep(0.01)
            await turn.complete()
            seen = await events.rest()
        assert seen[-1]["type"] == "done", seen[-1]
        return "".join(event["content"] for event in seen if event["type"] == "delta")

    told = await asyncio.gather(*map(one, range(30)))
    assert told == [f"I am {number}" for number in range(30)]
