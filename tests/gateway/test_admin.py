"""The admin API over HTTP: the whole life of each kind of thing, on a real gateway and Postgres."""

import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.gateway.admin import TOKEN, AdminClient
from tests.gateway.client import check_problem
from tests.gateway.process import GatewayProcess

pytestmark = pytest.mark.requirement("ADMIN-API")

UNKNOWN = "019a0000-0000-7000-8000-00000000dead"


@pytest.fixture(scope="module")
async def gateway(
    environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    key = base64.b64encode(os.urandom(32)).decode()
    own = {"AGENTCHAT_ADMIN_TOKEN": TOKEN, "AGENTCHAT_SECRET_KEY": key}
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), environ | own)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture
def admin(http: httpx.AsyncClient, gateway: GatewayProcess) -> AdminClient:
    return AdminClient(http, gateway.url)


@pytest.fixture
async def account(admin: AdminClient) -> str:
    made: str = (await admin.post("/accounts", {"name": "Acme", "plan": "Pro"}))["id"]
    return made


async def make_agent(admin: AdminClient, account: str, **more: Any) -> Any:
    return await admin.post("/agents", {"account_id": account, "name": "Shop", "model": "m-1", **more})


async def test_an_accounts_life(admin: AdminClient) -> None:
    made = await admin.post("/accounts", {"name": "  Acme   Ltd ", "plan": "Pro"})
    assert made.keys() == {"id", "name", "plan", "disabled", "created_at"}
    assert (made["name"], made["plan"], made["disabled"]) == ("Acme Ltd", "Pro", False)
    assert made["created_at"].endswith("Z")
    path = f"/accounts/{made['id']}"
    assert await admin.get(path) == made
    assert await admin.get(path.upper().replace("/ACCOUNTS", "/accounts")) == made
    changed = await admin.patch(path, {"name": "Acme", "plan": "Starter", "disabled": True})
    assert (changed["name"], changed["plan"], changed["disabled"]) == ("Acme", "Starter", True)
    assert (await admin.patch(path, {"disabled": False}))["disabled"] is False
    assert await admin.patch(path, {}) == changed | {"disabled": False}
    would = await admin.send("DELETE", path, dry_run="true")
    assert would.json() == {
        "kind": "account",
        "id": made["id"],
        "dry_run": True,
        "needs_force": False,
        "goes": [],
        "used_by": [],
    }
    await admin.delete(path)
    assert await admin.refused("GET", path, status=404, code="not_found") == []
    done = [("create", "admin-api"), ("change", "admin-api"), ("disable", "admin-api")]
    assert await admin.audit(made["id"]) == [*done, ("enable", "admin-api"), ("delete", "admin-api")]


async def test_an_account_that_has_something_is_deleted_only_with_force(
    admin: AdminClient, account: str
) -> None:
    path = f"/accounts/{account}"
    key = await admin.post(f"{path}/keys")
    agent = await make_agent(admin, account)
    base = await admin.post("/knowledge_bases", {"account_id": account, "name": "Policies"})
    refused = await admin.send("DELETE", path)
    document = check_problem(refused, 409, "conflict")
    assert document["errors"] == [
        {"field": "keys", "message": f"1: ...{key['last4']}"},
        {"field": "agents", "message": "1: Shop"},
        {"field": "knowledge_bases", "message": "1: Policies"},
    ]
    would = (await admin.send("DELETE", path, dry_run="1")).json()
    assert would["needs_force"] is True
    assert [use["kind"] for use in would["goes"]] == ["keys", "agents", "knowledge bases"]
    assert (await admin.get(path))["disabled"] is False
    await admin.delete(path, force="true")
    for gone in (path, f"/keys/{key['id']}", f"/agents/{agent['id']}", f"/knowledge_bases/{base['id']}"):
        await admin.refused("GET", gone, status=404, code="not_found")


