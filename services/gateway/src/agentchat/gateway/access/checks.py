"""The checks that a request passes before its handler, as one guard for each kind of request.

One guard each, since Litestar copies the handler for every guard (`BaseRouteHandler.authorize_connection`).
Put them on handlers: those of a Router apply to Litestar's automatic OPTIONS too.
"""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.handlers.base import BaseRouteHandler
from litestar.params import PathParameter

from agentchat.contracts.ids import is_uuid
from agentchat.directory.caller import Caller
from agentchat.gateway.access.access_services import get_access
from agentchat.gateway.access.authentication import (
    authenticate,
    read_api_key,
    read_bearer_or_api_key,
    read_openai_key,
)
from agentchat.gateway.access.idempotency_header import IdempotencyKey, read_idempotency_key
from agentchat.gateway.access.plan_limits import Slot, check_read_rate, check_write_rate, take_slot
from agentchat.gateway.access.usage_limits import check_storage
from agentchat.gateway.http.refusals import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import Connection, get_context

BODY_SECONDS = 7.0
"""Within the time that a stopping process has."""

AgentName = Annotated[str, PathParameter(description="The agent's id, or a name that it alone has.")]
"""Of addresses that name the agent: `/…/agents/{agent}/…`; `may_chat_with_agent` reads it."""

_FORM_HEADER = "X-Stream-Form"


class AdmittedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks have found of a request for a run. `slot` is held until the answer is out.

    `agent_id` is that of the headers or the address, "" where the body names the agent.
    """

    agent_id: str = ""
    idempotency_key: IdempotencyKey
    slot: Slot


def get_admitted(request: Request[Any, Any, Any]) -> AdmittedRequest:
    admitted = request.state.admitted
    assert isinstance(admitted, AdmittedRequest)
    return admitted


async def may_chat(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check a request for a run, in this order.

    1. The key: 401, or 429 for an address that tries wrong ones. The agent is looked up with it.
    2. The plan: its limits (429, 403), its forms of stream (403). A place for the run is held.
    3. The headers and the agent: 400, 404.
    4. The body: JSON (415), here in time (400), not too large (413). Litestar decodes it to `data` (400).
    5. The conversation (404): by the handler. Whether it is the account's, and free, is the worker's to say.

    Raises Refusal, DatabaseUnavailable.
    """
    request = _request(connection)
    agent_id = request.headers.get("x-agent-id", "").lower()
    agent = await authenticate(
        request, read_api_key(request.headers), agent_id if is_uuid(agent_id) else None
    )
    key, slot = await _take_slot(request)
    if handler.opt.get("streams"):
        stream_form_of(request)
    key.check()
    if not is_uuid(agent_id):
        raise build_field_refusal("X-Agent-Id", "This header is required, and is the UUID of an agent.")
    if agent is None:
        raise Refusal("agent_not_found")
    await _receive_body(request)
    request.state.admitted = AdmittedRequest(agent_id=agent.agent_id, idempotency_key=key, slot=slot)


