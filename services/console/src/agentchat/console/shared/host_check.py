"""Refuse requests whose Host header is not the console's."""

from typing import Any
from urllib.parse import urlsplit

from litestar.response.base import ASGIResponse

from agentchat.runtime.listening_socket import is_loopback


def refuse_unknown_host(scope: Any, console_url: str | None) -> ASGIResponse | None:
    """Return a 403 unless the Host header is that of `console_url`.

    If that is None, nobody signs in: the header must be a loopback name with any port, since another site's
    name may resolve to 127.0.0.1 (DNS rebinding).
    """
    hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    if console_url is None:
        is_known = len(hosts) == 1 and is_loopback(hosts[0])
    else:
        is_known = hosts == [urlsplit(console_url).netloc.lower()]
    if is_known:
        return None
    text = f"Unknown host {', '.join(hosts)[:80]!r}; open the console at {console_url or 'localhost'}."
    return ASGIResponse(body=text.encode(), status_code=403, media_type="text/plain")
