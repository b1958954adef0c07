"""Check that texts and JSON values can be stored, and read back by every JSON reader."""

from typing import Any

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.text_checks import is_storable

_DEPTH = 32
_LARGEST = 2.0**53
"""Beyond it, JSON readers differ in the number they read (RFC 8259, 6)."""


def check_text(text: str, field: str) -> None:
    """Raise Invalid for a text that Postgres or UTF-8 cannot hold."""
    if "\x00" in text or not is_storable(text):
        raise Invalid(field, "holds NUL or a lone surrogate")


def check_json(value: Any, field: str, depth: int = _DEPTH) -> None:
    """Check that every JSON reader and Postgres can hold a value. Raises Invalid, with the path of a part."""
    if depth == 0:
        raise Invalid(field, f"is nested deeper than {_DEPTH}")
    match value:
        case str():
            check_text(value, field)
        case int() | float() if abs(value) > _LARGEST or value != value:
            raise Invalid(field, "is no number that JSON readers agree on")
        case dict():
            for key, item in value.items():
                check_text(key, field)
                check_json(item, f"{field}.{key}", depth - 1)
        case list():
            for item in value:
                check_json(item, field, depth - 1)
