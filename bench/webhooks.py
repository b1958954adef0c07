"""`python -m bench.webhooks`: webhooks while chats begin at a fixed rate, and of a backlog.

One of the endpoints never answers. `--receive` is the receiver, a process of its own.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import cast

import httpx
import uvloop

from bench import processes
from bench.client import Connection, Reply, request
from bench.load import share
from bench.measured_systems import make_agents
from bench.processes import lean_upstream, serving
from bench.scenarios import SHORT
from ops.settings import Counts
from runtime.web import raise_open_files
from tests.harness import RunningStack, running_stack

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_LATE_SECONDS = 120.0


class _Receiver(asyncio.Protocol):
    """Answers at once, but for addresses that end in /hang; a GET returns how many it has answered."""

    answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            count = str(_Receiver.answered).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(count), count))
        elif data.startswith(b"POST") and b"/hang " not in data:
            _Receiver.answered += 1
            self._transport.write(_ANSWER)


async def _receive() -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextlib.asynccontextmanager
async def _endpoints(
    stack: RunningStack, http: httpx.AsyncClient, url: str, count: int
) -> AsyncIterator[None]:
    """So many endpoints of the load account while the block runs, the last of which hangs."""
    address = f"{stack.environment.base_url}/v1/webhook_endpoints"
    headers = {"X-Api-Key": stack.environment.load_api_key}
    created = []
    for number in range(count):
        path = "hang" if number == count - 1 else "hook"
        body = {"url": f"{url}/{path}", "events": ["run.completed"]}
        answer = await http.post(address, json=body, headers=headers)
        created.append(answer.raise_for_status().json()["id"])
    try:
        yield
    finally:
        for endpoint_id in created:
            await http.delete(f"{address}/{endpoint_id}", headers=headers)


async def _chats(url: str, asked: bytes, rate: float, seconds: float) -> list[Reply]:
    """Begun at a fixed rate, whatever becomes of those before."""
    free: list[Connection] = []

    async def chat(at: float) -> Reply:
        await asyncio.sleep(at - time.perf_counter())
        connection = free.pop() if free else await Connection.to(url)
        reply = await connection.ask(asked)
        if not reply.failed:
            free.append(connection)
        return reply

    began = time.perf_counter() + 0.1
    replies = await asyncio.gather(*(chat(began + each / rate) for each in range(int(rate * seconds))))
    for connection in free:
        connection.close()
    return replies


async def _measure(rate: float, seconds: float, count: int, notifiers: int) -> None:
    environ = {"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": ""}
    async with (
        lean_upstream() as upstream,
        serving(sys.executable, "-m", "bench.webhooks", "--receive") as receiver,
        running_stack(
            Counts(notifiers=notifiers), environ=environ | {"ANTHROPIC_BASE_URL": upstream.url}
        ) as stack,
        httpx.AsyncClient(timeout=30) as http,
    ):
        agents = await make_agents(stack, SHORT)
        headers = {
            "X-Api-Key": stack.environment.load_api_key,
            "X-Agent-Id": agents[SHORT],
            "X-Stream-Form": "1",
        }
        url = f"{stack.environment.base_url}/v1/chat/stream"
        asked = request(url, headers, {"message": "Go."})
        names = [f"notifier-{number}" for number in range(1, notifiers + 1)]
        pids = {name: stack.pid(name) for name in (*names, "postgres", "projector-1")}
        _print("without endpoints", await _chats(url, asked, rate, seconds))

        async def count_of() -> int:
            return int((await http.get(receiver.url)).text)

        async def delivered(kind: str, cpu: dict[str, float], before: int, wanted: int) -> None:
            began, already = time.perf_counter(), await count_of() - before
            while (came := await count_of() - before) < wanted:
                if time.perf_counter() - began > _LATE_SECONDS:
                    break
                await asyncio.sleep(0.05)
            late, rest = time.perf_counter() - began, came - already
            used = processes.since(cpu, processes.cpu_seconds(pids))
            shown = ", ".join(f"{name} {1e6 * each / wanted:.0f} us" for name, each in used.items())
            sys.stdout.write(
                f"  {kind}: {came} of {wanted} delivered, {rest} of them within {late:.1f} s "
                f"({rest / max(late, 0.05):,.0f} a second); CPU for each: {shown}\n"
            )
            sys.stdout.flush()

        async with _endpoints(stack, http, receiver.url, count):
            before, cpu = await count_of(), processes.cpu_seconds(pids)
            replies = await _chats(url, asked, rate, seconds)
            _print("with endpoints", replies)
            await delivered("after the last chat", cpu, before, _good(replies) * (count - 1))
            for name in names:
                stack.kill(name, signal.SIGSTOP)
            before = await count_of()
            replies = await _chats(url, asked, rate, seconds)
            await asyncio.sleep(3.0)  # the rows are there
            cpu = processes.cpu_seconds(pids)
            for name in names:
                stack.kill(name, signal.SIGCONT)
            await delivered("a backlog", cpu, before, _good(replies) * (count - 1))


def _good(replies: list[Reply]) -> int:
    return sum(not reply.failed for reply in replies)


def _print(kind: str, replies: list[Reply]) -> None:
    times = sorted(reply.ended - reply.began for reply in replies if not reply.failed)
    p50, p99 = share(times, 0.5) * 1e3, share(times, 0.99) * 1e3
    sys.stdout.write(f"{kind}: {len(times)} of {len(replies)} chats, p50 {p50:.1f} ms, p99 {p99:.1f} ms\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.webhooks", description=__doc__.partition("\n")[0])
    parser.add_argument("--receive", action="store_true", help="be the receiver")
    parser.add_argument("--rate", type=float, default=100.0, help="chats a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="of chats, each time")
    parser.add_argument("--endpoints", type=int, default=20)
    parser.add_argument("--notifiers", type=int, default=1)
    given = parser.parse_args()
    raise_open_files()
    if given.receive:
        uvloop.run(_receive())
    else:
        uvloop.run(_measure(given.rate, given.seconds, given.endpoints, given.notifiers))


if __name__ == "__main__":
    main()
