"""Tool servers of strangers, as administrators and callers meet them: authorised by a link, or away."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from agentchat.contracts.authorizations import derive_callback
from agentchat.ops import demo
from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.tool_runner.authorization_server import Protected, run_protected


class Place:
    """A stack, a server that wants OAuth with its authorization server."""

    def __init__(self, stack: RunningStack, shop: Protected, http: httpx.AsyncClient) -> None:
        self.stack = stack
        self.shop = shop
        self.http = http

    async def admin(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        found = self.stack.environment
        answer = await self.http.request(
            method,
            f"{found.base_url}/admin/v1{path}",
            json=body or None,
            headers={"Authorization": f"Bearer {found.admin_token}"},
        )
        assert answer.is_success, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def agent(self, name: str, url: str, **more: Any) -> Caller:
        """One that calls this tool whatever it is told."""
        found = self.stack.environment
        made = await self.admin(
            "POST",
            "/agents",
            account_id=demo.LOAD_ACCOUNT_ID,
            name=name,
            model=f"demo-shop-1?tool={name}",
            provider_key="offline",
            mcp_servers=[{"name": "shop", "url": url, **more}],
        )
        return Caller(self.http, found.base_url, found.load_api_key, made["id"])


@pytest.fixture(scope="module")
async def place(stack: RunningStack, http: httpx.AsyncClient) -> AsyncIterator[Place]:
    async with AsyncExitStack() as opened:
        shop = await opened.enter_async_context(run_protected())
        yield Place(stack, shop, http)


async def test_a_person_who_opens_the_link_authorises_the_agent(place: Place) -> None:
    caller = await place.agent("whoami", place.shop.url)
    agent = caller.headers["X-Agent-Id"]
    path = f"/agents/{agent}/mcp_servers/shop/authorization"
    assert (await place.admin("PUT", path, grant="authorization_code"))["status"] == "needs_authorization"
    link = await place.admin("POST", f"{path}/link")
    done = await place.http.get(link["url"], follow_redirects=True)
    own = f"{place.stack.environment.base_url}/v1/oauth/callback/{derive_callback(place.shop.origin)}"
    assert str(done.url).startswith(f"{own}?")
    assert (done.status_code, "is authorised" in done.text) == (200, True), done.text
    assert (await place.admin("GET", path))["status"] == "authorized"
    (used,) = (await caller.chat("Who am I?")).json()["tool_calls"]
    assert "asked with" in json.loads(used["output"])["result"]
    assert (await place.http.get(str(done.url))).status_code == 404, "its state was taken"


async def test_a_reply_without_a_server_says_so(place: Place) -> None:
    caller = await place.agent("gone", "http://127.0.0.1:9/mcp")
    assert (await caller.chat("hi")).headers["X-Unavailable-Tools"] == "shop"
    told = await caller.stream("hi", form="full")
    assert [(each["code"], each["subject"]) for each in told if each["type"] == "warning"] == [
        ("tool_server_unavailable", "shop")
    ]
    assert [each["type"] for each in told[:2]] == ["start", "warning"]
