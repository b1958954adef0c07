"""`python -m tests.chaos.run cells`: an account is moved between two whole systems while it is used.

Two stacks, the router in front of them, and clients of one account that go on with their conversations, in
JSON and in streams, and repeat what is refused with 503. Then every message has to be in its conversation
once, with one reply, in the other cell.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from ops import folder_secrets
from ops.ports import Ports
from ops.servers.postgres_server import Cluster
from tests.chaos.recording import on_a_stack
from tests.chaos.report import Outcome
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack, start_stack

OPTIONS: dict[str, object] = {"clients": 12, "aside": 8.0, "history": 200}
_SECONDS = 300.0


class Result(msgspec.Struct, kw_only=True):
    """`pauses` are of each client, in seconds: the longest between two replies. `moved` is what the command
    printed; `answers` counts statuses, and `wrong` is what may not be.
    """

    moved: dict[str, Any] = {}
    messages: int = 0
    after: int = 0
    pauses: list[float] = []
    answers: dict[str, int] = {}
    wrong: list[str] = []

    def text(self) -> str:
        return (
            f"{self.messages} messages, {self.after} of them after the move; answers: {self.answers}\n"
            f"moved: {self.moved}\nlongest pause of a client: {max(self.pauses, default=0):.1f} s"
        )


class Talker:
    """One client with a conversation of its own."""

    def __init__(self, http: httpx.AsyncClient, url: str, headers: dict[str, str], number: int) -> None:
        self.conversation_id: str | None = None
        self.asked: list[str] = []
        self.pause = 0.0
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._http = http
        self._url = url
        self._headers = headers
        self._number = number

    async def run(self, stop: asyncio.Event) -> None:
        last = time.monotonic()
        while not stop.is_set():
            await self._say(f"[{self._number}-{len(self.asked)}] Where is order ORD-1001?")
            self.pause = max(self.pause, time.monotonic() - last)
            last = time.monotonic()

    async def _say(self, message: str) -> None:
        """Until it is answered: a 503 says when to ask again, under the same key."""
        self.asked.append(message)
        while True:
            answer = await self._try(message)
            self.answers[str(answer.status_code)] += 1
            if answer.status_code != 503 or "retry-after" not in answer.headers:
                break
            await asyncio.sleep(float(answer.headers["retry-after"]))
        if answer.status_code != 200:
            self.wrong.append(f"{message}: {answer.status_code} {answer.text[:300]}")
            return
        found = _last(answer)
        if found.get("type", "done") != "done":
            self.wrong.append(f"{message}: {found}")
        self.conversation_id = found.get("conversation_id", self.conversation_id)

    async def _try(self, message: str) -> httpx.Response:
        path = "/v1/chat/stream" if len(self.asked) % 2 else "/v1/chat"
        body = {"message": message, "conversation_id": self.conversation_id}
        key = {"Idempotency-Key": f"{self._number}-{len(self.asked)}"}
        sent = {name: value for name, value in body.items() if value}
        return await self._http.post(f"{self._url}{path}", json=sent, headers=self._headers | key)

    async def check(self) -> None:
        """Each message is there once, in its order, and has one reply."""
        data: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self._http.get(
                f"{self._url}/v1/conversations/{self.conversation_id}/messages",
                headers=self._headers,
                params={"limit": 100, "cursor": cursor},
            )
            data += page.json()["data"]
            cursor = page.json()["next_cursor"]
        users = [each["content"] for each in data if each["role"] == "user"]
        if users != self.asked or len(data) != 2 * len(users):
            self.wrong.append(f"client {self._number}: asked {self.asked}, stored {users} of {len(data)}")


def _last(answer: httpx.Response) -> dict[str, Any]:
    """The JSON reply, or a stream's last event."""
    if answer.headers["content-type"] != "text/event-stream":
        found: dict[str, Any] = answer.json()
        return found
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    event: dict[str, Any] = json.loads(lines[-1][len("data: ") :])
    return event


