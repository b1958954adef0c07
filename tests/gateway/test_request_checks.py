"""What a request is checked for: keys, plans, rate limits, headers, bodies; the one form of every refusal."""

import asyncio
from typing import Any

import httpx
import pytest

from administration import admin_accounts as directory
from administration import admin_keys
from administration.admin_values import AccountChanges
from contracts import ids
from gateway.http.exchange import TARGET
from gateway.http.middleware import RequestMiddleware
from runtime.postgres import open_pool
from tests.administrator import administrator
from tests.gateway.client import Client, check_problem, raw
from tests.gateway.conftest import Accounts
from tests.gateway.process import GatewayProcess

_UNKNOWN = "01a1fdef-0000-7000-8000-000000000000"
POSTS = ("/v1/chat", "/v1/chat/stream")
GETS = (
    "/v1/conversations",
    f"/v1/conversations/{_UNKNOWN}",
    f"/v1/conversations/{_UNKNOWN}/messages",
)


@pytest.mark.requirement("AUTH-401", "AUTH-KEY", "PROBLEM-JSON", "TRACE-ID")
@pytest.mark.parametrize("path", POSTS + GETS)
async def test_only_a_valid_x_api_key_is_let_in(client: Client, path: str) -> None:
    key, method = client.headers["X-Api-Key"], "POST" if path in POSTS else "GET"
    bad = {
        "missing_api_key": [
            {},
            {"X-Api-Key": ""},
            {"Authorization": f"Bearer {key}"},
            {"Authorization": f"Basic {key}"},
            {"Cookie": f"X-Api-Key={key}; api_key={key}"},
            {"X-API-KEY-": key},
        ],
        "invalid_api_key": [
            {"X-Api-Key": f"Bearer {key}"},
            {"X-Api-Key": key[:-1]},
            {"X-Api-Key": key + "x"},
            {"X-Api-Key": key.upper()},
            {"X-Api-Key": "sk-ac-" + "x" * 43},
            {"X-Api-Key": "sk-" + "x" * 3000},
            {"X-Api-Key": "k\xe9y"},
        ],
    }
    for code, each in bad.items():
        for headers in each:
            response = await client.http.request(
                method,
                f"{client.url}{path}",
                params={"api_key": key, "X-Api-Key": key},
                headers=[(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
            )
            check_problem(response, 401, code)
            assert "www-authenticate" in response.headers
    doubled = [("X-Api-Key", key), ("X-Api-Key", key)]
    response = await client.http.request(method, f"{client.url}{path}", headers=doubled)
    check_problem(response, 401, "invalid_api_key")


@pytest.mark.requirement("AUTH-ROTATION", "AUTH-401")
async def test_a_key_is_dead_at_the_next_request(
    client: Client, accounts: Accounts, migrated_database_url: str
) -> None:
    victim = Client(client.http, client.url, accounts.other.key, accounts.other.agent)
    assert (await victim.get("/v1/conversations")).status_code == 200
    async with open_pool(migrated_database_url) as pool:
        admin = administrator(pool)
        for _ in range(5):
            old = victim.headers["X-Api-Key"]
            victim.headers["X-Api-Key"] = (await admin_keys.rotate(admin, accounts.other.key_id)).key
            assert (await victim.get("/v1/conversations")).status_code == 200
            stale = Client(client.http, client.url, old, accounts.other.agent)
            check_problem(await stale.get("/v1/conversations"), 401, "invalid_api_key")
        await directory.change(admin, accounts.other.account_id, AccountChanges(disabled=True))
        check_problem(await victim.get("/v1/conversations"), 401, "invalid_api_key")
        await directory.change(admin, accounts.other.account_id, AccountChanges(disabled=False))
        await admin_keys.revoke(admin, accounts.other.key_id)
        check_problem(await victim.post("/v1/chat"), 401, "invalid_api_key")


@pytest.mark.requirement("AGENT-404", "HEADERS-400")
async def test_the_agent_is_one_of_the_account(client: Client, accounts: Accounts) -> None:
    for value in (None, "", "agent-1", accounts.free.agent[:-1], "{" + accounts.free.agent + "}"):
        problem = check_problem(await client.post(x_agent_id=value), 400, "invalid_request")
        assert problem["errors"][0]["field"] == "X-Agent-Id"
    unknown = check_problem(await client.post(x_agent_id=ids.new_id()), 404, "agent_not_found")
    foreign = check_problem(await client.post(x_agent_id=accounts.starter.agent), 404, "agent_not_found")
    assert unknown["detail"] == foreign["detail"]


@pytest.mark.requirement("AUTH-ORDER")
async def test_the_checks_come_in_their_order(client: Client, starter: Client, accounts: Accounts) -> None:
    bad = {"content": b"{", "content_type": "text/plain"}
    wrong_key = "sk-ac-" + "x" * 43
    response = await starter.post("/v1/chat/stream", x_api_key=wrong_key, x_stream_form="2", **bad)  # type: ignore[arg-type]
    check_problem(response, 401, "invalid_api_key")
    response = await starter.post("/v1/chat/stream", x_agent_id="x", x_stream_form="2", **bad)  # type: ignore[arg-type]
    check_problem(response, 403, "plan_upgrade_required")
    response = await client.post(x_agent_id="x", **bad)  # type: ignore[arg-type]
    check_problem(response, 400, "invalid_request")
    response = await client.post(x_agent_id=ids.new_id(), **bad)  # type: ignore[arg-type]
    check_problem(response, 404, "agent_not_found")
    check_problem(await client.post(**bad), 415, "unsupported_media_type")  # type: ignore[arg-type]
    check_problem(await client.post(content=b'{"conversation_id":"x"}'), 400, "invalid_request")


@pytest.mark.requirement("LIMIT-RATE", "AUTH-ORDER")
async def test_over_the_rate_limit_it_is_429_with_headers(client: Client, accounts: Accounts) -> None:
    tight = Client(client.http, client.url, accounts.tight.key, "not an agent")
    for remaining in (1, 0):
        response = await tight.post("/v1/chat/stream")
        check_problem(response, 400, "invalid_request")
        assert response.headers["ratelimit-policy"] == '"minute";q=2;w=60'
        assert response.headers["ratelimit"].startswith(f'"minute";r={remaining};t=')
    response = await tight.post("/v1/chat")
    check_problem(response, 429, "rate_limited")
    assert 1 <= int(response.headers["retry-after"]) <= 30
    assert response.headers["ratelimit"].startswith('"minute";r=0;t=')
    assert "ratelimit" not in (await client.post(x_agent_id=None)).headers


@pytest.mark.requirement("LIMIT-CONCURRENT")
async def test_a_refused_request_frees_its_slot(starter: Client) -> None:
    for _ in range(6):  # the plan has two slots
        check_problem(await starter.post(content=b"{}"), 400, "invalid_request")


@pytest.mark.requirement("BODY-415")
async def test_the_body_must_be_said_to_be_json(client: Client) -> None:
    for value in (None, "text/plain", "application/json; charset=latin-1", "application/jsonx", "json", ""):
        response = await client.post(content_type=value)
        check_problem(response, 415, "unsupported_media_type")
    check_problem(await client.post(content_encoding="gzip"), 415, "unsupported_media_type")
    for value in ("application/json", 'Application/JSON; Charset="UTF-8"', "application/json;charset=utf-8"):
        check_problem(await client.post(content=b"{}", content_type=value), 400, "invalid_request")


@pytest.mark.requirement("BODY-400", "BODY-UNKNOWN-FIELD", "BODY-TEXT")
@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b'"hi"', None),
        (b"null", None),
        (b'{"message":"hi"}}', None),
        (b'{"message":"\xff"}', None),
        (b'{"message":"\xed\xa0\x80"}', None),
        (b"[" * 100_000, None),
        (b'{"x":' + b"[" * 40 + b"]" * 40 + b"}", None),
        (b'{"message":NaN}', None),
        (b"{}", ["message"]),
        (b'{"message":null}', ["message"]),
        (b'{"message":""}', ["message"]),
        (b'{"message":" \\n\\t\\u2003"}', ["message"]),
        (b'{"message":1}', ["message"]),
        (b'{"message":["hi"]}', ["message"]),
        (b'{"message":"\\ud800"}', ["message"]),
        (b'{"message":"hi","prompt":"\\udc00x"}', ["prompt"]),
        (b'{"message":"hi","conversation_id":7}', ["conversation_id"]),
        (b'{"message":"hi","prompt":{}}', ["prompt"]),
        (b'{"message":"hi","conversationId":"x"}', ["conversationId"]),
        (b'{"message":"hi","model":"x","admin":true}', ["admin", "model"]),
        (b'{"Message":"hi"}', ["Message", "message"]),
    ],
)
async def test_a_malformed_body_is_400_with_the_fields(
    client: Client, content: bytes, fields: list[str] | None
) -> None:
    problem = check_problem(await client.post(content=content), 400, "invalid_request")
    assert (fields is None and "errors" not in problem) or [e["field"] for e in problem["errors"]] == fields


