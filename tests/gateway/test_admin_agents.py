"""The admin API over HTTP: agents, their MCP servers and knowledge bases, on a real gateway and Postgres."""

from typing import Any

import pytest

from tests.gateway.admin import AdminClient, make_agent

UNKNOWN = "019a0000-0000-7000-8000-00000000dead"


async def test_a_change_of_an_agent_is_a_version_and_disabling_it_is_none(
    admin: AdminClient, account: str
) -> None:
    made = await make_agent(admin, account, system_prompt="One.", provider_key="sk-provider-canary-1234")
    path = f"/agents/{made['id']}"
    assert made["version"] == 1
    assert made["provider_key"] == {"set": True, "last4": "1234"}
    second = await admin.patch(path, {"system_prompt": "Two.", "provider_key": None})
    assert second["version"] == 2
    assert second["provider_key"] == {"set": False, "last4": None}
    assert (await admin.patch(path, {"disabled": True}))["version"] == 2
    assert (await admin.get(path))["disabled"] is True
    await admin.patch(path, {"disabled": False})
    assert (await admin.get(f"{path}/versions/1"))["system_prompt"] == "One."


async def test_versions_come_in_pages_the_newest_first(admin: AdminClient, account: str) -> None:
    path = f"/agents/{(await make_agent(admin, account))['id']}"
    for prompt in ("Two.", "Three."):
        await admin.patch(path, {"system_prompt": prompt})
    versions = (await admin.get(f"{path}/versions"))["data"]
    assert [(each["version"], each["current"]) for each in versions] == [(3, True), (2, False), (1, False)]
    first = await admin.get(f"{path}/versions", limit=2)
    rest = await admin.get(f"{path}/versions", limit=2, cursor=first["next_cursor"])
    assert [each["version"] for each in rest["data"]] == [1]
    assert rest["next_cursor"] is None
    for unknown in ("4", "0", "x", "99999999999"):
        await admin.refused("GET", f"{path}/versions/{unknown}", status=404, code="not_found")


async def test_a_deleted_agent_leaves_an_audit_without_its_secrets(admin: AdminClient, account: str) -> None:
    made = await make_agent(admin, account, system_prompt="One.", provider_key="sk-provider-canary-1234")
    path = f"/agents/{made['id']}"
    await admin.patch(path, {"system_prompt": "Two.", "provider_key": None})
    would = (await admin.send("DELETE", path, dry_run="true")).json()
    assert would["goes"] == [{"kind": "versions", "count": 2, "names": []}]
    await admin.delete(path)
    await admin.refused("GET", path, status=404, code="not_found")
    rows = (await admin.get("/audit", subject=made["id"]))["data"]
    assert [row["action"] for row in rows] == ["delete", "change", "create"]
    change = rows[1]
    assert change["after"]["secrets_changed"] == ["provider_key"]
    assert change["before"]["system_prompt"] == "One."
    assert change["after"]["system_prompt"] == "Two."
    assert "canary" not in str(rows)


async def test_disable_enable_and_restore_are_in_the_audit_of_an_agent(
    admin: AdminClient, account: str
) -> None:
    made = await make_agent(admin, account)
    path = f"/agents/{made['id']}"
    await admin.patch(path, {"disabled": True})
    await admin.patch(path, {"disabled": False})
    await admin.post(f"{path}/versions/1/restore", status=200)
    actions = [action for action, _ in await admin.audit(made["id"])]
    assert actions == ["create", "disable", "enable", "restore"]


SHOP = {"url": "https://shop.example/mcp", "headers": {"X-Token": "canary-secret"}}
SHOWN: dict[str, Any] = {
    "name": "shop",
    "url": "https://shop.example/mcp",
    "header_names": ["X-Token"],
    "allowed_tools": None,
    "require_approval": "never",
    "elicitation": True,
    "max_call_seconds": 30,
    "headers_from_request": {},
    "disabled": False,
}


@pytest.fixture
async def with_shop(admin: AdminClient, account: str) -> str:
    """The path of an agent with one MCP server, `shop`."""
    path = f"/agents/{(await make_agent(admin, account))['id']}"
    assert await admin.put(f"{path}/mcp_servers/shop", SHOP) == SHOWN
    return path


async def test_an_mcp_server_is_added_changed_and_removed_each_in_a_version(
    admin: AdminClient, with_shop: str
) -> None:
    path = f"{with_shop}/mcp_servers"
    changed = await admin.put(
        f"{path}/shop", {"url": SHOP["url"], "disabled": True, "allowed_tools": ["find"]}
    )
    assert changed == SHOWN | {"disabled": True, "allowed_tools": ["find"]}
    other = await admin.put(f"{path}/other", {"url": "https://other.example/mcp"})
    assert other["name"] == "other"
    assert other["header_names"] == []
    assert [server["name"] for server in (await admin.get(path))["data"]] == ["shop", "other"]
    await admin.delete(f"{path}/other")
    await admin.refused("GET", f"{path}/other", status=404, code="not_found")
    assert (await admin.get(with_shop))["version"] == 5
    assert (await admin.get(f"{with_shop}/versions/2"))["mcp_servers"] == [SHOWN]


