"""Check the title and the metadata that a caller gives to a conversation."""

from collections.abc import Mapping
from typing import Any

from agentchat.contracts.values import MAX_KEY, MAX_PAIRS, MAX_VALUE
from agentchat.gateway.http.problems import build_field_refusal, make_printable, replace_nul


def check_title(title: str) -> str:
    """Return the title as it can be stored. Raises Refusal: 400 if it is blank."""
    if not title.strip():
        raise build_field_refusal("title", "The title is blank.")
    return replace_nul(title)


def check_changed_pairs(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return changes of metadata as they can be stored; None removes a pair. Raises Refusal: 400."""
    return dict(_check_pair(name, value) for name, value in metadata.items())


def check_new_pairs(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the metadata of a new conversation, without null values. Raises Refusal: 400."""
    pairs = {name: value for name, value in check_changed_pairs(metadata).items() if value is not None}
    if len(pairs) > MAX_PAIRS:
        raise build_field_refusal("metadata", f"There may be at most {MAX_PAIRS} pairs.")
    return pairs


def _check_pair(name: str, value: Any) -> tuple[str, str | None]:
    field, key = f"metadata.{make_printable(name)}", replace_nul(name)
    if not 1 <= len(key) <= MAX_KEY:
        raise build_field_refusal(field, f"A key is 1 to {MAX_KEY} characters.")
    if value is None:
        return key, None
    if not isinstance(value, str) or len(value) > MAX_VALUE:
        raise build_field_refusal(field, f"This is null, or a text of {MAX_VALUE} characters at most.")
    return key, replace_nul(value)
