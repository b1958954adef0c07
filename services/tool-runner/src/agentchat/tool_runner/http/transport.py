"""Send the MCP client's HTTP requests, to permitted addresses only.

Bytes are bounded, and the deadline is absolute. A failure becomes a response with status
502, and its ToolFault is recorded in the budget. An exception from the transport would end the MCP session
and every other call on it.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Collection

import aiohttp
import httpx2
import msgspec

from agentchat.net_guard import Guard
from agentchat.net_guard.guarded_session import open_session
from agentchat.net_guard.permitted_addresses import CONNECT_SECONDS
from agentchat.runtime.fair_slots import KeySlots
from agentchat.tool_runner.authorization.tokens import AccessTokens
from agentchat.tool_runner.credential_redaction import CredentialRedactor
from agentchat.tool_runner.faults import ToolFailed, ToolFault
from agentchat.tool_runner.http.call_budget import RESPONSE_BYTES, CallBudget, get_current_budget
from agentchat.tool_runner.http.network import ERRORS, BoundedBody, classify_error, send
from agentchat.tool_runner.http.server_messages import RepairedBody, SentMessage, repair_message
from agentchat.tool_runner.http.session_loss import is_session_gone

# Common servers close an idle connection after 5 s; a call must not use a connection that is being closed.
_KEEPALIVE_SECONDS = 4.0
_CONNECTIONS = 32
_PROBE_SECONDS = 3.0
_ERROR_SECONDS = 5.0
_REDIRECTS = (301, 302, 303, 307, 308)
_ANSWERS = ("application/json", "text/event-stream")
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}\Z")


class ToolServerTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 to one tool server.

    `session_lost` is True once the server no longer knows the session, `session_doubtful` after an error that
    does not say so.
    """

    def __init__(
        self,
        guard: Guard,
        account_id: str,
        tls: ssl.SSLContext,
        large: KeySlots,
        tokens: AccessTokens | None = None,
        *,
        secret_headers: Collection[str] = (),
    ) -> None:
        self.session_lost = False
        self.session_doubtful = False
        self._tokens = tokens
        self._secret_headers = secret_headers
        self._guard = guard
        self._large = large
        self._notices: set[asyncio.Task[None]] = set()
        self._session = open_session(
            tls,
            keepalive_seconds=_KEEPALIVE_SECONDS,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
            connections=_CONNECTIONS,
            guard=guard,
            account_id=account_id,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the MCP client. Raises nothing but cancellation."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            # The stream for the server's unsolicited messages, which are not used.
            return httpx2.Response(405)
        await request.aread()
        if self._tokens is not None and not await self._authorize(request, self._tokens):
            return httpx2.Response(502)
        sent = _read_message(request)
        if sent.method == "notifications/cancelled":
            # Not awaited, because the client sends nothing else meanwhile and this server may hang.
            self._post_aside(request)
            return httpx2.Response(202)
        budget = get_current_budget()
        if budget.fault is not None and budget.fault.final:
            return httpx2.Response(502)
        deadline = budget.deadline
        if sent.method == "server/discover":
            # Older servers do not know this method, and some never respond to unknown methods.
            deadline = min(deadline, asyncio.get_running_loop().time() + _PROBE_SECONDS)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._exchange(request, sent, budget)
        except ToolFailed as failed:
            budget.fail(failed.fault)
        except ERRORS as error:
            fault = classify_error(error)
            if deadline == budget.deadline or fault.final:
                budget.fail(fault)
        return httpx2.Response(502)

    async def aclose(self) -> None:
        """Close the connections and drop notifications that are still being sent."""
        for notice in tuple(self._notices):
            notice.cancel()
        await self._session.close()

    async def _exchange(
        self, request: httpx2.Request, sent: SentMessage, budget: CallBudget
    ) -> httpx2.Response:
        response = await self._send(request)
        if response.status == 401 and self._tokens is not None:
            # A server that rejects the token has not read the message, so it can be sent again.
            rejected = request.headers["authorization"].removeprefix("Bearer ")
            if (token := await self._tokens.refresh(rejected)) is not None:
                response.release()
                request.headers["authorization"] = f"Bearer {token}"
                response = await self._send(request)
        received = httpx2.Headers(list(response.headers.items()))
        headers = _keep_headers(request.url, response.status, received)
        redactor = CredentialRedactor(request.headers, self._secret_headers)
        media_type = _get_media_type(received)
        fault = _classify_response(sent, response.status, media_type)
        if response.status >= 400:
            return await self._read_error(request, sent, budget, response, redactor, headers, fault)
        if fault is None:
            budget.succeed()
        else:
            budget.fail(fault)
        body: httpx2.AsyncByteStream = BoundedBody(response, budget, self._large)
        if media_type in _ANSWERS:
            body = RepairedBody(body, media_type, sent, redactor, RESPONSE_BYTES)
        return httpx2.Response(response.status, headers=headers, stream=body)

    async def _read_error(
        self,
        request: httpx2.Request,
        sent: SentMessage,
        budget: CallBudget,
        response: aiohttp.ClientResponse,
        redactor: CredentialRedactor,
        headers: dict[str, str],
        fault: ToolFault | None,
    ) -> httpx2.Response:
        """Read an error response: its body may say that the session is gone, or why the call failed."""
        error_budget = CallBudget(min(budget.deadline, asyncio.get_running_loop().time() + _ERROR_SECONDS))
        content = b""
        with contextlib.suppress(httpx2.StreamError):
            async for chunk in BoundedBody(response, error_budget, self._large):
                content += chunk
        response.release()
        if "mcp-session-id" in request.headers:
            if is_session_gone(response.status, content):
                self.session_lost = True
                fault = ToolFault("expired", f"HTTP {response.status}")
            else:
                self.session_doubtful = True
        if fault is not None:
            budget.fail(fault)
        content = repair_message(redactor.strike(content), sent)
        return httpx2.Response(response.status, headers=headers, content=content)

    async def _authorize(self, request: httpx2.Request, tokens: AccessTokens) -> bool:
        """Add the access token to the request; without one, record the fault and return False."""
        budget = get_current_budget()
        try:
            async with asyncio.timeout_at(budget.deadline):
                request.headers["authorization"] = f"Bearer {await tokens.get_token()}"
        except ToolFailed as failed:
            budget.fail(failed.fault)
        except TimeoutError:
            budget.fail(ToolFault("timeout", "no token in time"))
        else:
            return True
        return False

    async def _send(self, request: httpx2.Request) -> aiohttp.ClientResponse:
        return await send(self._session, self._guard, request)

    def _post_aside(self, request: httpx2.Request) -> None:
        async def post() -> None:
            budget = CallBudget(asyncio.get_running_loop().time() + CONNECT_SECONDS)
            with contextlib.suppress(ToolFailed, *ERRORS):
                async with asyncio.timeout_at(budget.deadline):
                    response = await self._exchange(request, SentMessage(), budget)
                    await response.aclose()

        task = asyncio.create_task(post())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)


