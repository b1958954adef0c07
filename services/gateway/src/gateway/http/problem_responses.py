"""Refusals, and their one form: application/problem+json (RFC 9457) with our code and trace_id."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from contracts import errors, http, wire
from contracts.admin_errors import AdminError, Conflict, Disallowed, Invalid, NotFound, Unavailable, Use
from contracts.http import problem
from contracts.values import ApprovalNeeded
from gateway.http.exchange import Exchange

MEDIA_TYPE = b"application/problem+json"
_LINGER_BYTES = 16 * 1024 * 1024
_LINGER_SECONDS = 2.0
# RFC 9110 section 11.6.1 asks for a challenge with every 401; the scheme is our own.
_CHALLENGE = (b"www-authenticate", b'X-Api-Key realm="agent-chat"')
_BEARER = (b"www-authenticate", b'Bearer realm="agent-chat"')


Words = Callable[["Refusal", str], tuple[list[tuple[bytes, bytes]], bytes]]
"""From a refusal and its trace to the headers of the answer, but for that of its trace, and the body."""


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """How refusals are worded at all addresses that begin with `prefix`, as bodies of the type `body`."""

    prefix: str
    words: Words
    body: type


class Refusal(Exception):  # noqa: N818 - an outcome
    """The request ends with the status of `code`. `detail` says what is wrong with this one request.

    `approvals` are those that its run, or its conversation, waits for. `conversation_id` is where the reply
    will be though this server stops.
    """

    def __init__(
        self,
        code: str,
        detail: str | None = None,
        *,
        fields: Sequence[http.FieldError] = (),
        retry_after: int | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
        approvals: Sequence[ApprovalNeeded] = (),
    ) -> None:
        self.row = errors.error(code)
        super().__init__(self.row.code)
        self.detail = detail or self.row.advice
        self.fields = tuple(fields)
        self.retry_after = retry_after if retry_after is not None else self.row.retry_after
        self.headers = tuple(headers)
        self.approvals = tuple(approvals)
        self.conversation_id: str | None = None


def invalid(field: str, message: str) -> Refusal:
    """400 for one field or header."""
    return Refusal(
        "invalid_request", f"{field}: {message}", fields=[http.FieldError(field=field, message=message)]
    )


def printable(name: str) -> str:
    """A caller's own name for a field as it can be sent back: short, and with a UTF-8 form."""
    return name[:100].encode("utf-8", "replace").decode()


def refusal_of(error: AdminError) -> Refusal:
    """An outcome of a library as a problem document."""
    match error:
        case NotFound():
            return Refusal("not_found", f"There is {error}.")
        case Conflict():
            return Refusal("conflict", _sentence(error.reason), fields=[_use(use) for use in error.uses])
        case Invalid():
            name = "cursor" if error.field == "after" else error.field  # libraries page by `after`
            field = http.FieldError(field=printable(name), message=error.reason)
            return Refusal("invalid_request", f"{error}.", fields=[field] if error.field else [])
        case Disallowed():
            return Refusal(error.code)
        case Unavailable():
            return Refusal("overloaded", _sentence(str(error)))
        case _:
            raise error


def _use(use: Use) -> http.FieldError:
    names = f": {', '.join(use.names)}" if use.names else ""
    more = ", ..." if use.names and use.count > len(use.names) else ""
    return http.FieldError(field=use.kind.replace(" ", "_"), message=f"{use.count}{names}{more}")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def head_of(refusal: Refusal, trace_id: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Our own words, as `Words`."""
    document = problem(refusal.row.code, refusal.detail, trace_id, refusal.fields, refusal.approvals)
    data = wire.encode(msgspec.structs.replace(document, conversation_id=refusal.conversation_id))
    return headers_of(refusal, MEDIA_TYPE, data, _CHALLENGE), data


def headers_of(
    refusal: Refusal, media_type: bytes, data: bytes, challenge: tuple[bytes, bytes] = _BEARER
) -> list[tuple[bytes, bytes]]:
    """Those that every wording has; `challenge` goes with a 401 that brings none of its own."""
    headers = [(b"content-type", media_type), (b"content-length", str(len(data)).encode()), *refusal.headers]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.row.status == 401 and not any(name == challenge[0] for name, _ in refusal.headers):
        headers.append(challenge)
    return headers


async def answer(exchange: Exchange, refusal: Refusal) -> None:
    """Send the refusal. Where a body may still be on its way, the connection ends with it.

    An answer that has begun cannot be taken back: then the connection is dropped.
    """
    if exchange.status is not None:
        exchange.abort()
        return
    if refusal.row.code == "server_shutdown":
        refusal.conversation_id = exchange.conversation_id
    headers, data = exchange.words(refusal, exchange.trace_id)
    if not exchange.unread:
        await exchange.start(refusal.row.status, headers)
        await exchange.body(data)
        return
    await exchange.start(refusal.row.status, [*headers, (b"connection", b"close")])
    await exchange.body(data, more=True)
    await _linger(exchange)
    await exchange.body(b"")


async def _linger(exchange: Exchange) -> None:
    """Read on for a moment: closing on unread bytes resets the connection, and the answer may be lost."""
    read = 0
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            while read < _LINGER_BYTES:
                message = await exchange.receive()
                read += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
