"""Operators talk with versions of agents, in conversations of the account that say so."""

import asyncio
from typing import Any

from tests.gateway.admin import AdminClient
from tests.system.calling import Caller, MakeAgent


async def say(admin: AdminClient, agent: str, message: str, **body: Any) -> str:
    """Its conversation, once the reply is saved."""
    run = await admin.post(f"/agents/{agent}/messages", {"message": message, **body}, status=202)
    return str(run["conversation_id"])


async def replies(caller: Caller, conversation_id: str, number: int) -> list[dict[str, Any]]:
    """The messages, once there are so many."""
    async with asyncio.timeout(20):
        while len(found := await caller.messages(conversation_id)) < number:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


async def test_a_version_answers_in_a_playground_conversation(
    admin_api: AdminClient, make_agent: MakeAgent
) -> None:
    caller = await make_agent("demo-echo")
    agent = caller.headers["X-Agent-Id"]
    await admin_api.patch(f"/agents/{agent}", {"model": "demo-shop-1"})
    first = await say(admin_api, agent, "Say it again", version=1)
    assert await say(admin_api, agent, "And that", version=1, conversation_id=first) == first
    texts = [each["content"] for each in await replies(caller, first, 4)]
    assert texts[0::2] == ["Say it again", "And that"]
    assert "Say it again" in texts[1]
    shown = (await caller.get(f"/v1/conversations/{first}")).json()
    assert shown["metadata"] == {"playground": "admin-api"}
    audited = (await admin_api.get("/audit", kind="conversation", subject=first))["data"]
    assert [each["action"] for each in audited] == ["say", "say"]


async def test_customers_conversation_is_forked_not_continued(
    admin_api: AdminClient, make_agent: MakeAgent
) -> None:
    caller = await make_agent("demo-echo")
    agent = caller.headers["X-Agent-Id"]
    theirs = (await caller.chat("One")).json()["conversation_id"]
    await caller.chat("Two", conversation_id=theirs)
    asked, reply, _, _ = await replies(caller, theirs, 4)
    path = f"/agents/{agent}/messages"
    body = {"message": "Mine", "conversation_id": theirs}
    await admin_api.refused("POST", path, body=body, status=409, code="conflict")
    for at, before in ((reply["id"], ["One", reply["content"]]), (asked["id"], [])):
        mine = await say(admin_api, agent, "Mine", conversation_id=theirs, fork_at=at)
        assert mine != theirs
        texts = [each["content"] for each in await replies(caller, mine, len(before) + 2)]
        assert texts[:-1] == [*before, "Mine"]
        assert await say(admin_api, agent, "More", conversation_id=mine) == mine
    assert len(await caller.messages(theirs)) == 4
    unknown = {"message": "Mine", "conversation_id": theirs, "fork_at": theirs}
    await admin_api.refused("POST", path, body=unknown, status=400, code="invalid_request")


async def test_a_run_is_cancelled_by_its_conversation(admin_api: AdminClient, make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-load?deltas=500&delay_ms=100")
    agent = caller.headers["X-Agent-Id"]
    slow = await say(admin_api, agent, "Tell me a story.")
    await admin_api.post(f"/conversations/{slow}/cancel", status=202)
    async with asyncio.timeout(20):
        while (await admin_api.send("POST", f"/conversations/{slow}/cancel")).status_code != 409:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
