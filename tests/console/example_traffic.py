"""Make conversations, failures, feedback and approvals of a shop's support, for pictures of the console."""

import asyncio
import contextlib
from typing import Any

import httpx

from agentchat.ops import demo
from agentchat.ops.demo_env import Environment
from tests.system.calling import Caller

_TOOLS = ("get_order", "search_products", "get_product", "cancel_order", "get_customer")
_TALKS = (
    ("CUST-001", "Where is my order ORD-1008? It is late.", "And ORD-1021?", "Thank you, that helps."),
    ("CUST-002", "Which tents do you have for two people, and how heavy are they?", "Is PRD-124 in stock?"),
    ("CUST-003", "Where is order ORD-1006, and what else would suit customer CUST-001?"),
    ("CUST-001", "My stove arrived broken. What do I do, and who pays for sending it back?"),
    ("CUST-004", "Show me the orders of CUST-002.", "Is ORD-1012 among them?"),
)
_POLICIES = (
    "What is your return policy?",
    "How long does delivery to Norway take?",
    "Is there a warranty on boots?",
)
_RATINGS = (
    (1.0, "helpful", "Fast and right."),
    (-1.0, "wrong", "The order number was confused with another customer's."),
    (0.5, None, None),
)


class ExampleTraffic:
    """What happens at a stack with the demo's data. Runs go on until `stop`."""

    def __init__(self, found: Environment, http: httpx.AsyncClient) -> None:
        self._found, self._http = found, http
        self._open: list[asyncio.Task[Any]] = []

    async def start(self) -> str:
        """Make agents, chats, feedback, failures and runs that stay open; return a conversation's id."""
        shop = self._call(self._found.api_key, self._found.agent_id)
        policies = self._call(self._found.api_key, self._found.retrieval_agent_id)
        replies = [await self._talk(shop, *talk) for talk in _TALKS]
        for question in _POLICIES:
            await self._talk(policies, "CUST-002", question)
        for (score, label, comment), reply in zip(_RATINGS, replies, strict=False):
            given = {"score": score, "label": label, "comment": comment, "on_behalf_of": "support"}
            body = {name: value for name, value in given.items() if value is not None}
            await shop.send("POST", f"/v1/messages/{reply['trace_id']}/feedback", json=body)
        await self._make_failures()
        await self._open_runs()
        return str(replies[0]["conversation_id"])

    async def stop(self) -> None:
        """Stop the runs that are still open."""
        for each in self._open:
            each.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _make_failures(self) -> None:
        for model, question in (
            ("demo-echo?fail=400", "Can I change my delivery address?"),
            ("demo-load?fail=402", "Do you ship to Iceland?"),
            ("demo-echo?garbage_after=1", "Is the shop open on Sunday?"),
        ):
            failing = await self._make_agent("Night desk", model)
            await self._talk(failing, "CUST-007", question)

    async def _open_runs(self) -> None:
        slow = await self._make_agent("Order desk", "demo-load?deltas=4000&delay_ms=300")
        hanging = await self._make_agent("Returns desk", "demo-echo?hang_after=2&ping_ms=1000")
        held = await self._make_agent(
            "Back office",
            "demo-shop-1",
            mcp_servers=[
                {
                    "name": "shop",
                    "url": f"{self._found.mcp_base_url}/api/mcp",
                    "headers": {"Authorization": "Bearer any"},
                    "allowed_tools": list(_TOOLS),
                    "require_approval": "always",
                }
            ],
        )
        for caller, user, question in (
            (slow, "CUST-011", "Compare all winter jackets for me."),
            (slow, "CUST-012", "What do I need for a week in the Alps?"),
            (hanging, "CUST-013", "My parcel came back. What now?"),
            (held, "CUST-014", "Cancel ORD-1030, I ordered the wrong size."),
            (held, "CUST-015", "Where is ORD-1006?"),
        ):
            self._open.append(asyncio.create_task(self._talk(caller, user, question)))

    async def _make_agent(self, name: str, model: str, **settings: Any) -> Caller:
        body = {"account_id": demo.LOAD_ACCOUNT_ID, "name": name, "model": model, "provider_key": "offline"}
        response = await self._http.post(
            f"{self._found.base_url}/admin/v1/agents",
            json=body | settings,
            headers={"Authorization": f"Bearer {self._found.admin_token}"},
        )
        response.raise_for_status()
        return self._call(self._found.load_api_key, response.json()["id"])

    def _call(self, api_key: str, agent_id: str) -> Caller:
        return Caller(self._http, self._found.base_url, api_key, agent_id)

    async def _talk(self, caller: Caller, user: str, *messages: str) -> dict[str, Any]:
        """Return the last reply's body; an error has no ids."""
        body: dict[str, Any] = {}
        last: dict[str, Any] = {}
        for message in messages:
            with contextlib.suppress(httpx.TimeoutException):
                response = await self._http.post(
                    f"{caller.base_url}/v1/chat",
                    json={"message": message, **body},
                    headers={**caller.headers, "X-User-Id": user},
                )
                last = response.json() | {"trace_id": response.headers.get("x-trace-id", "")}
                body = {"conversation_id": last["conversation_id"]} if "conversation_id" in last else body
        return last
