"""Delete a conversation for every reader: DELETE /v1/conversations/{id}."""

from litestar import delete

from agentchat.bus.commands import erase_conversation
from agentchat.gateway.access.checks import may_act
from agentchat.gateway.api.get_conversation import ConversationId, parse_conversation_id
from agentchat.gateway.http.problems import build_conversation_not_found
from agentchat.gateway.http.request_context import JsonRequest


@delete(
    "/v1/conversations/{conversation_id:str}",
    operation_id="deleteConversation",
    summary="Delete a conversation for every reader, for ever.",
    guards=[may_act],
    opt={"scope": "manage"},
)
async def delete_conversation(request: JsonRequest, conversation_id: ConversationId) -> None:
    """Cancel a run under way, then delete the conversation. 503 if it is unknown whether it was deleted."""
    rpc, caller, trace_id = request.services.bus.rpc, request.auth, request.context.trace_id
    conversation_id = parse_conversation_id(conversation_id)
    if not await erase_conversation(
        rpc, caller.account_id, conversation_id, trace_id=trace_id, user_id=caller.user_id
    ):
        raise build_conversation_not_found()
