"""GET /v1/chat/{trace_id}/events: reconnects at a cursor, over two gateways; the test plays the worker."""

import asyncio
import re

import httpx
import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, frames, ids
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.leases.waiting_line import WaitingLine
from agentchat.runtime.postgres import open_pool
from tests.gateway.client import Client, EventReader, check_problem, is_accepted
from tests.gateway.conftest import Accounts
from tests.gateway.event_streams import (
    FIRST,
    SECOND,
    SOURCE,
    ask_events,
    open_events,
    parse_stream,
    read,
    tell_story,
)
from tests.gateway.stored import AT, complete, write
from tests.gateway.worker import Turn, Worker


async def test_logged_run_resumes_after_each_cursor_at_each_gateway(
    client: Client, elsewhere: Client, store: ConversationStore, accounts: Accounts
) -> None:
    request = ask_events(accounts)
    await write(store, request, *tell_story(request))
    told = {form: await read(client, request.trace_id, form) for form in (1, 2, "full")}
    assert await read(elsewhere, request.trace_id) == told[1]  # the form of the first request
    for form, whole in told.items():
        cursors = [cursor or "" for cursor, _ in whole]
        assert all(cursors)
        assert len(set(cursors)) == len(cursors)
        rests = await asyncio.gather(*(read(elsewhere, request.trace_id, form, after) for after in cursors))
        for place, rest in enumerate(rests, 1):
            assert whole[:place] + rest == whole
    # An id of one form is a place in the other.
    text, beginning = "", told[1][:5]
    for _, data in beginning + await read(client, request.trace_id, 2, beginning[-1][0]):
        event = msgspec.json.decode(data)
        text += event.get("content", "") if event["type"] == "delta" else ""
    assert text == FIRST + SECOND


async def test_a_live_run_is_joined_and_resumed_at_each_gateway(
    client: Client, elsewhere: Client, worker: Worker, store: ConversationStore
) -> None:
    pieces = ["Hel", "lo ", "the", "re."]
    async with is_accepted(client, worker, 2, "live") as (turn, first):
        await write(store, turn.request)
        trace_id = turn.request.trace_id
        watching = await open_events(elsewhere, trace_id, 2)
        cut: list[EventReader] = []
        await turn.say(frames.SourcesFound(seq=turn.number(), attempt=1, sources=(SOURCE,)))
        for number, piece in enumerate(pieces):
            await turn.delta(piece)
            if number == 1:
                await turn.tool("look", '{"ok":1}')
            cut.append(await open_events((client, elsewhere)[number % 2], trace_id, 2))
            while piece not in (await cut[-1].next()).get("content", ""):
                pass
            cursor = parse_stream(cut[-1].bytes)[-1][0]
            assert cursor is not None
            await cut[-1].response.aclose()
            cut.append(await open_events((elsewhere, client)[number % 2], trace_id, 2, after=cursor))
        await complete(store, turn)
        await first.rest()
        await watching.rest()
        whole = parse_stream(watching.bytes)
        assert b"".join(f"data: {data}\n\n".encode() for _, data in whole) == first.bytes
        for before, after in zip(cut[::2], cut[1::2], strict=True):
            await after.rest()
            assert parse_stream(before.bytes) + parse_stream(after.bytes) == whole


