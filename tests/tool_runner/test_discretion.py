"""Credentials that a tool server repeats do not go further."""

import json

import pytest

from tool_runner.discretion import secrets_of, struck

pytestmark = pytest.mark.requirement("SECRETS-SEALED")

HEADERS = {"Authorization": 'Bearer tok"en-0123456789', "X-Api-Key": "k-abcdefgh", "X-Store": "electronics"}


def test_credentials_are_struck_out_in_every_form() -> None:
    said = json.dumps(
        {"error": 'Who is Bearer tok"en-0123456789 with k-abcdefgh?', "also": 'tok"en-0123456789'}
    )
    found = struck(said, secrets_of(HEADERS))
    assert json.loads(found) == {"error": "Who is [hidden] with [hidden]?", "also": "[hidden]"}


def test_words_that_are_no_credentials_stay() -> None:
    said = '{"text": "All electronics, by Bearer or by key."}'
    assert struck(said, secrets_of(HEADERS)) == said
