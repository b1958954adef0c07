"""One account that asks without pause, far over its plan, while another's time to first delta is measured.

The flood is a process of its own (`python -m ops.bench.flood URL`, headers as JSON on stdin), so that it does
not hold up the loop that measures; it shares the machine's cores with all the rest.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from ops.bench.client import BenchError

_CONNECTIONS = 16
_BODY = b'{"message":"Tell me a long story."}'
_SECONDS = 10.0


class Flooded(msgspec.Struct, frozen=True, kw_only=True):
    """How long a flood lasted, and how many answers it got, by status."""

    seconds: float
    answers: dict[str, int]


def told_of(floods: Sequence[Flooded]) -> str:
    """Floods in a few words: "900/s (40 x 200, 12000 x 429)"."""
    answers: Counter[str] = Counter()
    for flood in floods:
        answers.update(flood.answers)
    rate = answers.total() / sum(flood.seconds for flood in floods)
    return f"{rate:.0f}/s ({', '.join(f'{count} x {status}' for status, count in sorted(answers.items()))})"


@contextlib.asynccontextmanager
async def flooding(url: str, headers: Mapping[str, str]) -> AsyncIterator[list[Flooded]]:
    """Flood while the block runs; behind it the list has what came of it. Raises BenchError."""
    flood = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert flood.stdin is not None
    flood.stdin.write(json.dumps(dict(headers)).encode())
    flood.stdin.close()
    found: list[Flooded] = []
    try:
        await asyncio.sleep(1.0)  # the burst of the plan is spent
        yield found
    finally:
        if flood.returncode is None:
            flood.send_signal(signal.SIGTERM)
        async with asyncio.timeout(_SECONDS):
            said, _ = await flood.communicate()
    if flood.returncode != 0:
        raise BenchError("the flood broke off")
    found.append(msgspec.json.decode(said, type=Flooded))


async def _flood(url: str, headers: Mapping[str, str]) -> Flooded:
    parts = urlsplit(url)
    assert parts.hostname is not None
    lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(_BODY)}", *(f"{name}: {value}" for name, value in headers.items())]
    request = "\r\n".join([*lines, "", ""]).encode() + _BODY
    answers: Counter[str] = Counter()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    began = time.monotonic()
    asking = [
        asyncio.create_task(_ask(parts.hostname, parts.port or 80, request, answers))
        for _ in range(_CONNECTIONS)
    ]
    await stop.wait()
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return Flooded(seconds=time.monotonic() - began, answers=dict(answers))


async def _ask(host: str, port: int, request: bytes, answers: Counter[str]) -> None:
    """One request after the other, each on a connection of its own where the server closes them."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                answer = await reader.read(65536)
                answers[answer.split(b" ", 2)[1].decode() if answer else "none"] += 1
                while b"429" not in answer[:16] and await reader.read(65536):
                    pass
            finally:
                writer.close()
        except OSError:
            answers["none"] += 1


def main() -> None:
    """Flood until SIGTERM; what came of it is on stdout."""
    headers = json.loads(sys.stdin.read())
    found = asyncio.run(_flood(sys.argv[1], headers))
    sys.stdout.write(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main()
