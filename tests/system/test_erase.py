"""A deleted conversation is gone for every reader, and its content from everywhere that anything is kept."""

import asyncio
import secrets
from dataclasses import dataclass

import httpx
import pytest

from agentchat.directory.agent_config import Retrieval
from agentchat.ops import demo
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent
from tests.system.scanning import places_of


class Canary:
    """Words that stand nowhere else: in a message, its prompt, its idempotency key, and in a document."""

    def __init__(self) -> None:
        words = [f"canary-{secrets.token_hex(8)}" for _ in range(4)]
        self.message, self.prompt, self.key, self.document = words

    async def shelf(self, admin_api: AdminClient) -> Retrieval:
        """A knowledge base with the document."""
        new = {"account_id": demo.LOAD_ACCOUNT_ID, "name": "Canary"}
        base = (await admin_api.post("/knowledge_bases", new))["id"]
        draft = {"name": "valves", "text": f"A zip that is stuck wants the oil {self.document}."}
        await admin_api.post(f"/knowledge_bases/{base}/documents", draft)
        return Retrieval(knowledge_base_id=base)

    async def places(self, stack: RunningStack) -> dict[str, set[str]]:
        """Where they stand, next to the table of the knowledge base itself."""
        words = {name: str(word) for name, word in vars(self).items()}
        found = await places_of(stack, list(words.values()))
        return {name: set(found[word]) - {"table public.chunks"} for name, word in words.items()}


async def list_conversation_ids(caller: Caller) -> set[str]:
    page = (await caller.get("/v1/conversations", limit=100)).json()
    return {row["conversation_id"] for row in page["data"]}


@dataclass(frozen=True)
class Deleted:
    """A thread of two turns that held the canary's words, deleted at another gateway than it was begun at."""

    stack: RunningStack
    canary: Canary
    question: str
    thread: str
    trace_id: str
    one: Caller
    other: Caller
    before: dict[str, set[str]]

    async def again(self, reader: Caller) -> httpx.Response:
        """The thread's first request once more."""
        return await reader.http.post(
            f"{reader.base_url}/v1/chat",
            json={"message": self.question, "prompt": f"You are {self.canary.prompt}."},
            headers={**reader.headers, "Idempotency-Key": self.canary.key},
        )


@pytest.fixture(scope="module")
async def deletion(stack: RunningStack, make_agent: MakeAgent, http: httpx.AsyncClient) -> Deleted:
    canary, gateways = Canary(), stack.environment.gateway_urls
    retrieval = await canary.shelf(AdminClient(http, gateways[0], stack.environment.admin_token))
    one = await make_agent("demo-echo?tool=open_support_ticket", shop=True, retrieval=retrieval)
    other = one.at(gateways[1])
    question = f"Open a ticket for customer CUST-001 with this subject: zip {canary.message} is stuck."
    one.headers["Idempotency-Key"] = canary.key
    first = await one.stream(question, form=1, prompt=f"You are {canary.prompt}.")
    del one.headers["Idempotency-Key"]
    thread, trace_id = first[0]["conversation_id"], first[0]["trace_id"]
    assert canary.document in str(first[1]["sources"])
    second = (await other.chat(question, conversation_id=thread)).json()
    assert canary.message in second["tool_calls"][0]["input"]["subject"]
    assert canary.message in second["tool_calls"][0]["output"]
    before = await canary.places(stack)
    async with asyncio.timeout(20):
        while not {"stream EVENTS", "table public.messages"} <= before["message"]:
            before = await canary.places(stack)
    assert (await other.delete(thread)).status_code == 204
    return Deleted(stack, canary, question, thread, trace_id, one, other, before)


async def test_what_was_said_stood_in_the_log_and_its_copies_before(deletion: Deleted) -> None:
    log, events = "table public.conversation_events", "stream EVENTS"
    assert deletion.before["message"] >= {log, "stream TRACES"}
    assert deletion.before["prompt"] >= {log, events}
    assert deletion.before["key"] == set()
    assert deletion.before["document"] >= {log, events, "stream TRACES"}


async def test_a_deleted_conversation_is_not_found_at_any_gateway(deletion: Deleted) -> None:
    thread, one = deletion.thread, deletion.one
    for reader in (one, deletion.other):
        for path in (f"/v1/conversations/{thread}", f"/v1/conversations/{thread}/messages"):
            assert (await reader.get(path)).status_code == 404
        assert thread not in await list_conversation_ids(reader)
        assert (await reader.chat("again", conversation_id=thread)).json()["code"] == "conversation_not_found"
        assert (await reader.delete(thread)).json()["code"] == "conversation_not_found"
    assert (await one.cancel(deletion.trace_id)).status_code == 404


async def test_what_was_said_is_nowhere_after_it_was_deleted(deletion: Deleted) -> None:
    await first_pass_over(deletion.stack, deletion.thread)
    left = await deletion.canary.places(deletion.stack)
    assert not any(left.values()), left
    assert len(await rows_of(deletion.stack, deletion.thread)) == 1


async def test_an_idempotency_key_of_a_deleted_conversation_begins_no_other(deletion: Deleted) -> None:
    for reader in (deletion.one, deletion.other, deletion.one):
        again = await deletion.again(reader)
        assert again.status_code == 404
        assert again.json()["code"] == "conversation_not_found"
        assert again.headers["x-trace-id"] == deletion.trace_id
        await end_claims(deletion.stack, deletion.thread)


async def end_claims(stack: RunningStack, thread: str) -> None:
    """As if the first request of the thread had come a while ago."""
    async with open_pool(stack.environment.database_url) as pool, acquire_connection(pool) as conn:
        query = "UPDATE idempotency_keys SET claimed_until = clock_timestamp() WHERE conversation_id = %s"
        assert (await conn.execute(query, [thread])).rowcount == 1


async def first_pass_over(stack: RunningStack, thread: str) -> None:
    """Until the projector has removed what stands next to the log: a look everywhere takes long."""
    query = (
        "SELECT pg_sleep(0.1) FROM erasures WHERE conversation_id = %(thread)s AND passes = 0"
        " UNION ALL SELECT pg_sleep(0.1) FROM messages WHERE conversation_id = %(thread)s"
    )
    async with (
        asyncio.timeout(40),
        open_pool(stack.environment.database_url) as pool,
        acquire_connection(pool, seconds=40) as conn,
    ):
        while await (await conn.execute(query, {"thread": thread})).fetchall():
            pass


async def rows_of(stack: RunningStack, thread: str) -> list[tuple[object, ...]]:
    async with open_pool(stack.environment.database_url) as pool, acquire_connection(pool) as conn:
        query = "SELECT topic FROM conversation_events WHERE originator_id = %s"
        return await (await conn.execute(query, [thread])).fetchall()
