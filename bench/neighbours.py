"""Another account's short chats and reads while one account attacks.

For each of `bench.attacks`: p50 and p99 idle, and then next to it. The goal is that they are 20 ms apart at
most; it is reported and not asserted. Ten minutes for all of them.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import httpx
import msgspec

from bench import histories
from bench.attacks import ATTACKS, FAST, Attacked
from bench.client import Connection, request
from bench.load import share
from bench.measured_systems import Service, service, settled
from bench.processes import ROOT, Started, lean_upstream
from bench.report import AddRow
from bench.scenarios import SHORT

GOAL_MS = 20.0
_LONG_MESSAGES = 4_000
_LONG = 4
_LARGE = 3
_LARGE_MESSAGES = 2_000
_LARGE_TEXT = histories.TEXT * 200
"""Three times in every two messages: 56 MiB."""
_LONGEST_MESSAGES = 120_000
_PREPARED_SECONDS = 900.0
_PIECES = 125_000
_ROUNDS = 6
_EVERY_SECONDS = 0.05
_TITLE = "another account's, idle → during the attack, in ms"
_COLUMNS = ("one account's", "chat p50", "chat p99", "read p50", "read p99", "apart", "≤ 20", "failed")

Times = dict[str, list[float]]
"""Seconds of chats and of reads."""


class Neighbour:
    """An account of its own that chats and reads, one request each 50 ms in turn."""

    def __init__(self, url: str, key: str, agent: str, http: httpx.AsyncClient) -> None:
        self._url, self._http = url, http
        self._headers = {"X-Api-Key": key, "X-Agent-Id": agent, "X-Stream-Form": "1"}
        self._conversation = ""
        self.failed = 0

    async def begin(self) -> None:
        answer = await self._http.post(f"{self._url}/v1/chat", json={"message": "Go."}, headers=self._headers)
        self._conversation = answer.raise_for_status().json()["conversation_id"]

    async def measure(self, seconds: float) -> Times:
        """One after the other, so long."""
        url = f"{self._url}/v1/chat/stream"
        asked, connection = request(url, self._headers, {"message": "Go."}), await Connection.to(url)
        times: Times = {"chat": [], "read": []}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reply = await connection.ask(asked)
            times["chat"].append(reply.ended - reply.began)
            if reply.failed:
                self.failed += 1
                connection.close()
                connection = await Connection.to(url)
            began = time.perf_counter()
            answer = await self._http.get(
                f"{self._url}/v1/conversations/{self._conversation}", headers=self._headers
            )
            times["read"].append(time.perf_counter() - began)
            self.failed += answer.status_code != 200
            await asyncio.sleep(_EVERY_SECONDS)
        connection.close()
        return times


async def _account(
    http: httpx.AsyncClient, subject: Service, plan: str, model: str, upstream: Started | None
) -> tuple[str, str]:
    """A new account's key and its agent, which has a model server of its own where `upstream` is given."""
    found = subject.environment
    admin = {"Authorization": f"Bearer {found.admin_token}"}

    async def post(path: str, body: dict[str, object]) -> dict[str, str]:
        answer = await http.post(f"{found.base_url}/admin/v1{path}", json=body, headers=admin)
        made: dict[str, str] = answer.raise_for_status().json()
        return made

    account = (await post("/accounts", {"name": f"Bench {plan}", "plan": plan}))["id"]
    key = (await post(f"/accounts/{account}/keys", {"name": "bench"}))["key"]
    agent: dict[str, object] = {"account_id": account, "name": "Bench", "model": model}
    if upstream is not None:
        agent |= {"base_url": upstream.url, "provider_key": "lean"}
    return key, (await post("/agents", agent))["id"]


async def _prepared(
    http: httpx.AsyncClient, subject: Service, upstream: Started, names: list[str]
) -> Attacked:
    found = subject.environment
    starter = await _account(http, subject, "Starter", FAST, upstream)
    pro = await _account(http, subject, "Pro", FAST, upstream)
    wanted, owner = " ".join(names), subject.owner_url
    trace = (
        await asyncio.to_thread(histories.in_pieces, owner, _ROUNDS, _PIECES) if "pieces" in wanted else ""
    )
    large = _LARGE if "64 MiB" in wanted else 0
    larges = await asyncio.to_thread(histories.fill, owner, large, _LARGE_MESSAGES, _LARGE_TEXT)
    longest = int("300,000" in wanted)
    longests = await asyncio.to_thread(histories.fill, owner, longest, _LONGEST_MESSAGES)
    long = await asyncio.to_thread(histories.fill, owner, _LONG, _LONG_MESSAGES)
    await settled(found.database_url, _PREPARED_SECONDS)
    return Attacked(
        url=found.base_url,
        keys={"load": found.load_api_key, "Starter": starter[0], "Pro": pro[0]},
        agents={"load": found.load_agent_id, "Starter": starter[1], "Pro": pro[1]},
        long=long,
        trace=trace,
        large=larges,
        longest=longests,
    )


@contextlib.asynccontextmanager
async def _attacking(name: str, attacked: Attacked) -> AsyncIterator[None]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.attacks", name), cwd=ROOT, stdin=pipe
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(attacked))
    process.stdin.write_eof()
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _row(name: str, idle: Times, during: Times, failed: int) -> tuple[str, ...]:
    cells = [name]
    apart = 0.0
    for kind in ("chat", "read"):
        before, after = sorted(idle[kind]), sorted(during[kind])
        for part in (0.5, 0.99):
            cells.append(f"{share(before, part) * 1e3:.0f} → {share(after, part) * 1e3:.0f}")
            apart = max(apart, (share(after, part) - share(before, part)) * 1e3)
    return (*cells, f"{apart:.0f}", "yes" if apart <= GOAL_MS else "no", f"{failed}")


async def measure(add: AddRow, only: str, seconds: float) -> None:
    """Each attack whose name contains `only`, in `seconds` idle and as long during the attack."""
    names = [name for name in ATTACKS if only in name]
    async with (
        lean_upstream() as upstream,
        service(upstream, (SHORT,)) as subject,
        httpx.AsyncClient(timeout=60) as http,
    ):
        attacked = await _prepared(http, subject, upstream, names)
        key, agent = await _account(http, subject, "Unlimited", SHORT, None)
        neighbour = Neighbour(subject.environment.base_url, key, agent, http)
        await neighbour.begin()
        await neighbour.measure(2.0)  # code that nothing has run yet
        for name in names:
            with contextlib.suppress(TimeoutError):
                await settled(subject.environment.database_url, 20.0)
            idle, neighbour.failed = await neighbour.measure(seconds), 0
            async with _attacking(name, attacked):
                await asyncio.sleep(1.5)  # until it has begun
                during = await neighbour.measure(seconds)
            add(_TITLE, _COLUMNS, *_row(name, idle, during, neighbour.failed))
