"""List, show, export and delete the end users of an account: /v1/users."""

from typing import Annotated

import msgspec
from litestar import delete, get
from litestar.params import PathParameter, QueryParameter
from litestar.response import Stream

from agentchat.conversations.queries.user_export import export_user
from agentchat.conversations.queries.user_summaries import (
    EndUser,
    UserDetails,
    UserOrder,
    find_user,
    list_users,
    load_user_details,
)
from agentchat.conversations.user_deletion_requests import request_user_deletion
from agentchat.files.file_store import has_files
from agentchat.gateway.access.checks import may_manage_account, may_read_account
from agentchat.gateway.http.json_lines import JSON_LINES, LINES_RESPONSE, stream_lines
from agentchat.gateway.http.pagination import Cursor, Limit, NextCursor, decode_position, take_first_page
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest, decode_slashes

UserId = Annotated[str, PathParameter(description="The end user, percent-encoded, as X-User-Id named it.")]


class UserPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of end users."""

    data: tuple[EndUser, ...]
    next_cursor: NextCursor


class UserDeletionState(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion that was requested; `conversations` are still to be erased."""

    user_id: str
    conversations: int
    status: str = "deleting"


@get(
    "/v1/users",
    operation_id="listUsers",
    summary="List the end users who have conversations or have used tokens.",
    guards=[may_read_account],
)
async def list_all(
    request: JsonRequest,
    limit: Limit = 20,
    cursor: Cursor = None,
    order: Annotated[
        UserOrder, QueryParameter(description="What the list is sorted by, the greatest first.")
    ] = "last_active_at",
) -> UserPage:
    """Return a page of users. The list may lag by a moment."""
    rows = await list_users(
        request.services.pool,
        request.auth.account_id,
        order=order,
        after=decode_position(cursor, tuple[int, str]),
        limit=limit + 1,
    )
    page, cursor = take_first_page(rows, limit, lambda row: (row[0], row[1].user_id))
    return UserPage(data=tuple(user for _, user in page), next_cursor=cursor)


@get(
    "/v1/users/{user_id:str}",
    operation_id="getUser",
    summary="Get one end user, with the tokens of each month.",
    guards=[may_read_account],
)
async def get_one(request: JsonRequest, user_id: UserId) -> UserDetails:
    """Return the user. 404 for one who has neither conversations nor used tokens."""
    pool = request.services.pool
    found = await load_user_details(pool, request.auth.account_id, decode_slashes(user_id))
    if found is None:
        raise _make_not_found()
    return found


@get(
    "/v1/users/{user_id:str}/export",
    media_type=JSON_LINES,
    operation_id="exportUser",
    summary="Export all that the service has of an end user, as JSON Lines.",
    responses={200: LINES_RESPONSE},
    guards=[may_read_account],
)
async def export(request: JsonRequest, user_id: UserId) -> Stream:
    """Stream the user's conversations with their messages, tool calls and feedback.

    The last line is `{"type": "end"}`: without it the export is incomplete.
    """
    user = await _find_user(request, user_id)
    lines = export_user(request.services.log, request.services.pool, request.auth.account_id, user)
    return stream_lines(lines)


@delete(
    "/v1/users/{user_id:str}",
    status_code=202,
    operation_id="deleteUser",
    summary="Delete an end user, with all conversations and files, in the background.",
    guards=[may_manage_account],
)
async def remove(request: JsonRequest, user_id: UserId) -> UserDeletionState:
    """Request the deletion. Sending it again, and `GET /v1/users/{user_id}`, tell what is left.

    404 once the user is gone. The account's own usage keeps the tokens, without the user.
    """
    pool, account_id, user_id = request.services.pool, request.auth.account_id, decode_slashes(user_id)
    found = await find_user(pool, account_id, user_id)
    if found is None and not await has_files(pool, account_id, user_id):
        raise _make_not_found()
    await request_user_deletion(pool, account_id, user_id)
    return UserDeletionState(user_id=user_id, conversations=0 if found is None else found.conversations)


async def _find_user(request: JsonRequest, user_id: str) -> EndUser:
    """Find the account's user. Raises Refusal: 404; DatabaseUnavailable."""
    pool = request.services.pool
    found = await find_user(pool, request.auth.account_id, decode_slashes(user_id))
    if found is None:
        raise _make_not_found()
    return found


def _make_not_found() -> Refusal:
    return Refusal("not_found", "There is no such user.")


HANDLERS = (list_all, get_one, export, remove)
