"""Access to the admin API: the operator's token."""

import hmac

from litestar.handlers.base import BaseRouteHandler

from gateway.admin.admin_services import AdminAccess
from gateway.gateway_services import services_of
from gateway.http.exchange import Connection, of
from gateway.http.peers import peer_of
from gateway.http.problem_responses import Refusal
from gateway.openapi.described import described
from runtime import metrics

_SCHEME = b"bearer "
_CHALLENGE = (b"www-authenticate", b'Bearer realm="agent-chat admin"')


@described("invalid_admin_token", "rate_limited")
async def has_token(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard: `Authorization: Bearer <the administrator's token>`, once; nothing else is accepted.

    Wrong tokens count towards the same bound of an address as wrong API keys; the right one is accepted from
    any address. Raises Refusal: 401, and 429 for an address that has tried too many.
    """
    exchange, services = of(connection.scope), services_of(connection)
    values = exchange.header(b"authorization")
    if not values:
        raise _refused("missing")
    if len(values) == 1 and _is_token(values[0], access_of(connection).token):
        return
    given = b", ".join(values).decode("latin-1")
    peer = peer_of(exchange, services.trusted_proxies)
    if (wait := services.wrong_keys.wait(peer, given)) is not None:
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="address").inc()
        await services.limiter.cool_down(peer)
        raise Refusal("rate_limited", "Too many wrong tokens came from this address.", retry_after=wait)
    services.wrong_keys.was_wrong(peer, given)
    raise _refused("wrong")


def _is_token(given: bytes, token: bytes) -> bool:
    """In constant time: the time must not show how much of it is right."""
    is_bearer = given[: len(_SCHEME)].lower() == _SCHEME
    return hmac.compare_digest(given[len(_SCHEME) :].strip(), token) and is_bearer


def _refused(reason: str) -> Refusal:
    metrics.REFUSED_ADMIN_TOKENS.labels(reason=reason).inc()
    return Refusal("invalid_admin_token", headers=[_CHALLENGE])


def access_of(connection: Connection) -> AdminAccess:
    access = services_of(connection).admin
    assert access is not None
    return access
