"""Named tokens of administrators: their roles, and the accounts that they are limited to."""

import re

import httpx
import pytest
from msgspec.structs import fields

from agentchat.administration.account_scope import KINDS, has_account
from agentchat.administration.route_signature import Route
from agentchat.administration.routes import ROUTES
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.directory.named_tokens import Role
from agentchat.runtime.postgres import Pool
from tests.administrator import administrator
from tests.conversations.read_models import Storage
from tests.gateway.admin import AdminClient
from tests.gateway.client import check_problem
from tests.tenants import UNKNOWN, fill_unknown, make_tenant


async def make_token(admin: AdminClient, name: str, role: str, *accounts: str) -> AdminClient:
    body = {"name": name, "role": role} | ({"account_ids": list(accounts)} if accounts else {})
    issued = await admin.post("/tokens", body)
    return AdminClient(admin.http, admin.url.removesuffix("/admin/v1"), issued["token"])


async def test_token_is_shown_once_listed_and_revoked(admin: AdminClient, account: str) -> None:
    ada = await make_token(admin, "ada", "owner", account)
    (listed,) = [each for each in (await admin.get("/tokens"))["data"] if each["name"] == "ada"]
    assert (listed["role"], listed["account_ids"], listed["last_used_at"]) == ("owner", [account], None)
    assert "token" not in listed
    await ada.patch(f"/accounts/{account}", {"name": "Renamed"})
    used = next(each for each in (await admin.get("/tokens"))["data"] if each["name"] == "ada")
    assert used["last_used_at"] is not None
    (row,) = (await admin.get("/audit", subject=account, limit=1))["data"]
    assert (row["actor"], row["action"], row["subject_name"]) == ("ada", "change", "Acme")
    for body, field in (
        ({"name": "admin", "role": "viewer"}, "name"),
        ({"name": "admin-api", "role": "viewer"}, "name"),
        ({"name": "a b", "role": "viewer"}, "name"),
        ({"name": "bob", "role": "king"}, "role"),
        ({"name": "bob", "role": "viewer", "account_ids": [UNKNOWN]}, "account_ids"),
    ):
        assert await admin.refused("POST", "/tokens", body, status=400, code="invalid_request") == [field]
    await admin.delete("/tokens/ada")
    check_problem(await ada.send("GET", "/accounts"), 401, "invalid_admin_token")
    await admin.refused("POST", "/tokens", {"name": "ada", "role": "viewer"}, status=409, code="conflict")
    assert await admin.audit("ada") == [("create", "admin-api"), ("revoke", "admin-api")]


async def test_each_route_with_each_role(admin: AdminClient) -> None:
    for role in Role:
        token = await make_token(admin, f"each-{role.word}", role.word)
        for route in ROUTES:
            path = re.sub(r"{\w+}", UNKNOWN, route.path)
            answer = await token.send(route.method, path, None if route.method in ("GET", "DELETE") else {})
            if role < route.role:
                problem = check_problem(answer, 403, "not_allowed")
                assert f"needs the role {route.role.word}" in problem["detail"]
            else:
                assert answer.status_code not in (401, 403), (route.method, path, answer.text)