async def test_headers_of_an_mcp_server_stay_within_its_origin(admin: AdminClient, with_shop: str) -> None:
    path = f"{with_shop}/mcp_servers/shop"
    moved = await admin.put(path, {"url": "https://SHOP.example:443/v2"})
    assert moved["header_names"] == ["X-Token"]
    for url in ("https://new.example/mcp", "https://other.shop.example/mcp"):
        fields = await admin.refused("PUT", path, {"url": url}, status=400, code="invalid_request")
        assert fields == ["headers"], url
    without = await admin.put(path, {"url": "https://new.example/mcp", "headers": {}})
    assert without["header_names"] == []


@pytest.mark.parametrize("url", ["https://x:99999", "ftp://x"])
async def test_an_address_that_is_none_of_an_mcp_server_is_refused(
    admin: AdminClient, with_shop: str, url: str
) -> None:
    path = f"{with_shop}/mcp_servers/other"
    await admin.put(path, {"url": "https://other.example/mcp"})
    fields = await admin.refused("PUT", path, {"url": url}, status=400, code="invalid_request")
    assert fields == ["url"]


RETURNS = "# Returns\n\nGoods may be returned within thirty days of purchase."


@pytest.fixture
async def base(admin: AdminClient, account: str) -> str:
    """The path of a knowledge base."""
    made = await admin.post("/knowledge_bases", {"account_id": account, "name": "Policies"})
    return f"/knowledge_bases/{made['id']}"


async def put_returns(admin: AdminClient, base: str) -> Any:
    document = {"name": "returns.md", "kind": "markdown", "text": RETURNS}
    return (await admin.post(f"{base}/documents", document))["document"]


async def test_a_document_is_added_once_and_changed(admin: AdminClient, base: str) -> None:
    document = await put_returns(admin, base)
    assert document["title"] == "Returns"
    assert document["chunks"] == 1
    again = {"name": "returns.md", "kind": "markdown", "text": RETURNS}
    assert (await admin.post(f"{base}/documents", again, status=200))["outcome"] == "unchanged"
    own = f"{base}/documents/{document['id']}"
    html = {"kind": "html", "text": "<h1>Returns</h1><p>Sixty days for returned goods.</p>"}
    assert (await admin.put(own, html))["outcome"] == "changed"
    assert (await admin.get(own))["kind"] == "html"
    chunks = (await admin.get(f"{own}/chunks"))["data"]
    assert [chunk["position"] for chunk in chunks] == [1]
    assert "Sixty" not in str(await admin.get("/audit", kind="document"))


async def test_a_knowledge_base_is_searched_also_while_it_is_disabled(
    admin: AdminClient, account: str, base: str
) -> None:
    await put_returns(admin, base)
    found = (await admin.get(f"{base}/search", query="days for returned goods"))["data"]
    assert found[0]["source"]["title"] == "Returns"
    assert "thirty" in found[0]["text"]
    changed = await admin.patch(base, {"name": "Rules", "disabled": True})
    assert changed["name"] == "Rules"
    assert changed["disabled"] is True
    assert (await admin.get(f"{base}/search", query="days for returned goods"))["data"] == found
    assert (await admin.patch(base, {"disabled": False}))["disabled"] is False
    assert (await admin.get("/knowledge_bases", account_id=account))["data"][0]["documents"] == 1
    assert await admin.refused("GET", f"{base}/search", status=400, code="invalid_request") == ["query"]


async def test_a_document_over_a_mebibyte_is_taken(admin: AdminClient, base: str) -> None:
    text = f"<!-- {'a' * 2**20} --><p>Hardly a word.</p>"
    long = {"name": "long.html", "kind": "html", "text": text}
    assert (await admin.post(f"{base}/documents", long))["document"]["characters"] > 2**20


async def test_a_deleted_document_is_listed_no_more(admin: AdminClient, base: str) -> None:
    document = await put_returns(admin, base)
    await admin.post(f"{base}/documents", {"name": "other.txt", "text": "Other."})
    await admin.delete(f"{base}/documents/{document['id']}")
    left = (await admin.get(f"{base}/documents"))["data"]
    assert [document["name"] for document in left] == ["other.txt"]


async def test_an_agent_is_checked_over_the_bus(admin: AdminClient, account: str) -> None:
    agent = await make_agent(admin, account)
    told = await admin.post(f"/agents/{agent['id']}/check", status=200)
    assert told["provider"]["code"] == "unavailable"  # no orchestrator runs here
    await admin.refused("POST", f"/agents/{UNKNOWN}/check", status=404, code="not_found")


async def test_the_audit_names_who_is_said_to_ask(admin: AdminClient) -> None:
    admin.headers = {**admin.headers, "X-Admin-Actor": "ada@cli"}
    account = (await admin.post("/accounts", {"name": "Acme"}))["id"]
    assert await admin.audit(account) == [("create", "ada@cli")]
    for odd in ("", "a b", "x" * 101):
        admin.headers["X-Admin-Actor"] = odd
        assert await admin.refused("GET", "/plans", status=400, code="invalid_request") == ["X-Admin-Actor"]


async def test_the_usage_of_all_accounts_has_none_that_has_spent_nothing(admin: AdminClient) -> None:
    assert await admin.get("/usage") == {"data": []}
    assert await admin.refused("GET", "/usage", status=400, code="invalid_request", month="May") == ["month"]


async def test_a_conversation_that_is_none_is_not_deleted(admin: AdminClient) -> None:
    for name in ("019a0000-0000-7000-8000-00000000dead", "x"):
        await admin.refused("DELETE", f"/conversations/{name}", status=404, code="not_found")
