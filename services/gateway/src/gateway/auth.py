"""Who calls, and which agent: by X-Api-Key alone (docs/specification.md 3), and by X-Agent-Id.

Other doors have headers of their own, for the same keys.
"""

from contracts.ids import is_uuid
from directory.caller import AgentSummary, Caller, resolve
from gateway.exchange import Exchange
from gateway.parts import Parts
from gateway.peers import peer_of
from gateway.problems import Refusal, invalid
from runtime import telemetry

REFUSED = "agentchat.keys.refused"
"""Counts refused keys, by reason: wrong, again (wrong a moment ago), address (it has tried too many)."""

_KEY_HEADER = b"x-api-key"
_AGENT_HEADER = b"x-agent-id"
_PREFIX = b"sk-"
_MAX_KEY_BYTES = 256


async def caller_of(
    exchange: Exchange, parts: Parts, key: str, agent_id: str | None = None
) -> tuple[Caller, AgentSummary | None]:
    """The caller who has `key`, and the agent if `agent_id` is one of the account's.

    That a key counts is never cached. Raises Refusal: 401, and 429 for an address that tries many wrong keys;
    DatabaseUnavailable.
    """
    guesses = parts.guesses
    peer = peer_of(exchange, parts.trusted_proxies)
    if guesses.was_refused(key):
        telemetry.count(REFUSED, reason="again")
        await parts.limiter.cool_down(peer)
        raise Refusal("invalid_api_key")
    wait = guesses.wait(peer, key)
    if wait is not None and not await parts.key_checks.counts(key):
        telemetry.count(REFUSED, reason="address")
        await parts.limiter.cool_down(peer)
        raise Refusal("rate_limited", "Too many wrong keys came from this address.", retry_after=wait)
    found = await resolve(parts.pool, key, agent_id, last_used=parts.last_used)
    if found is None:
        guesses.was_wrong(peer, key)
        telemetry.count(REFUSED, reason="wrong")
        raise Refusal("invalid_api_key")
    guesses.was_right(key)
    exchange.account_id = found[0].account_id
    return found


def agent_id_of(exchange: Exchange) -> str | None:
    """The X-Agent-Id of the request in lower case; None where it is missing, doubled or no UUID."""
    values = exchange.header(_AGENT_HEADER)
    if len(values) != 1:
        return None
    text = values[0].decode("latin-1").lower()
    return text if is_uuid(text) else None


def check_agent(agent_id: str | None, agent: AgentSummary | None) -> AgentSummary:
    """The agent. Raises Refusal: 400 for the header, 404 for the agent."""
    if agent_id is None:
        raise invalid("X-Agent-Id", "This header is required, once, and is the UUID of an agent.")
    if agent is None:
        raise Refusal("agent_not_found")
    return agent


def key_of(exchange: Exchange) -> str:
    """The X-Api-Key of the request. Raises Refusal: 401."""
    return one_key(exchange.header(_KEY_HEADER))


def one_key(values: list[bytes]) -> str:
    """The key, of the values that a request gives for it. Raises Refusal: 401."""
    if not values or not values[0]:
        raise Refusal("missing_api_key")
    if len(values) > 1 or len(values[0]) > _MAX_KEY_BYTES or not values[0].startswith(_PREFIX):
        raise Refusal("invalid_api_key")
    return values[0].decode("latin-1")
