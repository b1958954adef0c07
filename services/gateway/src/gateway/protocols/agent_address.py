"""Protocols whose address names the agent: `/…/agents/{agent}/…`, by its id or a name that it alone has."""

from typing import Annotated

from litestar.openapi.spec import Example
from litestar.params import PathParameter

from contracts.examples import AGENT
from contracts.ids import is_uuid
from gateway.access.auth import REFUSALS, bearer_or
from gateway.chat.run_request import RunRequester
from gateway.gateway_services import Parts
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described

AgentName = Annotated[
    str,
    PathParameter(
        description="The agent's id, or a name that it alone has.",
        examples=[Example(value=AGENT)],
    ),
]
CONVERSATION_ID = {
    "X-Conversation-Id": {
        "schema": {"type": "string", "format": "uuid"},
        "description": "The conversation here.",
    }
}
SECURITY = [{"key": list[str]()}, {"bearer": list[str]()}]
"""Either of them (OpenAPI)."""


def key_of(exchange: Exchange) -> str:
    """The account's key: X-Api-Key, or as a bearer token. Raises Refusal: 401."""
    return bearer_or(exchange, b"x-api-key")


@described(*REFUSALS)
def key_and_agent_of(agent: str, exchange: Exchange) -> tuple[str, str | None]:
    """The key, and the agent where the address has its id. Raises Refusal: 401."""
    agent_id = agent.lower()
    return key_of(exchange), agent_id if is_uuid(agent_id) else None


async def agent_of(parts: Parts, requester: RunRequester, name: str) -> str:
    """The id of the agent that the address names. Raises Refusal: 404; DatabaseUnavailable."""
    if requester.agent is not None:
        return requester.agent.agent_id
    found = await parts.agent_names.called(requester.caller.account_id, name)
    if found is None:
        raise Refusal("agent_not_found", "No agent of the account has this id, or alone has this name.")
    return found
