"""End or refuse requests whose conversation has an event that this release cannot decode.

A run's end can be stored after such an event, but nothing else. An event with an unknown tag comes from a
newer release, whose workers can continue: they get some minutes for it.
"""

from agentchat.contracts.messages import ChatRequested
from agentchat.contracts.ownership import may_use
from agentchat.conversations.aggregate.conversation import evolve_all
from agentchat.conversations.aggregate.opening_rules import NOT_FOUND, AlreadyEnded, Rejected
from agentchat.conversations.aggregate.run_ends import fail
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent, VersionConflict
from agentchat.conversations.event_store import mapper
from agentchat.orchestrator.request_stages import LeasedRequest
from agentchat.orchestrator.run.run_log import get_run
from agentchat.orchestrator.services import WorkerServices
from agentchat.runtime import logs

_DELIVERIES = 3
_UNKNOWN_DELIVERIES = 45
"""Fewer than the 50 that a message has: about four minutes (`put_back._get_delay_for_newer_release`)."""


async def decide_unreadable(
    services: WorkerServices, leased: LeasedRequest, error: UnreadableEvent
) -> AlreadyEnded | Rejected:
    """End the run of a request whose conversation could not be read, or refuse the request.

    Raises:
        UnreadableEvent: Another worker is to try first.
        DatabaseUnavailable
    """
    most = _UNKNOWN_DELIVERIES if isinstance(error, UnknownEvent) else _DELIVERIES
    if leased.delivery.attempt < most:
        raise error
    logs.get_logger("unreadable").error("conversation_unreadable", topic=error.topic, reason=error.reason)
    return await end_unreadable_run(services, leased.request, leased.clock.now())


async def end_unreadable_run(
    services: WorkerServices, request: ChatRequested, now: str
) -> AlreadyEnded | Rejected:
    """End a started run as failed; the caller holds its lease.

    Raises:
        DatabaseUnavailable
    """
    while True:
        conversation = await services.store.load_readable(request.conversation_id)
        is_foreign = conversation.account_id is not None and not may_use(request, conversation)
        if conversation.erased or is_foreign:
            return NOT_FOUND
        run = conversation.run(request.trace_id)
        if run is None:
            return Rejected(code="internal_error", message=mapper.UNREADABLE)
        end = fail(run, "internal_error", mapper.UNREADABLE, now)
        ended = AlreadyEnded(run=get_run(evolve_all(conversation, end), request.trace_id))
        if not end:
            return ended
        try:
            await services.store.append_stored(
                conversation.conversation_id, conversation.version, mapper.encode_pairs(end)
            )
        except VersionConflict:
            continue
        return ended
