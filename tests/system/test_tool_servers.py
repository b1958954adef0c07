"""Tool servers of strangers, as administrators and callers meet them: authorised by a link, or away."""

import json

import httpx

from agentchat.contracts.authorizations import derive_callback
from agentchat.directory.agent_config import McpServer
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import MakeAgent
from tests.tool_runner.authorization_server import run_protected


async def test_a_person_who_opens_the_link_authorises_the_agent(
    stack: RunningStack, http: httpx.AsyncClient, admin_api: AdminClient, make_agent: MakeAgent
) -> None:
    async with run_protected() as shop:
        caller = await make_agent("demo-shop-1?tool=whoami", servers=(McpServer(name="shop", url=shop.url),))
        path = f"/agents/{caller.agent_id}/mcp_servers/shop/authorization"
        asked = await admin_api.put(path, {"grant": "authorization_code"})
        assert asked["status"] == "needs_authorization"
        link = await admin_api.post(f"{path}/link", status=200)
        done = await http.get(link["url"], follow_redirects=True)
        own = f"{stack.environment.base_url}/v1/oauth/callback/{derive_callback(shop.origin)}"
        assert str(done.url).startswith(f"{own}?")
        assert (done.status_code, "is authorised" in done.text) == (200, True), done.text
        assert (await admin_api.get(path))["status"] == "authorized"
        (used,) = (await caller.chat("Who am I?")).json()["tool_calls"]
        assert "asked with" in json.loads(used["output"])["result"]
        assert (await http.get(str(done.url))).status_code == 404, "its state was taken"


async def test_a_reply_without_a_server_says_so(make_agent: MakeAgent) -> None:
    gone = McpServer(name="shop", url="http://127.0.0.1:9/mcp")
    caller = await make_agent("demo-shop-1?tool=gone", servers=(gone,))
    assert (await caller.chat("hi")).headers["X-Unavailable-Tools"] == "shop"
    told = await caller.stream("hi", form="full")
    assert [(each["code"], each["subject"]) for each in told if each["type"] == "warning"] == [
        ("tool_server_unavailable", "shop")
    ]
    assert [each["type"] for each in told[:2]] == ["start", "warning"]
