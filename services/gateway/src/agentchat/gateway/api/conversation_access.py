"""The conversation that a path names, as it is or as it was; who is not its owner does not find it."""

from typing import Annotated

import msgspec
from litestar import Response
from litestar.params import PathParameter, QueryParameter

from agentchat.contracts import ids
from agentchat.conversations.projections.conversations_table import ConversationRow
from agentchat.conversations.queries import threads
from agentchat.conversations.queries.threads import Thread
from agentchat.conversations.queries.time_travel import (
    WRONG_VERSION_OR_TIME,
    VersionOrTime,
    parse_version_or_time,
)
from agentchat.gateway.api.conversation_rows import conversation_row
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import Refusal, invalid
from agentchat.gateway.services import services_of
from agentchat.runtime.postgres import Pool

ConversationId = Annotated[
    str, PathParameter(description="One of the account's conversations.", schema_extra={"format": "uuid"})
]
At = Annotated[
    str | None,
    QueryParameter(
        description="As it was: at a version (X-Conversation-Version) or a time (ISO 8601; UTC without "
        "an offset). Without it: as it is now."
    ),
]


class ShownThread(msgspec.Struct, frozen=True):
    """A conversation of the caller's, and the version up to which it is shown."""

    conversation_id: str
    until: int


def conversation_named(conversation_id: str) -> str:
    """Return the id in lower case. Raises Refusal: 404 for what is no id."""
    conversation_id = conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    return conversation_id


async def find_owned_thread(request: JsonRequest, conversation_id: str, at: str | None) -> ShownThread:
    """Find the caller's conversation, up to the place that `at` names.

    Raises Refusal, in the same words and the same time for every reason that it is not found.
    """
    pool, conversation_id = services_of(request).pool, conversation_named(conversation_id)
    place = None if at is None else _parse_place(at)
    thread = await threads.find_thread(pool, conversation_id)
    if thread is None or thread.account_id != request.auth.account_id:
        raise Refusal("conversation_not_found")
    if place is None or isinstance(place, int):
        return ShownThread(conversation_id, _check_version(thread, place))
    return ShownThread(conversation_id, await threads.find_version_at(pool, thread, place))


async def show_conversation(pool: Pool, thread: ShownThread) -> Response[ConversationRow]:
    """Build the answer that shows a conversation. Raises Refusal, DatabaseUnavailable."""
    found = await threads.load_summary(pool, thread.conversation_id, thread.until)
    if found is None:
        raise Refusal("conversation_not_found")
    row = conversation_row(thread.conversation_id, found)
    return Response(row, headers={"X-Conversation-Version": str(thread.until)})


def _check_version(thread: Thread, version: int | None) -> int:
    if version is not None and version > thread.version:
        raise invalid("at", f"The conversation is at version {thread.version}.")
    return thread.version if version is None else version


def _parse_place(at: str) -> VersionOrTime:
    try:
        return parse_version_or_time(at)
    except ValueError:
        raise invalid("at", f"This {WRONG_VERSION_OR_TIME}.") from None
