"""Planted secrets, used in every way in which they are used, are nowhere that anything is kept or sent."""

import asyncio
import json
import secrets
from typing import Any

import httpx
import psycopg
import pytest

from agentchat.ops import demo
from agentchat.ops.folder_secrets import load_or_create_secrets
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller
from tests.system.collector import Collector
from tests.system.indiscreet import TOOLS, Indiscreet
from tests.system.scanning import TERMINAL, files_holding, places_of
from tests.system.test_approvals import decide, reply_of

SAID = f"The word is {secrets.token_hex(8)}"
"""What is to be found, so that the search is known to look there."""


class Planted:
    """The secrets of this test, by what they are. None looks like a key, which a log would strike out."""

    def __init__(self, stack: RunningStack) -> None:
        kept, word = load_or_create_secrets(stack.folder.secrets), secrets.token_hex
        self.provider_key = f"provider-{word(12)}"
        self.bearer = f"bearer-{word(12)}"
        self.header = f"header-{word(12)}"
        self.session = f"session-{word(12)}"
        self.customer = f"customer-{word(12)}"
        self.guess = f"guess-{word(12)}"
        self.issued: list[str] = []
        self.running = [
            *(kept.secret_key, kept.admin_token, kept.servers_key),
            *(kept.api_key, kept.starter_api_key, kept.load_api_key),
        ]

    def all(self) -> list[str]:
        own = [
            *(self.provider_key, self.bearer, self.header, self.session, self.customer),
            self.guess,
        ]
        return [*own, *self.issued, *self.running]


