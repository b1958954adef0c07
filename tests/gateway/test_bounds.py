"""What one caller may cost a gateway, whose other callers wait for it meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import strict
from gateway.exchange import Exchange, Message
from tests.gateway.client import Client, check_problem


@pytest.mark.requirement("BODY-VALUES")
async def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(client: Client) -> None:
    too_many = "The body has more than 10000 members and elements."
    for count in (10_000, 95_000):
        members = ",".join(f'"m{number}":1' for number in range(count))
        content = f'{{{members},"message":"a","message":"a"}}'.encode()
        problem = check_problem(await client.post(content=content), 400, "invalid_request")
        assert problem["detail"] == too_many
    elements = ",".join(["[{}]"] * 4_000)
    response = await client.post(content=f'{{"message":"a","x":[{elements}]}}'.encode())
    assert check_problem(response, 400, "invalid_request")["detail"] == too_many
    members = ",".join(f'"m{number}":1' for number in range(9_999))
    response = await client.post(content=f'{{"message":"a",{members}}}'.encode())
    problem = check_problem(response, 400, "invalid_request")
    assert [error["field"] for error in problem["errors"]] == sorted(f"m{number}" for number in range(20))


@pytest.mark.requirement("BODY-VALUES")
async def test_what_a_text_holds_is_no_value(client: Client) -> None:
    for text in (",[{" * 80_000, '\\"' * 100_000 + "," * 20_000, "\\\\" * 120_000 + "[" * 10_001):
        response = await client.post(content=f'{{"message":"{text}","x":1}}'.encode())
        problem = check_problem(response, 400, "invalid_request")
        assert [error["field"] for error in problem["errors"]] == ["x"]


@pytest.mark.requirement("BODY-VALUES")
async def test_a_large_body_is_read_beside_the_event_loop() -> None:
    async def parsed_by(size: int) -> int:
        async def receive() -> Message:
            return {"type": "http.request", "body": b" " * (size - 2) + b"{}", "more_body": False}

        async def send(_: Message) -> None:
            """Nothing is sent."""

        headers = [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
        with ThreadPoolExecutor() as reader:
            asked = Exchange({"headers": headers}, receive, send, "0" * 32, reader)
            return await strict.read_json(asked, lambda _: threading.get_ident())

    assert await parsed_by(strict.LARGE_BODY_BYTES) == threading.get_ident()
    assert await parsed_by(strict.LARGE_BODY_BYTES + 1) != threading.get_ident()


@pytest.mark.requirement("QUERY-BOUNDS")
async def test_a_query_is_bounded_in_fields_and_bytes(client: Client) -> None:
    key = {"X-Api-Key": client.headers["X-Api-Key"]}
    for query, status in (
        ("&".join(["a=1"] * 50), 200),
        ("&".join(["a=1"] * 51), 400),
        ("a=" + "1" * (16 * 1024 - 2), 200),
        ("a=" + "1" * (16 * 1024 - 1), 400),
    ):
        response = await client.http.get(f"{client.url}/v1/conversations?{query}", headers=key)
        assert response.status_code == status
        assert status == 200 or check_problem(response, 400, "invalid_request")["detail"].startswith(
            "The query"
        )