@pytest.mark.requirement("BODY-413")
async def test_sizes_are_bounded(client: Client, accounts: Accounts) -> None:
    def body(**fields: str) -> bytes:
        inner = ",".join(f'"{name}":"{text}"' for name, text in fields.items())
        return b"{" + inner.encode() + b"}"

    large = {
        "message": body(message="a" * (256 * 1024 + 1)),
        "in bytes": body(message="é" * (128 * 1024 + 1)),
        "replaced": body(message="\\u0000" * (256 * 1024 // 3 + 1)),
        "prompt": body(message="a", prompt="p" * (64 * 1024 + 1)),
        "body": body(message="a", x="y" * 1024 * 1024),
    }
    for content in large.values():
        check_problem(await client.post(content=content), 413, "message_too_large")
    nearly = body(message="a" * 256 * 1024, prompt="p" * 64 * 1024, conversation_id="not-an-id")
    check_problem(await client.post(content=nearly), 404, "conversation_not_found")


@pytest.mark.requirement("BODY-413")
async def test_an_endless_body_is_not_read_to_its_end(
    client: Client, gateway: GatewayProcess, accounts: Accounts
) -> None:
    head = (
        f"POST /v1/chat HTTP/1.1\r\nHost: x\r\nX-Api-Key: {accounts.free.key}\r\n"
        f"X-Agent-Id: {accounts.free.agent}\r\nContent-Type: application/json\r\n"
    ).encode()
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b"a" * 65536 + b"\r\n") * 40
    announced = head + b"Content-Length: 99999999\r\n\r\n"
    for answer in await asyncio.gather(raw(gateway.port, chunked), raw(gateway.port, announced)):
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"x-trace-id: " in answer


@pytest.mark.requirement("PROBLEM-JSON", "TRACE-ID", "NO-CORS")
async def test_addresses_and_methods_that_do_not_exist(client: Client) -> None:
    for path in ("/v1", "/v1/chats", "/v1/chat/stream/x", "/v2/chat", "/%00", "/docs/../x"):
        check_problem(await client.http.get(f"{client.url}{path}"), 404, "not_found")
    for method, path, allow in (
        ("GET", "/v1/chat", "POST"),
        ("PUT", "/v1/chat/stream", "POST"),
        ("DELETE", "/v1/conversations", "GET"),
        ("POST", "/healthz", "GET"),
        ("OPTIONS", "/v1/chat", "POST"),
        ("OPTIONS", "/v1/conversations", "GET"),
        ("TRACE", "/v1/chat", "POST"),
    ):
        response = await client.http.request(method, f"{client.url}{path}")
        check_problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allow


@pytest.mark.requirement("NO-CORS")
async def test_a_browser_gets_no_permission(client: Client) -> None:
    origin = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/v1/chat"), ("GET", "/healthz"), ("POST", "/v1/chat/stream")):
        response = await client.http.request(method, f"{client.url}{path}", headers=origin)
        assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.requirement("HEALTH")
async def test_health_is_answered(client: Client) -> None:
    healthy = await client.http.get(f"{client.url}/healthz")
    ready = await client.http.get(f"{client.url}/readyz")
    assert healthy.status_code == 200
    assert healthy.json() == {"status": "ok"}
    assert ready.json() == {"status": "ok", "checks": {"postgres": "ok", "nats": "ok", "redis": "ok"}}
    head = await client.http.head(f"{client.url}/healthz")
    assert head.status_code == 200
    assert head.content == b""


@pytest.mark.requirement("TRACE-ID", "PROBLEM-JSON")
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_alike(gateway: GatewayProcess, request_bytes: bytes) -> None:
    answer = await raw(gateway.port, request_bytes)
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    response = httpx.Response(int(head.split(b" ")[1]), headers=headers, content=body)
    check_problem(response, 400, "invalid_request")


@pytest.mark.requirement("LOGS")
async def test_a_request_is_one_line_without_secrets(client: Client, gateway: GatewayProcess) -> None:
    response = await client.post(content=b'{"message":"hi","secretword":1}')
    line = await gateway.line("request", trace_id=response.headers["x-trace-id"])
    assert line["method"] == "POST"
    assert line["path"] == "/v1/chat"
    assert line["status"] == 400
    assert line["ms"] >= 0
    assert line["account_id"]
    assert client.headers["X-Api-Key"][:20] not in gateway.text()
    assert "secretword" not in gateway.text()


@pytest.mark.requirement("SAFE-TO-SHOW")
async def test_what_a_caller_writes_into_a_path_is_logged_short_and_harmless(
    client: Client, gateway: GatewayProcess
) -> None:
    response = await client.get("/nowhere%C2%9B31m%E2%80%AE%C2%85%7F" + "a" * 60_000)
    line = await gateway.line("request", trace_id=response.headers["x-trace-id"])
    assert line["path"] == "/nowhere\x9b31m\u202e\x85\x7f" + "a" * 241 + "…"
    (written,) = [each for each in gateway.text().split("\n") if response.headers["x-trace-id"] in each]
    assert "/nowhere\\u009b31m\\u202e\\u0085\\u007faaa" in written


@pytest.mark.requirement("TRACE-ID", "TELEMETRY")
async def test_a_callers_trace_is_not_taken_over(client: Client) -> None:
    theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
    made = set()
    for _ in range(3):
        response = await client.post(x_agent_id=None, traceparent=f"00-{theirs}-00f067aa0ba902b7-01")
        made.add(response.headers["x-trace-id"])
    assert len(made) == 3
    assert theirs not in made
    assert all(ids.is_trace_id(trace_id) for trace_id in made)


@pytest.mark.requirement("TRACE-ID", "PROBLEM-JSON")
async def test_a_request_that_a_stopping_server_cuts_off_is_refused_with_its_trace() -> None:
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
    scope["extensions"] = {TARGET: {"bytes": b"/readyz"}}
    request = asyncio.create_task(RequestMiddleware(application)(scope, receive, send))
    async with asyncio.timeout(20):
        await at_work.wait()
        request.cancel()
        await request
    assert sent[0]["status"] == 503
    assert len(dict(sent[0]["headers"])[b"x-trace-id"]) == 32
