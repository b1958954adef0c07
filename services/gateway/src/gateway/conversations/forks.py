"""POST /v1/conversations/{id}/fork: a new conversation with the past of another one."""

from typing import Any, NoReturn, assert_never

from litestar import Request, post
from litestar.di import NamedDependency

from bus import fork_conversation
from contracts import ids
from contracts.examples import REPLY
from contracts.messages import ForkAnswered, ForkConversation
from conversations.event_store.mapper import UNREADABLE
from conversations.projections.conversations_table import ConversationRow
from conversations.queries.time_travel import parse_version_or_time
from directory.caller import Caller
from gateway.access.account_bounds import within_reads_at_once
from gateway.access.admission import within_write_bounds
from gateway.chat.idempotency_key import key_of
from gateway.conversations.conversation_access import VERSION, ConversationId, ShownThread, shown
from gateway.conversations.conversation_rows import EXAMPLE_FORK
from gateway.gateway_services import parts_of
from gateway.http import strict_json
from gateway.http.exchange import Exchange, of
from gateway.http.http_responses import JsonAnswer
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described

_WRONG_PLACE = (
    "This must be the id of a message, a version, such as 12, or a time in ISO 8601, "
    "such as 2026-11-21T09:30:00Z."
)
_BODY = {
    "required": False,
    "description": "Absent or empty: all that was said.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "at": {
                        "type": ["string", "null"],
                        "description": "The place at which it is forked. The id of a reply: the fork ends "
                        "with it. The id of a user's message: it ends before that, which can be asked again. "
                        "Or a version, or a time, as `at` of the conversation; within a run it is the place "
                        "before the run.",
                    }
                },
            },
            "examples": {
                "all": {"summary": "All of it", "value": {}},
                "reply": {"summary": "Up to a reply", "value": {"at": REPLY}},
                "version": {"summary": "Up to a version", "value": {"at": "8"}},
            },
        }
    },
}


@post(
    "/{conversation_id:str}/fork",
    status_code=201,
    operation_id="forkConversation",
    summary="Begin a new conversation with what another one has.",
    description="It has copies, with ids of their own: either can be deleted without the other.",
    response_description="The new conversation.",
    guards=[within_write_bounds, within_reads_at_once],
)
@described(
    *("conversation_not_found", "conversation_busy", "conversation_too_large"),
    *("unsupported_media_type", "message_too_large"),
    body=_BODY,
    headers=VERSION,
    examples={"fork": EXAMPLE_FORK},
    stages=(key_of,),
)
async def fork(
    request: Request[Any, Any, Any], caller: NamedDependency[Caller], conversation_id: ConversationId
) -> JsonAnswer[ConversationRow]:
    """POST /v1/conversations/{conversation_id}/fork: one fork for an Idempotency-Key.

    Raises Refusal, ClientGone, DatabaseUnavailable, and BusUnavailable where it is unknown whether there is
    one.
    """
    parts, exchange, source_id = parts_of(request), of(request.scope), conversation_id.lower()
    key = await key_of(exchange, parts.pool, caller.account_id)
    key.check()
    at = await _read(exchange)
    if not ids.is_uuid(source_id):
        raise Refusal("conversation_not_found")
    command = ForkConversation(
        trace_id=exchange.trace_id,
        account_id=caller.account_id,
        conversation_id=ids.new_unlisted_id() if ids.is_unlisted(source_id) else ids.new_id(),
        source_id=source_id,
        at=at,
    )
    command = await key.claim_command(parts.claims, command)
    exchange.answer_as(command.trace_id)
    answer = await fork_conversation(parts.bus.rpc, command)
    if answer.outcome != "forked":
        _refuse(answer)
    return await shown(request, ShownThread(command.conversation_id, answer.version))


async def _read(exchange: Exchange) -> int | str | None:
    """The place that the body names, None for the end. Raises Refusal: 415, 413, 400; ClientGone."""
    if not exchange.unread:
        return None
    return await strict_json.read_members(exchange, _parse)


def _parse(fields: dict[str, Any]) -> int | str | None:
    unknown = [name for name in fields if name != "at"]
    if unknown:
        raise invalid(strict_json.printable(unknown[0]), "This field is not known.")
    at = fields.get("at")
    if at is None:
        return None
    if not isinstance(at, str):
        raise invalid("at", _WRONG_PLACE)
    if ids.is_uuid(at.lower()):
        return at.lower()
    try:
        place = parse_version_or_time(at)
    except ValueError:
        raise invalid("at", _WRONG_PLACE) from None
    return place if isinstance(place, int) else place.isoformat()


def _refuse(answer: ForkAnswered) -> NoReturn:
    """Raises Refusal."""
    match answer.outcome:
        case "busy":
            raise Refusal(
                "conversation_busy", "A reply is under way: name a place before it, or wait for it."
            )
        case "unknown_version":
            raise invalid("at", f"The conversation is at version {answer.version}.")
        case "unknown_message":
            raise invalid("at", "The conversation has no such message.")
        case "nothing_said":
            raise invalid("at", "Nothing was said before this place.")
        case "too_large":
            raise Refusal("conversation_too_large")
        case "unreadable":
            raise Refusal("internal_error", UNREADABLE)
        case "not_found" | "unavailable" | "forked":
            raise Refusal("conversation_not_found")
        case unknown:
            assert_never(unknown)
