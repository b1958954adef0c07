"""What the audit log has of the arguments of a tool that was called by hand."""

from typing import Any

import pytest

from administration.admin_tool_calls import without_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"order_id": "ORD-1"}, {"order_id": "ORD-1"}),
        ({"password": "x", "apiKey": {"a": 1}}, {"password": "[hidden]", "apiKey": "[hidden]"}),
        ({"rows": [{"access_token": "x", "n": 1}]}, {"rows": [{"access_token": "[hidden]", "n": 1}]}),
        ({"author": "Ada", "tokens": 3}, {"author": "Ada", "tokens": 3}),
    ],
)
def test_what_is_named_as_a_credential_is_not_in_the_audit_log(given: Any, kept: Any) -> None:
    assert without_secrets(given) == kept
