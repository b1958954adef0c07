"""Read what a request brings for its run: a context, and parameters for the model's calls."""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.http import RunOptions, RunParameters
from agentchat.directory.agent_config import load_agent
from agentchat.directory.agent_draft import check_json
from agentchat.directory.request_parameters import select_parameters
from agentchat.gateway.http.json_request import JsonRequest
from agentchat.gateway.http.refusals import Refusal, build_field_refusal, to_refusal
from agentchat.gateway.services import get_services

MAX_CONTEXT_BYTES = 4096

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


def read_options(options: RunOptions, parent: str = "") -> dict[str, Any]:
    """Return the fields of a RunRequest that the options fill. `parent` is their place in the body.

    Raises Refusal: 400.
    """
    context = options.context
    if not context:
        return {}
    field = f"{parent}context"
    try:
        check_json(context, field)
    except Invalid as error:
        raise to_refusal(error) from None
    if len(wire.encode(context)) > MAX_CONTEXT_BYTES:
        raise build_field_refusal(field, f"This is larger than {MAX_CONTEXT_BYTES // 1024} KiB of JSON.")
    return {"context": context}