async def may_chat_as_openai(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request of OpenAI's API: as `may_chat`, but its body names the agent."""
    request = _request(connection)
    await authenticate(request, read_openai_key(request.headers))
    key, slot = await _take_slot(request)
    key.check()
    await _receive_body(request)
    request.state.admitted = AdmittedRequest(idempotency_key=key, slot=slot)


async def may_chat_with_agent(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request whose address names the agent: as `may_chat`."""
    request = _request(connection)
    agent_id = await _authenticate_for_agent(request)
    key, slot = await _take_slot(request)
    key.check()
    agent_id = agent_id or await find_agent_by_name(request, request.path_params["agent"])
    await _receive_body(request)
    request.state.admitted = AdmittedRequest(agent_id=agent_id, idempotency_key=key, slot=slot)


async def may_read(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request that reads: the key (401), the rate (429), few reads at once (429)."""
    request = await _may_ask(connection, read_api_key(connection.headers))
    await _take_read(request)


async def may_act(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check any other request: the key (401), the rate (429), the body (415, 400, 413)."""
    request = await _may_ask(connection, read_api_key(connection.headers))
    await receive_data(request, handler)


async def may_write(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check a write to a conversation without a run.

    The key (401), the rates of requests and writes (429), the storage (403), few at once (429), the header
    Idempotency-Key (400), the body (415, 400, 413).
    """
    request = await _may_ask(connection, read_api_key(connection.headers))
    access = get_access(request)
    await check_write_rate(access.limiter, request.auth)
    check_storage(request.auth, await access.figures.get(request.auth))
    await _take_read(request)
    request.state.idempotency_key = await read_idempotency_key(request.headers, access.pool, request.auth)
    request.state.idempotency_key.check()
    await receive_data(request, handler)


async def may_read_as_openai(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request of OpenAI's API that reads: as `may_read`."""
    request = await _may_ask(connection, read_openai_key(connection.headers))
    await _take_read(request)


async def may_act_as_openai(connection: Connection, _: BaseRouteHandler) -> None:
    """Check any other request of OpenAI's API: as `may_act`."""
    await _may_ask(connection, read_openai_key(connection.headers))


async def may_follow_agent(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request that follows a run of the agent in its address: the key, the rate, the agent (404)."""
    request = _request(connection)
    agent_id = await _authenticate_for_agent(request)
    await check_read_rate(get_access(request).limiter, request.auth)
    request.state.agent_id = agent_id or await find_agent_by_name(request, request.path_params["agent"])


async def find_agent_by_name(request: Request[Any, Caller, Any], name: str) -> str:
    """Return the id of the agent that has this id, or alone has this name.

    Raises Refusal: 404; DatabaseUnavailable.
    """
    found = await get_access(request).agent_names.resolve(request.auth.account_id, name)
    if found is None:
        raise Refusal("agent_not_found", "No agent of the account has this id, or alone has this name.")
    return found


def stream_form_of(request: Request[Any, Caller, Any], default: str | None = None) -> str:
    """Return the form of stream that a request asks for; else `default`, or the deployment's.

    Raises Refusal: 400, 403 where the plan does not have it.
    """
    form = request.headers.get(_FORM_HEADER, default or str(get_access(request).stream_form))
    if form not in ("1", "2"):
        raise build_field_refusal(_FORM_HEADER, "This header must be 1 or 2, or be left out.")
    plan = request.auth.plan
    if form == "2" and not plan.form2_streaming:
        raise Refusal("plan_upgrade_required", f"The plan {plan.name} has no streaming in form 2.")
    return form


def _request(connection: Connection) -> Request[Any, Caller, Any]:
    assert isinstance(connection, Request)
    return connection


async def _may_ask(connection: Connection, key: str) -> Request[Any, Caller, Any]:
    request = _request(connection)
    await authenticate(request, key)
    await check_read_rate(get_access(request).limiter, request.auth)
    return request


async def _authenticate_for_agent(request: Request[Any, Caller, Any]) -> str | None:
    """Return the id of the agent in the address, if that is an id of one of the account's."""
    agent_id = str(request.path_params["agent"]).lower()
    key = read_bearer_or_api_key(request.headers)
    agent = await authenticate(request, key, agent_id if is_uuid(agent_id) else None)
    return None if agent is None else agent.agent_id


async def _take_slot(request: Request[Any, Caller, Any]) -> tuple[IdempotencyKey, Slot]:
    """Take a token of the plan's rate and, unless the request repeats another, a place for a run."""
    access, context = get_access(request), get_context(request)
    key = await read_idempotency_key(request.headers, access.pool, request.auth)
    return key, await take_slot(context, access.limiter, access.figures, request.auth, repeats=key.repeats)


async def _take_read(request: Request[Any, Caller, Any]) -> None:
    await get_context(request).enter(get_access(request).account_bounds.hold_read(request.auth))


async def receive_data(connection: Connection, handler: BaseRouteHandler) -> None:
    """Receive the body of a handler that takes one; one that may be left out counts where it is there."""
    request = _request(connection)
    data = handler.parsed_data_field
    if data is not None and (not data.is_optional or await _read(request)):
        await _receive_body(request)


async def _receive_body(request: Request[Any, Any, Any]) -> None:
    """Receive the body, which Litestar keeps, and is to decode. Raises Refusal: 415, 413, 400."""
    media_type, parameters = request.content_type
    charset = parameters.get("charset", "utf-8").strip('"').lower()
    if media_type.lower() != "application/json" or charset not in ("utf-8", "utf8"):
        raise Refusal("unsupported_media_type")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal("unsupported_media_type", "The body must not be compressed.")
    await _read(request)


async def _read(request: Request[Any, Any, Any]) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        if get_access(request).stop.is_set():
            raise Refusal("server_shutdown") from None
        raise Refusal("invalid_request", "The body did not arrive in time.") from None
    except InternalServerException:  # the client has gone
        raise Refusal("invalid_request", "The body is not complete.") from None
