"""A business comes and goes over the admin API alone, on the whole system."""

import asyncio

import httpx
import pytest

from tests.gateway.admin import AdminClient
from tests.gateway.client import check_problem
from tests.harness import RunningStack
from tests.system.calling import Caller


@pytest.fixture
def admins(stack: RunningStack, http: httpx.AsyncClient) -> tuple[AdminClient, AdminClient]:
    """An administrator at each gateway."""
    found = stack.environment
    first, second = (AdminClient(http, url, found.admin_token) for url in found.gateway_urls)
    return first, second


async def make_business(admin: AdminClient, stack: RunningStack) -> tuple[str, Caller]:
    account: str = (await admin.post("/accounts", {"name": "Acme", "plan": "Pro"}))["id"]
    key = (await admin.post(f"/accounts/{account}/keys", {"name": "backend"}))["key"]
    shop = {"name": "shop", "url": f"{stack.environment.mcp_base_url}/api/mcp"}
    made = await admin.post(
        "/agents",
        {
            "account_id": account,
            "name": "Shop assistant",
            "model": "demo-shop-1",
            "provider_key": "offline",
            "mcp_servers": [shop],
        },
    )
    return account, Caller(admin.http, stack.environment.base_url, key, made["id"])


async def test_change_on_one_gateway_counts_on_the_other(
    stack: RunningStack, admins: tuple[AdminClient, AdminClient]
) -> None:
    first, second = admins
    account, here = await make_business(first, stack)
    caller, agent = here.at(stack.environment.gateway_urls[1]), here.headers["X-Agent-Id"]
    checked = await second.post(f"/agents/{agent}/check", status=200)
    assert checked["provider"]["ok"], checked
    assert [(server["name"], server["ok"], server["allowed"]) for server in checked["servers"]] == [
        ("shop", True, 21)
    ]
    asked = "What is the status of order ORD-1001?"
    assert (await caller.chat(asked)).json()["tool_calls"]
    await first.put(
        f"/agents/{agent}/mcp_servers/shop",
        {"url": f"{stack.environment.mcp_base_url}/api/mcp", "disabled": True},
    )
    assert "tool_calls" not in (await caller.chat(asked)).json()
    await first.patch(f"/agents/{agent}", {"disabled": True})
    check_problem(await caller.chat(asked), 404, "agent_not_found")
    await first.patch(f"/accounts/{account}", {"disabled": True})
    shut = check_problem(await caller.chat(asked), 401, "invalid_api_key")
    await first.patch(f"/accounts/{account}", {"disabled": False})
    await first.delete(f"/keys/{(await first.get(f'/accounts/{account}/keys'))['data'][0]['id']}")
    revoked = check_problem(await caller.chat(asked), 401, "invalid_api_key")
    assert shut | {"trace_id": ""} == revoked | {"trace_id": ""}


async def test_account_with_conversations_is_deleted_after_the_answer(
    stack: RunningStack, admins: tuple[AdminClient, AdminClient]
) -> None:
    admin, _ = admins
    account, caller = await make_business(admin, stack)
    conversation = (await caller.chat("Hello")).json()["conversation_id"]
    begun = await admin.send("DELETE", f"/accounts/{account}", force="true")
    assert (begun.status_code, begun.json()["pending"]) == (202, True)
    async with asyncio.timeout(60):
        while (await admin.send("GET", f"/accounts/{account}")).status_code != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    found = (await admin.get("/conversations/search", query=conversation))["data"]
    assert found == []


async def test_named_token_has_its_role_until_it_is_revoked(
    stack: RunningStack, admins: tuple[AdminClient, AdminClient]
) -> None:
    owner, other = admins
    account, _ = await make_business(owner, stack)
    issued = await owner.post("/tokens", {"name": "eve", "role": "viewer", "account_ids": [account]})
    eve = AdminClient(other.http, stack.environment.gateway_urls[1], issued["token"])
    assert [each["id"] for each in (await eve.get("/accounts"))["data"]] == [account]
    check_problem(await eve.send("POST", f"/accounts/{account}/keys", {"name": "own"}), 403, "not_allowed")
    await owner.send("DELETE", "/tokens/eve")
    check_problem(await eve.send("GET", "/accounts"), 401, "invalid_admin_token")
