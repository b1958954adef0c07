"""Read a request's own parameters for the model's calls: those that its agent allows."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentchat.contracts.http import RunParameters
from agentchat.directory.agent_config import load_agent
from agentchat.directory.request_parameters import select_parameters
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.services import get_services

NESTED = {name: f"parameters.{name}" for name in RunParameters.__struct_fields__}
"""The fields of a body with an object `parameters`."""


async def choose_parameters(
    request: JsonRequest, agent_id: str, requested: RunParameters | None, fields: Mapping[str, str] = NESTED
) -> dict[str, Any] | None:
    """Return the parameters that the agent allows, if any. The others join X-Ignored-Parameters.

    `fields` are the names that the body has for them, if they differ.

    Raises:
        Refusal: 404, there is no such agent.
        DatabaseUnavailable
    """
    given = msgspec.to_builtins(requested) if requested is not None else {}
    if not given:
        return None
    agent = await load_agent(get_services(request).pool, request.auth.account_id, agent_id)
    if agent is None:
        raise Refusal("agent_not_found")
    used = select_parameters(agent, given)
    request.context.ignored += [fields.get(name, name) for name in given if name not in used]
    return used or None