async def _moved(given: argparse.Namespace, folder: Path) -> Result:
    result = Result()
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
        first = await stack.enter_async_context(_stack(folder.with_name("a"), {}))
        sealed_by = folder_secrets.keep(first.folder.secrets).secret_key
        known = {"AGENTCHAT_SECRET_KEY_PREVIOUS": sealed_by}
        cells = {"a": first, "b": await stack.enter_async_context(_stack(folder.with_name("b"), known))}
        url = await stack.enter_async_context(_router(cells))
        admin = AdminClient(http, cells["a"].environment.base_url, cells["a"].environment.admin_token)
        account, headers = await _account(admin)
        talkers = [Talker(http, url, headers, number) for number in range(given.clients)]
        await asyncio.gather(*(_history(http, url, headers, given.history // 10) for _ in range(10)))
        stop = asyncio.Event()
        talking = [asyncio.create_task(each.run(stop)) for each in talkers]
        await asyncio.sleep(given.aside)
        moving = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ops.main", "move", account, "--to", "b", "--json"),
            env=_owners(cells),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await moving.communicate()
        if moving.returncode == 0:
            result.moved = msgspec.json.decode(printed)
        else:
            result.wrong.append(f"the move ended with code {moving.returncode}")
        before = sum(len(each.asked) for each in talkers)
        await asyncio.sleep(given.aside)
        stop.set()
        async with asyncio.timeout(_SECONDS):
            await asyncio.gather(*talking)
            for each in talkers:
                await each.check()
        result.messages = sum(len(each.asked) for each in talkers)
        result.after = result.messages - before
        result.pauses = [round(each.pause, 1) for each in talkers]
        result.answers = dict(sum((each.answers for each in talkers), Counter[str]()))
        result.wrong += [line for each in talkers for line in each.wrong]
    return result


async def _history(http: httpx.AsyncClient, url: str, headers: dict[str, str], count: int) -> None:
    """Conversations that are moved and not gone on with."""
    for _ in range(count):
        answer = await http.post(f"{url}/v1/chat", json={"message": "Hello"}, headers=headers)
        assert answer.status_code == 200, answer.text


async def _account(admin: AdminClient) -> tuple[str, dict[str, str]]:
    account: str = (await admin.post("/accounts", {"name": "Moves", "plan": "Unlimited"}))["id"]
    key = (await admin.post(f"/accounts/{account}/keys", {"name": ""}))["key"]
    wanted = {"account_id": account, "name": "Shop", "model": "demo-shop-1", "provider_key": "offline"}
    agent = (await admin.post("/agents", wanted))["id"]
    return account, {"X-Api-Key": key, "X-Agent-Id": agent}


@contextlib.asynccontextmanager
async def _stack(folder: Path, environ: dict[str, str]) -> AsyncIterator[RunningStack]:
    own = {"AGENTCHAT_TRUSTED_PROXIES": "127.0.0.1"} | environ
    running = start_stack(folder, environ=own, forked=True)
    try:
        await running.wait_up()
        yield running
    finally:
        await running.stop()


@contextlib.asynccontextmanager
async def _router(cells: dict[str, RunningStack]) -> AsyncIterator[str]:
    with contextlib.closing(Ports()) as ports:
        port = ports.free()
    addresses = ",".join(f"{name}={each.environment.base_url}" for name, each in cells.items())
    env = os.environ | {
        "AGENTCHAT_CELLS": addresses,
        "AGENTCHAT_PORT": str(port),
        "AGENTCHAT_LOG_LEVEL": "error",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gateway.cells", env=env)
    try:
        async with asyncio.timeout(30), httpx.AsyncClient(trust_env=False) as http:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    await http.get(f"http://127.0.0.1:{port}/readyz")
                    break
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


def _owners(cells: dict[str, RunningStack]) -> dict[str, str]:
    """What the command reads: the owners of both databases, and the keys of the second cell."""
    kept = {name: folder_secrets.keep(each.folder.secrets) for name, each in cells.items()}
    urls = {
        name: Cluster(each.folder, kept[name].servers_key).url(
            urlsplit(each.environment.database_url).port or 0
        )
        for name, each in cells.items()
    }
    return os.environ | {
        "AGENTCHAT_DATABASE_URL": urls["a"],
        "AGENTCHAT_TARGET_DATABASE_URL": urls["b"],
        "AGENTCHAT_SECRET_KEY": kept["b"].secret_key,
        "AGENTCHAT_SECRET_KEY_PREVIOUS": kept["a"].secret_key,
    }


def run(given: argparse.Namespace) -> Outcome:
    """It has failed where a message is lost or answered twice, or a client gets another error than 503."""
    result = on_a_stack(partial(_moved, given))
    lacking = ["nothing was said after the move"] if result.after < given.clients else []
    return Outcome(
        name=f"cells-{given.clients}",
        text="\n".join((result.text(), *result.wrong)),
        failed=bool(result.wrong),
        invalid=[] if result.wrong else lacking,
        files={"cells": result},
    )
