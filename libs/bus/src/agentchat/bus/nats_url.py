"""Parse the address of NATS: its servers, and the authority by which they are trusted."""

import ssl
from urllib.parse import parse_qs, urlsplit, urlunsplit

from agentchat.runtime.settings import SettingsError

_SCHEMES = ("nats", "tls")


def parse_servers(url: str) -> list[str]:
    """Return the servers of an address, a comma-separated list, without their parameters.

    Raises:
        SettingsError: A server is not a NATS address, or its scheme, login or authority is not the first's.
    """
    found = [urlsplit(server.strip()) for server in url.split(",")]
    for number, server in enumerate(found, start=1):
        try:
            usable = server.scheme in _SCHEMES and bool(server.hostname) and server.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise SettingsError(
                f"the address of NATS: server {number} is not nats://HOST:PORT or tls://HOST:PORT"
            )
        for part, differs in (
            ("scheme", server.scheme != found[0].scheme),
            ("login", (server.username, server.password) != (found[0].username, found[0].password)),
            ("authority", server.query not in ("", found[0].query)),
        ):
            if differs:
                raise SettingsError(f"the address of NATS: server {number} has another {part} than the first")
    return [urlunsplit(server._replace(query="")) for server in found]


def create_tls_context(url: str) -> ssl.SSLContext | None:
    """Return a context that trusts the authority in the address (`tls://nats-1:4222?ca=FILE`), or None.

    The first server's authority is that of all. Servers need `handshake_first: auto` (or `true`) in their
    `tls` block.

    Raises:
        SettingsError: The file has no certificate, or the address has another parameter.
    """
    query = parse_qs(urlsplit(url.partition(",")[0].strip()).query, keep_blank_values=True)
    if unknown := query.keys() - {"ca"}:
        raise SettingsError(f"the address of NATS has an unknown parameter: {min(unknown)}")
    if "ca" not in query:
        return None
    file = query["ca"][-1]
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # includes ssl.SSLError
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(f"the address of NATS names ca={file}, which cannot be used: {reason}") from None