async def test_keys_are_shown_once_and_open_the_api_until_rotated_or_revoked(
    admin: AdminClient, account: str
) -> None:
    issued = await admin.post(f"/accounts/{account}/keys", {"name": "backend"})
    assert issued.keys() == {"id", "key", "last4", "account_id", "name"}
    assert issued["key"].startswith("sk-ac-")
    assert issued["key"].endswith(issued["last4"])
    shown = await admin.get(f"/keys/{issued['id']}")
    assert shown.keys() == {
        "id",
        "account_id",
        "name",
        "last4",
        "disabled",
        "created_at",
        "last_used_at",
        "rotated_at",
        "revoked_at",
    }
    assert await opens(admin, issued["key"]) == 200
    rotated = await admin.post(f"/keys/{issued['id']}/rotate", status=200)
    assert rotated["id"] == issued["id"]
    assert (await opens(admin, issued["key"]), await opens(admin, rotated["key"])) == (401, 200)
    assert (await admin.patch(f"/keys/{issued['id']}", {"name": "web", "disabled": True}))["disabled"] is True
    assert await opens(admin, rotated["key"]) == 401
    assert (await admin.patch(f"/keys/{issued['id']}", {"disabled": False}))["name"] == "web"
    assert await opens(admin, rotated["key"]) == 200
    await admin.delete(f"/keys/{issued['id']}", dry_run="false")
    await admin.delete(f"/keys/{issued['id']}")
    assert await opens(admin, rotated["key"]) == 401
    await admin.refused("POST", f"/keys/{issued['id']}/rotate", status=409, code="conflict")
    enabled = {"disabled": False}
    await admin.refused("PATCH", f"/keys/{issued['id']}", enabled, status=409, code="conflict")
    listed = (await admin.get(f"/accounts/{account}/keys"))["data"]
    assert [(key["id"], key["name"], key["revoked_at"] is None) for key in listed] == [
        (issued["id"], "web", False)
    ]
    assert issued["key"] not in str(listed)
    actions = [action for action, _ in await admin.audit(issued["id"])]
    assert actions == ["create", "rotate", "change", "disable", "enable", "revoke"]


async def opens(admin: AdminClient, key: str) -> int:
    response = await admin.http.get(
        admin.url.replace("/admin/v1", "/v1/conversations"), headers={"X-Api-Key": key}
    )
    return response.status_code


async def test_plans_are_data(admin: AdminClient, account: str) -> None:
    numbers = {"requests_per_minute": 5, "concurrent_runs": None, "tokens_per_month": 10**12}
    made = await admin.post("/plans", {"name": "Trial", "form2_streaming": False, **numbers})
    assert made == {"name": "Trial", "form2_streaming": False, "max_message_bytes": None, **numbers}
    await admin.refused("POST", "/plans", {"name": "Trial"}, status=409, code="conflict")
    changed = await admin.patch("/plans/Trial", {"requests_per_minute": None, "concurrent_runs": 3})
    assert changed == made | {"requests_per_minute": None, "concurrent_runs": 3}
    assert changed in (await admin.get("/plans"))["data"]
    await admin.patch(f"/accounts/{account}", {"plan": "Trial"})
    for query in ({}, {"dry_run": "true"}):
        fields = await admin.refused("DELETE", "/plans/Trial", status=409, code="conflict", **query)
        assert fields == ["accounts"]
    await admin.patch(f"/accounts/{account}", {"plan": "Pro"})
    await admin.delete("/plans/Trial")
    await admin.refused("GET", "/plans/Trial", status=404, code="not_found")
    assert await admin.refused(
        "PATCH", f"/accounts/{account}", {"plan": "Trial"}, status=400, code="invalid_request"
    ) == ["plan"]


