"""The admin API over HTTP: accounts, keys, plans and usage, on a real gateway and Postgres."""

from typing import Any

import psycopg

from tests.gateway.admin import AdminClient, make_agent
from tests.gateway.client import check_problem


async def test_an_account_is_made_shown_and_changed(admin: AdminClient) -> None:
    made = await admin.post("/accounts", {"name": "  Acme   Ltd ", "plan": "Pro"})
    budgets = {"monthly_budget": None, "user_monthly_budget": None}
    assert made.keys() == {
        *budgets,
        *("id", "name", "plan", "require_user", "disabled", "created_at", "deleting", "retention_days"),
    }
    assert made["created_at"].endswith("Z")
    fields = {"name": "Acme Ltd", "plan": "Pro", "require_user": False, "disabled": False} | budgets
    assert made == made | fields
    path = f"/accounts/{made['id']}"
    assert await admin.get(path) == made
    assert await admin.get(path.upper().replace("/ACCOUNTS", "/accounts")) == made
    changes = {
        "name": "Acme",
        "plan": "Starter",
        "require_user": True,
        "disabled": True,
        "user_monthly_budget": 0.5,
    }
    assert await admin.patch(path, changes) == made | changes
    assert await admin.patch(path, {"disabled": False}) == made | changes | {"disabled": False}
    assert await admin.patch(path, {}) == made | changes | {"disabled": False}


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


async def issue_key(admin: AdminClient, account: str) -> Any:
    return await admin.post(f"/accounts/{account}/keys", {"name": "backend"})


async def test_a_key_is_shown_once(admin: AdminClient, account: str) -> None:
    issued = await issue_key(admin, account)
    assert issued.keys() == {"id", "key", "last4", "account_id", "name"}
    assert issued["key"].startswith("sk-ac-")
    assert issued["key"].endswith(issued["last4"])
    shown = await admin.get(f"/keys/{issued['id']}")
    assert shown.keys() == {
        "id",
        "account_id",
        "name",
        "last4",
        "scopes",
        "disabled",
        "created_at",
        "last_used_at",
        "rotated_at",
        "revoked_at",
        "old_key_until",
    }
    listed = (await admin.get(f"/accounts/{account}/keys"))["data"]
    assert [key["id"] for key in listed] == [issued["id"]]
    assert issued["key"] not in str(listed)


async def test_the_old_key_works_until_its_overlap_ends(
    admin: AdminClient, account: str, migrated_database_url: str
) -> None:
    issued = await issue_key(admin, account)
    path = f"/keys/{issued['id']}"
    rotated = await admin.post(f"{path}/rotate", {"overlap_seconds": 3600}, status=200)
    assert [await opens(admin, each["key"]) for each in (issued, rotated)] == [200, 200]
    assert (await admin.get(path))["old_key_until"] == rotated["old_key_until"]
    await admin.patch(path, {"disabled": True})
    assert [await opens(admin, each["key"]) for each in (issued, rotated)] == [401, 401]
    await admin.patch(path, {"disabled": False})
    with psycopg.connect(migrated_database_url) as conn:
        conn.execute("UPDATE api_keys SET old_key_until = now() WHERE key_id = %s", [issued["id"]])
    assert [await opens(admin, each["key"]) for each in (issued, rotated)] == [401, 200]
    assert (await admin.get(path))["old_key_until"] is None
    newer = await admin.post(f"{path}/rotate", {"overlap_seconds": 604_800}, status=200)
    newest = await admin.post(f"{path}/rotate", {}, status=200)
    assert [await opens(admin, each["key"]) for each in (rotated, newer, newest)] == [401, 401, 200]
    for refused in (-1, 604_801, "1 h"):
        body = {"overlap_seconds": refused}
        await admin.refused("POST", f"{path}/rotate", body, status=400, code="invalid_request")


async def opens(admin: AdminClient, key: str) -> int:
    response = await admin.http.get(
        admin.url.replace("/admin/v1", "/v1/conversations"), headers={"X-Api-Key": key}
    )
    return response.status_code


async def test_plans_are_data(admin: AdminClient, account: str) -> None:
    numbers = {"requests_per_minute": 5, "concurrent_runs": None, "tokens_per_month": 10**12}
    made = await admin.post("/plans", {"name": "Trial", "form2_streaming": False, **numbers})
    unbounded = dict.fromkeys(("max_message_bytes", "storage_bytes"))
    unbounded |= dict.fromkeys(f"user_{name}" for name in numbers)
    assert made == {"name": "Trial", "form2_streaming": False, **unbounded, **numbers}
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
    assert spent["month"] == "2026-01"
    assert spent["tokens"] == 0
    assert spent["lines"] == []
    for month in ("2026-13", "２０２６-01"):  # noqa: RUF001 - digits, but none of ASCII
        assert await admin.refused(
            "GET", f"/accounts/{account}/usage", status=400, code="invalid_request", month=month
        ) == ["month"]


async def test_a_revoked_key_stays_revoked(admin: AdminClient, account: str) -> None:
    issued = await issue_key(admin, account)
    path = f"/keys/{issued['id']}"
    await admin.delete(path, dry_run="false")
    await admin.delete(path)
    assert await opens(admin, issued["key"]) == 401
    await admin.refused("POST", f"{path}/rotate", status=409, code="conflict")
    await admin.refused("PATCH", path, {"disabled": False}, status=409, code="conflict")
    (listed,) = (await admin.get(f"/accounts/{account}/keys"))["data"]
    assert listed["revoked_at"] is not None
    await admin.delete(f"/accounts/{account}")  # it holds nothing up
