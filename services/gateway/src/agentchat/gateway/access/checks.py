"""Check a request before its handler: one guard for each kind of request.

`_check_chat` has the checks of a request for a run, `Check` those of others. A handler's `opt={"scope": ...}`
names the scope that its key needs, if it is not the guard's own. One guard for each kind, since Litestar
copies the handler for every guard (`BaseRouteHandler.authorize_connection`). Put them on handlers: those of a
Router apply to Litestar's automatic OPTIONS too.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from litestar.datastructures import Headers
from litestar.exceptions import InternalServerException
from litestar.handlers.base import BaseRouteHandler
from litestar.params import PathParameter

from agentchat.contracts.ids import is_uuid
from agentchat.directory.agent_names import find_agent_id
from agentchat.directory.agent_to_agent import TOKEN_PREFIX
from agentchat.directory.api_keys import Scope
from agentchat.gateway.access.authentication import (
    authenticate,
    authenticate_agent,
    check_scope,
    read_api_key,
    read_bearer_or_api_key,
    read_openai_key,
)
from agentchat.gateway.access.end_user import (
    check_no_user_named,
    check_user_named,
    read_user_in_body,
    set_user,
)
from agentchat.gateway.access.idempotency_header import IdempotencyKey, read_idempotency_key
from agentchat.gateway.access.quotas import check_storage
from agentchat.gateway.access.rates_and_run_slots import Slot, check_read_rate, check_write_rate, take_slot
from agentchat.gateway.access.stream_form import read_stream_form
from agentchat.gateway.http.problems import Refusal, build_field_refusal, make_printable
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, Connection, JsonRequest
from agentchat.gateway.http.unknown_parameters import check_parameter_names

BODY_SECONDS = 7.0
"""Within the time that a stopping process has."""
FILES_BODY_SECONDS = 30.0
"""The time for a body of more than MAX_BODY_BYTES; only routes whose bodies may have files take one."""

AgentName = Annotated[str, PathParameter(description="The agent's id or unique name.")]
"""The part of the path that names the agent: `/…/agents/{agent}/…`; `may_chat_with_agent` reads it."""


class AdmittedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a run that has passed the checks. `slot` is held until the request is answered.

    `agent_id` is "" if the body names the agent.
    """

    agent_id: str = ""
    idempotency_key: IdempotencyKey
    slot: Slot


class CallMeta(msgspec.Struct, frozen=True):
    """The `_meta` of a tool's call. It is complete if a tool-runner calls an agent for another agent."""

    user_id: str | None = msgspec.field(default=None, name="agentchat/user_id")
    context: dict[str, Any] | None = msgspec.field(default=None, name="agentchat/context")
    call_id: str | None = msgspec.field(default=None, name="agentchat/call_id")
    depth: int = msgspec.field(default=0, name="agentchat/depth")


class _RpcParams(msgspec.Struct, frozen=True):
    meta: CallMeta = msgspec.field(default=CallMeta(), name="_meta")


class _RpcMessage(msgspec.Struct, frozen=True):
    method: str = ""
    params: _RpcParams = _RpcParams()


def get_admitted(request: JsonRequest) -> AdmittedRequest:
    """Return what `_check_chat` found."""
    admitted: AdmittedRequest = request.scope["state"]["admitted"]
    return admitted


