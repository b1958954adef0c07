"""Who may enter the admin API, and what it says to odd requests."""

import base64
import os
from collections import Counter

import httpx
import pytest

from agentchat.administration.routes import ROUTES
from agentchat.gateway.access.wrong_key_limit import WRONG_AT_ONCE
from tests.gateway.admin import TOKEN, AdminClient
from tests.gateway.client import check_problem
from tests.gateway.conftest import Accounts, StartGateway
from tests.ports import find_free_port
from tests.support.embedded_service import EmbeddedService
from tests.support.scraped import scrape

SECRET_KEY = base64.b64encode(os.urandom(32)).decode()
UNKNOWN = "019a0000-0000-7000-8000-00000000dead"


@pytest.mark.parametrize(
    "authorization",
    [
        [],
        ["Bearer"],
        [f"Bearer {TOKEN[:-1]}"],
        [f"Bearer {TOKEN}x"],
        [f"Basic {TOKEN}"],
        [TOKEN],
        [f"Bearer {TOKEN}", f"Bearer {TOKEN}"],
    ],
)
async def test_only_the_whole_token_opens_it(admin: AdminClient, authorization: list[str]) -> None:
    headers = [("Authorization", value) for value in authorization]
    for method, path in (("GET", "/accounts"), ("POST", "/accounts"), ("DELETE", f"/accounts/{UNKNOWN}")):
        response = await admin.http.request(method, f"{admin.url}{path}", headers=headers)
        check_problem(response, 401, "invalid_admin_token")
        assert response.headers.get_list("www-authenticate") == ['Bearer realm="agent-chat admin"']


async def test_the_two_apis_have_two_keys(admin: AdminClient, accounts: Accounts) -> None:
    key = accounts.free.key
    for headers in ({"X-Api-Key": key}, {"X-Api-Key": TOKEN}, {"Authorization": f"Bearer {key}"}):
        response = await admin.http.get(f"{admin.url}/accounts", headers=headers)
        check_problem(response, 401, "invalid_admin_token")
    chats = admin.url.replace("/admin/v1", "/v1/conversations")
    for headers in ({"Authorization": f"Bearer {TOKEN}"}, {"X-Api-Key": TOKEN}):
        assert (await admin.http.get(chats, headers=headers)).status_code == 401
    scheme = {"Authorization": f"bearer {TOKEN}"}  # RFC 9110: its name in any case
    assert (await admin.http.get(f"{admin.url}/accounts", headers=scheme)).status_code == 200


async def test_address_with_wrong_tokens_is_limited_right_token_accepted(
    http: httpx.AsyncClient, start_gateway: StartGateway
) -> None:
    health_port = find_free_port()
    own = {
        "AGENTCHAT_ADMIN_TOKEN": TOKEN,
        "AGENTCHAT_SECRET_KEY": SECRET_KEY,
        "AGENTCHAT_HEALTH_PORT": str(health_port),
    }
    process = await start_gateway({"access.wrong_key_limit.SECONDS_EACH": 3600.0}, **own)
    before = Counter(await scrape(health_port, "agentchat_admin_tokens_refused_total"))
    guesses = [AdminClient(http, process.url, f"wrong-{number}") for number in range(WRONG_AT_ONCE + 4)]
    seen = [(await guess.send("GET", "/accounts")).status_code for guess in guesses]
    assert seen == [401] * (WRONG_AT_ONCE + 1) + [429] * 3
    refused = await guesses[0].send("GET", "/accounts")
    check_problem(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await AdminClient(http, process.url).send("GET", "/accounts")).status_code == 200
    nothing = await AdminClient(http, process.url, None).send("GET", "/accounts")
    check_problem(nothing, 401, "invalid_admin_token")
    counted = Counter(await scrape(health_port, "agentchat_admin_tokens_refused_total"))
    assert counted - before == {
        "reason=wrong": WRONG_AT_ONCE + 1,
        "reason=address": 4,
        "reason=missing": 1,
    }


async def test_without_a_token_there_is_no_such_address(
    http: httpx.AsyncClient, gateway: EmbeddedService
) -> None:
    closed = AdminClient(http, gateway.url)
    unknown = (await http.get(f"{gateway.url}/nowhere")).json()
    for route in ROUTES:
        document = check_problem(await closed.send(route.method, route.path), 404, "not_found")
        assert document["detail"].startswith(f"No such endpoint: {route.method} /admin/v1")
        own = {"trace_id": "", "detail": ""}
        assert document | own == unknown | own


