"""POST …/fork, with an orchestrator that the test plays: places, keys, and what is answered."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from agentchat.contracts import events, ids, subjects
from agentchat.contracts.messages import ForkAnswered, ForkConversation, ForkOutcome
from agentchat.conversations.aggregate import forking
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections import conversations_table
from agentchat.runtime.postgres import open_pool
from tests.gateway import stored
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Account, Accounts
from tests.gateway.worker import Worker


def answer_forks(
    worker: Worker, outcome: ForkOutcome = "forked", store: ConversationStore | None = None
) -> AbstractAsyncContextManager[list[ForkConversation]]:
    """Commands are answered so, and obeyed where there is a store; gives those that come."""

    async def answer(command: ForkConversation) -> ForkAnswered:
        version = 9
        if store is not None and (await store.load(command.conversation_id)).version == 0:
            version = await obey(store, command)
        return ForkAnswered(outcome=outcome, version=version)

    return worker.answer_requests(subjects.ALL_COMMANDS, ForkConversation, answer)


async def obey(store: ConversationStore, command: ForkConversation) -> int:
    source = SOURCES[command.source_id]
    decided = forking.fork(source, [0] * len(source), command, stored.AT)
    assert not isinstance(decided, ForkAnswered)
    await store.append(Conversation(conversation_id=command.conversation_id), decided)
    return len(decided)


SOURCES: dict[str, list[events.Event]] = {}


async def make_thread(store: ConversationStore, log: Log, account: Account) -> str:
    asked = stored.request(account)
    await stored.write(store, asked, *stored.has_ended(asked, "It has shipped.", ids.make_id()))
    SOURCES[asked.conversation_id] = await log.read_events(asked.conversation_id)
    return asked.conversation_id


async def fork(client: Client, conversation_id: str, body: Any = None, **headers: str) -> httpx.Response:
    given = {} if body is None else {"json": body}
    return await client.send("POST", f"/v1/conversations/{conversation_id}/fork", headers=headers, **given)


async def test_a_fork_is_a_conversation_that_says_of_which(
    client: Client, worker: Worker, store: ConversationStore, accounts: Accounts, migrated_database_url: str
) -> None:
    async with open_pool(migrated_database_url) as pool:
        log = Log(pool)
        source = await make_thread(store, log, accounts.free)
        key = {"Idempotency-Key": ids.make_id()}
        async with answer_forks(worker, store=store) as heard:
            response = await fork(client, source.upper(), **key)
            assert response.status_code == 201
            again = await fork(client, source, {}, **key)
            check_problem(await fork(client, source, {"at": "3"}, **key), 409, "idempotency_conflict")
        made = response.json()
        assert made["forked_from"] == {"conversation_id": source, "version": 7}
        assert (made["message_count"], made["title"]) == (2, "Where is my order?")
        assert response.headers["x-conversation-version"] == "8"
        assert again.json()["conversation_id"] == made["conversation_id"]
        assert again.headers["x-trace-id"] == response.headers["x-trace-id"]
        assert len({(each.trace_id, each.conversation_id) for each in heard}) == 1
        path = f"/v1/conversations/{made['conversation_id']}"
        assert (await client.get(path)).json() == made
        mine = (await client.get(f"{path}/messages")).json()["data"]
        theirs = (await client.get(f"/v1/conversations/{source}/messages")).json()["data"]
        assert [each["content"] for each in mine] == [each["content"] for each in theirs]
        assert {each["id"] for each in mine}.isdisjoint(each["id"] for each in theirs)
        await stored.project(pool, conversations_table.PROJECTION)
    listed = (await client.get("/v1/conversations", forked_from=source.upper())).json()["data"]
    assert listed == [made]
    problem = check_problem(await client.get("/v1/conversations", forked_from="x"), 400, "invalid_request")
    assert problem["errors"][0]["field"] == "forked_from"


async def test_places_are_asked_for_as_they_are_meant(client: Client, worker: Worker) -> None:
    message = ids.make_id()
    async with answer_forks(worker, "not_found") as heard:
        for at in (None, "12", "2026-11-21T09:30:00Z", message.upper()):
            check_problem(await fork(client, ids.make_id(), {"at": at}), 404, "conversation_not_found")
        unlisted = ids.make_unlisted_id()
        check_problem(await fork(client, unlisted), 404, "conversation_not_found")
    assert [each.at for each in heard] == [None, 12, "2026-11-21T09:30:00+00:00", message, None]
    assert [ids.is_unlisted(each.conversation_id) for each in heard] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("outcome", "status", "code", "field"),
    [
        ("busy", 409, "conversation_busy", None),
        ("unknown_version", 400, "invalid_request", "at"),
        ("unknown_message", 400, "invalid_request", "at"),
        ("nothing_said", 400, "invalid_request", "at"),
        ("too_large", 413, "conversation_too_large", None),
        ("not_found", 404, "conversation_not_found", None),
        ("unreadable", 500, "internal_error", None),
        ("unavailable", 503, "overloaded", None),
    ],
)
async def test_a_refused_fork_has_its_code_and_reason(
    client: Client, worker: Worker, outcome: ForkOutcome, status: int, code: str, field: str | None
) -> None:
    async with answer_forks(worker, outcome):
        problem = check_problem(await fork(client, ids.make_id()), status, code)
    assert [error["field"] for error in problem.get("errors", [])] == ([field] if field else [])


async def test_what_is_no_place_is_refused(client: Client, worker: Worker) -> None:
    wrong: list[dict[str, Any]] = [{"at": "soon"}, {"at": 1}, {"at": {}}, {"at": ""}]
    async with answer_forks(worker) as heard:
        for body in wrong:
            problem = check_problem(await fork(client, ids.make_id(), body), 400, "invalid_request")
            assert problem["errors"][0]["field"] == "at"
        problem = check_problem(await fork(client, ids.make_id(), {"when": "1"}), 400, "invalid_request")
        assert problem["errors"][0]["field"] == "when"
        check_problem(await fork(client, "thread-1"), 404, "conversation_not_found")
        response = await client.http.post(f"{client.url}/v1/conversations/{ids.make_id()}/fork")
        check_problem(response, 401, "missing_api_key")
    assert heard == []
