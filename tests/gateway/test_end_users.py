"""How a request names its end user, in each protocol, and what an account may require."""

import asyncio
from typing import Any

import pytest

from agentchat.administration import admin_accounts, admin_keys
from agentchat.administration.admin_values import AccountChanges
from agentchat.administration.key_values import NewKey
from agentchat.contracts import ids
from agentchat.directory.api_keys import Scope
from agentchat.runtime.postgres import Pool
from tests.administrator import administrator
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts, make_account
from tests.gateway.worker import Worker

NAMED: list[tuple[dict[str, str], dict[str, Any], str | None]] = [
    ({"X-User-Id": "CUST-001"}, {}, "CUST-001"),
    ({"X-User-Id": "CUST-001"}, {"user": "other", "safety_identifier": "another"}, "CUST-001"),
    ({}, {"user": "ada@shop.example", "safety_identifier": "0d6b"}, "0d6b"),
    ({}, {"user": "ada@shop.example"}, "ada@shop.example"),
    ({}, {"user": None, "safety_identifier": ""}, None),
]


@pytest.mark.parametrize(("headers", "fields", "user_id"), NAMED)
async def test_openai_clients_name_the_user_in_the_body(
    client: Client, worker: Worker, headers: dict[str, str], fields: dict[str, Any], user_id: str | None
) -> None:
    message = ids.make_id()
    body = {"model": client.headers["X-Agent-Id"], "input": message, **fields}
    key = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    sent = client.send("POST", "/openai/v1/responses", json=body, headers=key | headers)
    asking = asyncio.create_task(sent)
    turn = await worker.next(message)
    assert turn.request.user_id == user_id
    await turn.answer()
    assert (await asking).status_code == 200


@pytest.mark.parametrize("user_id", ["", "a b", "Ädä", "x" * 129])
async def test_a_wrong_user_is_refused(client: Client, user_id: str) -> None:
    url, key = f"{client.url}/v1/conversations", client.headers["X-Api-Key"]
    sent = {b"X-Api-Key": key.encode(), b"X-User-Id": user_id.encode("latin-1")}
    refused = await client.http.get(url, headers=sent)
    document = check_problem(refused, 400, "invalid_request")
    assert document["errors"][0]["field"] == "X-User-Id"
    twice = [("X-Api-Key", key), ("X-User-Id", "a"), ("X-User-Id", "b")]
    check_problem(await client.http.get(url, headers=twice), 400, "invalid_request")


@pytest.mark.parametrize("field", ["title", "metadata", "external_id"])
async def test_a_known_conversation_takes_no_labels(client: Client, field: str) -> None:
    value: Any = {"a": "b"} if field == "metadata" else "x"
    refused = await client.chat(conversation_id=ids.make_id(), **{field: value})
    assert check_problem(refused, 400, "invalid_request")["errors"][0]["field"] == field


async def test_an_account_may_require_users(client: Client, pool: Pool) -> None:
    account = await make_account(pool, "Unlimited")
    await admin_accounts.change(administrator(pool), account.account_id, AccountChanges(require_user=True))
    strict = Client(client.http, client.url, account.key, account.agent)
    for refused in (await strict.chat(), await strict.get("/v1/conversations")):
        document = check_problem(refused, 400, "invalid_request")
        assert document["errors"][0]["field"] == "X-User-Id"
    user = {"X-User-Id": "CUST-001"}
    assert (await strict.send("GET", "/v1/conversations", headers=user)).status_code == 200
    key = {"Authorization": f"Bearer {account.key}"}
    assert (await strict.send("GET", "/openai/v1/models", headers=key)).status_code == 200
    assert (await strict.get("/v1/webhook_endpoints")).status_code == 200, "it is the account's own"


SCOPED = {
    "chat": [("POST", "/v1/chat"), ("GET", "/v1/chat/{trace}/events"), ("GET", "/openai/v1/models")],
    "read": [("GET", f"/v1/{name}") for name in ("conversations", "approvals", "usage", "agents")],
    "manage": [("DELETE", "/v1/conversations/{id}"), ("GET", "/v1/webhook_endpoints")],
    "approve": [("POST", "/v1/approvals/{id}/decision")],
}


@pytest.mark.parametrize("scope", SCOPED)
async def test_a_key_does_what_its_scopes_allow(client: Client, pool: Pool, scope: Scope) -> None:
    account = await make_account(pool, "Unlimited")
    issued = await admin_keys.create(administrator(pool), account.account_id, NewKey(scopes=[scope]))
    headers = {"X-Api-Key": issued.key, "Authorization": f"Bearer {issued.key}", "X-Agent-Id": account.agent}
    for needed, routes in SCOPED.items():
        for method, path in routes:
            url = client.url + path.format(trace="a" * 32, id=ids.make_id())
            content = {"Content-Type": "application/json"} if method == "POST" else {}
            body = b"{}" if method == "POST" else None
            response = await client.http.request(method, url, headers=headers | content, content=body)
            assert (response.status_code == 403) == (needed != scope), (scope, path, response.text)


async def test_an_account_reads_its_usage_and_agents(client: Client, accounts: Accounts) -> None:
    usage = (await client.get("/v1/usage", month="2026-10")).json()
    none: dict[str, object] = {
        "tokens": 0,
        "limit": None,
        "runs": 0,
        "cost": 0,
        "unpriced": 0,
        "budget": None,
        "lines": [],
    }
    assert usage == {"month": "2026-10", "currency": "USD"} | none
    agents = (await client.get("/v1/agents")).json()["data"]
    assert {each["id"] for each in agents} == {accounts.free.agent, accounts.free.second_agent}
    check_problem(await client.get("/v1/usage", month="2026-13"), 400, "invalid_request")
