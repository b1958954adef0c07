"""Checks of a request's head beyond the parser's (RFC 9110, RFC 9112; docs/change/design.md 6). Pure."""

import re

from gateway.http.problem_responses import Refusal, invalid

MAX_HEADERS = 256

Headers = list[tuple[bytes, bytes]]
"""Lower-case names with their values, a pair for each line."""

_HOST = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_OFFERS = (b"upgrade", b"http2-settings")


def check_head(method: bytes, target: bytes, version: str, headers: Headers) -> None:
    """Raises Refusal (400) for a head that two readers could take for two different requests."""
    if version not in ("1.0", "1.1"):
        raise Refusal("invalid_request", "The service speaks HTTP/1.1 and HTTP/1.0.")
    if method == b"CONNECT":
        raise Refusal("invalid_request", "The service is no proxy.")
    if b"#" in target:
        raise Refusal("invalid_request", "The address of a request has no fragment.")
    if len(headers) > MAX_HEADERS:
        raise Refusal("invalid_request", f"The request has more than {MAX_HEADERS} headers.")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1") or not all(map(_HOST.fullmatch, hosts)):
        raise invalid(
            "Host", "This header is required, once, and is a name or an address, and a port or none."
        )
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (version == "1.0" or codings != [b"chunked"]):
        raise invalid("Transfer-Encoding", "This header may be `chunked`, once, in HTTP/1.1.")


def without_offer(method: bytes, target: bytes, version: str, headers: Headers) -> bytes:
    """The head again, without the offer to change the protocol."""
    kept = [name + b": " + value for name, value in headers if name not in _OFFERS]
    return b"\r\n".join([method + b" " + target + b" HTTP/" + version.encode(), *kept, b"", b""])
