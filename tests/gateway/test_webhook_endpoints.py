"""/v1/webhook_endpoints: made, changed, deleted by their account alone; what is refused."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from agentchat.administration import admin_accounts as directory
from agentchat.contracts import ids
from agentchat.contracts.admin_errors import Conflict
from agentchat.gateway.api import webhook_deliveries
from agentchat.runtime.postgres import Connection, Pool
from tests.administrator import administrator
from tests.gateway.client import check_problem
from tests.gateway.conftest import Accounts, make_account
from tests.gateway.embedded import run_embedded_gateway
from tests.support.embedded_service import EmbeddedService

URL = "https://hooks.example.com/agents"
NOBODY = "0192f0c1-0000-7000-8000-000000000000"


class Hooks:
    """`/v1/webhook_endpoints` of one gateway for one account."""

    def __init__(self, http: httpx.AsyncClient, url: str, key: str) -> None:
        self._http = http
        self._url = f"{url}/v1/webhook_endpoints"
        self._headers = {"X-Api-Key": key}

    async def send(self, method: str, path: str = "", body: Any = None, **query: Any) -> httpx.Response:
        given = {} if body is None else {"json": body}
        return await self._http.request(
            method, f"{self._url}{path}", headers=self._headers, params=query or None, **given
        )

    async def ok(
        self, method: str, path: str = "", body: Any = None, *, status: int = 200, **query: Any
    ) -> Any:
        response = await self.send(method, path, body, **query)
        assert response.status_code == status, response.text
        return response.json()

    async def make(self, **more: Any) -> Any:
        return await self.ok("POST", body={"url": URL, "events": ["run.completed"]} | more, status=201)


@pytest.fixture(scope="module")
async def webhook_gateway(environ: dict[str, str]) -> AsyncIterator[EmbeddedService]:
    key = base64.b64encode(os.urandom(32)).decode()
    own = {"AGENTCHAT_SECRET_KEY": key, "AGENTCHAT_WEBHOOK_ALLOW": "127.0.0.1:4444"}
    with pytest.MonkeyPatch.context() as hurry:
        hurry.setattr(webhook_deliveries, "TEST_SECONDS", 0.5)
        async with run_embedded_gateway(environ | own) as running:
            yield running


@pytest.fixture
def hooks(http: httpx.AsyncClient, webhook_gateway: EmbeddedService, accounts: Accounts) -> Hooks:
    return Hooks(http, webhook_gateway.url, accounts.free.key)


async def test_an_endpoint_is_made_shown_changed_and_deleted(hooks: Hooks) -> None:
    made = await hooks.make(payload="full")
    assert made["secret"].startswith("whsec_")
    assert len(base64.b64decode(made["secret"].removeprefix("whsec_"))) == 32
    shown = await hooks.ok("GET", f"/{made['id']}")
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert shown["secret_last4"] == made["secret"][-4:]
    assert (shown["payload"], shown["disabled"]) == ("full", False)
    changed = await hooks.ok("PATCH", f"/{made['id']}", {"events": ["run.failed"], "disabled": True})
    assert (changed["events"], changed["disabled"], changed["disabled_reason"]) == (
        ["run.failed"],
        True,
        "account",
    )
    assert changed["url"] == URL
    assert (await hooks.ok("PATCH", f"/{made['id']}", {"disabled": False}))["disabled_reason"] is None
    assert (await hooks.send("DELETE", f"/{made['id']}")).status_code == 204
    check_problem(await hooks.send("GET", f"/{made['id']}"), 404, "not_found")


async def test_a_rotated_secret_is_another_one_and_shown_once(hooks: Hooks) -> None:
    made = await hooks.make()
    rotated = await hooks.ok("POST", f"/{made['id']}/rotate_secret")
    assert rotated["secret"] != made["secret"]
    shown = await hooks.ok("GET", f"/{made['id']}")
    assert shown["secret_last4"] == rotated["secret"][-4:]
    assert "secret" not in shown


async def test_endpoints_are_listed_by_page_in_order_of_creation(
    http: httpx.AsyncClient, webhook_gateway: EmbeddedService, pool: Pool
) -> None:
    hooks = Hooks(http, webhook_gateway.url, (await make_account(pool, "Unlimited")).key)
    made = [(await hooks.make())["id"] for _ in range(3)]
    first = await hooks.ok("GET", limit="2")
    second = await hooks.ok("GET", limit="2", cursor=first["next_cursor"])
    assert [each["id"] for each in first["data"] + second["data"]] == made
    assert second["next_cursor"] is None


async def test_another_accounts_endpoint_is_not_found(
    http: httpx.AsyncClient, webhook_gateway: EmbeddedService, accounts: Accounts, hooks: Hooks
) -> None:
    made = await hooks.make()
    other = Hooks(http, webhook_gateway.url, accounts.other.key)
    tried = await hooks.ok("POST", f"/{made['id']}/test", {})
    for method, path, body in (
        ("GET", f"/{made['id']}", None),
        ("PATCH", f"/{made['id']}", {"disabled": True}),
        ("DELETE", f"/{made['id']}", None),
        ("POST", f"/{made['id']}/rotate_secret", None),
        ("POST", f"/{made['id']}/test", {}),
        ("GET", f"/{made['id']}/deliveries", None),
        ("GET", f"/{made['id']}/deliveries/{tried['id']}", None),
        ("POST", f"/{made['id']}/deliveries/{tried['id']}/resend", None),
        ("GET", "/nothing", None),
        ("GET", f"/{NOBODY}", None),
        ("POST", "/deliveries/nothing/resend", None),
    ):
        check_problem(await other.send(method, path, body), 404, "not_found")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://127.0.0.1/", "127.0.0.1 is not a public address"),
        ("https://hooks.example.com:8444/", "port 8444"),
        ("http://127.0.0.1:4445/", "not https"),
    ],
)
async def test_an_address_that_may_not_be_called_is_refused_with_why(
    hooks: Hooks, url: str, reason: str
) -> None:
    problem = check_problem(
        await hooks.send("POST", body={"url": url, "events": ["run.completed"]}), 400, "address_refused"
    )
    reason += "; the operator's AGENTCHAT_WEBHOOK_ALLOW lists exceptions"
    assert problem["errors"] == [{"field": "url", "message": f"This may not be called: {reason}."}]
    made = await hooks.make()
    check_problem(await hooks.send("PATCH", f"/{made['id']}", {"url": url}), 400, "address_refused")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"events": ["run.completed"]}, "url"),
        ({"url": "hooks.example.com", "events": ["run.completed"]}, "url"),
        ({"url": "https://u:p@hooks.example.com/", "events": ["run.completed"]}, "url"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "events": ["run.exploded"]}, "events[0]"),
        ({"url": URL, "events": ["run.completed"], "payload": "fat"}, "payload"),
        ({"url": URL, "events": ["run.completed"], "secret": "x"}, "secret"),
    ],
)
async def test_a_wrong_field_is_named(hooks: Hooks, body: Any, field: str) -> None:
    problem = check_problem(await hooks.send("POST", body=body), 400, "invalid_request")
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_an_account_has_fifty_endpoints_at_most(
    http: httpx.AsyncClient, webhook_gateway: EmbeddedService, pool: Pool, conn: Connection
) -> None:
    hooks = Hooks(http, webhook_gateway.url, (await make_account(pool, "Unlimited")).key)
    copies = (
        "INSERT INTO webhook_endpoints SELECT (jsonb_populate_record(e, jsonb_build_object("
        "'endpoint_id', gen_random_uuid()::text))).* FROM webhook_endpoints e, generate_series(2, 48)"
        " WHERE endpoint_id = %s"
    )
    await conn.execute(copies, [(await hooks.make())["id"]])
    body = {"url": URL, "events": ["run.completed"]}
    answers = await asyncio.gather(*(hooks.send("POST", body=body) for _ in range(4)))
    assert sorted(each.status_code for each in answers) == [201] * 2 + [409] * 2


async def test_tests_and_resends_are_noted_for_an_endpoint_that_is_enabled(
    hooks: Hooks, conn: Connection
) -> None:
    """Nobody delivers here: the test is answered as it stands."""
    made = await hooks.make()
    tested = await hooks.ok("POST", f"/{made['id']}/test", {"type": "approval.requested"})
    assert (tested["type"], tested["status"], tested["attempts"]) == ("approval.requested", "waiting", [])
    listed = await hooks.ok("GET", f"/{made['id']}/deliveries")
    assert listed == {"data": [tested], "next_cursor": None}
    assert await hooks.ok("GET", f"/{made['id']}/deliveries/{tested['id']}") == tested
    assert (await hooks.send("GET", f"/{made['id']}/deliveries", status="odd")).status_code == 400
    await conn.execute("UPDATE webhook_deliveries SET status = 'failed', tries = 10, next_attempt_at = NULL")
    resent = await hooks.ok("POST", f"/{made['id']}/deliveries/{tested['id']}/resend", status=202)
    assert (resent["id"], resent["status"]) == (tested["id"], "waiting")
    elsewhere = await hooks.send("POST", f"/{ids.make_id()}/deliveries/{tested['id']}/resend")
    check_problem(elsewhere, 404, "not_found")
    await hooks.ok("PATCH", f"/{made['id']}", {"disabled": True})
    for path, body in (
        (f"/{made['id']}/test", {}),
        (f"/{made['id']}/deliveries/{tested['id']}/resend", None),
    ):
        check_problem(await hooks.send("POST", path, body), 409, "conflict")


async def test_endpoints_go_with_their_account(
    http: httpx.AsyncClient, webhook_gateway: EmbeddedService, pool: Pool, conn: Connection
) -> None:
    account = await make_account(pool, "Unlimited")
    made = await Hooks(http, webhook_gateway.url, account.key).make()
    with pytest.raises(Conflict, match="1 webhook endpoint"):
        await directory.delete(administrator(pool), account.account_id)
    await directory.delete(administrator(pool), account.account_id, force=True)
    for table in ("webhook_endpoints", "webhook_deliveries"):
        rows = await conn.execute(f"SELECT FROM {table} WHERE endpoint_id = %s".encode(), [made["id"]])
        assert await rows.fetchall() == []


async def test_a_page_of_deliveries_counts_nothing_of_others(hooks: Hooks) -> None:
    made = await hooks.make()
    sent = [await hooks.ok("POST", f"/{made['id']}/test", {"type": "run.failed"}) for _ in range(3)]
    first = await hooks.ok("GET", f"/{made['id']}/deliveries", limit="2")
    assert [each["id"] for each in first["data"]] == [sent[2]["id"], sent[1]["id"]]
    cursor = first["next_cursor"]
    assert json.loads(base64.urlsafe_b64decode(cursor + "==")) == sent[1]["id"]
    second = await hooks.ok("GET", f"/{made['id']}/deliveries", limit="2", cursor=cursor)
    assert [each["id"] for each in second["data"]] == [sent[0]["id"]]
    assert second["next_cursor"] is None
    other = await hooks.make()
    elsewhere = await hooks.ok("GET", f"/{other['id']}/deliveries", limit="2", cursor=cursor)
    assert elsewhere == {"data": [], "next_cursor": None}
    by_place = base64.urlsafe_b64encode(b"4711").decode().rstrip("=")
    wrong = await hooks.send("GET", f"/{made['id']}/deliveries", cursor=by_place)
    check_problem(wrong, 400, "invalid_request")
