"""Check the operator's token, then receive the body."""

import hmac

from litestar.handlers.base import BaseRouteHandler

from agentchat.gateway.access.access_services import get_access
from agentchat.gateway.access.checks import receive_data
from agentchat.gateway.admin.admin_services import AdminAccess
from agentchat.gateway.http.refusals import Refusal
from agentchat.gateway.http.request_context import Connection
from agentchat.runtime import metrics
from agentchat.runtime.peers import find_peer

_SCHEME = "bearer "
_CHALLENGE = {"www-authenticate": 'Bearer realm="agent-chat admin"'}


async def may_administer(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check `Authorization: Bearer <the administrator's token>`, then receive the body.

    Wrong tokens count towards the same bound of an address as wrong API keys; the right one is accepted from
    any address. Raises Refusal: 401, 429 for an address that has tried too many; 415, 413, 400.
    """
    _check_token(connection)
    await receive_data(connection, handler)


def get_admin_access(connection: Connection) -> AdminAccess:
    """Return the admin API's access of the application."""
    admin = connection.app.state.admin
    assert isinstance(admin, AdminAccess)
    return admin


def _check_token(connection: Connection) -> None:
    access, values = get_access(connection), connection.headers.getall("authorization", [])
    if not values:
        raise _make_refusal("missing")
    if len(values) == 1 and _is_token(values[0], get_admin_access(connection).token):
        return
    peer = find_peer(connection.scope, access.trusted_proxies)
    if (wait := access.wrong_keys.wait(peer)) is not None:
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="address").inc()
        raise Refusal("rate_limited", "Too many wrong tokens came from this address.", retry_after=wait)
    access.wrong_keys.was_wrong(peer)
    raise _make_refusal("wrong")


def _is_token(given: str, token: bytes) -> bool:
    """Compare in constant time: the time must not show how much of it is right."""
    is_bearer = given[: len(_SCHEME)].lower() == _SCHEME
    return hmac.compare_digest(given[len(_SCHEME) :].strip().encode("latin-1"), token) and is_bearer


def _make_refusal(reason: str) -> Refusal:
    metrics.REFUSED_ADMIN_TOKENS.labels(reason=reason).inc()
    return Refusal("invalid_admin_token", headers=_CHALLENGE)
