"""Our own API (docs/specification.md): X-Api-Key, X-Agent-Id, and a body with one message."""

from collections.abc import Awaitable, Callable

from contracts import ids
from conversations.idempotency import Claim
from gateway import auth, body
from gateway.doors.port import Ask, Asker, Encoder
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.problems import Refusal


def who(exchange: Exchange) -> tuple[str, str | None]:
    """The key, and the agent's id where one is given. Raises Refusal."""
    return auth.key_of(exchange), auth.agent_id_of(exchange)


def reader(
    encoder: Callable[[Exchange, Claim], Encoder], *, streamed: bool
) -> Callable[[Parts, Exchange, Asker], Awaitable[Ask]]:
    """What reads a request to be answered so."""

    async def read(_parts: Parts, exchange: Exchange, asker: Asker) -> Ask:
        agent = auth.check_agent(asker.agent_id, asker.agent)
        content = await body.read(exchange, asker.caller.plan.max_message_bytes)
        conversation_id = None if content.conversation_id is None else content.conversation_id.lower()
        if conversation_id is not None and not ids.is_uuid(conversation_id):
            raise Refusal("conversation_not_found")
        return Ask(
            agent_id=agent.agent_id,
            message=content.message,
            encoder=encoder,
            streamed=streamed,
            conversation_id=conversation_id,
            prompt=content.prompt,
        )

    return read