async def test_an_unknown_cursor_is_refused(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    request, other = ask_events(accounts), ask_events(accounts)
    for each in (request, other):
        await write(store, each, *tell_story(each))
    trace_id = request.trace_id
    good = (await read(client, trace_id))[3][0] or ""
    foreign = (await read(client, other.trace_id))[3][0] or ""
    end = (await read(client, trace_id))[-1][0] or ""
    assert await read(client, trace_id, after=end) == []
    digest = "0" * 8 if not good.endswith("0" * 8) else "1" * 8
    wrong = [
        foreign,
        "nonsense",
        "7",
        good + "0",
        good[:-8] + digest,  # another text
        re.sub(r":\d\.\d+\.\d+", ":2.0.900", good),  # past the end
        re.sub(r":\d\.\d+\.", ":2.9.", good),
        re.sub(r":\d\.", ":3.", good),  # not the end's
    ]
    for cursor in wrong:
        sent = await open_events(client, trace_id, after=cursor)
        await sent.response.aread()
        check_problem(sent.response, 410, "cursor_expired")
        again = await client.get(f"/v1/chat/{trace_id}/events", cursor=cursor)
        check_problem(again, 410, "cursor_expired")
    # The header of a reconnection wins over the query of the first connection.
    path = f"/v1/chat/{trace_id}/events"
    reader = await client.send("GET", f"{path}?cursor={foreign}", headers={"Last-Event-ID": end})
    assert reader.status_code == 200
    assert reader.content == b""


async def test_who_may_read_which_run_in_which_form(
    client: Client, store: ConversationStore, accounts: Accounts, http: httpx.AsyncClient
) -> None:
    request = ask_events(accounts, "json")
    await write(store, request, *tell_story(request))
    path = f"/v1/chat/{request.trace_id}/events"
    assert (await read(client, request.trace_id))[0][1].startswith('{"type":"meta"')  # the deployment's form
    foreign = Client(http, client.url, accounts.other.key, accounts.other.agent)
    for response in (
        await foreign.get(path),
        await client.get(f"/v1/chat/{'0' * 32}/events"),
        await client.get("/v1/chat/x/events"),
    ):
        assert check_problem(response, 404, "not_found")["detail"] == "There is no such run."
    check_problem(await http.get(f"{client.url}{path}"), 401, "missing_api_key")
    bad = await open_events(client, request.trace_id, 3)
    await bad.response.aread()
    assert check_problem(bad.response, 400, "invalid_request")["errors"][0]["field"] == "X-Stream-Form"
    theirs = replace(
        ask_events(accounts, "form2"), account_id=accounts.starter.account_id, agent_id=accounts.starter.agent
    )
    await write(store, theirs, *tell_story(theirs))
    starter = Client(http, client.url, accounts.starter.key, accounts.starter.agent)
    check_problem(await starter.get(f"/v1/chat/{theirs.trace_id}/events"), 403, "plan_upgrade_required")
    assert (await read(starter, theirs.trace_id, 1))[-1][1].startswith('{"type":"done"')


async def test_a_run_of_an_erased_conversation_is_not_found(
    client: Client, store: ConversationStore, accounts: Accounts
) -> None:
    request = ask_events(accounts)
    await write(store, request, *tell_story(request))
    (cursor, _), *_ = await read(client, request.trace_id)
    by = ids.make_id().replace("-", "")
    erased = events.ConversationErased(trace_id=by, at=AT, account_id=accounts.free.account_id)
    await store.append(await store.load(request.conversation_id), [erased])
    for query in ({}, {"cursor": cursor}):
        response = await client.get(f"/v1/chat/{request.trace_id}/events", **query)
        assert check_problem(response, 404, "not_found")["detail"] == "There is no such run."


async def test_a_queued_request_is_joined_when_its_turn_comes(
    client: Client, store: ConversationStore, accounts: Accounts, migrated_database_url: str, worker: Worker
) -> None:
    request = ask_events(accounts, "form2")
    before = replace(request, trace_id=ids.make_id().replace("-", ""))
    await write(store, before)
    async with open_pool(migrated_database_url) as pool:
        line = WaitingLine(pool, "w")
        await line.join(request.conversation_id, request.trace_id, AT, "account")
        opening = asyncio.create_task(open_events(client, request.trace_id))
        done, _ = await asyncio.wait([opening], timeout=0.3)
        assert not done
        await write(store, request)
        turn = await Turn(worker.bus, request).accept()
        reader = await opening
        assert (await reader.next())["type"] == "start"
        await turn.complete("")
        assert [event["type"] for event in await reader.rest()] == ["done"]
        await line.leave(request.trace_id)


async def test_form_outside_plan_is_refused_while_queued(
    starter: Client, store: ConversationStore, accounts: Accounts, migrated_database_url: str
) -> None:
    theirs = replace(
        ask_events(accounts), account_id=accounts.starter.account_id, agent_id=accounts.starter.agent
    )
    await write(store, theirs)
    in_line = ids.make_id().replace("-", "")
    async with open_pool(migrated_database_url) as pool:
        line = WaitingLine(pool, "w")
        await line.join(theirs.conversation_id, in_line, AT, "account")
        refused = await open_events(starter, in_line, 2)
        await refused.response.aread()
        check_problem(refused.response, 403, "plan_upgrade_required")
        await line.leave(in_line)
