"""A request that goes on at an earlier place of a conversation: in a fork of it."""

from msgspec.structs import replace

from bus import fork_conversation
from contracts.messages import ChatRequested, ForkConversation
from conversations.aggregate import forking
from gateway.chat.run_request import Fork
from gateway.gateway_services import GatewayServices
from gateway.http.problem_responses import Refusal


async def forked(services: GatewayServices, request: ChatRequested, fork: Fork) -> ChatRequested:
    """The request, for the fork that is now its conversation. To ask again is safe.

    Where there can be none, it begins a conversation with its history. Raises Refusal, BusUnavailable.
    """
    command = ForkConversation(
        trace_id=request.trace_id,
        account_id=request.account_id,
        conversation_id=request.conversation_id,
        source_id=fork.source_id,
        at=fork.at,
    )
    answer = await fork_conversation(services.bus.rpc, command)
    if answer.outcome == "forked":
        after = forking.reply_in(request.conversation_id, fork.trace_id)
        return replace(request, new_conversation=False, after=after, history=())
    if not request.history:
        too_large = answer.outcome == "too_large"
        raise Refusal("conversation_too_large" if too_large else "conversation_not_found")
    return request
