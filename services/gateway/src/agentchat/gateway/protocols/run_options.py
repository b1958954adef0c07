"""Read what a request brings for its run: a context, secrets, and parameters for the model's calls."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.http import RunOptions, RunParameters
from agentchat.directory.agent_config import load_agent
from agentchat.directory.agent_validation import is_header_value
from agentchat.directory.prompt_variables import check_context
from agentchat.directory.request_parameters import select_parameters
from agentchat.gateway.http.problems import Refusal, build_field_refusal, to_refusal
from agentchat.gateway.http.request_context import JsonRequest

MAX_SECRETS = 8
MAX_SECRET_BYTES = 4096

_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

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
    agent = await load_agent(request.services.pool, request.auth.account_id, agent_id)
    if agent is None:
        raise Refusal("agent_not_found")
    used = select_parameters(agent, given)
    request.context.ignored += [fields.get(name, name) for name in given if name not in used]
    return used or None


def read_options(options: RunOptions, parent: str = "") -> dict[str, Any]:
    """Return the fields of a RunRequest that the options fill. `parent` is their place in the body.

    Raises Refusal: 400.
    """
    return {
        "context": _check_context(options.context, f"{parent}context"),
        "secrets": _check_secrets(options.secrets, f"{parent}secrets"),
    }


def _check_context(context: dict[str, Any] | None, field: str) -> dict[str, Any] | None:
    if not context:
        return None
    try:
        check_context(context, field)
    except Invalid as error:
        raise to_refusal(error) from None
    return context


def _check_secrets(secrets: dict[str, str] | None, field: str) -> dict[str, str] | None:
    """Check secrets without repeating them in an error: they become values of headers."""
    if not secrets:
        return None
    if len(secrets) > MAX_SECRETS:
        raise build_field_refusal(field, f"There may be {MAX_SECRETS} at most.")
    for name, value in secrets.items():
        if not _SECRET_NAME.match(name):
            raise build_field_refusal(field, "A name has 1 to 64 letters, digits and underscores.")
        if not 1 <= len(value) <= MAX_SECRET_BYTES or not is_header_value(value):
            raise build_field_refusal(
                f"{field}.{name}", "This must be 1 to 4096 characters of visible ASCII."
            )
    return secrets
