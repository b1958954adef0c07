"""Which conversations a list has: by agent, time, title, metadata, rating, and the conversation they fork."""

import re
from functools import partial

from contracts import ids
from contracts.values import MAX_KEY, MAX_PAIRS, MAX_TITLE, MAX_VALUE
from conversations.projections.conversations_table import ConversationFilter
from conversations.projections.feedback_table import RATINGS
from conversations.queries.time_travel import log_time
from gateway.conversations.description_body import key_of
from gateway.http import query
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import invalid
from gateway.openapi.described import parameter

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
_filter = partial(parameter, "query")
PARAMETERS = (
    METADATA,
    _filter("forked_from", "Only forks of this conversation.", format="uuid"),
    _filter("agent_id", "Only conversations whose last message is this agent's.", format="uuid"),
    parameter(
        "query", "created_after", "Only those created at this time (RFC 3339) or later.", format="date-time"
    ),
    parameter(
        "query", "created_before", "Only those created before this time (RFC 3339).", format="date-time"
    ),
    _filter(
        "title",
        "Only those whose title contains this text, in upper or lower case.",
        minLength=1,
        maxLength=MAX_TITLE,
    ),
    _filter(
        "rating", "Only those with a reply whose feedback has a mean score below 0, or above.", enum=RATINGS
    ),
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.IGNORECASE | re.ASCII)


def filter_of(exchange: Exchange) -> ConversationFilter:
    """What the query asks for. Raises Refusal."""
    names = ("forked_from", "agent_id", "created_after", "created_before", "title", "rating")
    given = query.parameters(exchange, *names)
    rating = given.get("rating")
    if rating not in (None, *RATINGS):
        raise invalid("rating", f"This must be one of {', '.join(RATINGS)}.")
    title = given.get("title")
    if title is not None and not 1 <= len(title) <= MAX_TITLE:
        raise invalid("title", f"This has 1 to {MAX_TITLE} characters.")
    return ConversationFilter(
        metadata=_metadata_of(exchange),
        source_id=_id("forked_from", given, "a conversation"),
        agent_id=_id("agent_id", given, "an agent"),
        created_from=_time("created_after", given),
        created_before=_time("created_before", given),
        title=title and title.replace("\x00", "\ufffd"),
        rating=rating,
    )


def _id(name: str, given: dict[str, str], of_what: str) -> str | None:
    text = given.get(name)
    if text is not None and not ids.is_uuid(text.lower()):
        raise invalid(name, f"This must be the id of {of_what}.")
    return text and text.lower()


def _time(name: str, given: dict[str, str]) -> str | None:
    text = given.get(name)
    if text is None:
        return None
    wrong = invalid(name, "This must be a time in RFC 3339, such as 2026-11-21T09:30:00Z.")
    if not _TIME.fullmatch(text):
        raise wrong
    try:
        return log_time(text.upper())
    except (ValueError, OverflowError):
        raise wrong from None


def _metadata_of(exchange: Exchange) -> dict[str, str]:
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