def _read_message(request: httpx2.Request) -> SentMessage:
    try:
        return msgspec.json.decode(request.content, type=SentMessage)
    except msgspec.DecodeError:
        return SentMessage()


def _classify_response(sent: SentMessage, status: int, media_type: str) -> ToolFault | None:
    """Return the fault that this response means for the call; None for a valid response."""
    if status in (401, 403):
        return ToolFault("credentials", f"HTTP {status}")
    if status in _REDIRECTS:
        return ToolFault("redirect", f"HTTP {status}")
    if status >= 400:
        return ToolFault("status", f"HTTP {status}")
    if sent.method and sent.id is not None and (status != 200 or media_type not in _ANSWERS):
        return ToolFault("protocol", f"HTTP {status}, {media_type[:100] or 'no content type'}")
    return None


def _keep_headers(url: httpx2.URL, status: int, received: httpx2.Headers) -> dict[str, str]:
    """Return the headers that the MCP client needs.

    Others (cookies, charsets) can only do harm.
    """
    kept = {}
    if media_type := _get_media_type(received):
        kept["content-type"] = media_type
    if _SESSION_ID.match(received.get("mcp-session-id", "")):
        kept["mcp-session-id"] = received["mcp-session-id"]
    if status in _REDIRECTS and (location := _resolve_within_origin(url, received.get("location", ""))):
        kept["location"] = location
    return kept


def _get_media_type(received: httpx2.Headers) -> str:
    media_type = received.get("content-type", "").partition(";")[0].strip().lower()
    return media_type if media_type.isascii() else ""


def _resolve_within_origin(url: httpx2.URL, location: str) -> str | None:
    """Return `location` as an absolute URL; None if it has another scheme, host or port."""
    try:
        target = url.join(location)
    except (httpx2.InvalidURL, ValueError):
        return None
    if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port) or target.userinfo:
        return None
    return str(target)
