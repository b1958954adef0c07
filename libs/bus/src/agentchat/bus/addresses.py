"""What the address of NATS says: its servers, and the authority that they are trusted by."""

import ssl
from urllib.parse import parse_qs, urlsplit, urlunsplit

from agentchat.runtime.settings import SettingsError

_SCHEMES = ("nats", "tls")


def servers_of(url: str) -> list[str]:
    """The servers of an address, which is a comma list, without their parameters.

    Raises SettingsError where one is no address of NATS, or is to be used otherwise than the first.
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
        for what, differs in (
            ("scheme", server.scheme != found[0].scheme),
            ("login", (server.username, server.password) != (found[0].username, found[0].password)),
            ("authority", server.query not in ("", found[0].query)),
        ):
            if differs:
                raise SettingsError(f"the address of NATS: server {number} has another {what} than the first")
    return [urlunsplit(server._replace(query="")) for server in found]


def tls_context(url: str) -> ssl.SSLContext | None:
    """What trusts the authority that an address names (`tls://nats-1:4222?ca=FILE`); None where none does.

    The first server's is that of all. Servers need `handshake_first: auto` (or `true`) in their `tls` block.
    Raises SettingsError where the file has no certificate, and for any other parameter: it would be ignored.
    """
    query = parse_qs(urlsplit(url.partition(",")[0].strip()).query, keep_blank_values=True)
    if unknown := query.keys() - {"ca"}:
        raise SettingsError(f"the address of NATS has a parameter that is not known: {min(unknown)}")
    if "ca" not in query:
        return None
    file = query["ca"][-1]
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:  # ssl.SSLError is one
        reason = "it has no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(f"the address of NATS names ca={file}, which cannot be used: {reason}") from None
