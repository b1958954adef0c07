"""Which conversations a list is to have: those with these metadata, and forks of this one."""

from contracts import ids
from contracts.values import MAX_KEY, MAX_PAIRS, MAX_VALUE
from gateway.conversations.description import key_of
from gateway.http import query
from gateway.http.exchange import Exchange
from gateway.http.problems import invalid

_PREFIX = "metadata."

METADATA = {
    "name": "metadata",
    "in": "query",
    "style": "form",
    "explode": True,
    "description": "Only conversations whose metadata have these values: one parameter for each key, whose "
    f"name is `metadata.` and the key, such as `metadata.customer=C-77`; up to {MAX_PAIRS} keys, of which "
    "all must match. Send them again with each cursor.",
    "schema": {
        "type": "object",
        "maxProperties": MAX_PAIRS,
        "propertyNames": {"pattern": f"^metadata[.][^\\u0000]{{1,{MAX_KEY}}}$"},
        "additionalProperties": {"type": "string", "maxLength": MAX_VALUE},
    },
}


FORKED_FROM = {
    "name": "forked_from",
    "in": "query",
    "description": "Only forks of this conversation.",
    "schema": {"type": "string", "format": "uuid"},
}


def source_of(exchange: Exchange) -> str | None:
    """The conversation whose forks are asked for; None: any. Raises Refusal."""
    given = query.parameters(exchange, "forked_from").get("forked_from")
    if given is not None and not ids.is_uuid(given.lower()):
        raise invalid("forked_from", "This must be the id of a conversation.")
    return given and given.lower()


def metadata_of(exchange: Exchange) -> dict[str, str]:
    """The pairs that are asked for; none: any. Raises Refusal."""
    found: dict[str, str] = {}
    for name, values in query.fields(exchange, "replace").items():
        if not name.startswith(_PREFIX):
            continue
        key, value = key_of(name.removeprefix(_PREFIX)), query.once(name, values)
        if key is None or len(found) == MAX_PAIRS:
            raise invalid("metadata", f"{MAX_PAIRS} keys of 1 to {MAX_KEY} characters may be asked for.")
        if len(value) > MAX_VALUE:
            raise invalid("metadata", f"A value has at most {MAX_VALUE} characters.")
        found[key] = value.replace("\x00", "\ufffd")
    return found
