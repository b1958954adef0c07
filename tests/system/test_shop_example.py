"""Serve three customers of the shop example: each in two browsers, through one backend with one key."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import find_free_port
from tests.system.calling import Caller

BACKEND = Path(__file__).parents[2] / "examples/shop/backend.py"
SHOW_MAP = {
    "name": "show_map",
    "description": "Show a place to the customer",
    "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
}
SECONDS = 60.0


class Browser:
    """A browser of one customer, at the page of the shop."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str) -> Any:
        response = await self.http.get(f"/v1{path}")
        return response.json() if response.status_code == 200 else response.status_code

    async def post(self, path: str, body: Any) -> httpx.Response:
        return await self.http.post(f"/v1{path}", content=json.dumps(body))

    async def say(self, message: str, **fields: Any) -> list[dict[str, Any]]:
        return read_events(await self.post("/chat/stream", {"message": message, **fields}))


def read_events(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]


@pytest.fixture(scope="module")
async def shop(stack: Any) -> AsyncIterator[str]:
    port, found = find_free_port(), stack.environment
    names = {"BASE_URL": found.base_url, "API_KEY": found.api_key, "AGENT_ID": found.agent_id}
    process = await asyncio.create_subprocess_exec(sys.executable, str(BACKEND), str(port), env=names)
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as http, asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(httpx.ConnectError):
                    assert "Shop" in (await http.get(url)).text
                    break
                await asyncio.sleep(0.1)
        yield url
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def open_browser(shop: str, customer: str) -> AsyncIterator[Browser]:
    async with httpx.AsyncClient(base_url=shop, cookies={"customer": customer}, timeout=SECONDS) as http:
        yield Browser(http)


def test_the_backend_has_at_most_40_lines() -> None:
    assert len(BACKEND.read_text().splitlines()) <= 40


async def test_customers_approve_run_client_tools_and_are_deleted(shop: str, caller: Caller) -> None:
    async with (
        open_browser(shop, "CUST-004") as ada,
        open_browser(shop, "CUST-004") as ada_elsewhere,
        open_browser(shop, "CUST-005") as bob,
        open_browser(shop, "CUST-009") as eve,
    ):
        paused = await ada.say("Cancel ORD-1032")
        assert (paused[0]["type"], paused[-1]["type"]) == ("start", "approval_required")
        (approval,) = paused[-1]["approvals"]
        trace, conversation = paused[0]["trace_id"], paused[0]["conversation_id"]
        assert await eve.get(f"/approvals/{approval['id']}") == 404
        assert await bob.get(f"/chat/{trace}/events") == 404
        assert (await ada_elsewhere.get(f"/approvals/{approval['id']}"))["tool"]["name"] == approval["tool"]
        decision = await ada_elsewhere.post(f"/approvals/{approval['id']}/decision", {"decision": "approved"})
        assert decision.status_code == 200
        followed = read_events(await ada.http.get(f"/v1/chat/{trace}/events"))
        (result,) = [event for event in followed if event["type"] == "tool_result"]
        assert (result["is_error"], followed[-1]["type"]) == (False, "done")

        called = await bob.say("show_map of Berlin", client_tools=[SHOW_MAP])
        (call,) = [event for event in called if event["type"] == "client_tool_call"]
        assert call["name"] == "show_map"
        results = {"results": [{"id": call["id"], "output": {"shown": True}}]}
        path = f"/chat/{called[0]['trace_id']}/tool_results"
        assert (await eve.post(path, results)).status_code == 404
        assert (await bob.post(path, results)).json()["message"]["content"]

        foreign = await bob.say("Where is order ORD-1032?")  # the shop's tools learn who asks
        assert [event["is_error"] for event in foreign if event["type"] == "tool_result"] == [True]

        assert await eve.get("/conversations") == {"data": [], "next_cursor": None}
        assert await eve.get(f"/conversations/{conversation}/messages") == 404
        assert (await eve.http.get("/v1/users")).status_code == 403  # the account's own, not a customer's

        assert (await ada.http.delete("/customer")).status_code == 202
        async with asyncio.timeout(SECONDS):
            while await ada_elsewhere.get(f"/conversations/{conversation}") != 404:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        assert await bob.get(f"/conversations/{called[0]['conversation_id']}") != 404
