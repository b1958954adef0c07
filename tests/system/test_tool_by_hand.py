"""A tool of the demo's MCP server called by hand: over the admin API, on the command line, in the console."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.admin_cli.conftest import Cli
from tests.console.pages import Browser, form_of, text_of
from tests.gateway.admin import AdminClient
from tests.gateway.client import check_problem
from tests.harness import RunningStack
from tests.system.calling import MakeAgent


@pytest.fixture
async def agent(make_agent: MakeAgent) -> str:
    return (await make_agent("demo-shop-1", shop=True)).headers["X-Agent-Id"]


@pytest.fixture
def admin(stack: RunningStack, http: httpx.AsyncClient) -> AdminClient:
    return AdminClient(http, stack.environment.gateway_urls[0], stack.environment.admin_token)


@pytest.fixture
async def browser(stack: RunningStack) -> AsyncIterator[Browser]:
    async with Browser(stack.environment.console_url) as opened:
        yield opened


async def test_over_the_api_it_is_called_audited_and_confirmed_where_it_may_do_harm(
    admin: AdminClient, agent: str
) -> None:
    path = f"/agents/{agent}/mcp_servers/shop/call"
    got = await admin.post(path, {"tool": "get_order", "input": {"order_id": "ORD-1027"}}, status=200)
    assert (got["is_error"], got["output"]["order_id"], got["version"]) == (False, "ORD-1027", 1)
    wrong = await admin.post(path, {"tool": "get_order", "input": {"order_id": "ORD-9999"}}, status=200)
    assert (wrong["is_error"], "ORD-9999" in wrong["output"]["error"]) == (True, True)
    comment = {"ticket_id": "TCK-999", "message": "Where is it?"}
    adds = await admin.post(path, {"tool": "add_ticket_comment", "input": comment}, status=200)
    assert adds["is_error"] is True, "one that only adds need not be confirmed"
    cancel = {"tool": "cancel_order", "input": {"order_id": "ORD-9999", "reason": "other"}}
    assert await admin.refused("POST", path, cancel, status=400, code="invalid_request") == ["confirmed"]
    meant = await admin.post(path, cancel | {"confirmed": True}, status=200)
    assert meant["is_error"] is True, "there is no such order"
    (row,) = (await admin.get("/audit", subject=f"{agent}/shop/cancel_order"))["data"]
    assert (row["action"], row["kind"], row["after"]["trace_id"]) == ("call", "tool", meant["trace_id"])
    assert row["after"]["input"] == cancel["input"]


@pytest.mark.parametrize(
    ("server", "body", "status", "code", "fields"),
    [
        ("shop", {"tool": "get_order"}, 400, "invalid_request", ["input.order_id"]),
        ("shop", {"tool": "get_order", "input": {"order_id": 7}}, 400, "invalid_request", ["input.order_id"]),
        ("shop", {"tool": ""}, 400, "invalid_request", ["tool"]),
        ("shop", {"tool": "eat"}, 404, "not_found", []),
        ("bakery", {"tool": "get_order"}, 404, "not_found", []),
    ],
)
async def test_over_the_api_what_is_wrong_is_named(
    admin: AdminClient, agent: str, server: str, body: object, status: int, code: str, fields: list[str]
) -> None:
    path = f"/agents/{agent}/mcp_servers/{server}/call"
    assert await admin.refused("POST", path, body, status=status, code=code) == fields


async def test_a_server_that_is_down_is_said(admin: AdminClient, agent: str) -> None:
    await admin.patch(f"/agents/{agent}/mcp_servers/shop", {"url": "http://127.0.0.1:9/api/mcp"})
    answer = await admin.send("POST", f"/agents/{agent}/mcp_servers/shop/call", {"tool": "get_order"})
    assert "could not be reached" in check_problem(answer, 503, "overloaded")["detail"]


def test_on_the_command_line(stack: RunningStack, agent: str) -> None:
    cli = Cli({"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    call = ("agents", "mcp-servers", "call-tool", agent, "shop")
    done = cli.json(*call, "get_order", "--input", json.dumps({"order_id": "ORD-1027"}))
    assert done["output"]["order_id"] == "ORD-1027"
    failed = cli(*call, "get_order", "--input", '{"order_id": "ORD-9999"}')
    assert failed.code == 1
    assert "ORD-9999" in failed.out
    refused = cli(*call, "get_order")
    assert (refused.code, "input.order_id" in refused.err) == (2, True)


async def test_in_the_console_by_a_form_that_keeps_what_was_written(browser: Browser, agent: str) -> None:
    tools = f"/agents/{agent}/servers/shop/tools"
    assert "Choose a tool" in await browser.page(tools)
    action = f"{tools}?tool=get_order"
    assert set(form_of((await browser.get(action)).text, action)) == {"form_token", "input.order_id"}
    wrong = await browser.post(action, {"input.order_id": "27"})
    assert "Order id does not satisfy" in text_of(wrong.text)
    assert form_of(wrong.text, action)["input.order_id"] == "27"
    done = text_of((await browser.post(action, {"input.order_id": "ORD-1027"})).text)
    assert "✓ returned" in done
    assert '"order_id": "ORD-1027"' in done
    assert "console:local call" in done, "the last calls of the tool are below"
    part = await browser.post(action, {"input.order_id": "ORD-9999"}, **{"hx-request": "true"})
    assert part.text.lstrip().startswith("<section"), "a script replaces a part of the page"
    assert "✕ error" in text_of(part.text)
    gone = await browser.post(f"{tools}?tool=eat", {"input.order_id": "ORD-1027"})
    assert "no such tool: eat" in text_of(gone.text)


async def test_in_the_console_harm_is_confirmed_for_the_arguments_that_were_shown(
    browser: Browser, agent: str
) -> None:
    action = f"/agents/{agent}/servers/shop/tools?tool=cancel_order"
    sent = {"input.order_id": "ORD-9999", "input.reason": "other"}
    asked = await browser.post(action, sent)
    assert "Call cancel_order of shop with this?" in text_of(asked.text)
    mark = asked.text.partition('name="confirmed" value="')[2][:32]
    other = await browser.post(action, sent | {"input.order_id": "ORD-9998", "confirmed": mark})
    assert "with this?" in text_of(other.text), "that was not what was confirmed"
    assert "✕ error" in text_of((await browser.post(action, sent | {"confirmed": mark})).text)
