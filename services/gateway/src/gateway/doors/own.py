"""Our own API (docs/change/specification.md): X-Api-Key, X-Agent-Id, and a body with one message."""

from contracts import ids, sse
from directory.caller import AgentSummary
from gateway.chat import body
from gateway.chat.ask import Ask, Asker
from gateway.http.exchange import Exchange
from gateway.http.known_query import check_query
from gateway.http.problems import Refusal, invalid
from gateway.openapi.described import described
from gateway.parts import Parts


@described("unsupported_media_type", "message_too_large", "conversation_not_found", body=body.BODY)
async def read(_parts: Parts, exchange: Exchange, asker: Asker) -> Ask:
    """The agent of the headers, and the body. Raises Refusal, ClientGone."""
    check_query(exchange)
    agent = _agent(asker.agent_id, asker.agent)
    content = await body.read(exchange, asker.caller.plan.max_message_bytes)
    conversation_id = None if content.conversation_id is None else content.conversation_id.lower()
    if conversation_id is not None and not ids.is_uuid(conversation_id):
        raise Refusal("conversation_not_found")
    return Ask(
        form=asker.form,
        agent_id=agent.agent_id,
        message=content.message,
        streamed=asker.form in sse.FORMS,
        conversation_id=conversation_id,
        prompt=content.prompt,
    )


def _agent(agent_id: str | None, agent: AgentSummary | None) -> AgentSummary:
    """The agent. Raises Refusal: 400 for the header, 404 for the agent."""
    if agent_id is None:
        raise invalid("X-Agent-Id", "This header is required, once, and is the UUID of an agent.")
    if agent is None:
        raise Refusal("agent_not_found")
    return agent
