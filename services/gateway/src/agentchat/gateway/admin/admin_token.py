"""Check the administrator's token and role, then receive the body."""

import hmac
import re

import msgspec
from litestar.handlers.base import BaseRouteHandler

from agentchat.administration.account_scope import check_path
from agentchat.administration.route_signature import Route
from agentchat.directory.named_tokens import ENVIRONMENT_TOKEN, Role, TokenHolder, find_holder
from agentchat.gateway.access.checks import receive_data, to_request
from agentchat.gateway.admin.admin_services import AdminAccess
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import Connection, JsonRequest
from agentchat.runtime import metrics
from agentchat.runtime.client_address import find_peer

ROUTE = "route"
"""The key of the route in a handler's options."""

OWNER = TokenHolder(name=ENVIRONMENT_TOKEN, role=Role.OWNER)
_ACTOR = re.compile(r"[!-~]{1,100}")
_SCHEME = "bearer "
_CHALLENGE = {"www-authenticate": 'Bearer realm="agent-chat admin"'}


async def may_administer(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check `Authorization: Bearer <token>`, its role and accounts, then receive the body.

    The token is the one of AGENTCHAT_ADMIN_TOKEN, or a named one. Wrong tokens count towards the same bound
    of an address as wrong API keys; a right one is accepted from any address. Raises Refusal: 401, 403, 429
    for an address that has tried too many; 415, 413, 400; AdminError, DatabaseUnavailable.
    """
    request, route = to_request(connection), handler.opt[ROUTE]
    holder = await _find_holder(request)
    assert isinstance(route, Route)
    needed, admin = route.role, get_admin_access(request).admin
    if holder.role < needed:
        reason = (
            f"This needs the role {needed.word}; the token {holder.name} has the role {holder.role.word}."
        )
        raise Refusal("not_allowed", reason)
    actor = _read_actor(request, admin.actor) if holder is OWNER else holder.name
    admin = msgspec.structs.replace(admin, actor=actor, account_ids=holder.account_ids)
    await check_path(admin, request.path_params, filtered=route.filtered)
    request.state.admin = admin
    await receive_data(request, handler)


def get_admin_access(request: JsonRequest) -> AdminAccess:
    """Return the admin API's access of the application."""
    admin = request.app.state.admin
    assert isinstance(admin, AdminAccess)
    return admin


def _read_actor(request: JsonRequest, default: str) -> str:
    """Return who asks, for the audit log: by `X-Admin-Actor` with the environment's token. Raises Refusal."""
    name = request.headers.get("x-admin-actor")
    if name is None:
        return default
    if not _ACTOR.fullmatch(name):
        raise build_field_refusal("X-Admin-Actor", "This must be at most 100 visible ASCII characters.")
    return name


async def _find_holder(request: JsonRequest) -> TokenHolder:
    services, values = request.services, request.headers.getall("authorization", [])
    if not values:
        raise _make_refusal("missing")
    admin = get_admin_access(request)
    if len(values) == 1 and values[0][: len(_SCHEME)].lower() == _SCHEME:
        token = values[0][len(_SCHEME) :].strip()
        # Compared in constant time: the time must not show how much of it is right.
        if hmac.compare_digest(token.encode("latin-1"), admin.token):
            return OWNER
        if (holder := await find_holder(admin.admin.pool, token)) is not None:
            return holder
    peer = find_peer(request.scope, services.trusted_proxies)
    if (wait := services.wrong_keys.wait(peer)) is not None:
        metrics.REFUSED_ADMIN_TOKENS.labels(reason="address").inc()
        raise Refusal("rate_limited", "Too many wrong tokens came from this address.", retry_after=wait)
    services.wrong_keys.was_wrong(peer)
    raise _make_refusal("wrong")


def _make_refusal(reason: str) -> Refusal:
    metrics.REFUSED_ADMIN_TOKENS.labels(reason=reason).inc()
    return Refusal("invalid_admin_token", headers=_CHALLENGE)
