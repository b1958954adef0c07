"""A chat on the running stack is judged by the service `judge`, and its scores go with the conversation."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from directory.live_judging import LiveJudging
from tests.harness import RunningStack
from tests.system.calling import MakeAgent

_EVALUATORS: tuple[dict[str, Any], ...] = (
    {"name": "length", "at_least": 1},
    {"name": "contains", "label": "zebras", "text": "zebra"},
    {"name": "rubric", "rubric": "It is polite."},
)


async def test_a_chat_is_judged_and_erased_with_its_conversation(
    stack: RunningStack, http: httpx.AsyncClient, make_agent: MakeAgent
) -> None:
    judging = LiveJudging(share=1, evaluators=_EVALUATORS, tokens_per_day=10_000)
    caller = await make_agent("demo-shop-1", judging=judging)
    admin: dict[str, Any] = {"headers": {"Authorization": f"Bearer {stack.environment.admin_token}"}}
    address = f"{caller.base_url}/admin/v1/agents/{caller.agent_id}"

    async def scores(hold: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        async with asyncio.timeout(60):
            while True:
                found: list[dict[str, Any]] = (await http.get(f"{address}/scores", **admin)).json()["data"]
                if hold(found):
                    return found
                await asyncio.sleep(0.2)

    reply = (await caller.chat("Hello")).json()
    found = {each["evaluator"]: each for each in await scores(lambda found: len(found) == 4)}
    assert (found["completed"]["passed"], found["length"]["passed"], found["zebras"]["passed"]) == (1, 1, 0)
    assert (found["rubric"]["judged"], found["rubric"]["unjudged"]) == (1, 0)

    assert (await caller.delete(reply["conversation_id"])).status_code == 204
    await scores(lambda found: not found)
    gone = await http.delete(address, params={"force": True}, **admin)
    assert gone.status_code == 204, gone.text
