"""`python -m bench.webhooks`: what webhooks add to the latency of chats, and how late they are themselves.

Chats begin at a fixed rate, in rounds without endpoints and rounds with them in turn, one of which never
answers. The receiver is a process of its own: `python -m bench.webhooks --receive` prints its port.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import cast

import httpx
import uvloop

from bench import usage
from bench.agents import make_agents
from bench.client import Connection, Reply, request
from bench.processes import lean_upstream, serving
from bench.scenarios import SHORT
from bench.statistics import share
from runtime.web import raise_open_files
from tests.harness import RunningStack, running_stack

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_CAUGHT_UP_SECONDS = 60.0


class _Receiver(asyncio.Protocol):
    """Answers at once, but for addresses that end in /hang; counts what it has answered."""

    answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            said = str(_Receiver.answered).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
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
    address, key = f"{stack.environment.base_url}/v1/webhook_endpoints", stack.environment.load_api_key
    made = []
    for number in range(count):
        path = "hang" if number == count - 1 else "hook"
        body = {"url": f"{url}/{path}", "events": ["run.completed"]}
        answer = await http.post(address, json=body, headers={"X-Api-Key": key})
        made.append(answer.raise_for_status().json()["id"])
    try:
        yield
    finally:
        for endpoint_id in made:
            await http.delete(f"{address}/{endpoint_id}", headers={"X-Api-Key": key})


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


async def _measure(rate: float, seconds: float, count: int, rounds: int) -> None:
    async with (
        lean_upstream() as upstream,
        serving(sys.executable, "-m", "bench.webhooks", "--receive") as receiver,
        running_stack(environ={"ANTHROPIC_API_KEY": "lean", "ANTHROPIC_BASE_URL": upstream.url}) as stack,
        httpx.AsyncClient(timeout=30) as http,
    ):
        agents = await make_agents(stack, SHORT)
        found = stack.environment
        headers = {"X-Api-Key": found.load_api_key, "X-Agent-Id": agents[SHORT], "X-Stream-Form": "1"}
        url = f"{found.base_url}/v1/chat/stream"
        asked = request(url, headers, {"message": "Go."})
        await _chats(url, asked, rate, 2.0)
        for number in range(rounds * 2):
            with_endpoints = number % 2 == 1
            notifier = {"notifier": stack.pid("notifier-1")}
            before, cpu = int((await http.get(receiver.url)).text), usage.cpu_seconds(notifier)
            async with _endpoints(stack, http, receiver.url, count if with_endpoints else 0):
                replies = await _chats(url, asked, rate, seconds)
                ended = time.perf_counter()
                good = [reply for reply in replies if not reply.failed]
                wanted = before + len(good) * (count - 1) * with_endpoints
                came = at_end = int((await http.get(receiver.url)).text)
                while came < wanted and time.perf_counter() - ended < _CAUGHT_UP_SECONDS:
                    await asyncio.sleep(0.05)
                    came = int((await http.get(receiver.url)).text)
                late = time.perf_counter() - ended
            _tell(with_endpoints, replies, good)
            if with_endpoints:
                used = usage.since(cpu, usage.cpu_seconds(notifier))["notifier"]
                sys.stdout.write(
                    f"  delivered {at_end - before} until the last chat ended, {came - before} of "
                    f"{wanted - before} {late:.1f} s later; the notifier used {used:.1f} s of CPU\n"
                )
            sys.stdout.flush()


def _tell(with_endpoints: bool, replies: list[Reply], good: list[Reply]) -> None:
    whole = sorted(reply.ended - reply.began for reply in good)
    firsts = sorted(reply.first - reply.began for reply in good)
    shown = ", ".join(
        f"{name} p50 {share(values, 0.5) * 1e3:.1f} ms p99 {share(values, 0.99) * 1e3:.1f} ms"
        for name, values in (("first", firsts), ("whole", whole))
    )
    kind = "with" if with_endpoints else "without"
    sys.stdout.write(f"{kind} endpoints: {len(good)} of {len(replies)} chats, {shown}\n")


def main() -> None:
    """Measure and print, or receive."""
    parser = argparse.ArgumentParser(prog="python -m bench.webhooks", description=__doc__.partition("\n")[0])
    parser.add_argument("--receive", action="store_true", help="be the receiver")
    parser.add_argument("--rate", type=float, default=200.0, help="chats a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a round")
    parser.add_argument("--endpoints", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    given = parser.parse_args()
    raise_open_files()
    if given.receive:
        uvloop.run(_receive())
    else:
        uvloop.run(_measure(given.rate, given.seconds, given.endpoints, given.rounds))


if __name__ == "__main__":
    main()
