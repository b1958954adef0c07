"""Find the caller behind a request's key: X-Api-Key (interface specification, section 3), or a bearer token.

Other protocols have headers of their own for the same keys.
"""

import re

import msgspec
from litestar.datastructures import Headers

from agentchat.directory.agent_to_agent import open_token
from agentchat.directory.api_keys import Caller, Scope, load_account_caller
from agentchat.gateway.access.end_user import read_user_header, set_user
from agentchat.gateway.http.problems import Refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.runtime import metrics
from agentchat.runtime.client_address import find_peer

_PREFIX = "sk-"
_BEARER = re.compile(r"bearer +([!-~]+)\Z", re.IGNORECASE)
_MAX_KEY_LENGTH = 256


async def authenticate(request: JsonRequest, key: str, agent_id: str | None = None) -> str | None:
    """Set the request's `auth`, the Caller; return `agent_id` if it is one of the account's agents.

    A valid key is never cached. The caller's user is the one in X-User-Id.

    Raises:
        Refusal: 401; 429 for an address that tries many wrong keys; 400 for a wrong X-User-Id.
        DatabaseUnavailable
    """
    services, context = request.services, request.context
    wrong_keys, peer = services.wrong_keys, find_peer(request.scope, services.trusted_proxies)
    found = await services.callers.resolve(key, agent_id)  # in one query with all that wait
    if found is None:
        if (wait := wrong_keys.wait(peer)) is not None:
            metrics.REFUSED_KEYS.labels(reason="address").inc()
            raise Refusal("rate_limited", "Too many wrong keys came from this address.", retry_after=wait)
        wrong_keys.was_wrong(peer)
        metrics.REFUSED_KEYS.labels(reason="wrong").inc()
        raise Refusal("invalid_api_key")
    caller, known_agent = found
    context.account_id, request.scope["auth"] = caller.account_id, caller
    if (user_id := read_user_header(request.headers)) is not None:
        set_user(request, user_id)
    return known_agent


async def authenticate_agent(request: JsonRequest, token: str) -> None:
    """Set the request's `auth` for a tool-runner that calls an agent, without limits of rates and runs.

    The run of the agent that calls has passed them. Raises Refusal: 401; DatabaseUnavailable.
    """
    services = request.services
    opened = None if services.sealer is None else open_token(services.sealer, token)
    caller = None if opened is None else await load_account_caller(services.pool, opened[0], "agent")
    if opened is None or caller is None or opened[1] <= caller.now:
        raise Refusal("invalid_api_key")
    caller = msgspec.structs.replace(caller, plan=caller.plan.drop_limits())
    request.context.account_id, request.scope["auth"] = caller.account_id, caller


def check_scope(caller: Caller, scope: Scope) -> None:
    """Raise Refusal, 403, if the caller's key does not have the scope."""
    if scope not in caller.scopes:
        named = ", ".join(caller.scopes)
        raise Refusal("not_allowed", f"This needs a key with the scope {scope}; this key has {named}.")


def read_api_key(headers: Headers) -> str:
    """Return the key in X-Api-Key. Raises Refusal: 401."""
    return _check_single_key(headers.getall("x-api-key", []))


def read_bearer_or_api_key(headers: Headers) -> str:
    """Return the key as a bearer token, or else in X-Api-Key. Raises Refusal: 401."""
    return _read_bearer_or(headers, "x-api-key")


def read_openai_key(headers: Headers) -> str:
    """Return the key where OpenAI's clients send theirs, or Azure's. Raises Refusal: 401."""
    return _read_bearer_or(headers, "api-key")


def _read_bearer_or(headers: Headers, other: str) -> str:
    values = headers.getall("authorization", [])
    if not values:
        return _check_single_key(headers.getall(other, []))
    found = _BEARER.match(values[0]) if len(values) == 1 else None
    if found is None:
        raise Refusal("invalid_api_key")
    return _check_single_key([found[1]])


def _check_single_key(values: list[str]) -> str:
    if not values or not values[0]:
        raise Refusal("missing_api_key")
    if len(values) > 1 or len(values[0]) > _MAX_KEY_LENGTH or not values[0].startswith(_PREFIX):
        raise Refusal("invalid_api_key")
    return values[0]
