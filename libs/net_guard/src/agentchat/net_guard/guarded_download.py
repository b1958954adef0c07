"""Download a file from a URL that a customer names, from permitted addresses only."""

from collections.abc import AsyncGenerator

import aiohttp
from yarl import URL

from agentchat.net_guard.guarded_session import check_request, get_tls_context, is_compressed, open_session
from agentchat.net_guard.ssrf_guard import AddressRefused, Guard, Unresolved

MAX_REDIRECTS = 3
_CHUNK_BYTES = 64 * 1024
_TIMEOUT = aiohttp.ClientTimeout(connect=5, sock_read=5)


class NotDownloaded(Exception):  # noqa: N818 - an outcome
    """The file could not be downloaded. The text is a sentence for the customer."""


class Downloader:
    """Downloads files for accounts."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def download(self, account_id: str, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes at a URL. Redirects are checked like the URL itself. Raises NotDownloaded.

        The caller bounds the time and the bytes.
        """
        try:
            async with open_session(
                get_tls_context(),
                keepalive_seconds=0,
                timeout=_TIMEOUT,
                guard=self._guard,
                account_id=account_id,
            ) as session:
                async for chunk in self._follow(session, URL(url)):
                    yield chunk
        except AddressRefused as error:
            raise NotDownloaded(f"The address may not be called: {error}.") from None
        except (aiohttp.ClientError, TimeoutError, Unresolved, ValueError):
            raise NotDownloaded("The address does not answer.") from None

    async def _follow(self, session: aiohttp.ClientSession, url: URL) -> AsyncGenerator[bytes, None]:
        for _ in range(MAX_REDIRECTS + 1):
            check_request(self._guard, url)
            async with session.get(url, allow_redirects=False) as response:
                if response.status in (301, 302, 303, 307, 308):
                    url = url.join(URL(response.headers.get("location", "")))
                    continue
                if response.status != 200 or is_compressed(response):
                    raise NotDownloaded(f"The address answers {response.status}, without the file.")
                async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                    yield chunk
                return
        raise NotDownloaded(f"The address redirects more than {MAX_REDIRECTS} times.")