async def may_chat(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check a request for a run whose agent is in the header X-Agent-Id: an id, or a unique name."""
    agent = _decode_utf8(connection.headers.get("x-agent-id", ""))
    await _check_chat(connection, handler, read_api_key, agent)


async def may_chat_with_agent(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check a request for a run whose agent is in the path."""
    await _check_chat(connection, handler, read_bearer_or_api_key, connection.path_params["agent"])


async def may_chat_as_openai(connection: Connection, handler: BaseRouteHandler) -> None:
    """Check a request for a run whose agent is in the body, as `model`."""
    await _check_chat(connection, handler, read_openai_key, None, body_names_user=True)


async def _check_chat(
    connection: Connection,
    handler: BaseRouteHandler,
    read_key: Callable[[Headers], str],
    agent: str | None,
    *,
    body_names_user: bool = False,
) -> None:
    """Check a request for a run, in the order of these numbers. The first check that fails is the answer.

    `agent`: Its id or unique name; None if the body names it. Raises Refusal, DatabaseUnavailable.
    """
    request = to_request(connection)
    # 1. The key: 401, or 429 for an address that tries many wrong ones; its scope: 403. One query finds the
    #    agent's id too.
    agent_id = await _authenticate_for_agent(request, read_key(request.headers), agent)
    check_scope(request.auth, "chat")
    # 2. The user, if the account requires one (400). A body that may name the user is received now.
    if body_names_user and request.auth.user_id is None:
        await _receive_body(request)
        if (user_id := read_user_in_body(await request.body())) is not None:
            set_user(request, user_id)
    check_user_named(request.auth)
    # 3. The plan's limits: rate, runs, month (429), storage, form of stream (403). A slot is held from here.
    key, slot = await _admit(request)
    if handler.opt.get("streams"):
        read_stream_form(request)
    key.check()
    # 4. The agent: 400 without a name, 404 for an unknown one. In the body: by the handler, after 6.
    if agent == "":
        message = "This header is required: the id or the unique name of an agent."
        raise build_field_refusal("X-Agent-Id", message)
    if agent is not None and agent_id is None:
        agent_id = await find_agent(request, agent)
    # 5. The body: JSON (415), complete in time (400), size (413). Then Litestar decodes it to `data` (400).
    await _receive_body(request)
    admitted = AdmittedRequest(agent_id=agent_id or "", idempotency_key=key, slot=slot)
    request.scope["state"]["admitted"] = admitted
    # 6. The sizes of message, prompt and history (413): by the handler, with `check_size`.
    # 7. The claim of the Idempotency-Key (409): by `gateway.runs.submit_request`, which publishes the
    #    request. Whether the conversation is the account's (404) and free (409) is the worker's to say.


async def may_use_mcp(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a message of MCP: a call of a tool as a request for a run, any other as one that reads.

    The body, which says what it is, is received after the key was checked. Instead of a key a tool-runner has
    a token, and what its call's `_meta` says is true.
    """
    request, key = to_request(connection), read_bearer_or_api_key(connection.headers)
    is_agent = key.startswith(TOKEN_PREFIX)
    if is_agent:
        await authenticate_agent(request, key)
    else:
        await authenticate(request, key)
    check_scope(request.auth, "chat")
    await _receive_body(request)
    message = _read_rpc(await request.body())
    meta = message.params.meta
    if is_agent and meta.user_id is not None:
        set_user(request, meta.user_id)
    if message.method != "tools/call":
        await check_read_rate(request.services.limiter, request.auth)
        await _hold_read(request)
        return
    check_user_named(request.auth)
    idempotency_key, slot = await _admit(request)
    idempotency_key.check()
    if is_agent:
        idempotency_key = IdempotencyKey(f"{TOKEN_PREFIX}{meta.call_id}")
    request.state.admitted = AdmittedRequest(idempotency_key=idempotency_key, slot=slot)
    request.state.call_meta = meta if is_agent else None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A guard of requests that start no run.

    `read_key` finds the key in the headers. With `of_account` the request is about what is the account's
    own. `writes` to conversations or files have a rate of their own, and a `command` may have a key against
    repetition. With `is_held` few are answered at once. Clients of other protocols send query parameters
    that have no meaning here, which `ignores_parameters` lets pass.
    """

    scope: Scope = "chat"
    read_key: Callable[[Headers], str] = read_api_key
    of_account: bool = False
    requires_user: bool = True
    writes: Literal["command", "file"] | None = None
    is_held: bool = False
    ignores_parameters: bool = False

    async def __call__(self, connection: Connection, handler: BaseRouteHandler) -> None:
        """Check a request in the order of these numbers. Raises Refusal, DatabaseUnavailable."""
        request = to_request(connection)
        services = request.services
        # 1. The key: 401, 429; its scope: 403.
        await authenticate(request, self.read_key(request.headers))
        caller = request.auth
        check_scope(caller, handler.opt.get("scope", self.scope))
        # 2. The user: none for what is the account's own (403), else one if the account requires it (400).
        if self.of_account:
            check_no_user_named(caller)
        elif self.requires_user:
            check_user_named(caller)
        # 3. The plan's limits: requests (429), writes (429), storage (403), few at once (429).
        await check_read_rate(services.limiter, caller)
        if self.writes:
            await check_write_rate(services.limiter, caller)
            check_storage(caller, await services.figures.get(caller))
        if self.is_held:
            await _hold_read(request)
        # 4. The header Idempotency-Key: 400.
        if self.writes == "command":
            request.state.idempotency_key = await read_idempotency_key(request.headers, services.pool, caller)
            request.state.idempotency_key.check()
        # 5. The names of query parameters: 400.
        if not self.ignores_parameters:
            check_parameter_names(request, handler)
        # 6. The body, if the handler takes one: 415, 400, 413.
        await receive_data(request, handler)


may_read = Check(scope="read", is_held=True)
may_act = Check()
may_follow = Check(ignores_parameters=True)
"""The check of a stream: polyfills of EventSource add parameters."""
may_read_account = Check(scope="manage", of_account=True, is_held=True)
may_manage_account = Check(scope="manage", of_account=True)
may_write = Check(writes="command", is_held=True)
may_upload = Check(writes="file", is_held=True)
may_upload_as_openai = Check(read_key=read_openai_key, writes="file", is_held=True, ignores_parameters=True)
may_read_files_as_openai = Check(
    read_key=read_openai_key, scope="read", is_held=True, ignores_parameters=True
)
may_read_as_openai = Check(
    read_key=read_openai_key, requires_user=False, is_held=True, ignores_parameters=True
)
may_act_as_openai = Check(read_key=read_openai_key, ignores_parameters=True)


async def may_follow_agent(connection: Connection, _: BaseRouteHandler) -> None:
    """Check a request that follows a run of the agent in its path: the key, the rate, the agent (404)."""
    request, agent = to_request(connection), connection.path_params["agent"]
    agent_id = await _authenticate_for_agent(request, read_bearer_or_api_key(request.headers), agent)
    check_scope(request.auth, "chat")
    check_user_named(request.auth)
    await check_read_rate(request.services.limiter, request.auth)
    request.state.agent_id = agent_id or await find_agent(request, agent)


async def find_agent(request: JsonRequest, name: str, where: str = "") -> str:
    """Return the id of the account's agent that has this id or this unique name.

    `where` says where the client finds them. Raises Refusal: 404; DatabaseUnavailable.
    """
    found = await find_agent_id(request.services.pool, request.auth.account_id, name)
    if found is None:
        hint = f"Use an agent's id or its unique name{where}."
        raise Refusal("agent_not_found", f'Unknown agent "{make_printable(name)}". {hint}')
    return found


def to_request(connection: Connection) -> JsonRequest:
    """Return the request that a guard checks."""
    assert isinstance(connection, JsonRequest)
    return connection


async def _authenticate_for_agent(request: JsonRequest, key: str, agent: str | None) -> str | None:
    """Return the agent's id if `agent` is the id of one of the account's."""
    agent_id = (agent or "").lower()
    return await authenticate(request, key, agent_id if is_uuid(agent_id) else None)


def _read_rpc(body: bytes) -> _RpcMessage:
    """Return what counts here of a JSON-RPC message; nothing if the body is none."""
    try:
        return msgspec.json.decode(body, type=_RpcMessage)
    except (msgspec.DecodeError, RecursionError):
        return _RpcMessage()


def _decode_utf8(header: str) -> str:
    """Decode a header that ASGI servers hand over as Latin-1, if it is UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return header


async def _admit(request: JsonRequest) -> tuple[IdempotencyKey, Slot]:
    """Read the Idempotency-Key; take a token of the plan's rate and, unless it repeats, a place for a run."""
    services = request.services
    key = await read_idempotency_key(request.headers, services.pool, request.auth)
    slot = await take_slot(
        request.context, services.limiter, services.figures, request.auth, repeats=key.repeats
    )
    return key, slot


async def _hold_read(request: JsonRequest) -> None:
    await request.context.enter(request.services.account_bounds.hold_read(request.auth))


async def receive_data(request: JsonRequest, handler: BaseRouteHandler) -> None:
    """Receive the body of a handler that takes one; an optional one counts if it is there."""
    data = handler.parsed_data_field
    if data is not None and (not data.is_optional or await _read(request)):
        await _receive_body(request)


async def _receive_body(request: JsonRequest) -> None:
    """Receive the body. Litestar keeps it and decodes it later. Raises Refusal: 415, 413, 400."""
    media_type, parameters = request.content_type
    charset = parameters.get("charset", "utf-8").strip('"').lower()
    if media_type.lower() != "application/json" or charset not in ("utf-8", "utf8"):
        raise Refusal("unsupported_media_type")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal("unsupported_media_type", "The body must not be compressed.")
    await _read(request)


async def _read(request: JsonRequest) -> bytes:
    length = request.headers.get("content-length", "")
    is_large = length.isdecimal() and int(length[:12]) > MAX_BODY_BYTES
    try:
        async with asyncio.timeout(FILES_BODY_SECONDS if is_large else BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        if request.services.stop.is_set():
            raise Refusal("server_shutdown") from None
        raise Refusal("invalid_request", "The body did not arrive in time.") from None
    except InternalServerException:  # the client has gone
        raise Refusal("invalid_request", "The body is not complete.") from None
