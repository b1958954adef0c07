"""What a request is checked for: keys, plans, rate limits, headers, bodies; the one form of every refusal."""

import asyncio
from typing import Any

import pytest

from agentchat.contracts import errors, ids
from agentchat.gateway.http.problems import format_problem
from agentchat.gateway.http.request_context import TraceMiddleware
from tests.gateway.client import Client, check_problem, send_raw
from tests.gateway.conftest import Accounts
from tests.support.embedded_service import EmbeddedService

_UNKNOWN = "01a1fdef-0000-7000-8000-000000000000"
POSTS = ("/v1/chat", "/v1/chat/stream")
GETS = (
    "/v1/conversations",
    f"/v1/conversations/{_UNKNOWN}",
    f"/v1/conversations/{_UNKNOWN}/messages",
)


KEYS: list[tuple[str, dict[str, str]]] = [
    ("missing_api_key", {}),
    ("missing_api_key", {"X-Api-Key": ""}),
    ("missing_api_key", {"Authorization": "Bearer KEY"}),
    ("missing_api_key", {"Authorization": "Basic KEY"}),
    ("missing_api_key", {"Cookie": "X-Api-Key=KEY; api_key=KEY"}),
    ("missing_api_key", {"X-API-KEY-": "KEY"}),
    ("invalid_api_key", {"X-Api-Key": "Bearer KEY"}),
    ("invalid_api_key", {"X-Api-Key": "KEYx"}),
    ("invalid_api_key", {"X-Api-Key": "sk-ac-" + "x" * 43}),
    ("invalid_api_key", {"X-Api-Key": "sk-" + "x" * 3000}),
    ("invalid_api_key", {"X-Api-Key": "k\xe9y"}),
    ("invalid_api_key", {"X-Api-Key": "KEY", "x-api-key": "KEY"}),
]


@pytest.mark.parametrize(
    ("path", "code", "headers"),
    [
        *((path, "missing_api_key", {}) for path in POSTS + GETS),
        *(("/v1/conversations", *wrong) for wrong in KEYS),
        ("/v1/chat", "invalid_api_key", {"X-Api-Key": "KEYx"}),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_only_a_valid_x_api_key_is_let_in(
    client: Client, path: str, code: str, headers: dict[str, str]
) -> None:
    """One check of keys is before every route."""
    key, method = client.headers["X-Api-Key"], "POST" if path in POSTS else "GET"
    sent = [(name, value.replace("KEY", key).encode("latin-1")) for name, value in headers.items()]
    response = await client.http.request(
        method,
        f"{client.url}{path}",
        params={"api_key": key, "X-Api-Key": key},
        headers=[(name.encode(), value) for name, value in sent],
    )
    assert check_problem(response, 401, code)["detail"] == errors.get_error_code(code).advice
    assert "www-authenticate" in response.headers


async def test_anothers_agent_is_as_unknown_as_one_that_is_none(client: Client, accounts: Accounts) -> None:
    for agent in (ids.make_id(), accounts.starter.agent, "gpt-4o"):
        refused = check_problem(await client.post(x_agent_id=agent), 404, "agent_not_found")
        assert refused["detail"] == f'Unknown agent "{agent}". Use an agent\'s id or its unique name.'


async def test_the_checks_come_in_their_order(client: Client, starter: Client, accounts: Accounts) -> None:
    bad = {"content": b"{", "content_type": "text/plain"}
    wrong_key = "sk-ac-" + "x" * 43
    response = await starter.post("/v1/chat/stream", x_api_key=wrong_key, x_stream_form="2", **bad)  # type: ignore[arg-type]
    check_problem(response, 401, "invalid_api_key")
    response = await starter.post("/v1/chat/stream", x_agent_id="x", x_stream_form="2", **bad)  # type: ignore[arg-type]
    check_problem(response, 403, "plan_upgrade_required")
    response = await client.post(x_agent_id="", **bad)  # type: ignore[arg-type]
    check_problem(response, 400, "invalid_request")
    response = await client.post(x_agent_id="x", **bad)  # type: ignore[arg-type]
    check_problem(response, 404, "agent_not_found")
    check_problem(await client.post(**bad), 415, "unsupported_media_type")  # type: ignore[arg-type]
    check_problem(await client.post(content=b'{"conversation_id":"x"}'), 400, "invalid_request")


async def test_an_endless_body_is_not_read_to_its_end(
    client: Client, gateway: EmbeddedService, accounts: Accounts
) -> None:
    head = (
        f"POST /v1/chat HTTP/1.1\r\nHost: x\r\nX-Api-Key: {accounts.free.key}\r\n"
        f"X-Agent-Id: {accounts.free.agent}\r\nContent-Type: application/json\r\n"
    ).encode()
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"a" * 65536 + b"\r\n") * 40
    announced = head + b"Content-Length: 99999999\r\n\r\n"
    for answer in await asyncio.gather(
        *(send_raw(gateway.port, request, read=4096) for request in (chunked, announced))
    ):
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"x-trace-id: " in answer


async def test_addresses_and_methods_that_do_not_exist(client: Client) -> None:
    for path in ("/v1", "/v1/chats", "/v1/chat/stream/x", "/v2/chat", "/%00", "/docs/../x"):
        check_problem(await client.http.get(f"{client.url}{path}"), 404, "not_found")
    for method, path, allow in (
        ("GET", "/v1/chat", "POST"),
        ("PUT", "/v1/chat/stream", "POST"),
        ("DELETE", "/v1/conversations", "GET"),
        ("POST", "/healthz", "GET"),
        ("TRACE", "/v1/chat", "POST"),
    ):
        response = await client.http.request(method, f"{client.url}{path}")
        check_problem(response, 405, "method_not_allowed")
        assert allow in response.headers["allow"].split(", ")


async def test_a_browser_gets_no_permission(client: Client) -> None:
    origin = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/v1/chat"), ("GET", "/healthz"), ("POST", "/v1/chat/stream")):
        response = await client.http.request(method, f"{client.url}{path}", headers=origin)
        assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_health_is_answered(client: Client) -> None:
    healthy = await client.http.get(f"{client.url}/healthz")
    ready = await client.http.get(f"{client.url}/readyz")
    assert healthy.status_code == 200
    assert healthy.json() == {"status": "ok"}
    assert ready.json() == {"status": "ok", "checks": {"postgres": "ok", "nats": "ok", "redis": "ok"}}


async def test_request_cut_off_by_shutdown_is_refused_with_trace() -> None:
    """The server cancels what is left when its time is over, and would answer with a bare 500 itself."""
    at_work, sent = asyncio.Event(), list[dict[str, Any]]()

    async def application(*_: Any) -> None:
        at_work.set()
        await asyncio.Event().wait()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/readyz",
        "raw_path": b"/readyz",
        "headers": [],
    }
    middleware: Any = TraceMiddleware(application, lambda _: format_problem)
    request = asyncio.create_task(middleware(scope, receive, send))
    async with asyncio.timeout(20):
        await at_work.wait()
        request.cancel()
        await request
    assert sent[0]["status"] == 503
    assert len(dict(sent[0]["headers"])[b"x-trace-id"]) == 32


@pytest.mark.parametrize(
    ("path", "hint"),
    [("/v1/chat/completions", True), ("/v1/models", True), ("/v1/responses", True), ("/nowhere", False)],
)
async def test_unknown_endpoint_is_named_with_a_hint(client: Client, path: str, hint: bool) -> None:
    document = check_problem(await client.post(path), 404, "not_found")
    assert document["detail"].startswith(f"No such endpoint: POST {path}.")
    assert ("/openai/v1" in document["detail"]) is hint