class Plant:
    """Makes agents that hold the secrets, and keeps what callers get to see."""

    def __init__(
        self, stack: RunningStack, http: httpx.AsyncClient, planted: Planted, servers: Indiscreet
    ) -> None:
        self.stack = stack
        self.http = http
        self._admin_api = AdminClient(http, stack.environment.base_url, stack.environment.admin_token)
        self.planted = planted
        self.seen: list[str] = []
        self.traces: list[str] = []
        self._urls = {"indiscreet": servers.url, "refusing": servers.refusing_url}

    async def agent(self, model: str, *, asks: bool = False) -> Caller:
        """An agent with a key of its own, whose servers get headers of all kinds, one from the request."""
        headers = {
            "Authorization": f"Bearer {self.planted.bearer}",
            "X-Api-Key": self.planted.header,
            "Cookie": f"session={self.planted.session}; theme=dark",
        }
        server = {
            "headers": headers,
            "headers_from_request": {"X-Customer": "customer"},
            "require_approval": "always" if asks else "never",
        }
        servers = [{"name": name, "url": url, **server} for name, url in self._urls.items()]
        made = await self.admin(
            "POST",
            "/agents",
            account_id=demo.LOAD_ACCOUNT_ID,
            name="Planted",
            model=model,
            provider_key=self.planted.provider_key,
            mcp_servers=servers,
        )
        # These two answers alone show a key.
        issued = [await self._admin_api.post(f"/accounts/{demo.LOAD_ACCOUNT_ID}/keys", {"name": "planted"})]
        issued.append(await self._admin_api.post(f"/keys/{issued[0]['id']}/rotate", status=200))
        self.planted.issued += [one["key"] for one in issued]
        return Caller(self.http, self.stack.environment.base_url, issued[1]["key"], made["id"])

    async def admin(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        """The admin API; what it answers is seen too."""
        response = await self._admin_api.send(method, path, body or None)
        assert response.is_success, response.text
        self.saw(response)
        answer: dict[str, Any] = response.json()
        return answer

    async def ask(self, caller: Caller, message: str) -> list[dict[str, Any]]:
        """By each of the ways to ask; returns the events of form 2."""
        given = {"customer": self.planted.customer}
        answer = await caller.chat(message, secrets=given)
        first = await caller.stream(message, form=1, secrets=given)
        second = await caller.stream(message, form=2, secrets=given)
        self.saw(answer)
        self.traces.append(answer.headers["X-Trace-Id"])
        self.seen.append(json.dumps([first, second]))
        conversation = answer.json().get("conversation_id")
        if conversation:
            self.seen.append(json.dumps(await caller.messages(conversation)))
        return second

    def saw(self, response: httpx.Response) -> None:
        self.seen.append(f"{response.headers} {response.text}")


@pytest.fixture
def planted_secrets(stack: RunningStack) -> Planted:
    return Planted(stack)


@pytest.fixture
def plant(
    stack: RunningStack, http: httpx.AsyncClient, planted_secrets: Planted, leaky_server: Indiscreet
) -> Plant:
    return Plant(stack, http, planted_secrets, leaky_server)


async def test_planted_secrets_are_nowhere(
    plant: Plant, planted_secrets: Planted, leaky_server: Indiscreet, spans: Collector
) -> None:
    called = ",".join(TOOLS)
    events = await plant.ask(await plant.agent(f"demo-echo?tool={called}"), SAID)
    assert set(leaky_server.called) == set(TOOLS)
    heard = " ".join(leaky_server.heard)
    assert planted_secrets.bearer in heard, "the server did get its credentials"
    others = (*planted_secrets.issued, *planted_secrets.running, planted_secrets.provider_key)
    assert [key for key in others if key in heard] == [], "and no key that is not for it"
    outputs = {call["name"]: call["output"] for call in events[-1]["tool_calls"] if call["is_error"]}
    assert outputs.keys() == {*TOOLS} - {"result"}
    for quoted in ("You sent", "not with", "Traceback"):
        assert quoted not in str(outputs), "what a server says of an error is for the model"
    assert "not accepted: " in _read_logs(plant.stack, "orchestrator"), "what a server refuses is logged"
    for status in (400, 401, 403, 500):
        await plant.ask(await plant.agent(f"demo-echo?fail={status}"), SAID)
    await _administer(plant, planted_secrets)
    await _knock(plant, planted_secrets)
    await _look_everywhere(plant.stack, planted_secrets, plant.seen)
    await asyncio.to_thread(spans.spans_of, plant.traces[0], {"gateway", "orchestrator", "tool-runner"})
    exported = spans.everything()
    assert demo.LOAD_ACCOUNT_ID in exported
    assert [secret for secret in (*planted_secrets.all(), SAID) if secret in exported] == []


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_requests_secrets_survive_an_approval_and_a_kill(
    plant: Plant, planted_secrets: Planted, leaky_server: Indiscreet, is_killed: bool
) -> None:
    caller, stack = await plant.agent("demo-echo?tool=result", asks=True), plant.stack
    waiting = await caller.chat(SAID, secrets={"customer": planted_secrets.customer})
    trace_id, approvals = waiting.headers["X-Trace-Id"], waiting.json()["approvals"]
    kept = "SELECT sealed FROM run_secrets WHERE trace_id = %s"
    async with await psycopg.AsyncConnection.connect(stack.environment.database_url, autocommit=True) as conn:
        (sealed,) = await (await conn.execute(kept, [trace_id])).fetchall()
        assert planted_secrets.customer.encode() not in sealed[0]
        if is_killed:
            stack.kill("orchestrator-1")
            stack.kill("orchestrator-2")
            await stack.wait_all_ready()
        assert (await decide(caller, approvals[0]["id"])).status_code == 200
        plant.seen.append((await reply_of(caller, trace_id)).decode())
        assert await (await conn.execute(kept, [trace_id])).fetchall() == []
    assert planted_secrets.customer in " ".join(leaky_server.heard)
    assert planted_secrets.customer not in " ".join(plant.seen)
    found = await places_of(stack, [planted_secrets.customer])
    assert found == {planted_secrets.customer: []}


def _read_logs(stack: RunningStack, service: str) -> str:
    return "".join(path.read_text() for path in stack.folder.logs.glob(f"{service}*"))


async def _administer(plant: Plant, planted: Planted) -> None:
    """What an administrator does with secrets, and where one would look for them."""
    caller = await plant.agent("demo-echo")
    agent = f"/agents/{caller.headers['X-Agent-Id']}"
    changed = {"provider_key": f"{planted.provider_key}", "name": "Planted again"}
    await plant.admin("PATCH", agent, **changed)
    for path in (
        agent,
        f"{agent}/versions",
        f"{agent}/versions/1",
        f"{agent}/mcp_servers/indiscreet",
        "/audit",
    ):
        await plant.admin("GET", path)
    await plant.admin("POST", f"{agent}/versions/1/restore")
    await plant.admin("POST", f"{agent}/check")
    await plant.admin("GET", f"/accounts/{demo.LOAD_ACCOUNT_ID}/keys")


async def _knock(plant: Plant, planted: Planted) -> None:
    """Secrets where they do not belong: guessed keys, and the admin's token at the customers' API."""
    found = plant.stack.environment
    for secret in (planted.guess, f"sk-ac-{planted.guess}", found.admin_token):
        ways: list[dict[str, Any]] = [
            {"headers": {"X-Api-Key": secret}},
            {"headers": {"Authorization": f"Bearer {secret}"}},
            {"headers": {"Cookie": f"key={secret}"}},
            {"params": {"api_key": secret}},
        ]
        # The answer quotes the unknown name to its sender; nothing else may have it.
        named = {"X-Agent-Id": secret, "X-Api-Key": found.load_api_key}
        refused = await plant.http.post(f"{found.base_url}/v1/chat", json={"message": "x"}, headers=named)
        assert refused.status_code == 404
        for more in ways:
            plant.saw(await plant.http.get(f"{found.base_url}/v1/conversations", **more))
            plant.saw(await plant.http.post(f"{found.base_url}/v1/chat", json={"message": "x"}, **more))


async def _look_everywhere(stack: RunningStack, planted: Planted, seen: list[str]) -> None:
    found = await places_of(stack, [*planted.all(), SAID, demo.LOAD_ACCOUNT_ID])
    said = found.pop(SAID)
    assert not [place for place in said if place.startswith(("log", "redis", "arguments"))]
    looked_at = " ".join(said + found.pop(demo.LOAD_ACCOUNT_ID))
    for place in (
        "table public.",
        "stream EVENTS",
        "stream TRACES",
        "redis",
        "log gateway-1",
        "log orchestrator",
    ):
        assert place in looked_at
    assert found.pop(stack.environment.api_key) == [TERMINAL], "in the curl to paste, nowhere else"
    assert [places for places in found.values() if places] == []
    for folder in (stack.folder.nats, stack.folder.valkey, stack.folder.postgres):
        assert (
            files_holding(folder, [secret for secret in planted.all() if secret not in planted.running]) == []
        )
    assert files_holding(stack.folder.nats, planted.running) == []
    assert files_holding(stack.folder.nats, [SAID]), "the store is written as it is"
    assert [secret for secret in planted.all() if secret in " ".join(seen)] == []
