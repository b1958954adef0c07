"""The body that sets a conversation's title and metadata: a JSON Merge Patch (RFC 7396) of these alone."""

from typing import Annotated, Any

import msgspec
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg
from msgspec import Meta

from contracts import http
from contracts.values import MAX_KEY, MAX_PAIRS, MAX_TITLE, MAX_VALUE
from gateway.http import strict_json
from gateway.http.problem_responses import Refusal, invalid, printable

_TEXT = ("\x00", "\ufffd")  # Postgres cannot hold it
_NOT_BLANK = {"pattern": "[^\\s\\x1c-\\x1f\\x85]"}
_TITLE = Meta(min_length=1, max_length=MAX_TITLE, extra_json_schema=_NOT_BLANK)
_PAIRS = Meta(
    max_length=2 * MAX_PAIRS,
    extra_json_schema={
        "propertyNames": {"minLength": 1, "maxLength": MAX_KEY},
        "additionalProperties": {"type": ["string", "null"], "maxLength": MAX_VALUE},
    },
)


class DescriptionChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is set of a conversation; what is left out stays as it is."""

    title: Annotated[
        Annotated[str, _TITLE] | msgspec.UnsetType | None,
        Meta(description="Not blank; null: the beginning of the first message again."),
    ] = msgspec.UNSET
    metadata: Annotated[
        Annotated[dict[str, Any], _PAIRS] | msgspec.UnsetType | None,
        Meta(
            description=f"Merged with the pairs that are there, which may be {MAX_PAIRS} in all; null as a "
            "value removes its pair, null as the metadata removes all.",
        ),
    ] = msgspec.UNSET


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
    return invalid("metadata", f"There may be {MAX_PAIRS} pairs.")


def key_of(text: str) -> str | None:
    """A key of metadata; None for what cannot be one."""
    key = text.replace(*_TEXT)
    return key if 1 <= len(key) <= MAX_KEY else None


def decode(kind: Any, data: bytes) -> DescriptionChanges:
    """The body of a request, whose metadata are set. Raises Refusal: 400."""
    given = strict_json.decode(kind, data)
    if given.title is msgspec.UNSET and given.metadata is msgspec.UNSET:
        either = "This field or the other is required."
        fields = [http.FieldError(field=name, message=either) for name in ("title", "metadata")]
        raise Refusal("invalid_request", "The body sets nothing.", fields=fields)
    title = given.title.replace(*_TEXT) if isinstance(given.title, str) else given.title
    if isinstance(title, str) and not title.strip():
        raise invalid("title", "The title is blank.")
    metadata = given.metadata
    if isinstance(metadata, dict):
        metadata = dict(_pair(name, value) for name, value in metadata.items())
    return DescriptionChanges(title, metadata)


def _pair(name: str, value: Any) -> tuple[str, str | None]:
    field = f"metadata.{printable(name)}"
    key = key_of(name)
    if key is None:
        raise invalid(field, f"A key is 1 to {MAX_KEY} characters.")
    if value is None:
        return key, None
    if not isinstance(value, str) or len(value) > MAX_VALUE:
        raise invalid(field, f"This is null, or a text of {MAX_VALUE} characters at most.")
    return key, value.replace(*_TEXT)