WRONG = [
    ("POST", "/accounts", {}, ["name"]),
    ("POST", "/accounts", {"name": "A", "plan": "Gold"}, ["plan"]),
    ("POST", "/accounts", {"name": "A", "plan": 7}, ["plan"]),
    ("POST", "/accounts", {"name": "A", "plna": "Pro"}, ["plna"]),
    ("POST", "/accounts", {"name": " \t "}, ["name"]),
    ("POST", "/accounts", {"name": "a\x00b"}, ["name"]),
    ("POST", "/accounts", {"name": "\x1b[31mred"}, ["name"]),
    ("POST", "/accounts", {"name": "x" * 201}, ["name"]),
    ("POST", "/accounts", {"name": "A", "id": "1"}, ["id"]),
    ("POST", "/accounts", ["name"], ["body"]),
    ("POST", "/plans", {"name": "a/b"}, ["name"]),
    ("POST", "/plans", {"name": "A", "concurrent_runs": 0}, ["concurrent_runs"]),
    ("POST", "/plans", {"name": "A", "concurrent_runs": 1.5}, ["concurrent_runs"]),
    ("POST", "/plans", {"name": "A", "requests_per_minute": 2**40}, ["requests_per_minute"]),
    ("POST", "/plans", {"name": "A", "tokens_per_month": -1}, ["tokens_per_month"]),
    ("POST", "/agents", {"account_id": UNKNOWN, "name": "A", "model": "m"}, ["account_id"]),
    ("POST", "/agents", {"name": "A", "model": "m"}, ["account_id"]),
    (
        "POST",
        "/agents",
        {"account_id": UNKNOWN, "name": "A", "model": "m", "output_type": "xml"},
        ["output_type"],
    ),
    ("POST", "/knowledge_bases", {"account_id": UNKNOWN, "name": "A"}, ["account_id"]),
]


@pytest.mark.parametrize(("method", "path", "body", "fields"), WRONG)
async def test_what_is_wrong_is_named(
    admin: AdminClient, method: str, path: str, body: object, fields: list[str]
) -> None:
    assert await admin.refused(method, path, body, status=400, code="invalid_request") == fields


async def test_ids_that_can_be_none_are_not_found(admin: AdminClient) -> None:
    for odd in (UNKNOWN, "x", "%00", "%ff", "a" * 1000, "..%2e"):
        for path in (
            f"/accounts/{odd}",
            f"/keys/{odd}",
            f"/plans/{odd}",
            f"/knowledge_bases/{odd}/documents/{odd}",
        ):
            response = await admin.send("GET", path)
            check_problem(response, 404, "not_found")
    await admin.refused("GET", "/agents", status=404, code="not_found", account_id=UNKNOWN)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/accounts?limit=0", "limit"),
        ("/accounts?limit=101", "limit"),
        ("/accounts?limit=x", "limit"),
        ("/accounts?cursor=%21", "cursor"),
        ("/audit?cursor=eA", "cursor"),
        ("/accounts?force=true", "force"),
        ("/audit?kind=%00", "kind"),
        ("/audit?subject=", "subject"),
    ],
)
async def test_an_odd_query_is_named(admin: AdminClient, path: str, field: str) -> None:
    assert await admin.refused("GET", path, status=400, code="invalid_request") == [field]
    response = await admin.send("DELETE", f"/accounts/{UNKNOWN}?dry_run=maybe")
    assert check_problem(response, 400, "invalid_request")["errors"][0]["field"] == "dry_run"


async def test_bodies_are_read_strictly(admin: AdminClient) -> None:
    deep = "[" * 4000 + "]" * 4000
    for content, code, status in (
        (b'{"name":"\\ud800"}', "invalid_request", 400),
        (b'{"name":"\xff"}', "invalid_request", 400),
        (f'{{"name":{deep}}}'.encode(), "invalid_request", 400),
        (b"{", "invalid_request", 400),
        (b"", "invalid_request", 400),
        (b'{"name":"' + b"a" * 2**20 + b'"}', "message_too_large", 413),
    ):
        headers = {**admin.headers, "Content-Type": "application/json"}
        response = await admin.http.post(f"{admin.url}/accounts", content=content, headers=headers)
        check_problem(response, status, code)
    plain = {**admin.headers, "Content-Type": "text/plain"}
    response = await admin.http.post(f"{admin.url}/accounts", content=b"{}", headers=plain)
    check_problem(response, 415, "unsupported_media_type")
    fields = await admin.refused(
        "POST", f"/keys/{UNKNOWN}/rotate", {"key": "mine"}, status=400, code="invalid_request"
    )
    assert fields == ["key"]
