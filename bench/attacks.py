"""What one account may do at its worst: one row each, run in a process of its own next to what is measured.

`python -m bench.attacks NAME` reads an `Attacked` as JSON and goes on until it is ended.
"""

import asyncio
import itertools
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx
import msgspec
import uvloop

FAST = "lean?deltas=15000&apart=1"
HISTORY_CHARACTERS = 900_000
_REFUSED_SECONDS = 0.2


class Attacked(msgspec.Struct, frozen=True, kw_only=True):
    """The stack, and what was prepared: `long` conversations of the attacker, `trace`: a run in pieces,
    `large` conversations of almost 64 MiB, `longest`: one of 300,000 events.

    `agents` and `keys` by account: load, Starter, Pro. Those of the last two have their own model server.
    """

    url: str
    keys: dict[str, str]
    agents: dict[str, str]
    long: list[str]
    trace: str
    large: list[str]
    longest: list[str]


class Attacker:
    def __init__(self, attacked: Attacked, http: httpx.AsyncClient) -> None:
        self.attacked = attacked
        self._http = http

    async def send(
        self, method: str, path: str, body: Any = None, *, account: str = "load", **headers: str
    ) -> httpx.Response:
        sent = {"X-Api-Key": self.attacked.keys[account], "X-Agent-Id": self.attacked.agents[account]}
        if path.startswith("/openai/"):
            sent = {"Authorization": f"Bearer {self.attacked.keys[account]}"}
        answer = await self._http.request(method, path, json=body, headers=sent | headers)
        if answer.status_code in (404, 409, 429, 503):
            await asyncio.sleep(_REFUSED_SECONDS)
        return answer

    async def again(self, at_once: int, one: Callable[[], Awaitable[object]]) -> None:

        async def go_on() -> None:
            while True:
                await one()

        await asyncio.gather(*(go_on() for _ in range(at_once)))


def _chats(account: str, at_once: int) -> Callable[[Attacker], Awaitable[None]]:
    async def attack(by: Attacker) -> None:
        await by.again(
            at_once, lambda: by.send("POST", "/v1/chat/stream", {"message": "Go."}, account=account)
        )

    return attack


def _forks(at_once: int) -> Callable[[Attacker], Awaitable[None]]:
    async def attack(by: Attacker) -> None:
        path = f"/v1/conversations/{by.attacked.long[0]}/fork"
        await by.again(at_once, lambda: by.send("POST", path, {}))

    return attack


async def _chained(by: Attacker) -> None:
    agent = by.attacked.agents["load"]
    first = {"model": agent, "input": "Go.", "conversation": by.attacked.long[0]}
    made = (await by.send("POST", "/openai/v1/responses", first)).json().get("id")
    again = {"model": agent, "input": "Go on.", "previous_response_id": made}
    await by.again(4, lambda: by.send("POST", "/openai/v1/responses", again))


def _deletions(of: Callable[[Attacked], list[str]]) -> Callable[[Attacker], Awaitable[None]]:
    async def attack(by: Attacker) -> None:
        for each in of(by.attacked):
            await by.send("DELETE", f"/v1/conversations/{each}")
        await asyncio.Event().wait()

    return attack


async def _loads(by: Attacker) -> None:
    """In turn, as a worker caches one or two of them; without a call of the model."""
    turns = itertools.cycle(by.attacked.large)

    async def describe() -> None:
        await by.send("PATCH", f"/v1/conversations/{next(turns)}", {"title": secrets.token_hex(20)})

    await by.again(3, describe)


async def _described(by: Attacker) -> None:
    path = f"/v1/conversations/{by.attacked.long[0]}"

    async def describe() -> None:
        fields = {f"field {number}": secrets.token_hex(200) for number in range(16)}
        await by.send("PATCH", path, {"title": secrets.token_hex(50), "metadata": fields})
        await by.send("GET", f"{path}/messages")

    await by.again(8, describe)


async def _read_again(by: Attacker) -> None:
    await by.again(4, lambda: by.send("GET", f"/v1/chat/{by.attacked.trace}/events"))


async def _document(by: Attacker) -> None:
    await by.again(4, lambda: by.send("GET", f"/openai/v1/responses/resp_{by.attacked.trace}"))


async def _tokens(by: Attacker) -> None:
    def wrong() -> Awaitable[object]:
        return by.send("GET", "/admin/v1/accounts", Authorization=f"Bearer {secrets.token_hex(16)}")

    await by.again(16, wrong)


def _histories(protocol: str) -> Callable[[Attacker], Awaitable[None]]:
    async def attack(by: Attacker) -> None:
        path, body = _HISTORY[protocol]
        agent = by.attacked.agents["load"]
        await by.again(4, lambda: by.send("POST", path.format(agent=agent), body(agent)))

    return attack


def _turns() -> list[tuple[str, str]]:
    """Of the user and the assistant in turn, the last one the user's."""
    texts = ["x" * 1000] * (HISTORY_CHARACTERS // 1000 | 1)
    return [("assistant" if place % 2 else "user", text) for place, text in enumerate(texts)]


def _openai(agent: str) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in _turns()]
    return {"model": agent, "messages": messages, "user": f"{uuid4()}"}


def _responses(agent: str) -> dict[str, Any]:
    return {"model": agent, "input": [{"role": role, "content": text} for role, text in _turns()]}


def _ai_sdk(_: str) -> dict[str, Any]:
    messages = [
        {"id": f"m{place}", "role": role, "parts": [{"type": "text", "text": text}]}
        for place, (role, text) in enumerate(_turns())
    ]
    return {"id": f"{uuid4()}", "messages": messages}


def _ag_ui(_: str) -> dict[str, Any]:
    messages = [
        {"id": f"m{place}", "role": role, "content": text} for place, (role, text) in enumerate(_turns())
    ]
    return {"threadId": f"{uuid4()}", "runId": f"{uuid4()}", "messages": messages}


_HISTORY: Mapping[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "OpenAI chat": ("/openai/v1/chat/completions", _openai),
    "OpenAI responses": ("/openai/v1/responses", _responses),
    "AI SDK": ("/ai-sdk/v1/agents/{agent}/chat", _ai_sdk),
    "AG-UI": ("/ag-ui/v1/agents/{agent}", _ag_ui),
}

ATTACKS: Mapping[str, Callable[[Attacker], Awaitable[None]]] = {
    "fast model server, Starter": _chats("Starter", 2),
    "fast model server, Pro": _chats("Pro", 20),
    "run in 750,000 pieces, events": _read_again,
    "run in 750,000 pieces, document": _document,
    "wrong admin tokens": _tokens,
    "PATCH and load, 8 at once": _described,
    "loads of conversations of 64 MiB": _loads,
    "4 forks at once": _forks(4),
    "8 forks at once": _forks(8),
    "old previous_response_id, 4 at once": _chained,
    **{f"history of 900 KB, {protocol}": _histories(protocol) for protocol in _HISTORY},
    "deletions": _deletions(lambda attacked: attacked.long[1:]),
    "deletion of 300,000 events": _deletions(lambda attacked: attacked.longest),
}
"""Those that leave least behind come first. Webhooks at slow name servers are not among them: the system's
resolver asks the name server of the machine, which cannot be replaced on loopback without its configuration.
"""


async def _attack(name: str) -> None:
    attacked = msgspec.json.decode(sys.stdin.buffer.read(), type=Attacked)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=attacked.url, timeout=120, limits=limits) as http:
        await ATTACKS[name](Attacker(attacked, http))


if __name__ == "__main__":
    uvloop.run(_attack(sys.argv[1]))
