"""The admin API over HTTP: agents, their MCP servers and knowledge bases, on a real gateway and Postgres."""

from typing import Any

import pytest

from tests.gateway.admin import AdminClient, make_agent

UNKNOWN = "019a0000-0000-7000-8000-00000000dead"


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


async def test_a_document_over_a_mebibyte_is_taken(admin: AdminClient, base: str) -> None:
    text = f"<!-- {'a' * 2**20} --><p>Hardly a word.</p>"
    long = {"name": "long.html", "kind": "html", "text": text}
    assert (await admin.post(f"{base}/documents", long))["document"]["characters"] > 2**20


async def test_the_audit_names_who_is_said_to_ask(admin: AdminClient) -> None:
    admin.headers = {**admin.headers, "X-Admin-Actor": "ada@cli"}
    account = (await admin.post("/accounts", {"name": "Acme"}))["id"]
    assert await admin.audit(account) == [("create", "ada@cli")]
    for odd in ("", "a b", "x" * 101):
        admin.headers["X-Admin-Actor"] = odd
        assert await admin.refused("GET", "/plans", status=400, code="invalid_request") == ["X-Admin-Actor"]
