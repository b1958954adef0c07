"""Give, read and withdraw feedback on a reply: /v1/messages/{id}/feedback."""

import asyncio
from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg, PathParameter, QueryParameter

from agentchat.bus.commands import give_feedback
from agentchat.contracts import ids
from agentchat.contracts.feedback_bodies import FeedbackBody, StoredFeedback
from agentchat.contracts.messages import GiveFeedback
from agentchat.contracts.ownership import may_use
from agentchat.contracts.text_checks import clean_text
from agentchat.contracts.values import MAX_FEEDBACK, Decider
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.conversations_table import is_behind
from agentchat.conversations.projections.messages_table import find_message
from agentchat.conversations.queries import read_thread
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.conversations.queries.find_feedback import find_feedback
from agentchat.gateway.access.checks import may_read, may_write
from agentchat.gateway.api.conversation_rows import build_feedback_row
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.runtime.postgres import Pool, acquire_connection

_MAX_NAME = 200
_CATCH_UP_SECONDS = 3.0
_POLL_SECONDS = 0.05

MessageId = Annotated[
    str,
    PathParameter(
        description="The id of a reply in one of the account's conversations, or the trace id of its run."
    ),
]
FeedbackData = Annotated[
    FeedbackBody,
    BodyKwarg(
        examples=[
            Example(summary="A thumb down", value={"score": -1}),
            Example(
                summary="With all that there may be",
                value={
                    "score": -0.5,
                    "label": "wrong",
                    "comment": "It has not left the warehouse.",
                    "on_behalf_of": "ada@shop.example",
                },
            ),
        ]
    ),
]


class FeedbackList(msgspec.Struct, frozen=True, kw_only=True):
    """The feedback on a reply, the newest first."""

    data: tuple[StoredFeedback, ...]


class _Reply(msgspec.Struct, frozen=True):
    """A message of the caller: its conversation, and the version that it has there."""

    message_id: str
    trace_id: str
    conversation_id: str
    until: int


@post(
    "/v1/messages/{message_id:str}/feedback",
    status_code=200,
    operation_id="giveFeedback",
    summary="Say what somebody thinks of a reply.",
    guards=[may_write],
)
async def give(request: JsonRequest, message_id: MessageId, data: FeedbackData) -> StoredFeedback:
    """Record the feedback.

    It replaces earlier feedback for the same `on_behalf_of`; sending it again is safe.
    """
    reply = await _find_reply(request, message_id)
    name = data.on_behalf_of and clean_text(data.on_behalf_of)
    command = msgspec.structs.replace(
        _build_command(request, reply, name),
        score=data.score,
        label=data.label and clean_text(data.label),
        comment=data.comment and clean_text(data.comment),
    )
    version = await _send(request, command)
    stored = await _load_feedback(request.services.pool, msgspec.structs.replace(reply, until=version))
    given = next((each for each in stored if each.on_behalf_of == name), None)
    if given is None:  # erased since
        raise _make_not_found()
    return given


@get(
    "/v1/messages/{message_id:str}/feedback",
    operation_id="listFeedback",
    summary="Get the feedback on a reply, the newest first.",
    guards=[may_read],
)
async def list_feedback(request: JsonRequest, message_id: MessageId) -> FeedbackList:
    """Return all feedback on the reply."""
    reply = await _find_reply(request, message_id)
    return FeedbackList(data=await _load_feedback(request.services.pool, reply))


@delete(
    "/v1/messages/{message_id:str}/feedback",
    operation_id="withdrawFeedback",
    summary="Take feedback back: that for `on_behalf_of`, or that without.",
    guards=[may_write],
)
async def withdraw(
    request: JsonRequest,
    message_id: MessageId,
    on_behalf_of: Annotated[
        str | None,
        QueryParameter(description="The name that it was given for.", min_length=1, max_length=_MAX_NAME),
    ] = None,
) -> None:
    """Withdraw the feedback, if there is any."""
    reply = await _find_reply(request, message_id)
    await _send(request, _build_command(request, reply, on_behalf_of and clean_text(on_behalf_of)))


def _build_command(request: JsonRequest, reply: _Reply, name: str | None) -> GiveFeedback:
    """Build the command that withdraws feedback; with a score it gives some."""
    return GiveFeedback(
        trace_id=reply.trace_id,
        account_id=request.auth.account_id,
        user_id=request.auth.user_id,
        conversation_id=reply.conversation_id,
        message_id=reply.message_id,
        by=Decider(kind="account", id=request.auth.key_id),
        on_behalf_of=name,
    )


async def _send(request: JsonRequest, command: GiveFeedback) -> int:
    """Return the version of the conversation after the command. Raises Refusal, BusUnavailable."""
    answer = await give_feedback(request.services.bus.rpc, command)
    match answer.outcome:
        case "recorded":
            return answer.version
        case "full":
            raise Refusal("conversation_full")
        case "too_many":
            raise build_field_refusal(
                "on_behalf_of", f"{MAX_FEEDBACK} others have given feedback on this reply."
            )
        case _:
            raise _make_not_found()


async def _load_feedback(pool: Pool, reply: _Reply) -> tuple[StoredFeedback, ...]:
    found = await find_feedback(pool, reply.conversation_id, [reply.message_id], reply.until)
    newest = found[reply.message_id].newest if reply.message_id in found else ()
    return tuple(build_feedback_row(reply.conversation_id, each) for each in newest)


async def _find_reply(request: JsonRequest, message_id: str) -> _Reply:
    """Find the caller's reply. Raises Refusal, with one message for every reason; DatabaseUnavailable."""
    pool, message_id = request.services.pool, message_id.lower()
    place = await _place(pool, message_id)
    thread = None if place is None else await read_thread.find_thread(pool, place[0])
    if place is None or thread is None or not may_use(request.auth, thread):
        raise _make_not_found()
    conversation_id, trace_id = place
    if ids.is_trace_id(message_id):
        message_id = ids.derive_reply_id(trace_id)
    return _Reply(message_id, trace_id, conversation_id, thread.version)


async def _place(pool: Pool, message_id: str) -> tuple[str, str] | None:
    """Return the conversation and the trace of a message.

    Waits for messages of the log that the read model does not have yet. Raises Refusal: 503 if that takes
    long; DatabaseUnavailable.
    """
    if ids.is_trace_id(message_id):
        run = await find_run(pool, message_id)
        return None if run is None else (run.conversation_id, message_id)
    if not ids.is_uuid(message_id):
        return None
    place = await find_message(pool, message_id)
    if place is None:
        await _wait_until_caught_up(pool)
        place = await find_message(pool, message_id)
    return place


async def _wait_until_caught_up(pool: Pool) -> None:
    head = await Log(pool).read_head()
    try:
        async with asyncio.timeout(_CATCH_UP_SECONDS):
            while await _is_behind(pool, head):  # noqa: ASYNC110 - another process advances it
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise Refusal("overloaded", "The newest messages are not known yet.") from None


async def _is_behind(pool: Pool, head: int) -> bool:
    async with acquire_connection(pool) as conn:
        return await is_behind(conn, head, "messages")


def _make_not_found() -> Refusal:
    return Refusal("not_found", "There is no such reply.")
