"""Wrong bodies of the admin API: the error names the field and what it may have."""

from typing import Annotated, Literal

import msgspec
import pytest

from agentchat.administration.checked_input import read_json
from agentchat.contracts.admin_errors import Invalid

WRONG_FORMAT = "has the wrong format: it is too long, or has characters that are not allowed"


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal["allow", "deny"]


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]
    rules: list[_Rule] = []
    default: _Rule | None = None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{}", "name: is required"),
        (b'{"name": 1}', "name: must be str, got int"),
        (
            b'{"name": "A"}',
            f"name: {WRONG_FORMAT}",
        ),
        (b'{"name": "a", "mode": 1}', "mode: is not known"),
        (b'{"name": "a", "rules": [{"action": "drop"}]}', "rules[0].action: must be one of allow, deny"),
        (b'{"name": "a", "default": {"action": "drop"}}', "default.action: must be one of allow, deny"),
    ],
)
def test_a_wrong_field_is_named(body: bytes, error: str) -> None:
    with pytest.raises(Invalid) as raised:
        read_json(_Body, body)
    assert str(raised.value) == error
