"""What an account has stored, on the whole system: counted, refused beyond its plan, free once deleted."""

import asyncio

from agentchat.administration import Admin, admin_plans, admin_usage
from agentchat.administration.admin_values import PlanChanges
from agentchat.conversations.event_store.event_log import Log, sum_bytes
from tests.administrator import plan_with, put_plan
from tests.system.calling import Caller, MakeAccount

PLAN = plan_with("Stored", storage_bytes=1_000_000)
LONG = "Where is my order? " * 1_000


async def wait_for_stored_bytes(admin: Admin, account_id: str, *conversation_ids: str) -> int:
    """The bytes stored, once the read model has what the log has of these conversations."""
    log = Log(admin.pool)
    rows = [row for each in conversation_ids for row in await log.read_rows(each)]
    async with asyncio.timeout(40):
        while True:
            found = await admin_usage.get_month(admin, account_id)
            if (found.conversations, found.stored_events) == (len(conversation_ids), len(rows)):
                assert found.stored_bytes == sum_bytes(rows)
                return found.stored_bytes
            await asyncio.sleep(0.05)


async def until_full(caller: Caller) -> list[str]:
    """Chat until it is refused, which is within seconds; the conversations begun until then."""
    begun: list[str] = []
    async with asyncio.timeout(40):
        while (answer := await caller.chat("Hello.")).status_code == 200:
            begun.append(answer.json()["message"]["conversation_id"])
            await asyncio.sleep(0.2)
    assert (answer.status_code, answer.json()["code"]) == (403, "storage_full")
    return begun


async def until_there_is_room(caller: Caller) -> str:
    """The conversation that could be begun."""
    async with asyncio.timeout(40):
        while (answer := await caller.chat("Hello.")).status_code != 200:
            assert answer.json()["code"] == "storage_full"
            await asyncio.sleep(0.2)
    return str(answer.json()["message"]["conversation_id"])


async def test_copies_count_too_and_what_is_deleted_makes_room(
    admin: Admin, make_account: MakeAccount
) -> None:
    await put_plan(admin.pool, PLAN)
    account, (caller,) = await make_account(PLAN.name, "demo-echo")

    thread = (await caller.chat(LONG)).json()["message"]["conversation_id"]
    one = await wait_for_stored_bytes(admin, account, thread)
    forked = await caller.send("POST", f"/v1/conversations/{thread}/fork")
    assert forked.status_code == 201, forked.text
    fork = forked.json()["conversation_id"]
    both = await wait_for_stored_bytes(admin, account, thread, fork)
    assert both > 2 * one, "a copy also says what it is one of"

    await admin_plans.change(admin, PLAN.name, PlanChanges(storage_bytes=both))
    for each in (thread, fork, *await until_full(caller)):
        assert (await caller.delete(each)).status_code == 204
    left = await until_there_is_room(caller)
    assert await wait_for_stored_bytes(admin, account, left) < one