@pytest.mark.requirement("AGENT-VERSIONS")
async def test_a_change_of_an_agent_is_a_version_that_can_be_shown_and_restored(
    admin: AdminClient, account: str
) -> None:
    made = await make_agent(admin, account, system_prompt="One.", provider_key="sk-provider-canary-1234")
    path = f"/agents/{made['id']}"
    assert (made["version"], made["provider_key"]) == (1, {"set": True, "last4": "1234"})
    second = await admin.patch(path, {"system_prompt": "Two.", "provider_key": None})
    assert (second["version"], second["provider_key"]) == (2, {"set": False, "last4": None})
    assert (await admin.patch(path, {"disabled": True}))["version"] == 2
    assert (await admin.get(path))["disabled"] is True
    await admin.patch(path, {"disabled": False})
    assert (await admin.get(f"{path}/versions/1"))["system_prompt"] == "One."
    third = await admin.post(f"{path}/versions/1/restore", status=200)
    assert (third["version"], third["system_prompt"]) == (3, "One.")
    assert third["provider_key"] == made["provider_key"]
    versions = (await admin.get(f"{path}/versions"))["data"]
    assert [(each["version"], each["current"]) for each in versions] == [(3, True), (2, False), (1, False)]
    first = await admin.get(f"{path}/versions", limit=2)
    rest = await admin.get(f"{path}/versions", limit=2, cursor=first["next_cursor"])
    assert ([each["version"] for each in rest["data"]], rest["next_cursor"]) == ([1], None)
    for unknown in ("4", "0", "x", "99999999999"):
        await admin.refused("GET", f"{path}/versions/{unknown}", status=404, code="not_found")
    would = (await admin.send("DELETE", path, dry_run="true")).json()
    assert would["goes"] == [{"kind": "versions", "count": 3, "names": []}]
    await admin.delete(path)
    await admin.refused("GET", path, status=404, code="not_found")
    rows = (await admin.get("/audit", subject=made["id"]))["data"]
    assert [row["action"] for row in rows] == ["delete", "restore", "enable", "disable", "change", "create"]
    assert rows[4]["after"]["secrets_changed"] == ["provider_key"]
    assert (rows[4]["before"]["system_prompt"], rows[4]["after"]["system_prompt"]) == ("One.", "Two.")
    assert "canary" not in str(rows)


@pytest.mark.requirement("AGENT-VERSIONS", "TOOLS-HEADERS-ORIGIN")
async def test_mcp_servers_keep_their_headers_unless_given(admin: AdminClient, account: str) -> None:
    agent = await make_agent(admin, account)
    path = f"/agents/{agent['id']}/mcp_servers"
    shop = {"name": "shop", "url": "https://shop.example/mcp", "headers": {"X-Token": "canary-secret"}}
    shown = await admin.post(path, shop)
    assert shown == {
        "name": "shop",
        "url": "https://shop.example/mcp",
        "header_names": ["X-Token"],
        "allowed_tools": None,
        "disabled": False,
    }
    await admin.refused("POST", path, shop, status=409, code="conflict")
    changed = await admin.patch(f"{path}/shop", {"disabled": True, "allowed_tools": ["find"]})
    assert changed == shown | {"disabled": True, "allowed_tools": ["find"]}
    moved = await admin.patch(f"{path}/shop", {"url": "https://SHOP.example:443/v2"})
    assert moved["header_names"] == ["X-Token"]
    for url in ("https://new.example/mcp", "http://shop.example/mcp", "https://shop.example:8443/mcp"):
        assert await admin.refused(
            "PATCH", f"{path}/shop", {"url": url}, status=400, code="invalid_request"
        ) == ["headers"]
    assert await admin.refused(
        "PATCH", f"{path}/shop", {"url": "https://x:99999"}, status=400, code="invalid_request"
    ) == ["url"]
    other = await admin.put(f"{path}/other", {"url": "https://other.example/mcp"})
    assert (other["name"], other["header_names"]) == ("other", [])
    assert (await admin.put(f"{path}/shop", {"url": "https://new.example/mcp"}))["header_names"] == []
    assert [server["name"] for server in (await admin.get(path))["data"]] == ["shop", "other"]
    assert await admin.refused(
        "PATCH", f"{path}/other", {"url": "ftp://x"}, status=400, code="invalid_request"
    ) == ["url"]
    await admin.delete(f"{path}/other")
    await admin.refused("GET", f"{path}/other", status=404, code="not_found")
    assert (await admin.get(f"/agents/{agent['id']}"))["version"] == 7
    assert (await admin.get(f"/agents/{agent['id']}/versions/2"))["mcp_servers"] == [shown]
    assert "canary" not in str(await admin.get("/audit", subject=agent["id"]))


