import asyncio
import json

import pytest

from agentchat.runtime.health_and_metrics import HealthChecks, serve_health
from agentchat.runtime.settings import SettingsError


async def succeed() -> None: ...


async def fail() -> None:
    raise ConnectionError("no route\nand more that nobody asked for")


async def hang() -> None:
    await asyncio.Event().wait()


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Send a request; return the status line and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(40):
        response = await reader.read()
    writer.close()
    head, _, body = response.partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


async def test_reasons_say_what_is_wrong_and_a_check_that_hangs_is_bounded() -> None:
    ready, checks = await HealthChecks({"a": succeed, "b": fail, "c": hang}, deadline=0.05).check()
    assert not ready
    assert checks == {"a": "ok", "b": "no route", "c": "no answer in time"}


async def test_concurrent_health_checks_share_one_look() -> None:
    looks = 0

    async def count_look() -> None:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.01)

    health = HealthChecks({"counted": count_look})
    await asyncio.gather(*(health.check() for _ in range(50)))
    assert looks == 1
    await health.check()
    assert looks == 2


async def test_a_caller_that_goes_away_does_not_spoil_the_look_for_others() -> None:
    async def sleep_briefly() -> None:
        await asyncio.sleep(0.05)

    health = HealthChecks({"slow": sleep_briefly})
    impatient = asyncio.create_task(health.check())
    patient = asyncio.create_task(health.check())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == (True, {"slow": "ok"})


async def test_the_workers_server_answers_healthz_and_readyz() -> None:
    async with serve_health(HealthChecks({"nats": fail}), "127.0.0.1", 0) as port:
        assert await ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (
            b"HTTP/1.1 200 OK",
            b'{"status":"ok"}',
        )
        status, body = await ask(port, b"GET /readyz?full=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert status == b"HTTP/1.1 503 Service Unavailable"
        assert json.loads(body) == {"status": "unavailable", "checks": {"nats": "no route"}}


async def test_a_taken_health_port_is_one_clear_line() -> None:
    async with serve_health(HealthChecks({}), "127.0.0.1", 0) as port:
        with pytest.raises(SettingsError, match=f"^cannot listen on 127.0.0.1:{port}: it is in use$"):
            async with serve_health(HealthChecks({}), "127.0.0.1", port):
                pass


@pytest.mark.parametrize(
    ("request_bytes", "status", "has_body"),
    [
        (b"HEAD /readyz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK", False),
        (b"POST /readyz HTTP/1.1\r\n\r\n", b"HTTP/1.1 405 Method Not Allowed", True),
        (b"GET /other HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found", True),
        (b"nonsense\r\n\r\n", b"HTTP/1.1 404 Not Found", True),
        (b"GET /readyz HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"", False),
    ],
)
async def test_other_requests_get_a_short_answer(request_bytes: bytes, status: bytes, has_body: bool) -> None:
    async with serve_health(HealthChecks({}), "127.0.0.1", 0) as port:
        answer, body = await ask(port, request_bytes)
        assert answer == status
        assert bool(body) == has_body
