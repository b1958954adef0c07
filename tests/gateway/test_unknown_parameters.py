"""A query parameter that a route of /v1 does not know is refused by name; other protocols' are ignored."""

import pytest

from agentchat.contracts import ids
from tests.gateway.client import Client, check_problem
from tests.gateway.test_openapi import fetch_document

TOLERANT = {"/v1/chat", "/v1/chat/stream", "/v1/chat/{trace_id}/events", "/v1/oauth/callback/{issuer}"}
OPERATIONS = [
    (method.upper(), path)
    for path, operations in fetch_document(admin=False)["paths"].items()
    for method in operations
    if path.startswith("/v1/") and path not in TOLERANT
]


def fill_path(path: str) -> str:
    """Put an id in place of each `{name}`."""
    return "/".join(ids.make_id() if part.startswith("{") else part for part in path.split("/"))


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_an_unknown_parameter_is_refused_by_name(client: Client, method: str, path: str) -> None:
    url = f"{client.url}{fill_path(path)}?usr=CUST-001&usr=2&request=1"
    response = await client.http.request(method, url, headers=client.headers)
    problem = check_problem(response, 400, "invalid_request")
    assert [error["field"] for error in problem["errors"]] == ["usr", "request"]


async def test_known_parameters_of_all_lists_are_taken(client: Client) -> None:
    for query in (
        *("approvals?status=pending&limit=1", "users?order=tokens&cursor=", "usage?month=2026-11", "agents"),
        *("files?limit=2", "webhook_endpoints?limit=1", "conversations?metadata.a%20b=1&rating=bad"),
    ):
        response = await client.get(f"/v1/{query}")
        assert (query, response.status_code) == (query, 200)


@pytest.mark.parametrize("path", ["models", "files"])
async def test_openai_clients_may_send_other_parameters(client: Client, path: str) -> None:
    headers = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    response = await client.http.get(f"{client.url}/openai/v1/{path}?api-version=2026-10-21", headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/stream"])
async def test_a_chat_ignores_parameters(client: Client, path: str) -> None:
    response = await client.http.post(f"{client.url}{path}?tracking=1", headers=client.headers, json={})
    assert "message" in check_problem(response, 400, "invalid_request")["detail"]


async def test_a_polyfill_of_event_source_may_add_parameters(client: Client) -> None:
    response = await client.get(f"/v1/chat/{ids.make_id().replace('-', '')}/events?lastEventId=1&_=2")
    check_problem(response, 404, "not_found")
