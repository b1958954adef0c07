"""The header Idempotency-Key: what is a key, and what is named as none."""

import pytest

from gateway.chat.idempotency_key import parse
from tests.gateway.client import Client, check_problem


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"abc", "abc"),
        (b" 8e03978e-40d5-43dd-bc93-6894a57f9324\t", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (b'"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (b'"a \\"quoted\\" \\\\ one"', 'a "quoted" \\ one'),
        (b"a" * 255, "a" * 255),
        (b'"' + b"a" * 255 + b'"', "a" * 255),
        (b"a" * 256, None),
        (b'"' + b"a" * 256 + b'"', None),
        (b"", None),
        (b'""', None),
        (b'"', None),
        (b'"open', None),
        (b'"a"b"', None),
        (b'"a";p=1', None),
        (b'"a\\b"', None),
        (b"a b", None),
        (b"a\tb", None),
        (b"a\n", None),
        ("ä".encode("latin-1"), None),
        ("ä".encode(), None),
        (b"a\x7f", None),
    ],
)
def test_a_key_is_visible_ascii_bare_or_quoted(value: bytes, key: str | None) -> None:
    assert parse(value) == key


@pytest.mark.parametrize("values", [[""], ["a b"], ["x" * 256], ["a", "a"]])
async def test_a_header_that_cannot_be_right_is_named(client: Client, values: list[str]) -> None:
    headers = [*client.headers.items(), *(("Idempotency-Key", value) for value in values)]
    for path in ("/v1/chat", "/v1/chat/stream"):
        response = await client.http.post(f"{client.url}{path}", json={"message": "hi"}, headers=headers)
        document = check_problem(response, 400, "invalid_request")
        assert [error["field"] for error in document["errors"]] == ["Idempotency-Key"]
