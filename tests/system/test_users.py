"""An account's end users: listed, exported, and deleted with all that was said."""

import asyncio
import json
import secrets
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from agentchat.ops import demo
from agentchat.ops.main import app
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent
from tests.system.scanning import places_of
from tests.system.test_erase import first_pass_over

SECONDS = 60.0


@pytest.fixture
async def one(make_agent: MakeAgent) -> Caller:
    return await make_agent("demo-echo?tool=open_support_ticket", shop=True)


async def _say(caller: Caller, user: str, message: str, **body: Any) -> dict[str, Any]:
    headers = {**caller.headers, "X-User-Id": user}
    response = await caller.send("POST", "/v1/chat", json={"message": message, **body}, headers=headers)
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


async def _read_until_counted(caller: Caller, user: str, conversations: int) -> dict[str, Any]:
    """The user, once the read models have everything: they lag by a moment."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await caller.get(f"/v1/users/{user}")
            if found.status_code == 200 and found.json()["conversations"] == conversations:
                details: dict[str, Any] = found.json()
                if details["months"]:
                    return details
            await asyncio.sleep(0.1)


def run_admin(stack: RunningStack, *arguments: str) -> str:
    found = stack.environment
    environ = {"AGENTCHAT_ADMIN_URL": found.base_url, "AGENTCHAT_ADMIN_TOKEN": found.admin_token}
    result = CliRunner().invoke(app, ["admin", *arguments], env=environ)
    assert result.exit_code == 0, result.output
    return result.stdout


async def test_a_user_is_listed_exported_and_deleted(stack: RunningStack, one: Caller) -> None:
    name, other, canary = (f"{name}-{secrets.token_hex(8)}" for name in ("shop/ada%2F", "bob", "canary"))
    user = quote(name, safe="")
    question = f"Open a ticket for customer CUST-001 with this subject: zip {canary} is stuck."
    first = await _say(one, name, question, external_id=f"ticket-{canary}", metadata={"about": canary})
    await _say(one, name, "Hello")
    elsewhere = await _say(one, other, "Hello")
    about = {"score": 1, "comment": f"Good {canary}.", "on_behalf_of": name}
    path = f"/v1/messages/{elsewhere['message']['id']}/feedback"
    assert (await one.send("POST", path, json={"score": 1, "comment": "Kept."})).status_code == 200
    assert (await one.send("POST", path, json=about)).status_code == 200
    comment = {"score": -1, "comment": f"{canary} is not stuck."}
    await one.send("POST", f"/v1/messages/{first['message']['id']}/feedback", json=comment)

    found = await _read_until_counted(one, user, 2)
    (month,) = found["months"]
    assert found["tokens"] == month["tokens"] > 0
    assert (month["runs"], found["deleting"]) == (2, False)
    listed = (await one.get("/v1/users", limit=100, order="conversations")).json()["data"]
    counts = {row["user_id"]: row["conversations"] for row in listed}
    assert (counts[name], counts[other]) == (2, 1)
    assert [row["conversations"] for row in listed] == sorted(counts.values(), reverse=True)
    page = (await one.get("/v1/users", limit=1)).json()
    following = (await one.get("/v1/users", limit=100, cursor=page["next_cursor"])).json()["data"]
    assert page["data"][0]["user_id"] not in {row["user_id"] for row in following}

    exported = (await one.get(f"/v1/users/{user}/export")).text.splitlines()
    lines = [json.loads(line) for line in exported]
    kinds = [line["type"] for line in lines]
    assert (kinds[0], kinds[1], kinds[-1]) == ("user", "conversation", "end")
    expected = {"conversation": 2, "message": 4, "tool_call": 2, "feedback": 1}
    assert {kind: kinds.count(kind) for kind in expected} == expected
    assert lines[-1]["conversations"] == 2
    path = f"/accounts/{demo.LOAD_ACCOUNT_ID}/users/{user}"
    printed = await asyncio.to_thread(run_admin, stack, "GET", f"{path}/export")
    assert printed.splitlines() == exported, "the command line prints the lines as they are"
    assert name in await asyncio.to_thread(run_admin, stack, "GET", path)

    removed = await one.send("DELETE", f"/v1/users/{user}")
    assert (removed.status_code, removed.json()["conversations"]) == (202, 2)
    async with asyncio.timeout(SECONDS):
        while (await one.get(f"/v1/users/{user}")).status_code != 404:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    await first_pass_over(stack, first["conversation_id"])
    async with asyncio.timeout(SECONDS):
        while any(left := (await places_of(stack, [name, user, canary])).values()):
            assert left is not None
            await asyncio.sleep(0.5)
    assert (await one.get(f"/v1/users/{other}")).json()["conversations"] == 1
    left = (await one.get(f"/v1/messages/{elsewhere['message']['id']}/feedback")).json()["data"]
    assert [each["comment"] for each in left] == ["Kept."], "others' feedback stays"
