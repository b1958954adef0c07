"""List the account's conversations, filtered: GET /v1/conversations."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import msgspec
from litestar import get
from litestar.openapi.spec import OpenAPIType, Operation, Parameter, Schema
from litestar.params import QueryParameter

from agentchat.contracts.ownership import MAX_USER_ID
from agentchat.contracts.values import MAX_EXTERNAL_ID, MAX_KEY, MAX_PAIRS, MAX_TITLE, MAX_VALUE
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.conversations.queries.conversation_filters import (
    ConversationFilter,
    list_account_conversations,
)
from agentchat.gateway.access.checks import may_read
from agentchat.gateway.api.conversation_rows import ConversationPage
from agentchat.gateway.http.pagination import Cursor, Limit, decode_position, take_first_page
from agentchat.gateway.http.problems import build_field_refusal, replace_nul
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.http.unknown_parameters import PREFIX

_PREFIX = "metadata."
_OffsetTime = Annotated[datetime, msgspec.Meta(tz=True)]

_TIME = {"format": "date-time"}
Time = Annotated[
    str | None,
    QueryParameter(description="Only those created at this time (RFC 3339) or later.", schema_extra=_TIME),
]
TimeBefore = Annotated[
    str | None, QueryParameter(description="Only those created before this time.", schema_extra=_TIME)
]


@dataclass
class _WithMetadata(Operation):
    """The operation with the query parameters `metadata.KEY`, which a handler's signature cannot have."""

    def __post_init__(self) -> None:
        text = Schema(type=OpenAPIType.STRING, max_length=MAX_VALUE)
        pairs = Parameter(
            name="metadata",
            param_in="query",
            style="form",
            explode=True,
            description="Only those whose metadata have these values: a parameter for each key, such as "
            f"`metadata.customer=C-77`; up to {MAX_PAIRS} keys, of which all must match.",
            schema=Schema(type=OpenAPIType.OBJECT, additional_properties=text),
        )
        self.parameters = [*(self.parameters or []), pairs]


@get(
    "/v1/conversations",
    operation_id="listConversations",
    operation_class=_WithMetadata,
    summary="List the account's conversations, the newest first.",
    guards=[may_read],
    opt={PREFIX: _PREFIX},
)
async def list_conversations(
    request: JsonRequest,
    limit: Limit = 20,
    cursor: Cursor = None,
    forked_from: Annotated[
        UUID | None, QueryParameter(description="Only forks of this conversation.")
    ] = None,
    agent_id: Annotated[
        UUID | None, QueryParameter(description="Only those whose last message is this agent's.")
    ] = None,
    user_id: Annotated[
        str | None,
        QueryParameter(
            description="Only those of this end user; a request with X-User-Id lists that user's.",
            min_length=1,
            max_length=MAX_USER_ID,
        ),
    ] = None,
    external_id: Annotated[
        str | None,
        QueryParameter(
            description="Only those with this `external_id`.", min_length=1, max_length=MAX_EXTERNAL_ID
        ),
    ] = None,
    created_after: Time = None,
    created_before: TimeBefore = None,
    title: Annotated[
        str | None,
        QueryParameter(
            description="Only those whose title contains this text, in upper or lower case.",
            min_length=1,
            max_length=MAX_TITLE,
        ),
    ] = None,
    rating: Annotated[
        Rating | None,
        QueryParameter(
            description="Only those with a reply whose feedback has a mean score below 0, or above."
        ),
    ] = None,
) -> ConversationPage:
    """Return a page of conversations. The list may lag by a moment; one conversation never does."""
    rows = await list_account_conversations(
        request.services.pool,
        request.auth.account_id,
        limit=limit + 1,
        before=decode_position(cursor, tuple[str, str]),
        matching=ConversationFilter(
            user_id=request.auth.user_id or (user_id and replace_nul(user_id)),
            external_id=external_id and replace_nul(external_id),
            metadata=_read_metadata_filter(request),
            source_id=None if forked_from is None else str(forked_from),
            agent_id=None if agent_id is None else str(agent_id),
            created_from=_to_log_time("created_after", created_after),
            created_before=_to_log_time("created_before", created_before),
            title=title and replace_nul(title),
            rating=rating,
        ),
    )
    data, cursor = take_first_page(rows, limit, lambda row: (row.created_at, row.conversation_id))
    return ConversationPage(data=data, next_cursor=cursor)


def _read_metadata_filter(request: JsonRequest) -> dict[str, str]:
    """Return the pairs that are asked for; none: any. Raises Refusal: 400."""
    found = {
        replace_nul(name.removeprefix(_PREFIX)): replace_nul(value)
        for name, value in request.query_params.items()
        if name.startswith(_PREFIX)
    }
    if len(found) > MAX_PAIRS or not all(1 <= len(key) <= MAX_KEY for key in found):
        raise build_field_refusal(
            "metadata", f"At most {MAX_PAIRS} keys of 1 to {MAX_KEY} characters may be asked for."
        )
    if any(len(value) > MAX_VALUE for value in found.values()):
        raise build_field_refusal("metadata", f"A value has at most {MAX_VALUE} characters.")
    return found


def _to_log_time(name: str, given: str | None) -> str | None:
    """Return a time as the log has it. Raises Refusal: 400."""
    if given is None:
        return None
    try:
        time = msgspec.convert(given, _OffsetTime)
        utc = time.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        message = "This must be a time in RFC 3339 with its offset, such as 2026-11-21T09:30:00Z."
        raise build_field_refusal(name, message) from None
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
