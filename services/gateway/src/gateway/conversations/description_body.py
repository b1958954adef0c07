"""The body that sets a conversation's title and metadata: a JSON Merge Patch (RFC 7396) of these alone."""

from typing import Annotated, Any

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from contracts import http
from contracts.values import MAX_KEY, MAX_PAIRS, MAX_TITLE, MAX_VALUE
from gateway.http import strict_json
from gateway.http.problem_responses import Refusal, invalid

_TEXT = ("\x00", "\ufffd")  # Postgres cannot hold it
_FIELDS = ("title", "metadata")
_TOO_MANY = f"There may be {MAX_PAIRS} pairs."
_KEY = f"A key is 1 to {MAX_KEY} characters."


_PAIRS = Meta(
    extra_json_schema={
        "maxProperties": 2 * MAX_PAIRS,
        "propertyNames": {"minLength": 1, "maxLength": MAX_KEY},
        "additionalProperties": {"type": ["string", "null"], "maxLength": MAX_VALUE},
    }
)


class DescriptionChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is set of a conversation; what is left out stays as it is."""

    title: Annotated[
        str | msgspec.UnsetType | None,
        Meta(
            description="Not blank; null: the beginning of the first message again.",
            extra_json_schema={"minLength": 1, "maxLength": MAX_TITLE, "pattern": "[^\\s\\x1c-\\x1f\\x85]"},
        ),
    ] = msgspec.UNSET
    metadata: Annotated[
        Annotated[dict[str, str | None], _PAIRS] | None,
        Meta(
            description=f"Merged with the pairs that are there, which may be {MAX_PAIRS} in all; null as a "
            "value removes its pair, null as the metadata removes all.",
        ),
    ] = {}


DescriptionData = Annotated[
    DescriptionChanges,
    BodyKwarg(
        description="What is left out stays as it is. A field that is not known is refused.",
        schema_extra={"minProperties": 1},
        examples=[
            Example(
                id="both",
                summary="A title, one pair more, another less",
                value={
                    "title": "The parcel of ORD-1001",
                    "metadata": {"customer": "C-77", "draft": None},
                },
            )
        ],
    ),
]


def too_many_pairs() -> Refusal:
    """400."""
    return invalid("metadata", _TOO_MANY)


def key_of(text: str) -> str | None:
    """A key of metadata; None for what cannot be one."""
    key = text.replace(*_TEXT)
    return key if 1 <= len(key) <= MAX_KEY else None


def decode(_: Any, data: bytes) -> DescriptionChanges:
    """The body of a request. Raises Refusal: 400."""
    fields = strict_json.members_of(data)
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
