"""Protocols whose address names the agent: `/…/agents/{agent}/…`, by its id or a name that it alone has."""

from typing import Any

from litestar import Request
from litestar.handlers.base import BaseRouteHandler

from contracts.examples import AGENT
from contracts.ids import is_uuid
from gateway.access.auth import REFUSALS, authenticate, bearer_or
from gateway.chat.admitted_request import admitted_request
from gateway.gateway_request import GatewayRequest
from gateway.http.exchange import Connection, of
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described, parameter

_AGENT = parameter(
    "path", "agent", "The agent's id, or a name that it alone has.", required=True, example=AGENT
)
CONVERSATION_ID = {
    "X-Conversation-Id": {
        "schema": {"type": "string", "format": "uuid"},
        "description": "The conversation here.",
    }
}
SECURITY = [{"key": list[str]()}, {"bearer": list[str]()}]
"""Either of them (OpenAPI)."""


@described(*REFUSALS, parameters=[_AGENT])
async def has_key(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: a key that counts, in X-Api-Key or as a bearer token; an agent's id is looked up with it.

    Raises Refusal, DatabaseUnavailable.
    """
    agent_id = str(connection.path_params["agent"]).lower()
    key = bearer_or(of(connection.scope), b"x-api-key")
    await authenticate(connection, key, agent_id if is_uuid(agent_id) else None)


@described("agent_not_found")
async def check_agent(connection: Request[Any, Any, Any]) -> None:
    """Before the body is read: there is such an agent. Raises Refusal: 404."""
    request = admitted_request(connection)
    request.agent_id = await agent_of(request)


async def agent_of(request: GatewayRequest) -> str:
    """The id of the agent that the address names. Raises Refusal: 404; DatabaseUnavailable."""
    if request.exchange.agent is not None:
        return request.exchange.agent.agent_id
    name = str(request.path_params["agent"])
    found = await request.services.agent_names.called(request.auth.account_id, name)
    if found is None:
        raise Refusal("agent_not_found", "No agent of the account has this id, or alone has this name.")
    return found
