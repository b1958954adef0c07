"""The header Idempotency-Key: what is a key, and what is named as none."""

import pytest

from agentchat.gateway.access.idempotency_header import parse
from tests.gateway.client import Client, check_problem


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("abc", "abc"),
        (" 8e03978e-40d5-43dd-bc93-6894a57f9324\t", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('"a \\"quoted\\" \\\\ one"', 'a "quoted" \\ one'),
        ("a" * 255, "a" * 255),
        ('"' + "a" * 255 + '"', "a" * 255),
        ("a" * 256, None),
        ('"' + "a" * 256 + '"', None),
        ("", None),
        ('""', None),
        ('"', None),
        ('"open', None),
        ('"a""', None),
        ('"a";p=1', None),
        ('"a\\"', None),
        ("a b", None),
        ("a\tb", None),
        ("a\n", None),
        ("ä", None),
        ("Ã¤", None),
        ("a\x7f", None),
    ],
)
def test_a_key_is_visible_ascii_bare_or_quoted(value: str, key: str | None) -> None:
    assert parse(value) == key


@pytest.mark.parametrize("values", [[""], ["a b"], ["x" * 256], ["a", "a"]])
async def test_a_header_that_cannot_be_right_is_named(client: Client, values: list[str]) -> None:
    headers = [*client.headers.items(), *(("Idempotency-Key", value) for value in values)]
    for path in ("/v1/chat", "/v1/chat/stream"):
        response = await client.http.post(f"{client.url}{path}", json={"message": "hi"}, headers=headers)
        document = check_problem(response, 400, "invalid_request")
        assert [error["field"] for error in document["errors"]] == ["Idempotency-Key"]
