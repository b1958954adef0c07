"""The body that sets a conversation's title and metadata: a JSON Merge Patch (RFC 7396) of these alone."""

from typing import Any

import msgspec

from contracts import http
from contracts.values import MAX_KEY, MAX_PAIRS, MAX_TITLE, MAX_VALUE
from gateway.http import strict_json
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal, invalid

_TEXT = ("\x00", "\ufffd")  # Postgres cannot hold it
_FIELDS = ("title", "metadata")
_TOO_MANY = f"There may be {MAX_PAIRS} pairs."
_KEY = f"A key is 1 to {MAX_KEY} characters."

BODY = {
    "required": True,
    "description": "What is left out stays as it is. A field that is not known is refused.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": {
                    "title": {
                        "type": ["string", "null"],
                        "minLength": 1,
                        "maxLength": MAX_TITLE,
                        "pattern": "[^\\s\\x1c-\\x1f\\x85]",
                        "description": "Not blank; null: the beginning of the first message again.",
                    },
                    "metadata": {
                        "type": ["object", "null"],
                        "maxProperties": 2 * MAX_PAIRS,
                        "propertyNames": {"minLength": 1, "maxLength": MAX_KEY},
                        "additionalProperties": {"type": ["string", "null"], "maxLength": MAX_VALUE},
                        "description": "Merged with the pairs that are there, which may be "
                        f"{MAX_PAIRS} in all; null as a value removes its pair, null as a whole removes all.",
                    },
                },
            },
            "examples": {
                "both": {
                    "summary": "A title, one pair more, another less",
                    "value": {
                        "title": "The parcel of ORD-1001",
                        "metadata": {"customer": "C-77", "draft": None},
                    },
                },
            },
        }
    },
}


class DescriptionChanges(msgspec.Struct, frozen=True):
    """As DescribeConversation has them."""

    title: str | msgspec.UnsetType | None
    metadata: dict[str, str | None] | None


async def read(exchange: Exchange) -> DescriptionChanges:
    """The body of this request, checked. Raises Refusal: 415, 413, 400; ClientGone."""
    return await strict_json.read_members(exchange, _parse)


def too_many_pairs() -> Refusal:
    """400."""
    return invalid("metadata", _TOO_MANY)


def key_of(text: str) -> str | None:
    """A key of metadata; None for what cannot be one."""
    key = text.replace(*_TEXT)
    return key if 1 <= len(key) <= MAX_KEY else None


def _parse(fields: dict[str, Any]) -> DescriptionChanges:
    unknown = [name for name in fields if name not in _FIELDS]
    if unknown:
        raise invalid(strict_json.printable(unknown[0]), "This field is not known.")
    if not fields:
        raise Refusal(
            "invalid_request",
            "The body sets nothing.",
            fields=[
                http.FieldError(field=name, message="This field or the other is required.")
                for name in _FIELDS
            ],
        )
    return DescriptionChanges(_title(fields), _metadata(fields.get("metadata", {})))


def _title(fields: dict[str, Any]) -> str | msgspec.UnsetType | None:
    if "title" not in fields:
        return msgspec.UNSET
    title = fields["title"]
    if title is None:
        return None
    if not isinstance(title, str) or not title.strip() or len(title) > MAX_TITLE:
        raise invalid(
            "title", f"This is null, or a text of {MAX_TITLE} characters at most that is not blank."
        )
    return title.replace(*_TEXT)


def _metadata(given: Any) -> dict[str, str | None] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise invalid("metadata", "This must be an object of texts.")
    if len(given) > 2 * MAX_PAIRS:
        raise too_many_pairs()
    return dict(_pair(name, value) for name, value in given.items())


def _pair(name: str, value: Any) -> tuple[str, str | None]:
    field = f"metadata.{strict_json.printable(name)}"
    key = key_of(name)
    if key is None:
        raise invalid(field, _KEY)
    if value is None:
        return key, None
    if not isinstance(value, str) or len(value) > MAX_VALUE:
        raise invalid(field, f"This is null, or a text of {MAX_VALUE} characters at most.")
    return key, value.replace(*_TEXT)
