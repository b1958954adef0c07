"""Who calls, and which agent: by X-Api-Key alone (interface specification, section 3), and by X-Agent-Id.

Other protocols have headers of their own, for the same keys.
"""

import re

from litestar.handlers.base import BaseRouteHandler

from contracts.examples import AGENT
from contracts.ids import is_uuid
from directory.caller import AgentSummary
from gateway.gateway_services import services_of
from gateway.http.exchange import Connection, Exchange, of
from gateway.http.peers import peer_of
from gateway.http.problem_responses import Refusal, invalid
from gateway.openapi.described import described, parameter
from runtime import metrics

KEY = {"key": list[str]()}
"""The security requirement of operations that need the account's key (OpenAPI)."""

_KEY_HEADER = b"x-api-key"
_AGENT_HEADER = b"x-agent-id"
_PREFIX = b"sk-"
_BEARER = re.compile(rb"bearer +([!-~]+)\Z", re.IGNORECASE)
_MAX_KEY_BYTES = 256


REFUSALS = ("missing_api_key", "invalid_api_key", "rate_limited")
# No `format`: of a header with one, generated clients make an object that their HTTP library refuses.
_AGENT_ID = parameter(
    "header",
    "X-Agent-Id",
    "The agent to invoke: one of the account's, by its id.",
    required=True,
    example=AGENT,
    pattern="^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
)


@described(*REFUSALS)
async def has_key(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: the request has a key that counts, in X-Api-Key. Raises Refusal, DatabaseUnavailable."""
    await authenticate(connection, key_of(of(connection.scope)))


async def authenticate(connection: Connection, key: str, agent_id: str | None = None) -> None:
    """Set the connection's `auth`, the Caller, and the exchange's `agent`, if `agent_id` is one of the
    account's. That a key counts is never cached.

    Raises Refusal: 401; 429 for an address that tries many wrong keys; DatabaseUnavailable.
    """
    exchange, services = of(connection.scope), services_of(connection)
    wrong_keys, peer = services.wrong_keys, peer_of(exchange, services.trusted_proxies)
    if wrong_keys.was_refused(key):
        metrics.REFUSED_KEYS.labels(reason="again").inc()
        await services.limiter.cool_down(peer)
        raise Refusal("invalid_api_key")
    wait = wrong_keys.wait(peer, key)
    if wait is not None and not await services.key_checks.counts(key):
        metrics.REFUSED_KEYS.labels(reason="address").inc()
        await services.limiter.cool_down(peer)
        raise Refusal("rate_limited", "Too many wrong keys came from this address.", retry_after=wait)
    found = await services.callers.resolve(key, agent_id)
    if found is None:
        wrong_keys.was_wrong(peer, key)
        metrics.REFUSED_KEYS.labels(reason="wrong").inc()
        raise Refusal("invalid_api_key")
    wrong_keys.was_right(key)
    caller, exchange.agent = found
    exchange.account_id, connection.scope["auth"] = caller.account_id, caller


@described(*REFUSALS, parameters=[_AGENT_ID])
async def has_key_and_agent(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: as `has_key`; the agent in X-Agent-Id is looked up with it, and is judged by `check_agent`."""
    exchange = of(connection.scope)
    await authenticate(connection, key_of(exchange), _agent_id_of(exchange))


@described("agent_not_found")
def check_agent(exchange: Exchange) -> AgentSummary:
    """The agent in X-Agent-Id. Raises Refusal: 400 for the header, 404 for the agent."""
    if _agent_id_of(exchange) is None:
        raise invalid("X-Agent-Id", "This header is required, once, and is the UUID of an agent.")
    if exchange.agent is None:
        raise Refusal("agent_not_found")
    return exchange.agent


def _agent_id_of(exchange: Exchange) -> str | None:
    """The X-Agent-Id of the request in lower case; None where it is missing, doubled or no UUID."""
    values = exchange.header(_AGENT_HEADER)
    if len(values) != 1:
        return None
    text = values[0].decode("latin-1").lower()
    return text if is_uuid(text) else None


def key_of(exchange: Exchange) -> str:
    """The X-Api-Key of the request. Raises Refusal: 401."""
    return one_key(exchange.header(_KEY_HEADER))


def bearer_or(exchange: Exchange, other: bytes) -> str:
    """The key as a bearer token, or else in the header `other`, for other protocols.

    Raises Refusal: 401.
    """
    values = exchange.header(b"authorization")
    if not values:
        return one_key(exchange.header(other))
    found = _BEARER.match(values[0]) if len(values) == 1 else None
    if found is None:
        raise Refusal("invalid_api_key")
    return one_key([found[1]])


def one_key(values: list[bytes]) -> str:
    """The key, of the values that a request gives for it. Raises Refusal: 401."""
    if not values or not values[0]:
        raise Refusal("missing_api_key")
    if len(values) > 1 or len(values[0]) > _MAX_KEY_BYTES or not values[0].startswith(_PREFIX):
        raise Refusal("invalid_api_key")
    return values[0].decode("latin-1")
