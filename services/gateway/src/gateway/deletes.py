"""DELETE /v1/conversations/{conversation_id}: at the answer it is gone for every reader."""

from bus import erase_conversation
from contracts import ids
from gateway.admission import reader_of
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal


async def delete_conversation(parts: Parts, exchange: Exchange, conversation_id: str) -> None:
    """204 with no body. Raises Refusal, and BusUnavailable where it is unknown whether it was erased."""
    caller = await reader_of(parts, exchange)
    conversation_id = conversation_id.lower()
    if not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    erased = await erase_conversation(
        parts.bus, caller.account_id, conversation_id, trace_id=exchange.trace_id
    )
    if not erased:
        raise Refusal("conversation_not_found")
    await exchange.start(204, [])
    await exchange.body(b"")