@pytest.mark.requirement("RETRIEVAL")
async def test_a_knowledge_base_and_its_documents(admin: AdminClient, account: str) -> None:
    base = await admin.post("/knowledge_bases", {"account_id": account, "name": "Policies"})
    path = f"/knowledge_bases/{base['id']}"
    text = "# Returns\n\nGoods may be returned within thirty days of purchase."
    put = await admin.post(f"{path}/documents", {"name": "returns.md", "kind": "markdown", "text": text})
    document = put["document"]
    assert (put["outcome"], document["title"], document["chunks"]) == ("added", "Returns", 1)
    again = {"name": "returns.md", "kind": "markdown", "text": text}
    assert (await admin.post(f"{path}/documents", again, status=200))["outcome"] == "unchanged"
    own = f"{path}/documents/{document['id']}"
    html = {"kind": "html", "text": "<h1>Returns</h1><p>Sixty days for returned goods.</p>"}
    assert (await admin.put(own, html))["outcome"] == "changed"
    assert (await admin.get(own))["kind"] == "html"
    found = (await admin.get(f"{path}/search", query="days for returned goods"))["data"]
    assert (found[0]["source"]["title"], "Sixty" in found[0]["text"]) == ("Returns", True)
    chunks = (await admin.get(f"{own}/chunks"))["data"]
    assert [chunk["position"] for chunk in chunks] == [1]
    changed = await admin.patch(path, {"name": "Rules", "disabled": True})
    assert (changed["name"], changed["disabled"]) == ("Rules", True)
    assert (await admin.get(f"{path}/search", query="days for returned goods"))["data"] == found
    assert (await admin.patch(path, {"disabled": False}))["disabled"] is False
    assert (await admin.get("/knowledge_bases", account_id=account))["data"][0]["documents"] == 1
    assert await admin.refused("GET", f"{path}/search", status=400, code="invalid_request") == ["query"]
    text = f"<!-- {'a' * 2**20} --><p>Hardly a word.</p>"
    long = {"name": "long.html", "kind": "html", "text": text}
    assert (await admin.post(f"{path}/documents", long))["document"]["characters"] > 2**20
    agent = await make_agent(admin, account, retrieval={"knowledge_base_id": base["id"]})
    assert await admin.refused("DELETE", path, status=409, code="conflict") == ["agents"]
    await admin.delete(own)
    left = (await admin.get(f"{path}/documents"))["data"]
    assert [document["name"] for document in left] == ["long.html"]
    await admin.delete(path, force="true")
    assert (await admin.get(f"/agents/{agent['id']}"))["retrieval"] is None
    assert await admin.refused(
        "PATCH",
        f"/agents/{agent['id']}",
        {"retrieval": {"knowledge_base_id": base["id"]}},
        status=400,
        code="invalid_request",
    ) == ["retrieval.knowledge_base_id"]
    assert "Sixty" not in str(await admin.get("/audit", kind="document"))


async def test_lists_come_in_pages(admin: AdminClient, account: str) -> None:
    made = [(await admin.post(f"/accounts/{account}/keys"))["id"] for _ in range(3)]
    seen: list[str] = []
    query: dict[str, Any] = {}
    while True:
        page = await admin.get(f"/accounts/{account}/keys", limit=2, **query)
        seen += [key["id"] for key in page["data"]]
        if page["next_cursor"] is None:
            break
        query = {"cursor": page["next_cursor"]}
    assert seen == made
    rows = (await admin.get("/audit", kind="key", actor="admin-api", limit=3))["data"]
    assert [row["subject"] for row in rows] == made[::-1]


async def test_a_months_usage_of_an_account_that_has_spent_nothing(admin: AdminClient, account: str) -> None:
    spent = await admin.get(f"/accounts/{account}/usage", month="2026-01")
    assert (spent["month"], spent["tokens"], spent["lines"]) == ("2026-01", 0, [])
    for month in ("2026-13", "２０２６-01"):  # noqa: RUF001 - digits, but none of ASCII
        assert await admin.refused(
            "GET", f"/accounts/{account}/usage", status=400, code="invalid_request", month=month
        ) == ["month"]


async def test_an_agent_is_checked_over_the_bus(admin: AdminClient, account: str) -> None:
    agent = await make_agent(admin, account)
    told = await admin.post(f"/agents/{agent['id']}/check", status=200)
    assert told["provider"]["code"] == "unavailable"  # no orchestrator runs here
    await admin.refused("POST", f"/agents/{UNKNOWN}/check", status=404, code="not_found")
