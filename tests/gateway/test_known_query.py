"""Query parameters that no operation knows, and where the server's own address leads."""

import json
import re

import pytest

from contracts.http import OAUTH_CALLBACK
from gateway.openapi.document import document
from tests.gateway.client import Client, check_problem

OPERATIONS = [
    (method, path)
    for path, methods in document()["paths"].items()
    if path.startswith("/v1/") and not path.startswith(OAUTH_CALLBACK)
    for method in methods
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
async def test_unknown_query_parameters_are_refused_by_name(client: Client, method: str, path: str) -> None:
    address = re.sub(r"{\w+}", "0192f0c1-0000-7000-8000-0000000000b1", path)
    with_body = path in ("/v1/chat", "/v1/chat/stream")  # theirs is checked after the limits
    content = json.dumps({"message": "hi"}).encode() if with_body else None
    headers = client.headers | ({"Content-Type": "application/json"} if with_body else {})
    query = {"limt": "1", "nope": "2"}
    answer = await client.http.request(
        method, f"{client.url}{address}", params=query, headers=headers, content=content
    )
    problem = check_problem(answer, 400, "invalid_request")
    assert [error["field"] for error in problem["errors"]] == ["limt", "nope"]
    nobody = await client.http.request(method, f"{client.url}{address}", params=query)
    check_problem(nobody, 401, "missing_api_key")


async def test_the_refusal_lists_what_is_known(client: Client) -> None:
    problem = check_problem(await client.get("/v1/approvals", state="open"), 400, "invalid_request")
    assert problem["detail"] == (
        "state: This parameter is not known. Known here: conversation_id, cursor, limit, status."
    )


async def test_clients_of_other_protocols_may_send_more(client: Client) -> None:
    headers = {"Authorization": f"Bearer {client.headers['X-Api-Key']}"}
    answer = await client.http.get(f"{client.url}/openai/v1/models?api-version=2026-01-01", headers=headers)
    assert answer.status_code == 200


async def test_the_first_address_tells_programs_and_people_where_to_go(client: Client) -> None:
    links = (await client.http.get(f"{client.url}/")).json()
    assert links["name"] == "Agent Chat Service"
    for name in ("docs", "openapi", "health", "readiness"):
        assert (await client.http.get(f"{client.url}{links[name]}")).status_code == 200
    page = await client.http.get(f"{client.url}/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for address in re.findall('href="(/[^"]*)"', page.text):
        assert (await client.http.get(f"{client.url}{address}")).status_code == 200
    assert "/docs" in page.text
