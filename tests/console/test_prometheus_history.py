"""The charts begin with what Prometheus says; without an answer of it, with the console's start."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from agentchat.console.live.prometheus_history import HistoryUnavailable, load_history
from agentchat.contracts.values import Usage

START = 1_700_000_000.0
RESULTS: dict[str, list[tuple[dict[str, str], list[str]]]] = {
    "runs_ended_total": [({"state": "completed"}, ["6", "3"]), ({"state": "failed"}, ["0", "1.5"])],
    "model_tokens_total": [({"kind": "input"}, ["100.4", "50"]), ({"kind": "cache_write"}, ["7", "0"])],
    "model_calls_seconds_count": [({"provider": "anthropic", "outcome": "overloaded"}, ["0", "2"])],
    "quantile(0.5": [({}, ["0.25", "NaN"])],
    "quantile(0.99": [({}, ["1.5", "NaN"])],
}


@contextlib.asynccontextmanager
async def serve(status: str = "200 OK", body: str | None = None) -> AsyncIterator[str]:
    """Answer as `query_range` is documented."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode()
        asked = parse_qs(urlsplit(line.split()[1]).query)
        assert float(asked["end"][0]) - float(asked["start"][0]) == pytest.approx(3600)
        (found,) = [each for name, each in RESULTS.items() if name in asked["query"][0]]
        series = [
            {"metric": labels, "values": [[START + 60 * place, value] for place, value in enumerate(values)]}
            for labels, values in found
        ]
        data = {"status": "success", "data": {"resultType": "matrix", "result": series}}
        text = (json.dumps(data) if body is None else body).encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_each_minute_is_a_point() -> None:
    async with serve() as url:
        first, second = await load_history(f"{url}/")
    assert second.at - first.at == pytest.approx(60)
    assert first.at - time.monotonic() == pytest.approx(START - time.time(), abs=5)
    assert first.ended == {"completed": 6.0, "failed": 0.0, "cancelled": 0.0}
    assert second.ended["failed"] == 1.5
    assert first.tokens == Usage(input_tokens=100, cache_creation_tokens=7)
    assert (first.first_delta_p50, first.first_delta_p99) == (0.25, 1.5)
    assert second.first_delta_p50 is None
    assert (first.model_errors, second.model_errors) == ({}, {"anthropic: overloaded": 2.0})


@pytest.mark.parametrize(
    ("status", "body"), [("503 Unavailable", None), ("200 OK", "no JSON"), ("200 OK", '{"status":"error"}')]
)
async def test_any_other_answer_is_no_history(status: str, body: str | None) -> None:
    async with serve(status, body) as url:
        with pytest.raises(HistoryUnavailable):
            await load_history(url)


async def test_no_answer_is_no_history(unused_tcp_port: int) -> None:
    with pytest.raises(HistoryUnavailable):
        await load_history(f"http://127.0.0.1:{unused_tcp_port}")
