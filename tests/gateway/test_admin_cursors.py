"""Cursors of the admin API that the service has not given out."""

import re

import pytest

from agentchat.administration.routes import ROUTES
from agentchat.gateway.http.pagination import encode_next_cursor
from tests.gateway.admin import AdminClient, make_agent
from tests.gateway.client import check_problem

FORGED = (
    *("", "x", "1", "-1", "9" * 40, "1_0", "\u0663", "0 u", "9" * 40 + " u", "infinity " + "x" * 36),
    *('["a"]', "a b c d", "infinity 0", "2026-01-01 x", '["infinity", "x"]', "[null, null]"),
)
SORTS = {
    "/accounts/{account_id}/users": ("order", ["last_active_at", "tokens", "conversations"]),
    "/runs": ("sort", ["last_activity", "cost", "tokens:asc", "duration_ms"]),
    "/conversations": ("sort", ["created", "last_activity", "rating", "cost:asc", "message_count"]),
}
LISTS = [route.path for route in ROUTES if any(each.argument == "after" for each in route.query)]


@pytest.mark.parametrize("path", [path for path in LISTS if not re.search("document_id|endpoint_id", path)])
async def test_a_forged_cursor_is_refused_or_finds_a_page(
    admin: AdminClient, account: str, path: str
) -> None:
    agent = await make_agent(admin, account)
    base = await admin.post("/knowledge_bases", {"account_id": account, "name": "Policies"})
    full = path.format(account_id=account, agent_id=agent["id"], knowledge_base_id=base["id"])
    name, values = SORTS.get(path, ("limit", ["1"]))
    for value in values:
        for position in (*FORGED, 5, ["a"], {"a": 1}):
            cursor = encode_next_cursor(position) or ""
            response = await admin.send("GET", full, **{name: value, "cursor": cursor})
            if response.status_code != 200:
                errors = check_problem(response, 400, "invalid_request")["errors"]
                assert [error["field"] for error in errors] == ["cursor"], (position, response.text)
    for cursor in ("!", "eA", "bnVsbA==="):
        assert await admin.refused("GET", full, cursor=cursor, status=400, code="invalid_request") == [
            "cursor"
        ]
