"""The conversation that a path names, as it is or as it was; who is not its owner does not find it."""

from typing import Annotated

import msgspec
from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts import ids
from contracts.examples import CONVERSATION
from conversations.projections.conversations_table import ConversationRow
from conversations.queries import threads
from conversations.queries.threads import Thread
from conversations.queries.time_travel import WRONG_VERSION_OR_TIME, VersionOrTime, parse_version_or_time
from gateway.conversations.conversation_rows import conversation_row
from gateway.gateway_request import GatewayRequest
from gateway.http import query
from gateway.http.exchange import Exchange
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described, parameter

ConversationId = Annotated[
    str,
    PathParameter(
        description="One of the account's conversations.",
        format="uuid",
        examples=[Example(value=CONVERSATION)],
    ),
]
_AT = parameter(
    "query",
    "at",
    "As it was: at a version (see X-Conversation-Version) or at a time (ISO 8601; in UTC where it has no "
    "offset). Without it: as it is now.",
    anyOf=[{"pattern": "^[0-9]{1,18}$"}, {"format": "date-time"}],
)
VERSION = {
    "X-Conversation-Version": {
        "required": True,
        "description": "How many events have led to it: a place that `at` can name later.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 9,
    }
}


class ShownThread(msgspec.Struct, frozen=True):
    """A conversation of the caller's, and the version up to which it is shown."""

    conversation_id: str
    until: int


@described("conversation_not_found", parameters=[_AT])
async def provide_thread(request: GatewayRequest, conversation_id: ConversationId) -> ShownThread:
    """The caller's conversation, up to the place that `at` names.

    Raises Refusal, in the same words and the same time for every reason that it is not found.
    """
    pool, conversation_id = request.services.pool, conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    place = _place(request.exchange)
    thread = await threads.find_thread(pool, conversation_id)
    if thread is None or thread.account_id != request.auth.account_id:
        raise Refusal("conversation_not_found")
    if place is None or isinstance(place, int):
        return ShownThread(conversation_id, _version(thread, place))
    return ShownThread(conversation_id, await threads.version_at(pool, thread, place))


async def shown(request: GatewayRequest, thread: ShownThread) -> JsonAnswer[ConversationRow]:
    """The answer that shows it. Raises Refusal, DatabaseUnavailable."""
    found = await threads.summary_of(request.services.pool, thread.conversation_id, thread.until)
    if found is None:
        raise Refusal("conversation_not_found")
    row = conversation_row(thread.conversation_id, found)
    return JsonAnswer(row, headers={"X-Conversation-Version": str(thread.until)})


def _version(thread: Thread, asked: int | None) -> int:
    if asked is not None and asked > thread.version:
        raise invalid("at", f"The conversation is at version {thread.version}.")
    return thread.version if asked is None else asked


def _place(exchange: Exchange) -> VersionOrTime | None:
    """The place that `at` names, None for now. Raises Refusal."""
    given = query.parameters(exchange, "at").get("at")
    if given is None:
        return None
    try:
        return parse_version_or_time(given)
    except ValueError:
        raise invalid("at", f"This {WRONG_VERSION_OR_TIME}.") from None
