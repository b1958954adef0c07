"""Fork a conversation: POST /v1/conversations/{id}/fork."""

from typing import Annotated, NoReturn, assert_never

import msgspec
from litestar import Response, post
from litestar.openapi.spec import Example
from litestar.params import BodyKwarg

from agentchat.bus.commands import fork_conversation
from agentchat.contracts import ids
from agentchat.contracts.examples import REPLY
from agentchat.contracts.messages import ForkAnswered, ForkConversation
from agentchat.conversations.event_store.mapper import UNREADABLE
from agentchat.conversations.queries.conversation_filters import ConversationRow
from agentchat.conversations.queries.time_travel import parse_version_or_time
from agentchat.gateway.access.checks import may_write
from agentchat.gateway.access.idempotency_header import IdempotencyHeader
from agentchat.gateway.api.get_conversation import (
    ConversationId,
    ShownThread,
    parse_conversation_id,
    show_conversation,
)
from agentchat.gateway.http.problems import Refusal, build_conversation_not_found, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.request_hash import claim_command

_WRONG_PLACE = (
    "This must be the id of a message, a version, such as 12, or a time in ISO 8601, "
    "such as 2026-11-21T09:30:00Z."
)


class ForkBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place at which a conversation is forked."""

    at: Annotated[
        str | None,
        msgspec.Meta(
            description="The place at which it is forked. The id of a reply: the fork ends with it. The id "
            "of a user's message: it ends before that, which can be asked again. Or a version, or a time, as "
            "`at` of the conversation; within a run it is the place before the run."
        ),
    ] = None


ForkData = Annotated[
    ForkBody | None,
    BodyKwarg(
        description="Absent or empty: all that was said.",
        examples=[
            Example(summary="All of it", value={}),
            Example(summary="Up to a reply", value={"at": REPLY}),
            Example(summary="Up to a version", value={"at": "8"}),
        ],
    ),
]


@post(
    "/v1/conversations/{conversation_id:str}/fork",
    status_code=201,
    operation_id="forkConversation",
    summary="Start a new conversation with what another one has.",
    guards=[may_write],
)
async def fork(
    request: JsonRequest,
    conversation_id: ConversationId,
    data: ForkData = None,
    idempotency_key: IdempotencyHeader = None,  # noqa: ARG001 - read by the guard
) -> Response[ConversationRow]:
    """Copy the messages into a new conversation. Either can be deleted without the other.

    One fork for an Idempotency-Key. 503 if it is unknown whether there is one.
    """
    services, context, source_id = (
        request.services,
        request.context,
        parse_conversation_id(conversation_id),
    )
    command = ForkConversation(
        trace_id=context.trace_id,
        account_id=request.auth.account_id,
        user_id=request.auth.user_id,
        conversation_id=ids.make_unlisted_id() if ids.is_unlisted(source_id) else ids.make_id(),
        source_id=source_id,
        at=None if data is None or data.at is None else _place_of(data.at),
    )
    command = await claim_command(services.claims, request.state.idempotency_key, command)
    context.trace_id = command.trace_id
    answer = await fork_conversation(services.bus.rpc, command)
    if answer.outcome != "forked":
        _refuse(answer)
    return await show_conversation(services.pool, ShownThread(command.conversation_id, answer.version))


def _place_of(at: str) -> int | str:
    """Parse the place of the fork. Raises Refusal: 400."""
    if ids.is_uuid(at.lower()):
        return at.lower()
    try:
        place = parse_version_or_time(at)
    except ValueError:
        raise build_field_refusal("at", _WRONG_PLACE) from None
    return place if isinstance(place, int) else place.isoformat()


def _refuse(answer: ForkAnswered) -> NoReturn:
    """Raise the refusal for an outcome."""
    match answer.outcome:
        case "busy":
            raise Refusal(
                "conversation_busy", "A reply is under way: name a place before it, or wait for it."
            )
        case "unknown_version":
            raise build_field_refusal("at", f"The conversation is at version {answer.version}.")
        case "unknown_message":
            raise build_field_refusal("at", "The conversation has no such message.")
        case "nothing_said":
            raise build_field_refusal("at", "There are no messages before this point.")
        case "too_large":
            raise Refusal("conversation_too_large")
        case "unreadable":
            raise Refusal("internal_error", UNREADABLE)
        case "not_found" | "unavailable" | "forked":
            raise build_conversation_not_found()
        case unknown:
            assert_never(unknown)
