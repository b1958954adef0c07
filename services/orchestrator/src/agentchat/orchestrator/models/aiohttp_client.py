"""Send the SDKs' HTTP requests with aiohttp, as their `http_client`.

httpx would cost 0.8 ms a call and twice the CPU for each piece of a reply (decision 47).
"""

import io
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any

import aiohttp
import httpx2
from yarl import URL

from agentchat.net_guard import AddressRefused, Guard, Unresolved
from agentchat.net_guard.guarded_session import check_request, get_environment_proxy, is_compressed

MAX_ERROR_BYTES = 1024 * 1024
"""Maximum of an error's body that is read."""

ANSWER = "aiohttp"
"""The response extension with aiohttp's own response, for readers of its stream."""

_SENT_AT_ONCE = 1024 * 1024
_DESTINATIONS = 256
_READ = ("retry-after-ms", "retry-after", "date", "request-id", "x-request-id")
"""Headers of an answer that are passed on. Others would make httpx expand a body, decode it by any codec of
Python's, or keep a cookie.
"""

# ValueError: a line break in a header.
_NOT_SENT = (aiohttp.ClientError, OSError, ValueError, AddressRefused, Unresolved)


class AioHttpClient(httpx2.AsyncClient):
    """An httpx client over an aiohttp session; a guard allows addresses and rules out proxies.

    A request is sent as the SDK describes it. It has no settings of the client to be merged, cookies, hooks
    or redirects, for which httpx would take another 0.1 ms.
    """

    def __init__(self, session: aiohttp.ClientSession, guard: Guard | None) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), timeout=None, trust_env=False)
        self._session = session
        self._guard = guard
        # The environment is read once for an address: 0.3 ms.
        self._find_proxy = lru_cache(_DESTINATIONS)(get_environment_proxy)

    def build_request(
        self,
        method: str,
        url: httpx2.URL | str,
        *,
        content: Any = b"",
        headers: Any = None,
        **_settings: Any,
    ) -> httpx2.Request:
        """Build a request whose body is the bytes `content`."""
        return httpx2.Request(method, url, headers=headers, stream=httpx2.ByteStream(content))

    async def send(self, request: httpx2.Request, **_settings: Any) -> httpx2.Response:
        """Send the request. Only the body of an error is read.

        Raises httpx2.ConnectTimeout, or ConnectError with its cause (AddressRefused).
        """
        body = await request.aread()
        try:
            answer = await self._send(request, body)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("the connection took too long") from error
        except _NOT_SENT as error:
            raise httpx2.ConnectError(str(error)) from error
        headers = {name: answer.headers[name] for name in _READ if name in answer.headers}
        return httpx2.Response(
            answer.status,
            headers=headers,
            stream=_ErrorBody(answer),
            extensions={ANSWER: answer},
            request=request,
        )

    async def aclose(self) -> None:
        """Close the session."""
        await self._session.close()

    async def _send(self, request: httpx2.Request, body: bytes) -> aiohttp.ClientResponse:
        url = URL(str(request.url), encoded=True)
        if self._guard is not None:
            check_request(self._guard, url)
        return await self._session.request(
            request.method,
            url,
            data=body if len(body) <= _SENT_AT_ONCE else io.BytesIO(body),
            headers=request.headers.multi_items(),
            proxy=self._find_proxy(url) if self._guard is None else None,
            allow_redirects=False,
        )


class _ErrorBody(httpx2.AsyncByteStream):
    """The start of an error's body; nothing of a compressed one, which could expand without limit."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if is_compressed(self._answer):
            return
        size = 0
        async for piece in self._answer.content.iter_any():
            yield piece
            size += len(piece)
            if size >= MAX_ERROR_BYTES:
                return

    async def aclose(self) -> None:
        self._answer.release()  # closes a connection whose response was not read to its end