async def test_limited_token_with_each_route(
    admin: AdminClient, store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    storage = Storage(store, log, pool, migrated_database_url)
    own, other = [await make_tenant(administrator(pool), storage, name) for name in ("walrus", "zebra")]
    token = await make_token(admin, "limited", "owner", own.ids["account_id"])
    for route in ROUTES:
        names, named = set(re.findall(r"{(\w+)}", route.path)), f"{route.method} {route.path}"
        body: dict[str, str] | None = None if route.method in ("GET", "DELETE") else {}
        query = {each.name: "true" for each in route.query if each.name == "dry_run" or each.required}
        foreign, unknown, owned = [
            await token.send(route.method, path, body, **query)
            for path in (other.fill(route.path), fill_unknown(route.path), own.fill(route.path))
        ]
        if has_account(names):
            assert foreign.status_code == 404, named
            assert _hide_ids(foreign) == _hide_ids(unknown), named
            assert owned.status_code != 403, named
            assert owned.status_code == 200 or route.method != "GET" or names - own.ids.keys(), owned.text
        else:
            assert (foreign.status_code == 403) != route.filtered, named
        given = set(re.findall(r"[0-9a-f-]{32,}", str(foreign.url)))
        for answer in (foreign, owned):
            assert not [each for each in other.marks - given if each in answer.text], named
    for path, name in (("/agents", "account_id"), ("/runs", "agent_id"), ("/approvals", "conversation_id")):
        await token.refused("GET", path, status=404, code="not_found", **{name: other.ids[name]})
        assert (await token.get(path))["data"], "its own"
    for path in ("/agents", "/knowledge_bases"):
        new = {"account_id": other.ids["account_id"], "name": "A", "model": "m"}
        new = new if path == "/agents" else {name: new[name] for name in ("account_id", "name")}
        await token.refused("POST", path, new, status=404, code="not_found")


UNCHECKED = {
    "account_ids": "of tokens, whose routes are closed to limited administrators",
    "client_id": "of an OAuth client",
    "delivery_id": "looked for among those of the endpoint in the same path",
    "document_id": "looked for among those of the knowledge base in the same path",
}
"""Parameters whose names look like ids, and why `account_limits` need not check them."""


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_id_in_a_request_is_checked_or_has_a_reason(route: Route) -> None:
    names = {each.name for each in (*route.path_parameters, *route.query)}
    names |= {each.encode_name for each in fields(route.body)} if route.body is not None else set()
    ids = {name for name in names if name.endswith(("_id", "_ids"))}
    assert ids - KINDS.keys() <= UNCHECKED.keys()


async def test_child_of_another_account_is_unknown_below_the_own(
    admin: AdminClient, store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    """A path that begins with something of the own account and ends with another's."""
    storage = Storage(store, log, pool, migrated_database_url)
    own, other = [await make_tenant(administrator(pool), storage, name) for name in ("otter", "lynx")]
    token = await make_token(admin, "below", "owner", own.ids["account_id"])
    nested = [route for route in ROUTES if "{document_id}" in route.path]
    assert nested
    for route in nested:
        answers = []
        for document in (other.ids["document_id"], UNKNOWN):
            path = own.fill(route.path.replace("{document_id}", document))
            body = {"text": "Mine now."} if route.method == "PUT" else None
            answers.append(await token.send(route.method, path, body))
        foreign, unknown = answers
        assert foreign.status_code == 404, route
        assert _hide_ids(foreign) == _hide_ids(unknown), route
    kept = f"/knowledge_bases/{other.ids['knowledge_base_id']}/documents/{other.ids['document_id']}"
    assert (await admin.get(kept))["name"] == "lynx"


async def test_totals_and_sums_are_of_the_own_accounts(
    admin: AdminClient, store: ConversationStore, log: Log, pool: Pool, migrated_database_url: str
) -> None:
    storage = Storage(store, log, pool, migrated_database_url)
    own, other = [await make_tenant(administrator(pool), storage, name) for name in ("badger", "heron")]
    token = await make_token(admin, "totals", "viewer", own.ids["account_id"])
    for path, query in (
        ("/runs", {}),
        ("/runs", {"sort": "cost"}),
        ("/conversations", {}),
        ("/conversations", {"sort": "tokens"}),
        ("/conversations/search", {"query": "hello"}),
        ("/conversations/search", {"query": "hello -lynx"}),
    ):
        listed = await token.get(path, **query)
        assert listed["total"] == len(listed["data"]) > 0, path
        assert {row["account_id"] for row in listed["data"]} == {own.ids["account_id"]}, path
    for text in (f"user:{other.name}", other.ids["conversation_id"], other.ids["trace_id"]):
        assert (await token.get("/conversations/search", query=text))["total"] == 0, text
    month = await token.get("/usage", with_lines="true")
    assert [row["account_id"] for row in month["data"]] == [own.ids["account_id"]]
    assert {line["account_id"] for row in month["data"] for line in row["lines"]} <= {own.ids["account_id"]}


def _hide_ids(answer: httpx.Response) -> tuple[int, str]:
    """The answer without the ids that the request named, and its trace."""
    return answer.status_code, re.sub(r"[0-9a-f-]{32,}", "ID", answer.text)
