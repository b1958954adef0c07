"""Conversations of all kinds with the demo's agents, and suites of their runs."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from agentchat.bus.bus import Bus
from agentchat.conversations.event_store.event_log import Log
from agentchat.evals.case_reader import CaseReader, load_suite_agent
from agentchat.evals.cases import write_cases
from agentchat.evals.suite import CASES, SETTINGS, Suite, read_suite, write_agent, write_file
from agentchat.ops import demo
from agentchat.ops.demo_env import Environment
from agentchat.runtime.postgres import Pool, open_pool
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller, events_of

_SECONDS = 60.0
_SMALL: dict[str, Any] = {"context_window": 1000, "at_share": 0.2, "keep_runs": 0}
"""A story fills that share."""
_MOVE = "Change the address of ORD-{} to Seeweg 14, 6020 Innsbruck"  # its country is asked for
_SHOP = (
    ("Where is my order ORD-{}?", "Cancel ORD-{} because it is a double", _MOVE),
    ("Where is my order ORD-{}?", "And what did it cost?", "Which products are like it?"),
    ("Find me a red mug and put two of them in my cart.", "And what was my first question?"),
    ("Where is order ORD-9{}?", "Tell me a story."),
    ("Cancel ORD-{} because it is a double", "What did I ask you?"),
    (_MOVE,),
)
_POLICIES = (
    ("How many days do I have to return an order?", "And who pays for it?"),
    ("What does delivery cost?", "How long is the warranty?"),
)
_LONG = (("Hi, my name is Ada.", "Tell me a story", "Thanks", "Tell me another story", "What is my name?"),)
Scripts = Sequence[Sequence[str]]


class Speaker:
    """Says the messages of scripts to an agent, and decides what its runs wait for: of three calls one is
    run with a changed reason, one as it is, and one is denied.
    """

    def __init__(self, caller: Caller, scripts: Scripts) -> None:
        self.caller = caller
        self.runs = 0
        self._scripts = itertools.cycle(scripts)
        self._orders = itertools.cycle(range(1001, 1040))
        self._decisions = itertools.cycle(("changed", "approved", "denied"))

    async def hold_conversation(self) -> str:
        """One conversation; its id."""
        order, conversation_id = next(self._orders), None
        for message in next(self._scripts):
            body: dict[str, Any] = {} if conversation_id is None else {"conversation_id": conversation_id}
            response = await self.caller.chat(message.format(order), **body)
            self.runs += 1
            if response.status_code == 409:
                conversation_id = await self._decide_all(response.json())
            else:
                assert response.status_code == 200, response.text
                conversation_id = response.json()["conversation_id"]
        assert conversation_id is not None
        return str(conversation_id)

    async def _decide_all(self, problem: dict[str, Any]) -> str:
        """Decide until the run has ended; its conversation's id."""
        trace_id, pending = problem["trace_id"], problem["approvals"]
        async with asyncio.timeout(_SECONDS):
            while pending:
                for each in pending:
                    await self._decide(each)
                events_ = await self._read(trace_id, {each["id"] for each in pending})
                pending = events_[-1].get("approvals", [])
        return str(events_[0]["conversation_id"])

    async def _decide(self, needed: dict[str, Any]) -> None:
        body: dict[str, Any] = {"decision": "approved"}
        if "elicitation" in needed:
            body["input"] = {"country": "AT"}
        else:
            match next(self._decisions):
                case "changed":
                    body["input"] = needed["input"] | {"reason": "by phone"}
                case "denied":
                    body = {"decision": "denied", "reason": "Not today."}
        path = f"/v1/approvals/{needed['id']}/decision"
        response = await self.caller.send("POST", path, json=body)
        assert response.status_code == 200, response.text

    async def _read(self, trace_id: str, decided: set[str]) -> list[dict[str, Any]]:
        """The run's stream, once it does not end with what was decided."""
        while True:
            response = await self.caller.send(
                "GET", f"/v1/chat/{trace_id}/events", headers={"X-Stream-Form": "2"}
            )
            found = [event async for event in events_of(response)]
            if {each["id"] for each in found[-1].get("approvals", ())} != decided:
                return found
            await asyncio.sleep(0.05)


async def make_speakers(environment: Environment, http: httpx.AsyncClient) -> dict[str, Speaker]:
    """By the name of the suite: tools and approvals by both providers, retrieval, summaries of both kinds."""

    admin = AdminClient(http, environment.base_url, environment.admin_token)
    common = {"account_id": demo.LOAD_ACCOUNT_ID, "model": "demo-shop-1", "provider_key": "offline"}

    async def make_caller(name: str, **settings: Any) -> Caller:
        made = await admin.post("/agents", common | {"name": name} | settings)
        return Caller(http, environment.base_url, environment.load_api_key, made["id"])

    def call_agent(agent_id: str) -> Caller:
        return Caller(http, environment.base_url, environment.api_key, agent_id)

    return {
        "anthropic": Speaker(call_agent(environment.agent_id), _SHOP),
        "openai": Speaker(call_agent(environment.openai_agent_id), _SHOP),
        "retrieval": Speaker(call_agent(environment.retrieval_agent_id), _POLICIES),
        "own-summary": Speaker(await make_caller("Own", compaction=_SMALL, provider="openai"), _LONG),
        "provider-summary": Speaker(
            await make_caller("Provider", compaction=_SMALL | {"by": "provider"}), _LONG
        ),
    }


async def make_suite(
    pool: Pool, bus: Bus, folder: Path, agent_id: str, conversations: Sequence[str]
) -> Suite:
    """The runs of these conversations, as the log has them."""
    log = Log(pool)
    runs = [
        (run.trace_id, each) for each in conversations for run in (await log.load_conversation(each)).runs
    ]
    account_id = (await log.load_conversation(conversations[0])).account_id or ""
    agent = await load_suite_agent(pool, account_id, agent_id)
    folder.mkdir(parents=True)  # noqa: ASYNC240 - of a test
    write_file(folder / SETTINGS, f"agent: {agent.agent_id}\naccount: {account_id}\n".encode())
    write_agent(folder, agent)
    reader = CaseReader(pool, bus.rpc, agent, ())
    write_cases(folder / CASES, [await reader.read(each, trace_id) for trace_id, each in runs])
    return read_suite(folder)


async def record_suites(stack: RunningStack, http: httpx.AsyncClient, folder: Path, runs: int) -> list[Suite]:
    """Converse until each kind has its share of so many runs; a suite of each kind."""
    found, suites = stack.environment, []
    made = await make_speakers(found, http)
    async with (
        open_pool(found.database_url, role=None) as pool,
        Bus.connect(found.nats_url, name="tests") as bus,
    ):
        for name, speaker in made.items():
            conversations = []
            while speaker.runs < max(1, runs // len(made)):
                conversations.append(await speaker.hold_conversation())
            suites.append(await make_suite(pool, bus, folder / name, speaker.caller.agent_id, conversations))
    return suites
