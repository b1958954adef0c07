"""Credentials that a tool server repeats do not go further."""

import json

import pytest

from tool_runner.redaction import redacted, redacted_json, secrets_of

pytestmark = pytest.mark.requirement("SECRETS-SEALED")

HEADERS = {"Authorization": 'Bearer tok"en-0123456789', "X-Api-Key": "k-abcdefgh", "X-Store": "electronics"}


def test_credentials_are_struck_out_in_every_form() -> None:
    said = json.dumps(
        {"error": 'Who is Bearer tok"en-0123456789 with k-abcdefgh?', "also": 'tok"en-0123456789'}
    )
    found = redacted(said, secrets_of(HEADERS))
    assert json.loads(found) == {"error": "Who is [hidden] with [hidden]?", "also": "[hidden]"}


def test_words_that_are_no_credentials_stay() -> None:
    said = '{"text": "All electronics, by Bearer or by key."}'
    assert redacted(said, secrets_of(HEADERS)) == said


@pytest.mark.parametrize(
    ("header", "value", "secret"),
    [
        ("Cookie", "customer=7f3a9c21e0; electronics=; sessionid=abc=def==", ("7f3a9c21e0", "abc=def==")),
        ("Cookie", 'customer="7f3a 9c21"; theme=dark', ("7f3a 9c21",)),
        (
            "Authorization",
            'Customer electronics="7f3a;9c21", password=k-abcdefgh',
            ("7f3a;9c21", "k-abcdefgh"),
        ),
        ("Proxy-Authorization", "Negotiate YIIabcdef/+==", ("YIIabcdef/+==", "YIIabcdef/+")),
        ("X-Session-Keys", "k-abcdefgh, k-ijklmnop", ("k-abcdefgh", "k-ijklmnop")),
    ],
)
def test_values_are_struck_out_and_the_names_of_cookies_and_parameters_are_not(
    header: str, value: str, secret: tuple[str, ...]
) -> None:
    said = "customer, electronics, sessionid, password, Customer and Negotiate are no secrets"
    secrets = secrets_of({header: value})
    assert redacted(said, secrets) == said
    assert redacted(value, secrets) == "[hidden]"
    for each in secret:
        assert redacted(f"It was {each}.", secrets) == "It was [hidden]."


def test_an_output_stays_json_whatever_is_struck_out_and_however_it_was_escaped() -> None:
    secrets = secrets_of({"X-Api-Key": "12345678", "X-Token": "ab/cd/ef/gh"})
    said = '{"order": 12345678, "price": 1.5, "12345678": ["ab\\/cd\\/ef\\/gh", true, null]}'
    assert (
        redacted_json(said, secrets) == '{"order":"[hidden]","price":1.5,"[hidden]":["[hidden]",true,null]}'
    )
    other = '{"order":  1234567}'
    assert redacted_json(other, secrets) == other
